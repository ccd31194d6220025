//! What `quell exec` and `quell protect` are both asked in the same words.

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_command::parameters;
use quell_linux::target::quoted;
use quell_model::{Class, CpuCount, Policy as _, Reservation};
use quell_policy::AnyPolicy;

use super::demand::Steps;

/// Class, policy, name, and verbosity.
#[derive(Args, Clone)]
pub struct Asked {
    /// lc (latency-critical) or be (best-effort)
    #[arg(long, value_enum, default_value = "lc")]
    class: ClassName,
    /// Best-effort: as --class be
    #[arg(long, conflicts_with = "class")]
    be: bool,
    /// Request whole, exclusive CPUs (for rkube, which does so from one CPU on)
    #[arg(long)]
    pub strict: bool,
    /// The policy; `quell doctor` says which work here [default: what `quell recommend` says; for a command that `quell exec` starts, guard]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A parameter of the policy, such as run_budget=20ms; `quell doctor POLICY` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The workload's name [default: the program's]
    #[arg(long)]
    name: Option<String>,
    /// Report every decision on standard error
    #[arg(long, short)]
    verbose: bool,
    /// Do not report on standard error what was set
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
}

/// The steps of a request under a policy.
pub fn steps_of(policy: &AnyPolicy) -> Steps {
    if policy.describe().name == "rkube" { Steps::WholeCpus } else { Steps::Tenths }
}

/// [`Class`] on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClassName {
    /// Latency-critical
    Lc,
    /// Best-effort
    Be,
}

/// How much is said on standard error.
#[derive(Clone, Copy, Debug)]
pub struct Say {
    /// Every decision.
    pub verbose: bool,
    /// Nothing but faults.
    pub quiet: bool,
}

impl Asked {
    /// The class.
    pub fn class(&self) -> Class {
        if self.be || self.class == ClassName::Be { Class::BestEffort } else { Class::LatencyCritical }
    }

    /// The kind of request: under rkube, whose standard requests have no CPU of their own, whole CPUs mean just those.
    pub fn reservation(&self, policy: &AnyPolicy, cpus: CpuCount) -> Reservation {
        let are_own = self.class().is_lc() && steps_of(policy) == Steps::WholeCpus && cpus.floor() > 0;
        if self.strict || are_own { Reservation::Strict } else { Reservation::Standard }
    }

    /// The name of the policy that was asked for, if one was.
    pub fn policys_name(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// The policy, with its parameters; this one if none was asked for.
    ///
    /// # Errors
    /// If there is none such, or its parameters are none of its.
    pub fn policy(&self, usual: &str) -> Result<AnyPolicy> {
        parameters::policy(self.policy.as_deref().unwrap_or(usual), &self.set)
    }

    /// The parameters, as they were given.
    pub fn parameters(&self) -> &[String] {
        &self.set
    }

    /// The workload's name; this one if none was asked for.
    pub fn name_or(&self, usual: &str) -> String {
        self.name.clone().unwrap_or_else(|| usual.to_owned())
    }

    /// The options for class, policy and name, as they were given, for another command line.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if !self.class().is_lc() {
            words += " --be";
        }
        if self.strict {
            words += " --strict";
        }
        let given = [("--policy", self.policy.as_ref()), ("--name", self.name.as_ref())];
        let set = self.set.iter().map(|set| ("--set", Some(set)));
        for (option, value) in given.into_iter().chain(set) {
            if let Some(value) = value {
                words += &format!(" {option} {}", quoted(value));
            }
        }
        words
    }

    /// How much is said.
    pub fn say(&self) -> Say {
        Say { verbose: self.verbose, quiet: self.quiet }
    }
}
