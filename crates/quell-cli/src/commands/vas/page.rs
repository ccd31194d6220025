//! W(P), the share of the CPU over the period, as a page (vas-rtns21 Fig. 4b).

use quell_policy::vas::{Curve, Flat};
use quell_report::chart::{Axis, Chart, Form, Mark, Scale, Series, Unit};
use quell_report::page::{Block, Page};
use quell_report::screen::Screen;

use super::answer::{Answer, Tasks};
use super::text;

/// Largest number of flat parts that a page shows.
const MOST: usize = 2_000;

pub fn of(answer: &Answer, tasks: &Tasks) -> Page {
    let mut blocks = vec![Block::Listing(text::of(answer, &Screen::UNBOUNDED))];
    blocks.extend(tasks.curve.as_ref().map(|curve| Block::Chart(chart(answer, curve))));
    Page {
        title: "Quell: the share of a CPU that keeps the latency".into(),
        subtitle: tasks.set.tasks().iter().map(|task| format!("({task})")).collect::<Vec<_>>().join(", "),
        blocks,
    }
}

fn chart(answer: &Answer, curve: &Curve) -> Chart {
    let x = Axis::new("period", Scale::Linear, Unit::Nanoseconds);
    let mut chart =
        Chart::new("Share of a CPU over the server's period", x, Axis::new("share", Scale::Linear, Unit::Plain));
    let share = |flat: &Flat, period: u64| (period as f64, flat.budget.0 as f64 / period as f64);
    let points = thinned(&curve.flats).flat_map(|flat| [share(flat, flat.from.0), share(flat, flat.to.0)]);
    let first = curve.flats.first().map(|flat| (flat.budget.0 as f64, 1.0));
    let points = first.into_iter().chain(points).collect();
    chart.series.push(Series { name: "minimum".into(), form: Form::Line, colour: 0, points });
    let named = [("recommended", answer.recommended, 1), ("chosen", answer.interface, 2)];
    for (name, interface, colour) in named {
        let points = vec![(interface.period.0 as f64, interface.share())];
        let name = format!("{name}: {} every {}", interface.budget.exact(), interface.period.exact());
        chart.series.push(Series { name, form: Form::Points, colour, points });
    }
    chart.marks.push(Mark::AtY { y: answer.utilisation, label: "utilisation".into() });
    chart
}

/// Of neighbours those with the smallest share.
fn thinned(flats: &[Flat]) -> impl Iterator<Item = &Flat> {
    let share = |flat: &Flat| flat.end().share();
    flats
        .chunks(flats.len().div_ceil(MOST).max(1))
        .filter_map(move |chunk| chunk.iter().min_by(|a, b| share(a).total_cmp(&share(b))))
}
