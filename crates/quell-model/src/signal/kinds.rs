//! The attributes of each signal.

use serde::{Deserialize, Serialize};

use super::table::signal_table;

/// Subject of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Each workload.
    Workload,
    /// Each CPU.
    Cpu,
    /// The machine.
    Machine,
    /// Each wanted thread.
    Thread,
    /// Each pair of a waker and the thread that it woke.
    Edge,
}

/// A signal's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds; metrics say seconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    PerSecond,
    /// A part of a whole, 0–1.
    Ratio,
    /// Multiple of a reference.
    Times,
    /// A number of items.
    Count,
    /// Not a number.
    None,
}

/// State or sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The present state, or a rate over the sample's window.
    Momentary,
    /// It only grows: from an arbitrary start, or since the workload attached.
    Total,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInfo {
    /// The signal.
    pub signal: Signal,
    /// Its name in field terms.
    pub name: &'static str,
    /// Its column's name; empty where the columns have a form of their own.
    pub key: &'static str,
    /// Its subject.
    pub of: Subject,
    /// Its unit.
    pub unit: Unit,
    /// State or sum.
    pub kind: Kind,
    /// Description, in one sentence.
    pub help: &'static str,
    /// Cost of measuring it.
    pub cost: &'static str,
}

macro_rules! kinds {
    (
        workload { $($(#[doc = $w_doc:literal])+ $workload:ident = $w_key:ident: $w_type:ty, $w_name:literal, $w_unit:ident, $w_kind:ident, $w_cost:literal;)* }
        cpu { $($(#[doc = $c_doc:literal])+ $cpu:ident = $c_key:ident: $c_type:ty, $c_name:literal, $c_unit:ident, $c_kind:ident, $c_cost:literal;)* }
        machine { $($(#[doc = $m_doc:literal])+ $machine:ident = $m_key:ident: $m_type:ty, $m_name:literal, $m_unit:ident, $m_kind:ident, $m_cost:literal;)* }
        thread { $($(#[doc = $t_doc:literal])+ $thread:ident = $t_key:ident: $t_type:ty, $t_name:literal, $t_unit:ident, $t_kind:ident, $t_cost:literal;)* }
        other { $($(#[doc = $o_doc:literal])+ $other:ident, $o_name:literal, $o_of:ident, $o_cost:literal;)* }
    ) => {
        kinds! { @all
            $($(#[doc = $w_doc])+ $workload, stringify!($w_key), $w_name, Workload, $w_unit, $w_kind, $w_cost;)*
            $($(#[doc = $c_doc])+ $cpu, stringify!($c_key), $c_name, Cpu, $c_unit, $c_kind, $c_cost;)*
            $($(#[doc = $m_doc])+ $machine, stringify!($m_key), $m_name, Machine, $m_unit, $m_kind, $m_cost;)*
            $($(#[doc = $t_doc])+ $thread, stringify!($t_key), $t_name, Thread, $t_unit, $t_kind, $t_cost;)*
            $($(#[doc = $o_doc])+ $other, "", $o_name, $o_of, None, Momentary, $o_cost;)*
        }
    };
    (@all $($(#[doc = $doc:literal])+ $signal:ident, $key:expr, $name:literal, $of:ident, $unit:ident, $kind:ident, $cost:literal;)*) => {
        /// A kind of measurement. A host fills only the columns of the signals that a policy asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Signal { $($(#[doc = $doc])+ $signal,)* }

        impl Signal {
            /// Every kind.
            pub const ALL: &'static [Signal] = &[$(Signal::$signal,)*];

            /// The table, in the order of [`Signal::ALL`].
            pub const TABLE: &'static [SignalInfo] = &[$(SignalInfo {
                signal: Signal::$signal,
                name: $name,
                key: $key,
                of: Subject::$of,
                unit: Unit::$unit,
                kind: Kind::$kind,
                help: concat!($($doc),+).trim_ascii(),
                cost: $cost,
            },)*];
        }
    };
}

signal_table!(kinds);

impl Signal {
    /// What Quell's scheduler decided, counted since it was loaded.
    pub const DECISIONS: [Signal; 11] = [
        Signal::CpusTaken,
        Signal::Stayed,
        Signal::MadeWay,
        Signal::MadeWayInVain,
        Signal::Fetched,
        Signal::StarvingTurns,
        Signal::Throttled,
        Signal::CpusRefused,
        Signal::Overtaken,
        Signal::TurnsBesideServers,
        Signal::Passed,
    ];

    /// Its line of the table.
    #[must_use]
    pub const fn info(self) -> &'static SignalInfo {
        &Signal::TABLE[self as usize]
    }

    /// Its name in field terms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }
}

impl SignalInfo {
    /// The name of its field where numbers carry their unit, such as `queueing_delay_ns`.
    #[must_use]
    pub fn field(&self) -> String {
        match self.unit {
            Unit::Nanoseconds => format!("{}_ns", self.key),
            _ => self.key.to_owned(),
        }
    }
}

impl Unit {
    /// In words; empty where it is not a number.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "1/s",
            Unit::Ratio => "0–1",
            Unit::Times => "×",
            Unit::Count => "count",
            Unit::None => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_line_is_of_its_signal_and_no_two_share_a_column() {
        let mut columns = BTreeSet::new();
        for (line, &signal) in Signal::TABLE.iter().zip(Signal::ALL) {
            assert_eq!((line.signal, signal.info()), (signal, line));
            assert!(line.help.ends_with('.') && !line.name.is_empty() && !line.cost.is_empty(), "{line:?}");
            assert!(line.key.is_empty() || columns.insert((line.of, line.key)), "{line:?}");
        }
    }
}
