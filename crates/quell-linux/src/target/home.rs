//! The home of a process: the unit or container that its cgroup lies in.

use crate::cgroup::{container_in, unit_of};

/// A unit, a container, or neither: then a process belongs to a tree of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home<'a> {
    /// A container, by its id.
    Container(&'a str),
    /// A service of this machine's systemd.
    Unit(&'a str),
    /// A login, or a user's own manager, or no systemd at all.
    Tree,
}

/// The home of what runs in this cgroup.
#[must_use]
pub fn home(cgroup: &str) -> Home<'_> {
    match (container_in(cgroup), unit_of(cgroup)) {
        (Some(id), _) => Home::Container(id),
        // The services of one user are not one service.
        (None, Some(unit)) if !unit.starts_with("user@") => Home::Unit(unit),
        _ => Home::Tree,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_says_whose_home_it_is() {
        let id = "4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a4f66ad9a";
        for (cgroup, is) in [
            ("/", Home::Tree),
            ("/system.slice/nginx.service", Home::Unit("nginx.service")),
            ("/system.slice/nginx.service/worker", Home::Unit("nginx.service")),
            ("/user.slice/user-1000.slice/session-3.scope", Home::Tree),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service", Home::Tree),
            (&format!("/docker/{id}"), Home::Container(id)),
            (&format!("/system.slice/docker-{id}.scope/init"), Home::Container(id)),
        ] {
            assert_eq!(home(cgroup), is, "{cgroup}");
        }
    }
}
