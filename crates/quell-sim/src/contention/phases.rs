//! Everything that threads of a simulation do, numbered.

use super::profile::{Profile, ProfileName};
use super::solve::{Socket, ns_alone};
use crate::kernel::PhaseId;

/// A kind of work of one workload. What threads of one kind have in a cache they have together.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub profile: Profile,
    /// Whose it is, by the host's number.
    pub tenant: usize,
    /// Whose it is, by the scenario's.
    pub workload: usize,
    /// What memory bandwidth allocation leaves it, 0–1, …
    pub throttle: f64,
    /// … and left it before any policy.
    own_throttle: f64,
    /// The socket that its memory is on; None: the one where it runs.
    pub home: Option<usize>,
    /// Time of an instruction alone on the idle machine.
    pub ns_alone: f64,
}

/// Whose a kind of work is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub workload: usize,
    pub tenant: usize,
    pub throttle: f64,
}

/// All kinds. Number 0 is that of threads without a profile.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    socket: Socket,
    is_on: bool,
    all: Vec<Phase>,
}

impl Phases {
    pub fn new(socket: Socket, is_on: bool) -> Phases {
        Phases { socket, is_on, all: Vec::new() }
    }

    /// A kind of work of a workload; without a profile, or without contention, it is that of number 0.
    ///
    /// # Errors
    /// A sentence, if there is no such profile.
    pub fn add(&mut self, name: Option<&ProfileName>, whose: Whose) -> Result<PhaseId, String> {
        match name {
            Some(name) if self.is_on => {
                let profile = name.profile()?;
                let known = self.each().find(|(_, phase)| phase.workload == whose.workload && phase.profile == profile);
                if let Some((phase, _)) = known {
                    return Ok(phase);
                }
                let ns_alone = ns_alone(&self.socket, &profile);
                let Whose { workload, tenant, throttle } = whose;
                let own_throttle = throttle;
                let home = None;
                self.all.push(Phase { profile, tenant, workload, throttle, own_throttle, home, ns_alone });
                u16::try_from(self.all.len()).map(PhaseId).map_err(|_| "more than 65535 kinds of work".to_owned())
            }
            _ => Ok(PhaseId::default()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many numbers there are, 0 included.
    pub fn numbers(&self) -> usize {
        self.all.len() + 1
    }

    pub fn get(&self, phase: PhaseId) -> Option<&Phase> {
        self.all.get(usize::from(phase.0).checked_sub(1)?)
    }

    /// What memory bandwidth allocation leaves a tenant; None: what it did before any policy. False: that is so already.
    pub fn set_throttle(&mut self, tenant: usize, throttle: Option<f64>) -> bool {
        let mut news = false;
        for phase in self.all.iter_mut().filter(|phase| phase.tenant == tenant) {
            let now = throttle.unwrap_or(phase.own_throttle);
            news |= std::mem::replace(&mut phase.throttle, now) != now;
        }
        news
    }

    /// The socket that a tenant's memory is on. False: that is so already.
    pub fn set_home(&mut self, tenant: usize, home: Option<usize>) -> bool {
        let mut news = false;
        for phase in self.all.iter_mut().filter(|phase| phase.tenant == tenant) {
            news |= std::mem::replace(&mut phase.home, home) != home;
        }
        news
    }

    /// All but number 0.
    pub fn each(&self) -> impl Iterator<Item = (PhaseId, &Phase)> {
        self.all.iter().enumerate().map(|(at, phase)| (PhaseId(at as u16 + 1), phase))
    }
}
