//! The kernel half on a simulated kernel, driven by seeded random events on virtual CPUs; what fails is made shorter.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use quell_scx::Decisions;

use crate::faults::{FAULTS, Fault};

/// `struct event`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Event {
    kind: u8,
    a: u8,
    b: u8,
    between: u8,
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;
/// Events of one machine: a new one begins after them.
const EVENTS: usize = 2_000;
/// All is checked after this many events.
const WHOLLY_EVERY: u32 = 1_000;

type Draws = unsafe extern "C" fn(u64, *mut Event, u32);
type Runs = unsafe extern "C" fn(*const Event, u32, Machine, u32, *mut u32) -> *const c_char;
type Name = unsafe extern "C" fn(*const Event) -> *const c_char;
type Counted = unsafe extern "C" fn(u32) -> u64;

/// One compiled simulation. It is one set of variables: one test uses it.
pub struct Library(*mut c_void);

impl Library {
    /// # Panics
    /// If it is not there.
    pub fn load(name: &str) -> Library {
        let path = CString::new(format!("{}/{name}", env!("OUT_DIR"))).unwrap();
        // SAFETY: a library that this crate's build made; it stays loaded.
        let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(!library.is_null(), "{path:?} is there");
        Library(library)
    }

    /// A function of it.
    ///
    /// # Panics
    /// If it is not in it.
    pub fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is loaded.
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is in it");
        found
    }
}

/// Its functions.
struct Simulation {
    draws: Draws,
    runs: Runs,
    name: Name,
    counted: Counted,
}

/// Which invariant does not hold, and after which event.
#[derive(Debug)]
struct Violation {
    what: String,
    at: usize,
}

/// `struct machine`: what a seed decides of it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Machine {
    cpus: u32,
    /// The CPUs' last-level ones.
    caches: u32,
    /// Nothing happens in between, and no workload has a limit.
    calm: bool,
    /// Workloads have deferrable servers.
    serves: bool,
    /// Some hold CPUs as one.
    together: bool,
    /// There are sets of CPUs.
    sets: bool,
}

impl Machine {
    fn of(seed: u64) -> Machine {
        let together = seed / 16 % 4 == 1 && seed / 64 % 2 == 1;
        let (cpus, caches) = (1 + (seed % 8) as u32, [1, 2, 1, 3][(seed / 64 % 4) as usize]);
        Machine { cpus, caches, calm: seed / 8 % 2 == 1, serves: seed / 16 % 4 == 3, together, sets: seed / 2 % 2 == 1 }
    }
}

impl Simulation {
    fn load(library: &str) -> Simulation {
        let library = Library::load(library);
        let find = |name| library.find(name);
        // SAFETY: the functions have these types in `simulation_on_host.c` and `simulated_events.h`.
        unsafe {
            Simulation {
                draws: std::mem::transmute::<*mut c_void, Draws>(find(c"simulation_draws")),
                runs: std::mem::transmute::<*mut c_void, Runs>(find(c"simulation_runs")),
                name: std::mem::transmute::<*mut c_void, Name>(find(c"simulation_name")),
                counted: std::mem::transmute::<*mut c_void, Counted>(find(c"simulation_counted")),
            }
        }
    }

    fn draw(&self, seed: u64) -> Vec<Event> {
        let mut events = vec![Event::default(); EVENTS];
        // SAFETY: this many events are there.
        unsafe { (self.draws)(seed, events.as_mut_ptr(), EVENTS as u32) };
        events
    }

    fn run(&self, events: &[Event], on: Machine, wholly_every: u32) -> Option<Violation> {
        let mut at = 0;
        // SAFETY: this many events are there, and the answer is a string that stays until the next call.
        let answer = unsafe { (self.runs)(events.as_ptr(), events.len() as u32, on, wholly_every, &raw mut at) };
        if answer.is_null() {
            return None;
        }
        // SAFETY: see above.
        let what = unsafe { CStr::from_ptr(answer) }.to_string_lossy().into_owned();
        Some(Violation { what, at: at as usize })
    }

