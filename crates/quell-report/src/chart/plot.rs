//! Drawing: layout in a fixed grid of units that the page scales to its width.

use maud::{Markup, PreEscaped, html};

use super::axis::Span;
use super::{COLOURS, Chart, Form, Mark, Series};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 18.0;
const PLOT_HEIGHT: f64 = 270.0;
const BOTTOM: f64 = 48.0;
const TITLE_HEIGHT: f64 = 28.0;
const LEGEND_HEIGHT: f64 = 20.0;
/// Width of a legend's letter: a little generous.
const LETTER: f64 = 6.9;
/// Points nearer to the last drawn one than this are left out.
const THINNING: f64 = 0.4;

/// The drawing area and its axes.
struct Area {
    top: f64,
    x: Span,
    y: Span,
}

impl Area {
    fn x(&self, value: f64) -> Option<f64> {
        let place = self.x.place(value)?.clamp(-0.001, 1.001);
        Some(LEFT + place * (WIDTH - LEFT - RIGHT))
    }

    fn y(&self, value: f64) -> Option<f64> {
        let place = self.y.place(value)?.clamp(-0.001, 1.001);
        Some(self.top + (1.0 - place) * PLOT_HEIGHT)
    }

    fn bottom(&self) -> f64 {
        self.top + PLOT_HEIGHT
    }
}

/// The chart as an `svg` element; with its style for a file of its own.
pub(super) fn svg(chart: &Chart, style: Option<&str>) -> Markup {
    let legend = legend(&chart.series);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let marked_x = chart.marks.iter().flat_map(|mark| match mark {
        Mark::AtX { x, .. } | Mark::Point { x, .. } => vec![*x],
        Mark::Span { from, to, .. } => vec![*from, *to],
        Mark::AtY { .. } => vec![],
    });
    let marked_y = chart.marks.iter().filter_map(|mark| match mark {
        Mark::AtY { y, .. } | Mark::Point { y, .. } => Some(*y),
        Mark::AtX { .. } | Mark::Span { .. } => None,
    });
    let area = Area {
        top: TITLE_HEIGHT + legend.height + 8.0,
        x: Span::new(&chart.x, points().map(|(x, _)| *x).chain(marked_x)),
        y: Span::new(&chart.y, points().map(|(_, y)| *y).chain(marked_y)),
    };
    let height = area.bottom() + BOTTOM;
    html! {
        svg.chart xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height:.0}")) role="img" aria-label=(chart.title) {
            @if let Some(style) = style { style { (PreEscaped(style)) } }
            text.title x="0" y="17" { (chart.title) }
            (legend.markup)
            @for mark in &chart.marks { (span(&area, mark)) }
            (axes(chart, &area))
            @for series in &chart.series { (curve(&area, series)) }
            @for mark in &chart.marks { (line(&area, mark)) }
        }
    }
}

struct Legend {
    markup: Markup,
    height: f64,
}

/// Names beside a piece of their curve, in as many rows as they need; none for a single series without a name.
fn legend(series: &[Series]) -> Legend {
    let (mut x, mut row) = (0.0, 0.0);
    let mut entries = Vec::new();
    for series in series.iter().filter(|series| !series.name.is_empty()) {
        let width = 24.0 + LETTER * series.name.chars().count() as f64 + 18.0;
        if x > 0.0 && x + width > WIDTH {
            (x, row) = (0.0, row + 1.0);
        }
        entries.push((x, TITLE_HEIGHT + row * LEGEND_HEIGHT + 10.0, series));
        x += width;
    }
    let height = if entries.is_empty() { 0.0 } else { (row + 1.0) * LEGEND_HEIGHT };
    let markup = html! {
        @for (x, y, series) in &entries {
            @if series.form == Form::Points {
                circle class=(class(series)) cx=(number(x + 9.0)) cy=(number(*y)) r="3" fill="none" stroke-width="2" {}
            } @else {
                line class=(class(series)) x1=(number(*x)) x2=(number(x + 18.0)) y1=(number(*y)) y2=(number(*y)) stroke-width="3" {}
            }
            text.name x=(number(x + 24.0)) y=(number(y + 4.0)) { (series.name) }
        }
    };
    Legend { markup, height }
}

