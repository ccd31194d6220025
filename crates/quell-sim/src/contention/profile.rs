//! What a piece of work asks of the machine.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{library, sibling};

/// A cache line, bytes.
pub const LINE: f64 = 64.0;
/// Bytes of the unit in which miss curves are written.
const MIB: f64 = 1_048_576.0;

/// A piece of work as the machine sees it, per instruction. How many instructions it has need not be known: work is
/// given as time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Cycles an instruction of all that stays within the core, its own caches included, alone on its core.
    pub cpi: f64,
    /// References to the last-level cache in a thousand instructions.
    pub llc_references: f64,
    /// The part of them that miss, by how much of the cache its data has.
    pub misses: MissCurve,
    /// Do the workload's threads work on the same data? If not, each has data of its own, and the curve is that of one.
    #[serde(default = "yes")]
    pub shared: bool,
    /// References that are under way at the same time, on average while there are any.
    pub parallelism: f64,
    /// Bytes that a miss moves between cache and memory: a line, and what is written back for it.
    #[serde(default = "line")]
    pub bytes_per_miss: f64,
    /// How much it takes of what siblings share, 0–1.
    #[serde(default = "usual")]
    pub pressure: f64,
    /// How much it suffers from a sibling that takes all, 0–1: 1 is twice the cycles.
    #[serde(default = "usual")]
    pub sensitivity: f64,
}

fn yes() -> bool {
    true
}

fn line() -> f64 {
    LINE
}

/// Two such siblings do 1.22 times the work of one (assumed; caladan-osdi20 §3.2 has "up to 30% higher throughput").
fn usual() -> f64 {
    0.8
}

impl Profile {
    /// A thread that spins with pauses, as a runtime's that looks for work (assumed): it touches only its own cache, and
    /// leaves most of its core to the sibling.
    pub const SPINNING: Profile = Profile {
        cpi: 4.0,
        llc_references: 0.0,
        misses: MissCurve(Cow::Borrowed(&[(0.0, 0.0)])),
        shared: true,
        parallelism: 1.0,
        bytes_per_miss: LINE,
        pressure: 0.2,
        sensitivity: 0.2,
    };

    /// What makes no sense, and the fix.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, low: f64, high: f64| {
            let fits = (low..=high).contains(&value);
            if fits { Ok(()) } else { Err(format!("a profile's {name} of {value}: give {low} to {high}")) }
        };
        within("cpi", self.cpi, 0.1, 1_000.0)?;
        within("llc_references", self.llc_references, 0.0, 1_000.0)?;
        within("parallelism", self.parallelism, 1.0, sibling::OUTSTANDING)?;
        within("bytes_per_miss", self.bytes_per_miss, LINE, 16.0 * LINE)?;
        within("pressure", self.pressure, 0.0, 1.0)?;
        within("sensitivity", self.sensitivity, 0.0, 1.0)?;
        self.misses.check()
    }
}

/// A miss-ratio curve: `[[MiB of cache, part of references that miss], …]`, straight lines between, level beyond the
/// ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MissCurve(pub Cow<'static, [(f64, f64)]>);

impl MissCurve {
    /// The part of references that miss while the data has this many bytes of the cache.
    #[must_use]
    pub fn ratio(&self, bytes: f64) -> f64 {
        let at = bytes / MIB;
        let Some(next) = self.0.iter().position(|&(size, _)| size > at) else {
            return self.0.last().map_or(0.0, |last| last.1);
        };
        if next == 0 {
            return self.0[0].1;
        }
        let ((from, high), (to, low)) = (self.0[next - 1], self.0[next]);
        high + (low - high) * (at - from) / (to - from)
    }

