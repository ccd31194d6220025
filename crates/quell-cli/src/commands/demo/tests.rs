//! The demo's words, from figures of the test's own.

use quell_bench::antagonist::{AntagonistSpec, Kind};
use quell_bench::load::schedule::Schedule;
use quell_bench::load::{LoadReport, LoadSpec, Record};

use super::latency::plan;
use super::measure::Setup;
use super::result::{DemoReport, Run};
use super::scene;

fn setup() -> Setup {
    Setup { server_threads: 1, antagonist: AntagonistSpec::usual(Kind::Cpu, 4, 1 << 20), load: LoadSpec::default() }
}

/// A second in which every request takes this long.
pub(super) fn run(latency_ns: u64, late_ns: u64) -> Run {
    let spec = LoadSpec { warmup_ns: 0, duration_ns: 1_000_000_000, ..LoadSpec::default() };
    let mut record = Record::new(Schedule::new(&spec));
    record.end_ns = spec.duration_ns;
    record.due = record.schedule.slots.len();
    record.latency_ns.fill(latency_ns);
    record.lateness_ns.fill(late_ns);
    Run {
        load: LoadReport::new(spec, &record, None),
        antagonist: None,
        generator_kept_off: true,
        others_cpus: None,
        server_waited: None,
        decisions: vec![],
    }
}

/// A demo whose phases have these latencies in µs; those without one are left out as for an ordinary user.
pub(super) fn demo(latencies: [Option<u64>; 6], late_us: u64) -> DemoReport {
    let phases = scene::latency(1, 4);
    let mut report = plan(&phases, false, &setup(), 2);
    for (phase, latency) in report.phases.iter_mut().zip(latencies) {
        phase.runs.extend(latency.map(|us| run(1_000 * us, 1_000 * late_us)));
    }
    report
}

#[test]
fn without_rights_the_phases_that_need_them_are_named_in_table_and_result() {
    let report = demo([Some(40), Some(336), Some(80), None, Some(50), None], 1);
    let table = report.table(&quell_report::screen::Screen::UNBOUNDED);
    for title in ["server SCHED_FIFO (unsafe)", "Quell guard"] {
        let row = table.lines().find(|line| line.contains(title)).unwrap();
        assert!(row.contains("skipped"), "{row}");
    }
    let result = report.in_words();
    assert!(result.contains("skipped: SCHED_FIFO, Quell guard"), "{result}");
    assert!(report.page().contains("skipped"));
}

#[test]
fn the_last_line_says_the_result_in_words() {
    let report = demo([Some(40), Some(336), Some(80), Some(40), Some(50), Some(40)], 1);
    assert_eq!(
        report.in_words(),
        "result: beside 4 spinning threads: plain Linux 8.4 × the p99 alone, SCHED_IDLE 2.0 ×, SCHED_FIFO 1.0 ×, \
         Quell rkube 1.2 ×, Quell guard 1.0 ×"
    );
}

#[test]
fn an_rkube_worse_than_linux_has_its_reason_in_the_last_line() {
    let unmanaged = demo([Some(40), Some(336), Some(80), None, Some(160), None], 1).in_words();
    assert!(unmanaged.contains("rkube is 2.0 × Linux's best: ") && unmanaged.contains("unmanaged work"), "{unmanaged}");
    let of_rkube = |own: Run| {
        let mut report = demo([Some(40), Some(336), Some(80), None, None, None], 1);
        report.phases[4].runs = vec![own];
        report.in_words()
    };
    let late = of_rkube(run(160_000, 50_000));
    assert!(late.contains("the load generator, kept off the server's CPUs, was late by"), "{late}");
    let waited = |others_cpus| of_rkube(Run { server_waited: Some(0.24), others_cpus, ..run(160_000, 1_000) });
    let shared = waited(Some(1.2));
    assert!(shared.contains("its threads waited 24") && shared.contains("which are unmanaged"), "{shared}");
    assert!(waited(Some(0.0)).contains("where the kernel and Quell ran, too"));
}

#[test]
fn a_machine_with_other_work_is_named_in_the_result() {
    let quiet = demo([Some(40), Some(336), Some(80), Some(35), Some(50), Some(38)], 1).in_words();
    assert!(!quiet.contains("other programs"), "{quiet}");
    let mut report = demo([Some(800), Some(4000), Some(300), Some(40), Some(90), Some(60)], 1);
    assert!(report.in_words().contains("run the demo again when the machine is quiet"), "{}", report.in_words());
    report.busy = Some("! this machine is busy: rustc".into());
    assert!(report.page().contains("this machine is busy"));
}

#[test]
fn a_phase_without_any_answer_has_no_latency() {
    let mut report = demo([Some(40), Some(336), None, None, None, None], 1);
    let mut silent = run(40_000, 1_000);
    silent.load.counts.answered = 0;
    report.phases[2].runs.push(silent);
    assert!(report.in_words().contains("SCHED_IDLE no answer in time"), "{}", report.in_words());
    let table = report.table(&quell_report::screen::Screen::UNBOUNDED);
    let row = table.lines().find(|line| line.contains("SCHED_IDLE")).unwrap();
    assert!(!row.contains("0 ns") && row.contains('–'), "{row}");
}

#[test]
fn the_table_fits_the_terminal() {
    let report = demo([Some(40), Some(336), Some(80), None, Some(50), None], 1);
    for columns in [80, 200] {
        let table = report.table(&quell_report::screen::Screen::columns(columns));
        quell_report::testing::assert_fits(&table, columns);
        insta::assert_snapshot!(format!("demo_{columns}"), table);
        let bars = report.bars(&quell_report::screen::Screen::columns(columns));
        quell_report::testing::assert_fits(&bars, columns);
        insta::assert_snapshot!(format!("demo_bars_{columns}"), bars);
    }
}

#[test]
fn each_phase_is_explained_in_one_line() {
    for line in demo([None; 6], 1).meanings() {
        let (title, means) = line.split_once(": ").unwrap();
        assert!(
            !title.is_empty() && means.len() > 20 && !means.contains('\n') && line.chars().count() <= 130,
            "{line}"
        );
    }
}
