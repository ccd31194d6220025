//! Content of the view, and effects of keys. No terminal here.

use std::collections::{BTreeMap, VecDeque};

use quell_agent::api::wire::{Class, Configured, Decision, State, Status, Workload};
use quell_model::Signal;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::course::Course;
use crate::commands::cells;

/// The order of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Latency-critical first, then by name.
    Class,
    /// First the workload with the most CPU time.
    Cpu,
    /// First the workload whose latency is nearest to its bound, or beyond it.
    Slo,
}

impl Order {
    /// Its name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Order::Class => "class",
            Order::Cpu => "CPU",
            Order::Slo => "SLO",
        }
    }
}

/// Looks that a workload's history goes back.
pub const HISTORY: usize = 120;

/// A workload's numbers at the last samples, oldest first; unmeasured ones are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// CPUs that it got.
    pub cpus_used: VecDeque<f64>,
    /// Its latency as a multiple of the latency to keep.
    pub slo_ratio: VecDeque<f64>,
    /// Its latency since the first one, ns.
    pub latency: Course<f64>,
    /// Its threads without a CPU since the first look, on average.
    pub waiting: Course<f64>,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The view ends.
    Quit,
    /// It is drawn again.
    Draw,
}

/// Content of the view.
pub struct Model {
    /// The last status that came.
    pub status: Status,
    /// The workloads' histories, by name.
    pub histories: BTreeMap<String, History>,
    /// The CPUs that each workload got, since the first look.
    pub holders: Course<BTreeMap<String, f64>>,
    /// The reason why no further status arrives.
    pub problem: Option<String>,
    /// The part of a CPU that the agent used between the last two.
    pub agent_cpus: Option<f64>,
    /// Nothing is asked for.
    pub paused: bool,
    /// The help is shown.
    pub help: bool,
    /// The workloads' order.
    pub order: Order,
    /// Only the chosen workload's decisions are shown.
    pub only_chosen: bool,
    /// Only workloads whose name contains this are shown.
    pub filter: String,
    /// The filter that is being typed.
    pub typing: Option<String>,
    chosen: Option<String>,
}

impl Model {
    /// Shows this status.
    pub fn new(mut status: Status) -> Model {
        add_absent(&mut status);
        let mut model = Model {
            status,
            histories: BTreeMap::new(),
            holders: Course::default(),
            problem: None,
            agent_cpus: None,
            paused: false,
            help: false,
            order: Order::Class,
            only_chosen: false,
            filter: String::new(),
            typing: None,
            chosen: None,
        };
        model.begin();
        model.remember();
        model
    }

