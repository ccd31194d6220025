//! A program's page, read from a copy that nothing changes any more.

use core::mem::offset_of;

use crate::{FREE, Header, LINE, PROGRAM_MAGIC, ProgramLine, SIZE, VERSION, WORKERS};

/// A copy of a program's page, made once.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'a> {
    bytes: &'a [u8],
    attached: u64,
    now: u64,
}

/// What a worker said, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its number in the program's pid namespace: any number.
    pub tid: u32,
    /// Start of its request; None: it runs none. Not before the page was handed out, and not after now.
    pub request: Option<u64>,
    /// Waiting time of its oldest task or event, in nanoseconds; 0: none waits. At most the time since the page was handed out.
    pub delay: u64,
    /// Tasks in its queue.
    pub queued: u32,
}

/// What the workers said, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Workers there are.
    pub workers: u32,
    /// The longest of their delays, in nanoseconds.
    pub delay: u64,
    /// Tasks that wait.
    pub queued: u64,
}

impl<'a> Copied<'a> {
    /// A copy of the beginning of a page that was handed out then, made now. None: it is no page of this layout.
    #[must_use]
    pub fn new(bytes: &'a [u8], attached: u64, now: u64) -> Option<Copied<'a>> {
        let (magic, version) = (offset_of!(Header, magic), offset_of!(Header, version));
        let (line, workers) = (offset_of!(Header, line), offset_of!(Header, workers));
        let is_one = (LINE..=SIZE).contains(&bytes.len())
            && u64_at(bytes, magic) == PROGRAM_MAGIC
            && u32_at(bytes, version) == VERSION
            && u32_at(bytes, line) as usize == LINE
            && u32_at(bytes, workers) as usize == WORKERS;
        is_one.then_some(Copied { bytes, attached: attached.min(now), now })
    }

    /// Bytes that the next copy has to have.
    #[must_use]
    pub fn next_size(&self) -> usize {
        LINE * (1 + (u32_at(self.bytes, offset_of!(Header, used)) as usize).min(WORKERS))
    }

    /// The workers that are in this copy, with their places; free lines are left out.
    pub fn workers(&self) -> impl Iterator<Item = (usize, Worker)> {
        let lines = self.bytes[LINE..self.bytes.len().min(self.next_size())].chunks_exact(LINE);
        lines.enumerate().filter_map(|(at, line)| Some((at, self.worker(line)?)))
    }

    /// Their sum.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.workers().fold(Seen::default(), |seen, (_, worker)| Seen {
            workers: seen.workers + 1,
            delay: seen.delay.max(worker.delay),
            queued: seen.queued + u64::from(worker.queued),
        })
    }

    fn worker(&self, line: &[u8]) -> Option<Worker> {
        if u32_at(line, offset_of!(ProgramLine, state)) == FREE {
            return None;
        }
        let time = |at| self.clamped(u64_at(line, at));
        let oldest = [offset_of!(ProgramLine, task), offset_of!(ProgramLine, event)].into_iter().filter_map(time).min();
        Some(Worker {
            tid: u32_at(line, offset_of!(ProgramLine, tid)),
            request: time(offset_of!(ProgramLine, request)),
            delay: oldest.map_or(0, |oldest| self.now - oldest),
            queued: u32_at(line, offset_of!(ProgramLine, queued)),
        })
    }

    /// None: there is no such time.
    fn clamped(&self, time: u64) -> Option<u64> {
        (time != 0).then(|| time.clamp(self.attached, self.now))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}
