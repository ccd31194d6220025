//! What `quell exec` and `quell protect` are both asked in the same words.

use anyhow::Result;
use clap::{Args, ValueEnum};
use quell_command::parameters;
use quell_model::{Class, Reservation};
use quell_policy::AnyPolicy;

/// Class, policy, name, and how much is said.
#[derive(Args)]
pub struct Asked {
    /// lc (latency-critical) or be (best-effort)
    #[arg(long, value_enum, default_value = "lc")]
    class: ClassName,
    /// Best-effort: as --class be
    #[arg(long, conflicts_with = "class")]
    be: bool,
    /// The request means whole CPUs of its own (for rkube)
    #[arg(long)]
    pub strict: bool,
    /// The policy; `quell doctor` says which work here [default: what is recommended, mostly guard]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A parameter of the policy, such as run_budget=20ms; `quell doctor POLICY` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The workload's name [default: the program's]
    #[arg(long)]
    name: Option<String>,
    /// Say every decision on standard error
    #[arg(long, short)]
    verbose: bool,
    /// Do not say on standard error what was set
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
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

    /// The kind of request.
    pub fn reservation(&self) -> Reservation {
        if self.strict { Reservation::Strict } else { Reservation::Standard }
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

    /// How much is said.
    pub fn say(&self) -> Say {
        Say { verbose: self.verbose, quiet: self.quiet }
    }
}