    /// Takes the next status, or why there is none.
    pub fn take(&mut self, next: Result<Status, String>) {
        match next {
            Ok(mut next) => {
                add_absent(&mut next);
                let span = next.now_ns.saturating_sub(self.status.now_ns) as f64 / 1e9;
                let used = next.agent.cpu_seconds - self.status.agent.cpu_seconds;
                self.agent_cpus = (span > 0.0 && used >= 0.0).then_some(used / span);
                self.status = next;
                self.problem = None;
                self.remember();
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The courses begin with what was seen when the agent decided, as far as it still knows.
    fn begin(&mut self) {
        for decision in self.status.decisions.iter().rev() {
            let Some(name) = &decision.workload else { continue };
            let (history, seen) = (self.histories.entry(name.clone()).or_default(), decision.observed);
            if let Some(latency) = seen.latency_ns {
                history.latency.push(decision.at_ns, latency as f64, larger);
            }
            if let Some(waiting) = seen.threads_waiting {
                history.waiting.push(decision.at_ns, waiting, larger);
            }
        }
    }

    fn remember(&mut self) {
        let push = |numbers: &mut VecDeque<f64>, number: Option<f64>| {
            let Some(number) = number else { return };
            if numbers.len() == HISTORY {
                numbers.pop_front();
            }
            numbers.push_back(number);
        };
        let workloads = &self.status.workloads;
        self.histories.retain(|name, _| workloads.iter().any(|workload| workload.name == *name));
        for workload in workloads {
            let history = self.histories.entry(workload.name.clone()).or_default();
            push(&mut history.cpus_used, workload.cpus_used.map(|got| got.value));
            push(&mut history.slo_ratio, workload.slo_ratio);
            if let Some(latency) = workload.measured.get(Signal::Latency) {
                history.latency.push(self.status.now_ns, latency.value, larger);
            }
            if let Some(waiting) = workload.threads_waiting {
                history.waiting.push(self.status.now_ns, waiting.value, larger);
            }
        }
        let got = workloads.iter().filter_map(|workload| Some((workload.name.clone(), workload.cpus_used?.value)));
        self.holders.push(self.status.now_ns, got.collect(), |_, later| later.clone());
    }

    /// A workload's name, and its state unless it is attached.
    pub fn name(&self, workload: &Workload) -> String {
        let mut configured = self.status.configured.iter().filter(|configured| configured.state != State::Attached);
        match configured.find(|configured| configured.name == workload.name) {
            Some(configured) => format!("{} ({})", workload.name, cells::state(configured, self.status.now_ns)),
            None if self.is_overridden(workload) => format!("! {}", workload.name),
            None if self.is_leased(workload) => format!("{} (leased)", workload.name),
            None => workload.name.clone(),
        }
    }

    /// Is it leased by a caller?
    fn is_leased(&self, workload: &Workload) -> bool {
        let mut leased = self.status.configured.iter().filter(|configured| configured.leased_by.is_some());
        leased.any(|configured| configured.name == workload.name)
    }

    /// Did another program change what Quell set on it, or does its class go to and fro?
    fn is_overridden(&self, workload: &Workload) -> bool {
        let mut configured = self.status.configured.iter().filter(|configured| configured.name == workload.name);
        configured.any(|configured| configured.overridden.is_some()) || cells::is_flapping(workload)
    }

    /// The workloads in order.
    pub fn workloads(&self) -> Vec<&Workload> {
        let mut workloads: Vec<&Workload> = self.status.workloads.iter().collect();
        let filter = self.typing.as_ref().unwrap_or(&self.filter);
        workloads.retain(|workload| workload.name.contains(filter.as_str()));
        let got = |workload: &Workload| workload.cpus_used.map_or(0.0, |got| got.value);
        let strain = |workload: &Workload| workload.slo_ratio.unwrap_or(-1.0);
        workloads.sort_by(|a, b| {
            let by_class = (a.class != Class::Lc).cmp(&(b.class != Class::Lc)).then_with(|| a.name.cmp(&b.name));
            match self.order {
                Order::Class => by_class,
                Order::Cpu => got(b).total_cmp(&got(a)).then(by_class),
                Order::Slo => strain(b).total_cmp(&strain(a)).then(by_class),
            }
        });
        workloads
    }

    /// Place of the chosen workload in the order.
    pub fn chosen(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.workloads().iter().position(|workload| workload.name == *chosen)
    }

    /// The chosen workload's name.
    pub fn chosen_name(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// The decisions to show, newest first.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        let only = self.chosen.as_ref().filter(|_| self.only_chosen);
        self.status.decisions.iter().filter(move |d| only.is_none() || d.workload.as_ref() == only)
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Then {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Then::Quit;
        }
        if let Some(typed) = self.typing.take() {
            self.typed(typed, key.code);
            return Then::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if self.only_chosen => self.only_chosen = false,
            KeyCode::Esc if self.chosen.is_some() => self.chosen = None,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc => return Then::Quit,
            KeyCode::Char('/') => self.typing = Some(self.filter.clone()),
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Class => Order::Cpu,
                    Order::Cpu => Order::Slo,
                    Order::Slo => Order::Class,
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Enter if self.chosen.is_some() => self.only_chosen = !self.only_chosen,
            _ => {}
        }
        Then::Draw
    }

    /// A key while the filter is being typed.
    fn typed(&mut self, mut typed: String, key: KeyCode) {
        match key {
            KeyCode::Enter => return self.filter = typed,
            KeyCode::Esc => return self.filter.clear(),
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            _ => {}
        }
        self.typing = Some(typed);
    }

    fn choose(&mut self, step: isize) {
        let workloads = self.workloads();
        let Some(last) = workloads.len().checked_sub(1) else { return };
        let next = match self.chosen() {
            Some(at) => at.saturating_add_signed(step).min(last),
            None if step < 0 => last,
            None => 0,
        };
        self.chosen = Some(workloads[next].name.clone());
    }
}

/// Of two neighbours the peak stays.
fn larger(a: &f64, b: &f64) -> f64 {
    a.max(*b)
}

/// The workloads that are not attached are shown too, with nothing measured.
fn add_absent(status: &mut Status) {
    let absent: Vec<Workload> = status.absent().map(Configured::unmeasured).collect();
    status.workloads.extend(absent);
}
