//! A service's demand on its CPUs, as its owner describes it: tasks, random requests, or a budget every period.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ModelError, Nanos};

/// A task τ = (A, C, T): a job of work C every period T, the first one at offset A (vas-rtns21 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// A: release time of the first job.
    pub offset: Nanos,
    /// C: the longest time of a job on a CPU of its own.
    pub work: Nanos,
    /// T: distance of two releases; of a sporadic task the shortest.
    pub period: Nanos,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.offset.exact(), self.work.exact(), self.period.exact())
    }
}

/// `OFFSET,WORK,PERIOD`, each with its unit.
impl FromStr for Task {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Task, ModelError> {
        let bad = |why: String| ModelError::Task { text: text.to_owned(), why };
        let times: Vec<Nanos> = text
            .split(',')
            .map(|part| part.parse().map_err(|error: ModelError| bad(error.to_string())))
            .collect::<Result<_, _>>()?;
        match times[..] {
            [offset, work, period] => Ok(Task { offset, work, period }),
            _ => Err(bad(format!("it has {} of the three times", times.len()))),
        }
    }
}

/// A table with `offset`, `work` and `period`, or the text `OFFSET,WORK,PERIOD`.
impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Task, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(default)]
            offset: Nanos,
            work: Nanos,
            period: Nanos,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Task;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a task: a table with offset, work and period, or OFFSET,WORK,PERIOD")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Task, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Task, A::Error> {
                let Table { offset, work, period } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Task { offset, work, period })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// A distribution of service times on a CPU of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Always the same.
    Constant(Nanos),
    /// Exponential with this mean.
    Exponential(Nanos),
    /// Lognormal.
    Lognormal {
        /// Mean.
        mean: Nanos,
        /// Standard deviation of the logarithm, 0 to 10.
        sigma: f64,
    },
}

impl Service {
    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        match *self {
            Service::Constant(mean) | Service::Exponential(mean) | Service::Lognormal { mean, .. } => mean,
        }
    }

    /// As it is written, [`Service::from_str`]'s inverse.
    fn written(&self) -> String {
        match self {
            Service::Constant(time) => format!("constant:{}", time.exact()),
            Service::Exponential(mean) => format!("exponential:{}", mean.exact()),
            Service::Lognormal { mean, sigma } => format!("lognormal:{}:{sigma}", mean.exact()),
        }
    }
}

/// For people.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Constant(time) => write!(f, "constant {}", time.exact()),
            Service::Exponential(mean) => write!(f, "exponential, mean {}", mean.exact()),
            Service::Lognormal { mean, sigma } => write!(f, "lognormal, mean {}, sigma {sigma}", mean.exact()),
        }
    }
}

/// `constant:TIME`, `exponential:MEAN` or `lognormal:MEAN:SIGMA`.
impl FromStr for Service {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Service, ModelError> {
        let bad = |why: String| ModelError::ServiceTime { text: text.to_owned(), why };
        let time = |time: &str| match time.parse::<Nanos>() {
            Ok(Nanos::ZERO) => Err(bad("it takes no time".into())),
            Ok(time) => Ok(time),
            Err(error) => Err(bad(error.to_string())),
        };
        match text.split(':').collect::<Vec<_>>()[..] {
            ["constant", mean] => Ok(Service::Constant(time(mean)?)),
            ["exponential", mean] => Ok(Service::Exponential(time(mean)?)),
            ["lognormal", mean, sigma] => match sigma.parse() {
                Ok(sigma) if (0.0..=10.0).contains(&sigma) => Ok(Service::Lognormal { mean: time(mean)?, sigma }),
                _ => Err(bad(format!("a sigma of {sigma} is not from 0 to 10"))),
            },
            _ => Err(bad("it is none of the three".into())),
        }
    }
}

/// Requests at random.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Poisson {
    /// Requests a second.
    pub rate: f64,
    /// Service time of a request.
    pub service: Service,
}

impl Poisson {
    /// The share of a CPU that it needs.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.rate * self.service.mean().as_secs_f64()
    }
}

/// More requests a second than a CPU can start.
const HIGHEST_RATE: f64 = 1e9;

/// `RATE,SERVICE`, such as `2k,exponential:100us`.
impl FromStr for Poisson {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Poisson, ModelError> {
        let bad = |why: &str| ModelError::Requests { text: text.to_owned(), why: why.to_owned() };
        let (rate, service) = text.split_once(',').ok_or_else(|| bad("it has no comma"))?;
        let number = rate.trim().trim_end_matches("/s").trim_end();
        let (digits, scale) = match number.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&number[..at], 1e3),
            Some((at, 'M')) => (&number[..at], 1e6),
            _ => (number, 1.0),
        };
        let rate = digits.trim_end().parse::<f64>().map_or(f64::NAN, |number| number * scale);
        if !(rate > 0.0 && rate <= HIGHEST_RATE) {
            return Err(bad("its rate is not above zero and at most 1000M a second"));
        }
        Ok(Poisson { rate, service: service.trim().parse()? })
    }
}

impl TryFrom<String> for Poisson {
    type Error = ModelError;
    fn try_from(text: String) -> Result<Poisson, ModelError> {
        text.parse()
    }
}

impl From<Poisson> for String {
    fn from(stream: Poisson) -> String {
        format!("{},{}", stream.rate, stream.service.written())
    }
}

