//! A verified scheduler that comes from elsewhere, and one after the other.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use quell_guest::lab_tests;
use quell_model::{Class, Host, Nanos, Signal, SignalSet, Topology, Wake};
use quell_scx::{Grant, Parts, ScxError, ScxOptions, Slices, Verified};
use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::support::*;

/// More than there are.
const DESCRIPTORS: usize = 128;

/// What comes out of a socket when the sender has closed its descriptors.
fn through_a_socket((bytes, descriptors): (Vec<u8>, Vec<OwnedFd>)) -> (Vec<u8>, Vec<OwnedFd>) {
    let (entry, exit) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let sent: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sent)));
    sendmsg(&entry, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    drop((descriptors, entry));
    let (mut received, mut space) =
        (vec![0; bytes.len()], [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))]);
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&exit, &mut [IoSliceMut::new(&mut received)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    (received, descriptors.flatten().collect())
}

fn topology() -> Topology {
    quell_linux::sysfs::topology("/sys".as_ref()).unwrap()
}

/// Grants are obeyed, and the loop is woken.
fn schedules(machine: &mut Machine) {
    let _first = RealTime::begin();
    let (lc_group, be_group) = (Group::new("lc"), Group::new("be"));
    let (lc, be) = machine.attach_pair(2);
    let server = Child::spin(Some(&lc_group), None);
    let hog = Child::spin(Some(&be_group), None);
    pass(50);
    machine.grant(&[(0, be), (1, lc)]);
    pass(50);
    shares_until(&[&server, &hog], 400, |shares| shares.iter().all(|&share| share > 600));
    assert!(machine.scx().grant().decisions().preempted < 100, "its counters begin at zero");
    drop((server, hog));
    [lc, be].into_iter().for_each(|id| drop(machine.host.detach(id).unwrap()));
    machine.scx().grant().check().unwrap();
}

lab_tests! {
    mod spare {
        machine: guest(2);

        fn one_that_was_sent_schedules_measures_and_wakes_the_loop() {
            Machine::unload();
            let begun = Instant::now();
            let verified = Verified::load(&topology(), Parts::default()).unwrap();
            println!("verified in {} ms, {} KiB", begun.elapsed().as_millis(), verified.memory() >> 10);
            let (bytes, descriptors) = through_a_socket(verified.into_parcel());
            assert!(descriptors.len() > 30, "{} descriptors", descriptors.len());
            let received = Verified::of_parcel(&bytes, descriptors).unwrap();
            assert!(received.fits(&topology(), Parts::default()) && !received.is_stale());
            assert!(!received.fits(&topology(), Parts { servers: true, ..Parts::default() }));
            let begun = Instant::now();
            let mut machine = Machine::begin(received, ScxOptions::default());
            println!("attached in {} ms", begun.elapsed().as_millis());
            assert_eq!(state(), "enabled");
            schedules(&mut machine);

            let traced = SignalSet::of(&[Signal::UnreadDelay, Signal::RequestStart]);
            machine.host.observe(traced, &mut machine.view, &mut machine.events).unwrap();
            let programs = machine.scx().grant().programs();
            assert!(programs.iter().any(|program| program.name == "data_came"), "{programs:?}");

            // Of a workload outside the line: only the loop can give it a CPU, and is woken for that.
            let group = Group::new("waits");
            let _waits = machine.attach("waits", Class::LatencyCritical);
            let _child = Child::run(Some(&group), None, || loop {
                pass(30);
            });
            let news = (0..20).any(|_| {
                machine.observe();
                let begun = Instant::now();
                machine.host.wait(Wake::At(monotonic() + Nanos::from_millis(90))).unwrap();
                (5..80).contains(&begun.elapsed().as_millis())
            });
            assert!(news, "the loop slept until its time was over");
        }

        fn one_after_the_other_begins_anew() {
            let mut machine = Machine::load();
            let next = Verified::spare(&topology(), Parts::default()).unwrap();
            assert_eq!(state(), "enabled", "the first one runs on");
            schedules(&mut machine);
            drop(machine);
            await_state("disabled");
            let mut machine = Machine::begin(next, ScxOptions::default());
            schedules(&mut machine);
        }

        /// The loop is not to wait for it: that is for the thread that brings a scheduler.
        fn one_beside_another_that_stands_is_refused_at_once() {
            let machine = Machine::load();
            let topology = topology();
            let next = Verified::spare(&topology, Parts::default()).unwrap();
            let online = || Ok(quell_linux::sysfs::online("/sys".as_ref())?);
            let begun = Instant::now();
            let refused = Grant::begin(next, &topology, online, &topology.all(), Slices::default());
            let took = begun.elapsed();
            assert!(matches!(refused, Err(ScxError::Busy { .. })));
            assert!(took.as_secs() < 4, "{took:?}, of the 5 s that an end is waited for");
            machine.scx().grant().check().unwrap();
        }

        fn what_is_no_scheduler_is_not_taken_for_one() {
            assert!(Verified::of_parcel(b"", Vec::new()).is_none());
            assert!(Verified::of_parcel(b"{}", Vec::new()).is_none());
            let (bytes, mut descriptors) = Verified::spare(&topology(), Parts::default()).unwrap().into_parcel();
            descriptors.pop();
            assert!(Verified::of_parcel(&bytes, descriptors).is_none(), "a descriptor is missing");
        }
    }
}
