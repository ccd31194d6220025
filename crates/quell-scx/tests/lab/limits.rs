//! Limits where an ordinary user has many cgroups, and deep ones.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use quell_guest::lab_tests;
use quell_model::Class;

use crate::support::*;

const USER: u32 = 1000;
const MANY: usize = 2200;
const DEEP: usize = 30;

/// What the user has below this cgroup, made as that user; removed in the end, the last ones first.
struct Owned(Vec<PathBuf>);

impl Owned {
    fn below(group: &Path) -> Owned {
        for of in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(group.join(of), Some(USER), Some(USER)).unwrap();
        }
        let mut made = Vec::new();
        as_user(|| {
            let mut at = group.to_owned();
            for _ in 0..DEEP {
                at.push("deep");
                fs::create_dir(&at).unwrap();
                made.push(at.clone());
                fs::write(at.join("cgroup.subtree_control"), "+cpu").unwrap();
            }
            // A limit of its own does not lift the one above.
            at.push("last");
            fs::create_dir(&at).unwrap();
            fs::write(at.join("cpu.max"), "90000 100000").unwrap();
            made.push(at);
            for one in 0..MANY {
                let one = group.join(one.to_string());
                fs::create_dir(&one).unwrap();
                made.push(one);
            }
        });
        Owned(made)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            while fs::remove_dir(path).is_err() {
                pass(10);
            }
        }
    }
}

/// Does this with the rights of an ordinary user.
fn as_user(what: impl FnOnce()) {
    let be = |user| {
        // SAFETY: changes the rights of this process; no pointers.
        assert_eq!(unsafe { libc::seteuid(user) }, 0);
    };
    be(USER);
    what();
    be(0);
}

fn put(child: &Child, group: &Path) {
    fs::write(group.join("cgroup.procs"), child.0.to_string()).unwrap();
}

lab_tests! {
    mod limits {
        machine: guest(2);

        fn a_tenant_with_many_and_deep_cgroups_exceeds_no_limit_and_lifts_none() {
            let _first = RealTime::begin();
            let mut machine = Machine::load();
            let tenant = Group::with_controller("tenant");
            tenant.set("cpu.max", "20000 100000");
            let at = PathBuf::from("/sys/fs/cgroup/tenant");
            let owned = Owned::below(&at);
            let later = Group::new("later");
            later.set("cpu.max", "25000 100000");
            let unplaced = machine.scx().grant().unplaced();
            println!("{unplaced} of {} cgroups have no place", MANY + DEEP + 1);
            assert!(unplaced > 0, "the tenant has more than its part of the table");

            let threads = [0; 3].map(|_| Child::spin(None, Some(1)));
            put(&threads[0], &owned.0[DEEP]);
            put(&threads[1], owned.0.last().unwrap());
            later.add(threads[2].0);
            pass(300);
            // 20 %, 25 %.
            shares_until(&[&threads[0], &threads[1], &threads[2]], 2000, |shares| {
                (180..=220).contains(&(shares[0] + shares[1])) && (225..=275).contains(&shares[2])
            });

            // What is deep in a workload's cgroup is the workload's.
            drop(threads);
            tenant.set("cpu.max", "max 100000");
            let id = machine.attach("tenant", Class::BestEffort);
            machine.apply(&rights(id, 0, 1, 0), &[]);
            let deep = Child::spin(None, Some(1));
            put(&deep, &owned.0[DEEP]);
            assert!(machine.comes_to_hold(id));
            machine.scx().grant().check().unwrap();
        }
    }
}