fn axes(chart: &Chart, area: &Area) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT, area.bottom());
    let across = |at: f64| number(LEFT + at * (right - LEFT));
    let up = |at: f64| area.top + (1.0 - at) * PLOT_HEIGHT;
    html! {
        @for tick in area.x.ticks() {
            line.grid x1=(across(tick.at)) x2=(across(tick.at)) y1=(number(area.top)) y2=(number(bottom)) {}
            text x=(across(tick.at)) y=(number(bottom + 17.0)) text-anchor="middle" { (tick.label) }
        }
        @for tick in area.y.ticks() {
            line.grid x1=(number(LEFT)) x2=(number(right)) y1=(number(up(tick.at))) y2=(number(up(tick.at))) {}
            text x=(number(LEFT - 8.0)) y=(number(up(tick.at) + 4.0)) text-anchor="end" { (tick.label) }
        }
        line.frame x1=(number(LEFT)) x2=(number(right)) y1=(number(bottom)) y2=(number(bottom)) {}
        text x=(number(f64::midpoint(LEFT, right))) y=(number(bottom + 38.0)) text-anchor="middle" { (chart.x.label) }
        text transform=(format!("translate(12 {:.1}) rotate(-90)", area.top + PLOT_HEIGHT / 2.0)) text-anchor="middle" { (chart.y.label) }
    }
}

fn curve(area: &Area, series: &Series) -> Markup {
    let places = series.points.iter().map(|(x, y)| area.x(*x).zip(area.y(*y)));
    if series.form == Form::Points {
        return html! {
            g class=(class(series)) fill="none" stroke-width="2" {
                title { (series.name) }
                @for (x, y) in places.flatten() { circle cx=(number(x)) cy=(number(y)) r="3" {} }
            }
        };
    }
    html! {
        path class={ "curve " (class(series)) } d=(path(places, series.form == Form::Steps)) { title { (series.name) } }
    }
}

/// Path commands; a point without a place breaks the line.
fn path(places: impl Iterator<Item = Option<(f64, f64)>>, steps: bool) -> String {
    let mut commands = String::new();
    let mut last: Option<(f64, f64)> = None;
    // The newest point that was too near to be drawn: it still ends the line.
    let mut pending = None;
    for place in places {
        let Some((x, y)) = place else {
            push(&mut commands, &mut last, pending.take(), steps);
            last = None;
            continue;
        };
        let near = last.is_some_and(|(lx, ly)| (x - lx).abs() < THINNING && (y - ly).abs() < THINNING);
        pending = Some((x, y));
        if !near {
            push(&mut commands, &mut last, pending.take(), steps);
        }
    }
    push(&mut commands, &mut last, pending, steps);
    commands
}

fn push(commands: &mut String, last: &mut Option<(f64, f64)>, point: Option<(f64, f64)>, steps: bool) {
    let Some((x, y)) = point else { return };
    let (px, py) = (number(x), number(y));
    commands.push_str(&match last {
        None => format!("M{px} {py}"),
        Some(_) if steps => format!("H{px}V{py}"),
        Some(_) => format!("L{px} {py}"),
    });
    *last = Some((x, y));
}

fn span(area: &Area, mark: &Mark) -> Markup {
    let Mark::Span { from, to, label } = mark else { return html! {} };
    let Some((left, right)) = area.x(*from).zip(area.x(*to)) else { return html! {} };
    html! {
        rect.span x=(number(left)) y=(number(area.top)) width=(number((right - left).max(0.0))) height=(number(PLOT_HEIGHT)) {}
        text x=(number(left + 5.0)) y=(number(area.top + 14.0)) { (label) }
    }
}

fn line(area: &Area, mark: &Mark) -> Markup {
    let (left, right, bottom) = (LEFT, WIDTH - RIGHT, area.bottom());
    match mark {
        Mark::AtX { x, label } => {
            let Some(x) = area.x(*x) else { return html! {} };
            // The label is on the side with more room.
            let (at, anchor) = if x > f64::midpoint(left, right) { (x - 5.0, "end") } else { (x + 5.0, "start") };
            html! {
                line.mark x1=(number(x)) x2=(number(x)) y1=(number(area.top)) y2=(number(bottom)) {}
                text x=(number(at)) y=(number(bottom - 7.0)) text-anchor=(anchor) { (label) }
            }
        }
        Mark::AtY { y, label } => {
            let Some(y) = area.y(*y) else { return html! {} };
            html! {
                line.mark x1=(number(left)) x2=(number(right)) y1=(number(y)) y2=(number(y)) {}
                text x=(number(right - 4.0)) y=(number(y - 5.0)) text-anchor="end" { (label) }
            }
        }
        Mark::Point { x, y, label } => {
            let Some((x, y)) = area.x(*x).zip(area.y(*y)) else { return html! {} };
            html! {
                circle.ring cx=(number(x)) cy=(number(y)) r="5" { title { (label) } }
                text x=(number(x + 9.0)) y=(number(y + 4.0)) { (label) }
            }
        }
        Mark::Span { .. } => html! {},
    }
}

