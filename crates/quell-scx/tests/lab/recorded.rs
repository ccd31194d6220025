//! Switches and wake-ups as the kernel's tracepoints report them, read from tracefs as text: a second source for what
//! counters say.

use std::collections::BTreeMap;
use std::fs;

use quell_trace::LATE_START;

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 5] = ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task"];
/// The text has whole microseconds, and a counter takes its time at another place of the same switch.
const UNSURE_US: u64 = 50;

fn set(file: &str, value: &str) {
    fs::write(format!("{TRACEFS}/{file}"), value).unwrap_or_else(|error| panic!("{file}: {error}"));
}

fn enable(value: &str) {
    EVENTS.iter().for_each(|event| set(&format!("events/sched/{event}/enable"), value));
}

/// The tracepoints are recorded while it lives.
pub struct Recording(());

impl Recording {
    pub fn begin() -> Recording {
        set("tracing_on", "0");
        set("buffer_size_kb", "32768");
        set("trace_clock", "mono");
        set("trace", "");
        enable("1");
        set("tracing_on", "1");
        Recording(())
    }

    /// What these threads did, all of which were asleep at the beginning.
    pub fn end(self, threads: &[i32]) -> Recorded {
        set("tracing_on", "0");
        let text = fs::read_to_string(format!("{TRACEFS}/trace")).unwrap();
        let header = text.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
        let (kept, written) = header.and_then(|numbers| numbers.split_once('/')).unwrap();
        assert_eq!(Some(kept), written.split_whitespace().next(), "events were lost");
        let threads = threads.iter().map(|&tid| (tid, Account::default())).collect();
        let mut recorded = Recorded { threads, ..Recorded::default() };
        text.lines().filter(|line| !line.starts_with('#')).for_each(|line| recorded.read(line));
        recorded
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        set("tracing_on", "0");
        enable("0");
    }
}

/// What the text reports of one thread; times in µs.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub run: u64,
    pub delay: u64,
    /// Times that it got a CPU.
    pub turns: u64,
    /// Times that it left one while it could have gone on.
    pub preemptions: u64,
    /// Late starts: those that are, and those that may be.
    pub late: [u64; 2],
    /// It slept for this long after it had been moved to another CPU's queue asleep. EEVDF leaves a thread that sleeps in its queue
    /// for a while; if it is moved meanwhile, the kernel's schedstat takes it for one that waits.
    pub slept_moved: u64,
    moved_at: Option<u64>,
    is_waking: bool,
    now: Now,
}

#[derive(Clone, Copy, Debug, Default)]
enum Now {
    #[default]
    Asleep,
    Waits {
        since: u64,
        woken: bool,
    },
    Runs {
        since: u64,
    },
}

/// A watched thread lost its CPU to another one that had been woken up.
pub struct Takeover {
    pub from: i32,
    pub to: i32,
    /// For this long had the other waited.
    pub after_us: u64,
}

/// What the text reports.
#[derive(Default)]
pub struct Recorded {
    pub threads: BTreeMap<i32, Account>,
    /// Wake-ups outside of interrupts by waker, 0: a thread that is not watched, and woken thread.
    pub wake_ups: BTreeMap<(i32, i32), u64>,
    /// Those in interrupts.
    pub from_interrupts: u64,
    pub takeovers: Vec<Takeover>,
}

/// The value of `key=` in an event's fields; names of threads may have anything in them but are not asked for.
fn field<'a>(fields: &'a str, key: &str) -> &'a str {
    let at = fields.find(key).unwrap_or_else(|| panic!("no {key} in {fields}")) + key.len();
    fields[at..].split_whitespace().next().unwrap_or_default()
}

fn tid(fields: &str, key: &str) -> i32 {
    field(fields, key).parse().unwrap_or_else(|_| panic!("{key} in {fields}"))
}

impl Recorded {
    /// One line: `name-tid [cpu] flags seconds: event: fields`.
    fn read(&mut self, line: &str) {
        let Some((head, event, fields)) = EVENTS.iter().find_map(|event| {
            let (head, fields) = line.split_once(&format!(": {event}: "))?;
            Some((head, *event, fields))
        }) else {
            panic!("what is this? {line}")
        };
        let mut words = head.rsplit(' ').filter(|word| !word.is_empty());
        let (seconds, micros) = words.next().and_then(|time| time.split_once('.')).unwrap();
        let at = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
        let flags = words.next().unwrap();
        let current: i32 = words.nth(1).and_then(|task| task.rsplit('-').next()).unwrap().parse().unwrap();
        match event {
            "sched_switch" => self.switches(at, fields),
            "sched_migrate_task" => self.moves(at, tid(fields, " pid=")),
            "sched_waking" => self.is_waking(current, flags.contains(['h', 'H', 's', 'Z', 'z']), tid(fields, " pid=")),
            _ => self.wakes(at, tid(fields, " pid=")),
        }
    }

    fn moves(&mut self, at: u64, moved: i32) {
        if let Some(account @ Account { now: Now::Asleep, is_waking: false, .. }) = self.threads.get_mut(&moved) {
            account.moved_at.get_or_insert(at);
        }
    }

    fn is_waking(&mut self, waker: i32, in_interrupt: bool, woken: i32) {
        let Some(account) = self.threads.get_mut(&woken) else { return };
        account.is_waking = true;
        if in_interrupt {
            self.from_interrupts += 1;
        } else {
            let waker = if self.threads.contains_key(&waker) { waker } else { 0 };
            *self.wake_ups.entry((waker, woken)).or_default() += 1;
        }
    }

    fn wakes(&mut self, at: u64, woken: i32) {
        // One that did not leave its CPU yet just goes on.
        if let Some(account @ Account { now: Now::Asleep, .. }) = self.threads.get_mut(&woken) {
            account.slept_moved += account.moved_at.take().map_or(0, |moved| at - moved);
            account.now = Now::Waits { since: at, woken: true };
        }
    }

    fn switches(&mut self, at: u64, fields: &str) {
        let (from, to) = (tid(fields, " prev_pid="), tid(fields, " next_pid="));
        let runnable = field(fields, " prev_state=").starts_with('R');
        let mut taken = None;
        if let Some(account) = self.threads.get_mut(&to) {
            let late = LATE_START.0 / 1000;
            if let Now::Waits { since, woken } = account.now {
                let waited = at - since;
                account.delay += waited;
                if woken {
                    taken = Some(waited);
                    account.late[0] += u64::from(waited > late + UNSURE_US);
                    account.late[1] += u64::from(waited + UNSURE_US > late);
                }
            }
            account.turns += 1;
            account.is_waking = false;
            account.now = Now::Runs { since: at };
        }
        let Some(account) = self.threads.get_mut(&from) else { return };
        if let Now::Runs { since } = account.now {
            account.run += at - since;
        }
        account.preemptions += u64::from(runnable);
        account.now = if runnable { Now::Waits { since: at, woken: false } } else { Now::Asleep };
        if let Some(after_us) = taken.filter(|_| runnable) {
            self.takeovers.push(Takeover { from, to, after_us });
        }
    }
}
