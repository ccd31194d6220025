//! The overflow user.

use std::fs;
use std::path::Path;

/// The user that the kernel names where a number has none of its own (its overflow user). Only root starts processes as it, as
/// services that need no rights. None in a user namespace: there it stands for every user that the namespace does not know.
#[must_use]
pub fn overflow_user(proc: &Path) -> Option<u32> {
    let known = fs::read_to_string(proc.join("self/uid_map")).ok()?;
    let knows_all = known.split_whitespace().eq(["0", "0", "4294967295"]);
    let number = fs::read_to_string(proc.join("sys/kernel/overflowuid")).ok()?;
    number.trim().parse().ok().filter(|_| knows_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_overflow_user_of_a_machine_and_of_no_namespace() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(overflow_user(root.path()), None);
        write("sys/kernel/overflowuid", "65533\n");
        write("self/uid_map", "         0          0 4294967295\n");
        assert_eq!(overflow_user(root.path()), Some(65_533));
        write("self/uid_map", "         0     100000      65536\n");
        assert_eq!(overflow_user(root.path()), None);
    }
}