    fn check(&self) -> Result<(), String> {
        let points = &self.0;
        if points.is_empty() {
            return Err("a profile's misses without points: give [[0, 1.0]] if every reference misses".into());
        }
        if points.iter().any(|(size, ratio)| !(*size >= 0.0 && (0.0..=1.0).contains(ratio))) {
            return Err("a profile's misses: each point is [MiB, part from 0 to 1]".into());
        }
        if points.windows(2).any(|pair| !(pair[0].0 < pair[1].0 && pair[0].1 >= pair[1].1)) {
            return Err("a profile's misses: sizes rise and parts fall; more cache never misses more".into());
        }
        Ok(())
    }
}

/// A profile in a scenario: the name of one in the library, or the profile itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ProfileName {
    /// As the library calls it.
    Known(String),
    /// In place.
    Own(Profile),
}

impl ProfileName {
    /// The profile.
    ///
    /// # Errors
    /// A sentence, if there is none of this name or it makes no sense.
    pub fn profile(&self) -> Result<Profile, String> {
        match self {
            ProfileName::Own(profile) => profile.check().map(|()| profile.clone()),
            ProfileName::Known(name) => library::named(name).cloned().ok_or_else(|| {
                let names: Vec<&str> = library::all().map(|known| known.name).collect();
                format!("there is no profile '{name}'; there are: {}", names.join(", "))
            }),
        }
    }
}

impl From<Profile> for ProfileName {
    fn from(profile: Profile) -> ProfileName {
        ProfileName::Own(profile)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProfileName, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ProfileName;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a profile's name, or a profile")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ProfileName, E> {
                Ok(ProfileName::Known(name.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ProfileName, A::Error> {
                Profile::deserialize(MapAccessDeserializer::new(map)).map(ProfileName::Own)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Result<Profile, String> {
        #[derive(Deserialize)]
        struct Holder {
            profile: ProfileName,
        }
        let holder: Holder =
            toml::from_str(&format!("profile = {text}")).map_err(|error| error.message().to_owned())?;
        holder.profile.profile()
    }

    #[test]
    fn a_curve_has_straight_lines_and_level_ends() {
        let curve = MissCurve(Cow::Borrowed(&[(1.0, 0.8), (3.0, 0.4), (4.0, 0.1)]));
        let ratio = |mib: f64| curve.ratio(mib * MIB);
        assert_eq!([0.0, 1.0, 2.0, 3.5, 4.0, 99.0].map(ratio), [0.8, 0.8, 0.6000000000000001, 0.25, 0.1, 0.1]);
    }

    #[test]
    fn a_profile_stands_in_place_or_has_a_name() {
        let own = profile("{ cpi = 1.0, llc_references = 20, misses = [[0, 1.0]], parallelism = 8 }").unwrap();
        assert_eq!((own.bytes_per_miss, own.shared), (LINE, true));
        assert_eq!(profile("\"streaming\"").as_ref(), Ok(library::named("streaming").unwrap()));
        assert!(profile("\"nothere\"").unwrap_err().contains("streaming"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_fix() {
        let with = |change: &str| {
            let own = "cpi = 1.0, llc_references = 20, misses = [[0,1.0]], parallelism = 8";
            let key = change.split(' ').next().unwrap();
            let rest: Vec<&str> = own.split(", ").filter(|part| part.split(' ').next() != Some(key)).collect();
            profile(&format!("{{ {}, {change} }}", rest.join(", "))).unwrap_err()
        };
        assert!(with("cpi = 0").contains("cpi of 0"));
        assert!(with("parallelism = 17").contains("1 to 16"));
        assert!(with("bytes_per_miss = 8").contains("64"));
        assert!(with("misses = []").contains("without points"));
        assert!(with("misses = [[0, 0.2], [1, 0.5]]").contains("fall"));
        assert!(with("misses = [[0, 1.2]]").contains("from 0 to 1"));
        assert!(with("mises = []").contains("unknown field `mises`"));
    }

    #[test]
    fn what_the_library_has_makes_sense() {
        for known in library::all() {
            assert_eq!(known.profile.check(), Ok(()), "{}", known.name);
            assert!(!known.source.is_empty() && library::named(known.name) == Some(&known.profile));
        }
        assert_eq!(Profile::SPINNING.check(), Ok(()));
    }
}
