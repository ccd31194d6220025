//! A page that shows rows: a table, and a bar for each value with the expected one marked.

use std::fmt::Write;

use crate::row::{Row, Verdict};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{padding:.4rem .6rem;border-bottom:1px solid #ccc;text-align:left;\
vertical-align:top}.n{text-align:right;font-variant-numeric:tabular-nums}small{color:#555}\
.reproduced{color:#137333}.shape{color:#8a5a00}.differs{color:#b3261e;font-weight:bold}.not-run{color:#555}";

/// An HTML page of these rows, complete in itself.
#[must_use]
pub fn page(title: &str, rows: &[Row]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>\
         <h1>{title}</h1><p>Bars are ours; the mark is the value claimed.</p>\
         <table><tr><th>claim<th>source<th class=n>claimed<th class=n>ours<th class=n>ratio<th><th>verdict</tr>\n",
        title = escaped(title)
    );
    for row in rows {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        let class = match row.verdict {
            Verdict::Reproduced => "reproduced",
            Verdict::Shape => "shape",
            Verdict::Differs => "differs",
            Verdict::NotRun => "not-run",
        };
        let source = row.claim.source;
        writeln!(
            html,
            "<tr><td><b>{}</b><br>{}<br><small>{}</small><td>{}<br><small>{}</small><td class=n>{:.3}<td class=n>{}\
             <td class=n>{}<td>{}<td class={class}>{}</tr>",
            escaped(row.claim.id),
            escaped(row.claim.statement),
            escaped(&row.note),
            escaped(source.text),
            escaped(source.place),
            row.claim.expected.value(),
            number(row.ours),
            number(row.ratio()),
            row.ours.map_or(String::new(), |ours| bar(ours, row.claim.expected.value())),
            row.verdict,
        )
        .expect("writing to a string cannot fail");
    }
    html.push_str("</table></html>\n");
    html
}

/// A bar as long as our value, with the expected value marked.
fn bar(ours: f64, expected: f64) -> String {
    let full = ours.abs().max(expected.abs()).max(f64::MIN_POSITIVE);
    let x = |value: f64| 150.0 * (value / full).clamp(0.0, 1.0);
    format!(
        "<svg width=160 height=16 role=img><title>ours {ours:.3}, claimed {expected:.3}</title><rect x=1 y=4 \
         width={:.1} height=8 fill=\"#4a7ebb\"/><line x1={mark:.1} x2={mark:.1} y1=0 y2=16 stroke=\"#b3261e\" \
         stroke-width=2 /></svg>",
        x(ours),
        mark = 1.0 + x(expected)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::gap;

    #[test]
    fn a_page_shows_every_row_and_lets_no_text_become_markup() {
        let rows = [Row::measured(&gap::BURSTABLE, 0.66, "<b>"), Row::not_run(&gap::BURSTABLE3, "needs 3 CPUs")];
        let page = page("a & b", &rows);
        for part in ["a &amp; b", "gap.burstable3", "needs 3 CPUs", "&lt;b&gt;", "not run"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg").count(), 1);
    }
}
