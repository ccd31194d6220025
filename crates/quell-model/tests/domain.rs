//! The loop carries any domain: here two librarians who share shelves, and commands that take a day.

use quell_model::{Domain, Host, Layer, Nanos, Policy, Stack, Wake, WorkloadId};

const DAY: Nanos = Nanos::from_secs(86_400);

#[derive(Clone, Copy, Debug)]
struct Library;

#[derive(Clone, Debug, Default)]
struct Seen {
    now: Nanos,
    full: Vec<u32>,
    own: Shelves,
}

/// Shelves from the first on; a librarian without shelves claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shelves(u32);

#[derive(Clone, Debug, PartialEq)]
enum Happened {
    BookReturned(u32),
    Tidied(u64, u32),
}

#[derive(Clone, Debug, Default)]
struct Chores {
    number: u64,
    tidy: Vec<u32>,
    left: Option<Shelves>,
}

impl Domain for Library {
    type View = Seen;
    type Event = Happened;
    type Plan = Chores;
    type Signals = u8;
    type Description = &'static str;
    type Capabilities = ();
    type Scope = Shelves;
    type Pool = Shelves;
    type Overlap = ();
    type Impossible = ();

    fn now(view: &Seen) -> Nanos {
        view.now
    }
    fn scope(view: &mut Seen) -> &mut Shelves {
        &mut view.own
    }
    fn signals(_: &&'static str) -> u8 {
        1
    }
    fn union(one: u8, other: u8) -> u8 {
        one | other
    }
    fn owned(_: &&'static str, _: Option<Vec<WorkloadId>>, pool: &Shelves) -> Shelves {
        *pool
    }
    fn assign(_: &mut Shelves, _: Option<Vec<WorkloadId>>) {}
    fn lend(scope: &mut Shelves, pool: &Shelves) {
        *scope = *pool;
    }
    fn overlap(_: &Shelves, _: &Shelves) -> Option<()> {
        None
    }
    fn begin(plan: &mut Chores, number: u64) {
        (plan.number, plan.left) = (number, None);
        plan.tidy.clear();
    }
    fn left(plan: &Chores) -> Option<&Shelves> {
        plan.left.as_ref()
    }
    fn curb(_: &mut Chores, (): &()) {}
}

/// Tidies its full shelves once a day, and leaves the last ones to the next.
struct Librarian {
    leaves: u32,
    received: Vec<Happened>,
}

impl Policy<Library> for Librarian {
    fn describe(&self) -> &'static &'static str {
        &"librarian"
    }

    fn step(&mut self, view: &Seen, events: &[Happened], plan: &mut Chores) -> Wake {
        self.received.extend_from_slice(events);
        plan.tidy.extend(view.full.iter().filter(|&&shelf| shelf < view.own.0));
        plan.left = Some(Shelves(self.leaves));
        Wake::At(view.now + DAY)
    }
}

/// Tidying takes a day.
#[derive(Default)]
struct Building {
    now: Nanos,
    full: Vec<u32>,
    news: Vec<Happened>,
}

impl Host<Library> for Building {
    type Error = std::convert::Infallible;

    fn capabilities(&self) {}

    fn observe(&mut self, wanted: u8, view: &mut Seen, events: &mut Vec<Happened>) -> Result<(), Self::Error> {
        assert_eq!(wanted, 1);
        (view.now, view.full) = (self.now, self.full.clone());
        events.append(&mut self.news);
        Ok(())
    }

    fn apply(&mut self, plan: &Chores, events: &mut Vec<Happened>) -> Result<(), Self::Error> {
        self.full.retain(|shelf| !plan.tidy.contains(shelf));
        events.extend(plan.tidy.iter().map(|&shelf| Happened::Tidied(plan.number, shelf)));
        Ok(())
    }

    fn wait(&mut self, until: Wake) -> Result<(), Self::Error> {
        match until {
            Wake::At(at) => self.now = self.now.max(at),
            Wake::OnEvent => {
                self.news.push(Happened::BookReturned(2));
                self.full.push(2);
            }
        }
        Ok(())
    }
}

#[test]
fn a_stack_of_another_domain_steps_hears_of_its_own_plans_and_hands_its_pool_down() {
    let librarian = |leaves| Layer::new(Librarian { leaves, received: Vec::new() }, None);
    let mut stack: Stack<Librarian, Library> =
        Stack::new(vec![librarian(2), librarian(0)], Seen::default(), Shelves(4)).unwrap();
    let mut building = Building { full: vec![1, 3], ..Building::default() };

    let Ok(wake) = stack.turn(&mut building);
    let [first, second] = stack.layers() else { panic!("two layers") };
    assert_eq!((first.pool, second.pool), (Shelves(4), Shelves(2)));
    assert_eq!((&first.plan.tidy[..], &second.plan.tidy[..]), (&[1, 3][..], &[1][..]), "both saw the same moment");
    assert_eq!(wake, Wake::At(DAY));

    // Each learns of its own plan in its next step, and of nothing else.
    let Ok(_) = stack.turn(&mut building);
    assert_eq!(stack.layers()[0].policy.received, [Happened::Tidied(1, 1), Happened::Tidied(1, 3)]);
    assert_eq!(stack.layers()[1].policy.received, [Happened::Tidied(2, 1)]);

    // Nothing is due, nothing happened: no layer steps. What happens wakes all.
    let Ok(_) = stack.turn(&mut building);
    assert_eq!(stack.stepped().count(), 0);
    let Ok(()) = building.wait(Wake::OnEvent);
    let Ok(_) = stack.turn(&mut building);
    assert_eq!(stack.stepped().count(), 2);
    assert!(stack.layers().iter().all(|layer| layer.policy.received.last() == Some(&Happened::BookReturned(2))));
    stack.hasten();
    let Ok(_) = stack.turn(&mut building);
    assert_eq!(stack.stepped().count(), 2);
}
