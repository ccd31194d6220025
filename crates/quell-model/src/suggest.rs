//! Suggestions for unknown names.

/// The known name that is closest to this one, if one is close: a third of its characters may be wrong, swapped ones
/// counting as one.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |other: &str| strsim::damerau_levenshtein(&name, &other.to_lowercase());
    let near = (name.chars().count() / 3).max(1);
    let found = known.into_iter().map(|other| (distance(other), other)).min_by_key(|(distance, _)| *distance);
    // A word of one or two letters is close to every other.
    found.filter(|(distance, other)| *distance <= near && *distance < other.chars().count()).map(|(_, other)| other)
}

/// `; did you mean 'guard'?`, or nothing if no known name is close.
#[must_use]
pub fn hint(name: &str, known: &[&str]) -> String {
    nearest(name, known.iter().copied()).map_or(String::new(), |meant| format!("; did you mean '{meant}'?"))
}

/// An error text: there is no such name, the known names, and the likely one.
///
/// ```
/// let text = quell_model::suggest::unknown("policy", "gard", &["rkube", "guard"]);
/// assert_eq!(text, "there is no policy 'gard'; there are: rkube, guard; did you mean 'guard'?");
/// ```
#[must_use]
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("there is no {what} '{name}'; there are: {list}{}", hint(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_mistakes_are_recognised_and_other_words_are_not() {
        let known = ["guard", "rkube", "caladan", "web", "lc", "be"];
        for (name, meant) in
            [("gard", "guard"), ("wbe", "web"), ("Caladn", "caladan"), ("LC", "lc"), ("guards", "guard")]
        {
            assert_eq!(nearest(name, known), Some(meant), "{name}");
        }
        for name in ["nginx", "", "xx", "memcached"] {
            assert_eq!(nearest(name, known), None, "{name}");
        }
        assert_eq!(unknown("workload", "x", &[]), "there is no workload 'x'; there are: none");
    }
}
