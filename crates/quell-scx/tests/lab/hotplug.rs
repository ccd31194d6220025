//! CPUs come and go while the scheduler is loaded, and before. Two stay: the emulator loops for good where the kernel patches
//! itself on its last CPU.

use quell_guest::lab_tests;
use quell_model::{Class, CpuId};
use quell_scx::{Grant, Parts, Slices, Verified};

use crate::support::*;

lab_tests! {
    mod hotplug {
        machine: guest(3);

        fn a_cpu_that_was_offline_at_the_start_joins() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            set_online(2, false);
            let mut machine = Machine::load();
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 3, 0), &[]);
            let hogs = [0, 1, 2].map(|_| Child::spin(Some(&be_group), None));
            pass(100);
            set_online(2, true);
            let holds = (0..500).any(|_| {
                pass(10);
                machine.observe();
                machine.scx().grant().holder(CpuId(2)).workload() == Some(be)
            });
            assert!(holds, "it never joined");
            let shares = shares(&[&hogs[0], &hogs[1], &hogs[2]], 1000);
            assert!(shares.iter().sum::<u128>() > 1800, "{shares:?}");
            machine.scx().grant().check().unwrap();
        }

        fn threads_bound_to_a_cpu_that_goes_run_elsewhere() {
            let _first = RealTime::begin();
            let be_group = Group::new("be");
            let mut machine = Machine::load();
            let be = machine.attach("be", Class::BestEffort);
            machine.apply(&rights(be, 0, 3, 0), &[]);
            let bound = [Some(&be_group), Some(&be_group), None, None].map(|group| Child::spin(group, Some(2)));
            pass(200);
            for round in 0..3 {
                set_online(2, false);
                let run = shares(&[&bound[0], &bound[1], &bound[2], &bound[3]], 2000);
                machine.scx().grant().check().unwrap_or_else(|error| panic!("round {round}: {error}"));
                assert!(run.iter().all(|&share| share > 0), "round {round}: {run:?}");
                set_online(2, true);
                bound.iter().for_each(|child| pin(child.0, 2..3));
                pass(200);
            }
        }

        fn it_is_loaded_again_if_a_cpu_goes_meanwhile() {
            let topology = quell_linux::sysfs::topology("/sys".as_ref()).unwrap();
            let mut looks = 0;
            let online = || {
                looks += 1;
                let online = quell_linux::sysfs::online("/sys".as_ref()).unwrap();
                if looks == 1 {
                    set_online(2, false);
                    set_online(2, true);
                }
                Ok(online)
            };
            let grant = Grant::load(&topology, online, &topology.all(), Slices::default(), Parts::default()).unwrap();
            pass(500);
            grant.check().unwrap();
            assert_eq!(looks, 2);
            assert_eq!(state(), "enabled");
        }

        fn a_spare_is_stale_when_a_cpu_went_and_came() {
            let topology = quell_linux::sysfs::topology("/sys".as_ref()).unwrap();
            let spare = Verified::spare(&topology, Parts::default()).unwrap();
            assert!(!spare.is_stale() && spare.fits(&topology, Parts::default()));
            set_online(2, false);
            set_online(2, true);
            assert!(spare.is_stale() && !spare.fits(&topology, Parts::default()));
        }
    }
}
