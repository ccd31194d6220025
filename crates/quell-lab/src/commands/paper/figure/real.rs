//! A text's figures that are files, in the lab: what `quell-lab paper TOPIC --real` adds.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use quell_evidence::{Figure, Row, Topic};

use super::Runner;
use super::seen::Seen;
use crate::commands::paper::trial::Kept;

/// By topic: the files' names and texts.
const REAL: [(&str, &str, &str); 10] = [
    ("vas", "real.toml", include_str!("../../../../../../papers/vas/real.toml")),
    ("vas", "gamma2.toml", include_str!("../../../../../../papers/vas/gamma2.toml")),
    ("vas", "sporadic.toml", include_str!("../../../../../../papers/vas/sporadic.toml")),
    ("rkube", "real-streamcluster.toml", include_str!("../../../../../../papers/rkube/real-streamcluster.toml")),
    ("rkube", "real-bodytrack.toml", include_str!("../../../../../../papers/rkube/real-bodytrack.toml")),
    ("rkube", "real-memcached.toml", include_str!("../../../../../../papers/rkube/real-memcached.toml")),
    ("edgeiso", "real-effects.toml", include_str!("../../../../../../papers/edgeiso/real-effects.toml")),
    ("edgeiso", "real-services.toml", include_str!("../../../../../../papers/edgeiso/real-services.toml")),
    ("dasec", "real.toml", include_str!("../../../../../../papers/dasec/real.toml")),
    ("dasec", "real-alone.toml", include_str!("../../../../../../papers/dasec/real-alone.toml")),
];

static TOPICS: LazyLock<Vec<(&str, Topic)>> = LazyLock::new(|| {
    let figures = |text| Figure::all(text).expect("a test reads these files").into_iter();
    REAL.iter().flat_map(|&(of, _, text)| figures(text).map(move |figure| (of, figure.topic))).collect()
});

/// What they claim.
pub fn topics(topic: &str) -> impl Iterator<Item = &'static Topic> {
    TOPICS.iter().filter(move |(of, _)| *of == topic).map(|(_, topic)| topic)
}

/// Runs a topic's, one after the other.
pub fn run(topic: &str, quick: bool, kept: &Kept) -> Result<(Vec<Row>, Vec<Seen>)> {
    let directory = tempfile::tempdir().context("make a directory for the figures")?;
    let (mut rows, mut tables) = (Vec::new(), Vec::new());
    for (_, name, text) in REAL.iter().filter(|(of, ..)| *of == topic) {
        let file = directory.path().join(name);
        std::fs::write(&file, text).context("write a figure")?;
        let (judged, seen) = super::run(&file, Runner::Lab, quick, kept)?;
        rows.extend(judged);
        tables.extend(seen);
    }
    Ok((rows, tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_real_figure_is_read_and_judges_what_it_measures() {
        for (topic, name, text) in REAL {
            for figure in Figure::all(text).unwrap_or_else(|error| panic!("{name}: {error}")) {
                assert!(!figure.treatments.is_empty(), "{name} compares nothing");
                assert!(figure.topic.id.starts_with(&format!("{topic}-")), "{name}: {}", figure.topic.id);
            }
        }
    }
}
