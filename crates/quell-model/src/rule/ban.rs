use crate::Nanos;

/// Does a sibling ban still hold? It does as long as the CPU works on the request that it was imposed for
/// (caladan-osdi20 §5.2.3: "bans use of the sibling hyperthread until the current request completes").
///
/// `banned_for` is the start of that request; `now_on` that of the request that the CPU works on, if it does.
#[must_use]
pub fn ban_holds(banned_for: Nanos, now_on: Option<Nanos>) -> bool {
    now_on == Some(banned_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_ends_with_its_request() {
        assert!(ban_holds(Nanos(5), Some(Nanos(5))));
        assert!(!ban_holds(Nanos(5), Some(Nanos(9))), "the next request must not inherit it");
        assert!(!ban_holds(Nanos(5), None));
    }
}