/// A service's work, or the CPU time that it is to get.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// Jobs of these tasks; sporadic: a period or more apart.
    Tasks {
        /// The tasks.
        tasks: Vec<Task>,
        /// May releases be further apart than a period?
        sporadic: bool,
    },
    /// Requests at random, whose latency the workload's SLO bounds, under a server of this period.
    Poisson {
        /// The requests.
        stream: Poisson,
        /// The server's period.
        period: Nanos,
    },
    /// This CPU time every period.
    Server {
        /// CPU time a period.
        budget: Nanos,
        /// The period.
        period: Nanos,
    },
}

/// A workload's demand on each of its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Demand {
    /// The demand on each CPU.
    pub asks: Asks,
    /// Number of these CPUs.
    pub servers: u32,
}

/// A demand's form in files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    task: Vec<Task>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sporadic: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    poisson: Option<Poisson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    period: Option<Nanos>,
    #[serde(default = "one")]
    servers: u32,
}

fn one() -> u32 {
    1
}

impl TryFrom<Written> for Demand {
    type Error = String;

    fn try_from(written: Written) -> Result<Demand, String> {
        let Written { task, sporadic, poisson, budget, period, servers } = written;
        let asks = match (task.is_empty(), poisson, budget, period) {
            (false, None, None, None) => Asks::Tasks { tasks: task, sporadic },
            (true, Some(stream), None, Some(period)) if !sporadic => Asks::Poisson { stream, period },
            (true, None, Some(budget), Some(period)) if !sporadic => Asks::Server { budget, period },
            _ => {
                return Err(
                    "a demand has either tasks (task = [\"0, 40ms, 250ms\"]), or budget and period, or poisson \
                            and period"
                        .into(),
                );
            }
        };
        Ok(Demand { asks, servers })
    }
}

impl From<Demand> for Written {
    fn from(demand: Demand) -> Written {
        let none = Written {
            task: Vec::new(),
            sporadic: false,
            poisson: None,
            budget: None,
            period: None,
            servers: demand.servers,
        };
        match demand.asks {
            Asks::Tasks { tasks, sporadic } => Written { task: tasks, sporadic, ..none },
            Asks::Poisson { stream, period } => Written { poisson: Some(stream), period: Some(period), ..none },
            Asks::Server { budget, period } => Written { budget: Some(budget), period: Some(period), ..none },
        }
    }
}

/// In one line, for people.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.asks {
            Asks::Tasks { tasks, sporadic } => {
                let kind = if *sporadic { "sporadic" } else { "periodic" };
                write!(f, "{} {kind} {}", tasks.len(), if tasks.len() == 1 { "task" } else { "tasks" })?;
            }
            Asks::Poisson { stream, .. } => write!(f, "{} requests a second, {}", stream.rate, stream.service)?,
            Asks::Server { budget, period } => write!(f, "{} every {}", budget.exact(), period.exact())?,
        }
        if self.servers == 1 { Ok(()) } else { write!(f, ", on {} CPUs", self.servers) }
    }
}

impl Demand {
    /// Are the numbers valid by themselves? Whether tasks fit onto a CPU is for the policy to check.
    ///
    /// # Errors
    /// A sentence with the fix.
    pub fn check(&self) -> Result<(), String> {
        if self.servers == 0 {
            return Err("a demand of 0 servers: leave the demand out, or give it at least one".into());
        }
        match self.asks {
            Asks::Tasks { .. } => Ok(()),
            Asks::Server { budget, period } if budget == Nanos::ZERO || budget > period => Err(format!(
                "a budget of {} every {}: give more than 0 and at most the period",
                budget.exact(),
                period.exact()
            )),
            Asks::Poisson { period: Nanos::ZERO, .. } => Err("a period of 0; give one above zero, such as 10ms".into()),
            Asks::Server { .. } | Asks::Poisson { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Demand, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_reads_back_as_it_was_written() {
        for json in [
            r#"{"task":["0, 40ms, 250ms", {"offset": "1ms", "work": "2ms", "period": "9ms"}]}"#,
            r#"{"task":["0,1us,2us"],"sporadic":true,"servers":4}"#,
            r#"{"poisson":"2k,exponential:100us","period":"10ms"}"#,
            r#"{"poisson":"1.5,lognormal:1ms:0.5","period":"10ms"}"#,
            r#"{"budget":"1.62s","period":"2s"}"#,
        ] {
            let demand = read(json).expect(json);
            assert_eq!(read(&serde_json::to_string(&demand).unwrap()), Ok(demand.clone()), "{json}");
            assert!(demand.check().is_ok() && !demand.to_string().is_empty());
        }
    }

    #[test]
    fn what_is_no_demand_is_refused_with_the_fix() {
        for (json, says) in [
            ("{}", "either tasks"),
            (r#"{"budget":"1ms"}"#, "budget and period"),
            (r#"{"budget":"1ms","period":"2ms","task":["0,1ms,2ms"]}"#, "either tasks"),
            (r#"{"task":["0,1,2ms"]}"#, "add a unit"),
            (r#"{"task":["1ms,2ms"]}"#, "2 of the three times"),
            (r#"{"poisson":"0,constant:1ms","period":"1ms"}"#, "its rate"),
            (r#"{"poisson":"5 constant","period":"1ms"}"#, "no comma"),
            (r#"{"poisson":"5,gauss:1ms","period":"1ms"}"#, "none of the three"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(says), "{json}: {error}");
        }
        for json in [r#"{"budget":"3ms","period":"2ms"}"#, r#"{"budget":"0","period":"2ms"}"#] {
            assert!(read(json).unwrap().check().unwrap_err().contains("at most the period"));
        }
        assert!(read(r#"{"budget":"1ms","period":"2ms","servers":0}"#).unwrap().check().is_err());
    }
}