fn class(series: &Series) -> String {
    format!("s{}", series.colour % COLOURS)
}

/// A coordinate to a tenth of a unit.
fn number(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Chart, Form, Mark, Scale, Unit};
    use super::*;

    fn chart(points: Vec<(f64, f64)>, form: Form) -> Chart {
        let axis = |label: &str| Axis::new(label, Scale::Linear, Unit::Plain).between(0.0, 10.0);
        Chart::new("title", axis("x"), axis("y")).with("series", form, points)
    }

    fn path_of(svg: &str) -> &str {
        let start = svg.find(" d=\"").unwrap() + 4;
        &svg[start..start + svg[start..].find('"').unwrap()]
    }

    #[test]
    fn points_stand_where_the_axes_say() {
        let svg = chart(vec![(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)], Form::Line).to_svg();
        // One row of legend: the plot begins at 56 and ends at 326; across from 76 to 742.
        assert_eq!(path_of(&svg), "M76 326L409 56L742 191");
        assert!(svg.contains("<path class=\"curve s0\""), "{svg}");
        let steps = chart(vec![(0.0, 0.0), (5.0, 10.0)], Form::Steps).to_svg();
        assert_eq!(path_of(&steps), "M76 326H409V56");
        let dots = chart(vec![(0.0, 0.0), (10.0, 10.0)], Form::Points).to_svg();
        assert!(dots.contains("cx=\"742\" cy=\"56\""), "{dots}");
    }

    #[test]
    fn a_gap_breaks_the_line_and_the_outside_is_cut_off() {
        let svg = chart(vec![(0.0, 0.0), (1.0, 0.0), (2.0, f64::NAN), (3.0, 0.0), (4.0, 1e9)], Form::Line).to_svg();
        assert_eq!(path_of(&svg).matches('M').count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(path_of(&svg).ends_with("L342.4 55.7"), "{}", path_of(&svg));
    }

    #[test]
    fn many_points_are_thinned_and_the_ends_stay() {
        let points: Vec<(f64, f64)> = (0..=100_000).map(|i| (f64::from(i) / 1e4, f64::from(i) / 1e4)).collect();
        let svg = chart(points, Form::Line).to_svg();
        assert!(svg.len() < 60_000, "{}", svg.len());
        assert!(path_of(&svg).starts_with("M76 326") && path_of(&svg).ends_with("L742 56"));
    }

    #[test]
    fn text_is_escaped_and_marks_are_labelled() {
        let mut chart = chart(vec![(1.0, 1.0)], Form::Line);
        chart.title = "<a & b>".into();
        let svg = chart
            .mark(Mark::AtY { y: 5.0, label: "SLO".into() })
            .mark(Mark::AtX { x: 9.0, label: "end".into() })
            .mark(Mark::Span { from: 1.0, to: 2.0, label: "solo".into() })
            .mark(Mark::Point { x: 3.0, y: 4.0, label: "paper".into() })
            .to_svg();
        assert!(svg.contains("&lt;a &amp; b&gt;") && !svg.contains("<a &"));
        for label in [">SLO<", ">end<", ">solo<", ">paper<"] {
            assert!(svg.contains(label), "{label}");
        }
    }

    #[test]
    fn a_file_has_its_style_and_a_part_has_not() {
        let chart = chart(vec![], Form::Line);
        assert!(chart.to_svg_file().contains("prefers-color-scheme"));
        assert!(!chart.to_svg().contains("<style"));
    }

    #[test]
    fn long_legends_take_more_rows() {
        let mut many = chart(vec![], Form::Line);
        let low = legend(&many.series).height;
        for number in 0..12 {
            many = many.with(format!("a rather long name {number}"), Form::Line, vec![]);
        }
        assert!(legend(&many.series).height >= 3.0 * low);
    }
}
