//! What the view shows, and what keys change. No terminal here.

use quell_agent::api::wire::{Class, Decision, Status, Workload};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The order of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Latency-critical first, then by name.
    Class,
    /// Who got most CPU first.
    Cpu,
    /// Whose latency is nearest to its bound, or beyond it, first.
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

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The view ends.
    Quit,
    /// It is drawn again.
    Draw,
}

/// What the view shows.
pub struct Model {
    /// The last status that came.
    pub status: Status,
    /// Why none comes any more.
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
    chosen: Option<String>,
}

impl Model {
    /// Shows this status.
    pub fn new(status: Status) -> Model {
        Model {
            status,
            problem: None,
            agent_cpus: None,
            paused: false,
            help: false,
            order: Order::Class,
            only_chosen: false,
            chosen: None,
        }
    }

    /// Takes the next status, or why there is none.
    pub fn take(&mut self, next: Result<Status, String>) {
        match next {
            Ok(next) => {
                let span = next.now_ns.saturating_sub(self.status.now_ns) as f64 / 1e9;
                let used = next.agent.cpu_seconds - self.status.agent.cpu_seconds;
                self.agent_cpus = (span > 0.0 && used >= 0.0).then_some(used / span);
                self.status = next;
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The workloads in order.
    pub fn workloads(&self) -> Vec<&Workload> {
        let mut workloads: Vec<&Workload> = self.status.workloads.iter().collect();
        let got = |workload: &Workload| workload.cpus_got.map_or(0.0, |got| got.value);
        let strain = |workload: &Workload| match (workload.latency_ns, workload.slo) {
            (Some(latency), Some(slo)) => latency.value / slo.bound_ns.max(1) as f64,
            _ => -1.0,
        };
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

    /// Where the chosen workload stands in the order.
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
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Then::Quit,
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if self.only_chosen => self.only_chosen = false,
            KeyCode::Esc if self.chosen.is_some() => self.chosen = None,
            KeyCode::Esc => return Then::Quit,
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