    /// Fewer events that violate the same invariant: without halves of them first, then without single ones. It is the
    /// first one that is violated if all are checked after each event: a later check may have found a consequence.
    fn shrink(&self, mut events: Vec<Event>, on: Machine) -> Vec<Event> {
        let kind = |what: &str| what.split(" (").next().map(str::to_owned);
        let Some(first) = self.run(&events, on, 1) else { return events };
        let fails = |events: &[Event]| {
            let again = self.run(events, on, 1)?;
            (kind(&again.what) == kind(&first.what)).then_some(again.at)
        };
        events.truncate(first.at + 1);
        let mut step = events.len().div_ceil(2);
        loop {
            let before = events.len();
            let mut from = 0;
            while from < events.len() {
                let mut fewer = events.clone();
                fewer.drain(from..(from + step).min(events.len()));
                match fails(&fewer) {
                    Some(_) => events = fewer,
                    None => from += step,
                }
            }
            if step == 1 && events.len() == before {
                return events;
            }
            step = (step / 2).max(1);
        }
    }

    /// The first violation within this many events, by seed, from this seed on.
    fn search(&self, from: u64, events: usize) -> Option<(u64, Violation)> {
        (from..from + events.div_ceil(EVENTS) as u64)
            .find_map(|seed| self.run(&self.draw(seed), Machine::of(seed), WHOLLY_EVERY).map(|found| (seed, found)))
    }

    /// How often each outcome was counted on the first machines, some of each kind.
    fn count(&self) -> Vec<(&'static str, u64)> {
        let mut sums: Vec<_> = Decisions::NAMES.iter().map(|&name| (name, 0)).collect();
        for seed in 1..=128 {
            self.run(&self.draw(seed), Machine::of(seed), WHOLLY_EVERY);
            for (place, (_, sum)) in sums.iter_mut().enumerate() {
                // SAFETY: a number only.
                *sum += unsafe { (self.counted)(place as u32) };
            }
        }
        sums
    }

    fn describe(&self, seed: u64, violation: &Violation) -> String {
        let on = Machine::of(seed);
        let events = self.shrink(self.draw(seed), on);
        let mut text = format!("seed {seed}, {on:?}: {}; {} events:\n", violation.what, events.len());
        for event in &events {
            // SAFETY: the event is there, and the name is static.
            let name = unsafe { CStr::from_ptr((self.name)(event)) }.to_string_lossy();
            text += &format!("  {name}: {event:?}\n");
        }
        text
    }
}

#[test]
fn no_invariant_is_violated_in_a_million_random_events() {
    let events = env::var("QUELL_SCX_EVENTS").map_or(1_000_000, |count| count.parse().expect("a number of events"));
    let from = env::var("QUELL_SCX_FROM").map_or(1, |seed| seed.parse().expect("a seed"));
    let simulation = Simulation::load("simulation.so");
    if let Some((seed, violation)) = simulation.search(from, events) {
        panic!("{}", simulation.describe(seed, &violation));
    }
    let sums = simulation.count();
    assert!(sums.iter().all(|&(_, sum)| sum > 0), "each outcome is reached: {sums:?}");
}

/// The rarest is violated once in a million events from its seed on; the search ends with the first violation.
const RAREST: usize = 6_000_000;

#[test]
fn each_fixed_fault_is_found_when_it_is_put_back_and_its_events_are_made_few() {
    let find = |number: usize, fault: &Fault| {
        let simulation = Simulation::load(&format!("fault-{number}.so"));
        let (seed, violation) =
            simulation.search(fault.from, RAREST).unwrap_or_else(|| panic!("not found: {}", fault.name));
        let shrunk = simulation.shrink(simulation.draw(seed), Machine::of(seed));
        assert!(shrunk.len() < EVENTS / 2, "{}: {} events", fault.name, shrunk.len());
        println!("{}:\n{}", fault.name, simulation.describe(seed, &violation));
    };
    std::thread::scope(|scope| {
        for (number, fault) in FAULTS.iter().enumerate() {
            scope.spawn(move || find(number, fault));
        }
    });
}
