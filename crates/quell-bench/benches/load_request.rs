//! What one request costs the generator, apart from the system calls: drawing it, writing it, reading its answer,
//! noting its latency. And what a whole run's report costs afterwards.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use quell_bench::load::protocol::memcached::Parser;
use quell_bench::load::protocol::{Answer, Requests};
use quell_bench::load::schedule::{Operation, Schedule, Slot};
use quell_bench::load::{LoadReport, LoadSpec, Record};

const REQUESTS: u64 = 20_000;

fn one_second() -> LoadSpec {
    LoadSpec { rate: REQUESTS as f64, warmup_ns: 0, duration_ns: 1_000_000_000, ..LoadSpec::default() }
}

fn per_request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load, per request");
    let spec = one_second();
    let schedule = Schedule::new(&spec);
    group.throughput(Throughput::Elements(schedule.slots.len() as u64));
    group.bench_function("schedule", |bencher| bencher.iter(|| Schedule::new(black_box(&spec))));

    let requests = Requests::new(&spec);
    group.throughput(Throughput::Elements(1));
    let mut out = Vec::with_capacity(4096);
    for (name, operation) in [("write a get", Operation::Get), ("write a set", Operation::Set)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                requests.encode(Slot::new(0, operation, black_box(4242)), &mut out);
                black_box(&out);
            });
        });
    }

    let answer = [b"VALUE quell0000004242 0 100\r\n".as_slice(), &[b'q'; 100], b"\r\nEND\r\n"].concat();
    let mut parser = Parser::default();
    let mut record = Record::new(schedule);
    group.bench_function("read an answer and note it", |bencher| {
        let mut index = 0;
        bencher.iter(|| {
            parser
                .feed(black_box(&answer), |answer| record.answer(index, answer, black_box(1_000_000_000)))
                .expect("a good answer");
            index = (index + 1) % 10_000;
        });
    });
    group.finish();
}

fn report(criterion: &mut Criterion) {
    let spec = LoadSpec { duration_ns: 10_000_000_000, ..one_second() };
    let mut record = Record::new(Schedule::new(&spec));
    record.due = record.schedule.slots.len();
    record.end_ns = spec.duration_ns;
    for index in 0..record.due {
        let slot = record.schedule.slots[index];
        let answer = if slot.operation() == Operation::Get { Answer::Miss } else { Answer::Stored };
        let latency = 20_000 + (index as u64 * 7_919) % 100_000;
        record.lateness_ns[index] = latency / 10;
        record.answer(index, answer, slot.at_ns + latency);
    }
    criterion.bench_function("report of 200,000 requests", |bencher| {
        bencher.iter_batched(|| spec.clone(), |spec| LoadReport::new(spec, &record, None), BatchSize::LargeInput);
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    per_request(&mut criterion);
    report(&mut criterion);
    criterion.final_summary();
}
