//! Assumptions of the experiments: each input that a text does not give, as data.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// An input that the text does not give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// Its name.
    pub id: String,
    /// The assumed quantity, with its unit.
    pub what: String,
    /// The experiments' value.
    pub value: f64,
    /// The least that it may be.
    pub from: f64,
    /// The most that it may be.
    pub to: f64,
    /// The values that `--bands` tries; without any, the least and the most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<f64>,
    /// Each run takes the best of the points for the opponent that it is of; `--bands` tries each alone, and no draw has it.
    #[serde(default)]
    pub tuned: bool,
    /// Source of the range. Without one it is at least from the value ÷ 1.5 to the value × 1.5.
    pub source: Option<String>,
    /// The day from which on the experiments have this value.
    pub since: String,
    /// Ids of the claims that it can affect; a figure's name with `.*` means all of it.
    pub rows: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    topic: String,
    assumption: Vec<Assumption>,
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../../papers/rkube/assumptions.toml"),
        include_str!("../../../papers/caladan/assumptions.toml"),
        include_str!("../../../papers/his/assumptions.toml"),
        include_str!("../../../papers/edgeiso/assumptions.toml"),
        include_str!("../../../papers/vas/assumptions.toml"),
        include_str!("../../../papers/dasec/assumptions.toml"),
        include_str!("../../../papers/sdc/assumptions.toml"),
    ];
    texts.iter().map(|text| toml::from_str(text).expect("a test reads these files")).collect()
});

/// A topic's assumptions; none where none are written down.
#[must_use]
pub fn assumptions(topic: &str) -> &'static [Assumption] {
    FILES.iter().find(|file| file.topic == topic).map_or(&[], |file| &file.assumption)
}

impl Assumption {
    /// The values that it is varied to: beside its own, or all points of one that is tuned.
    #[must_use]
    pub fn varied(&self) -> Vec<f64> {
        let points = if self.points.is_empty() { vec![self.from, self.to] } else { self.points.clone() };
        points.into_iter().filter(|point| self.tuned || *point != self.value).collect()
    }

    /// Can it touch the claim of this id?
    #[must_use]
    pub fn touches(&self, id: &str) -> bool {
        self.rows.iter().any(|row| match row.strip_suffix('*') {
            Some(figure) => id.starts_with(figure),
            None => row == id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics;

    #[test]
    fn each_has_a_range_around_its_value_and_touches_rows_that_there_are() {
        for Assumption { id, value, from, to, points, tuned, source, rows, .. } in
            FILES.iter().flat_map(|file| &file.assumption)
        {
            assert!(from < to && (from..=to).contains(&value), "{id}");
            let is_wide = *from <= value / 1.5 * 1.001 && *to >= value * 1.5 * 0.999;
            assert!(points.iter().all(|point| (from..=to).contains(&point)), "{id}: a point is out of the range");
            assert!(!tuned || points.contains(value), "{id}: what is tuned is one of several points");
            assert!(source.is_some() || is_wide, "{id}: without a source a range is at least ÷ 1.5 to × 1.5");
            for row in rows {
                let only = Assumption { rows: vec![row.clone()], ..assumptions("rkube")[0].clone() };
                let mut claims = topics().iter().flat_map(|topic| &topic.claims);
                assert!(claims.any(|claim| only.touches(&claim.id)), "{id}: {row}");
            }
        }
    }
}
