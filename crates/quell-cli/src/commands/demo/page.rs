//! The demo's HTML page.

use quell_bench::figures::{latency_timeline, work_timeline};
use quell_report::chart::latency_chart;
use quell_report::page::{Block, Page, Row};

use super::result::{DemoReport, HEADS, PhaseResult};

impl DemoReport {
    /// The whole page.
    pub fn page(&self) -> String {
        let phases = || self.phases.iter().enumerate();
        let firsts =
            || phases().filter_map(|(colour, phase)| Some((phase.title.as_str(), colour, phase.runs.first()?)));
        let rows = phases().map(|(colour, phase)| Row { colour: Some(colour), cells: phase.row() }).collect();
        let mut blocks = vec![
            Block::Table { head: HEADS.map(String::from).to_vec(), rows },
            Block::Text(self.result.clone()),
            Block::Notes(self.findings().into_iter().chain(self.meanings()).collect()),
            Block::Chart(latency_chart(
                firsts().map(|(name, colour, run)| (name, colour, &run.load.latency.histogram)),
            )),
            Block::Chart(latency_timeline(
                firsts().map(|(name, colour, run)| (name, colour, run.load.timeline.as_slice())),
            )),
            Block::Chart(work_timeline(firsts().filter_map(|(name, colour, run)| {
                run.antagonist.as_ref().map(|antagonist| (name, colour, run.load.started_ns, antagonist))
            }))),
        ];
        for phase in self.measured().filter(|phase| !phase.runs[0].decisions.is_empty()) {
            blocks.push(Block::Heading(format!("What {} decided", phase.title)));
            blocks.push(Block::Notes(decisions(phase)));
        }
        let remarks: Vec<String> = self.busy.iter().chain(&self.skipped).cloned().chain(self.caveats()).collect();
        if !remarks.is_empty() {
            blocks.push(Block::Heading("Caveats".into()));
            blocks.push(Block::Notes(remarks));
        }
        let page = Page {
            title: "Quell: a latency-critical server and its neighbours".into(),
            subtitle: self.machine.join("; "),
            blocks,
        };
        page.to_html()
    }
}

fn decisions(phase: &PhaseResult) -> Vec<String> {
    phase.runs[0].decisions.iter().map(|(at, text)| format!("{at:.3} s  {text}")).collect()
}
