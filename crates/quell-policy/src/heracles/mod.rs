//! `heracles`: best-effort work grows beside a service as long as its latency has slack and memory has bandwidth (Lo, Cheng,
//! Govindaraju, Ranganathan and Kozyrakis, "Heracles: Improving Resource Efficiency at Scale", ISCA 2015, Algorithms 1 and
//! 2; as a baseline snu2020 §3.5).
//!
//! Every 15 s the top-level controller (`top`) looks at latency and load: it switches best-effort work off or on, and
//! allows or forbids that it grows. Every 2 s the core and memory controller (`memory`) gives it ways and cores, or takes
//! cores away above 90 % of the peak bandwidth. The service has all other cores and ways. Without a new report of latency
//! nothing changes.
//!
//! Left out: Algorithm 3 (power: frequency by RAPL) and Algorithm 4 (network); `frequency = true` has snu2020's frequency
//! controller, which goes by bandwidth. With several services the least slack counts.

mod config;
mod invariants;
mod memory;
#[cfg(test)]
mod tests;
mod top;

use quell_model::view::at;
use quell_model::{
    CpuSet, Description, Event, Key, Knob, KnobKind, KnobSetting, Nanos, Need, NoteKind, Outcome, Part, Plan, Policy,
    Refusal, Signal, Target, Uses, Verdict, View, Wake,
};
use serde::{Deserialize, Serialize};

use crate::kit::once::Once;
use crate::kit::periodic::Periodic;
use crate::kit::wanted::Wanted;

pub use config::{Form, HeraclesConfig};
use memory::{Memory, Seen, Step};
use top::Allowed;

/// Best-effort work's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Share {
    /// Is it on?
    on: bool,
    cores: u32,
    ways: u32,
    /// Highest frequency; None: no limit.
    khz: Option<u32>,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heracles {
    config: HeraclesConfig,
    share: Share,
    can_grow: bool,
    slack: f64,
    memory: Memory,
    off_until: Nanos,
    /// Time of the last report that was judged.
    reported: Nanos,
    wanted: Wanted,
    /// The part and the CPUs whose settings were stated last, and whether best-effort work was paused.
    stated: Option<(Share, CpuSet, bool)>,
    /// The plan with ways or frequencies; a host that refuses it has none.
    hardware_plan: Option<u64>,
    has_ways: bool,
    has_frequency: bool,
    top: Periodic,
    sub: Periodic,
    said_absent: Once,
    said_no_peak: Once,
}

impl Heracles {
    /// The policy.
    #[must_use]
    pub fn new(config: HeraclesConfig) -> Heracles {
        Heracles {
            has_frequency: config.frequency,
            config,
            share: Share::default(),
            can_grow: false,
            slack: 0.0,
            memory: Memory::default(),
            off_until: Nanos::ZERO,
            reported: Nanos::ZERO,
            wanted: Wanted::default(),
            stated: None,
            hardware_plan: None,
            has_ways: true,
            top: Periodic::default(),
            sub: Periodic::default(),
            said_absent: Once::default(),
            said_no_peak: Once::default(),
        }
    }

    /// Its name and its needs.
    pub const DESCRIPTION: Description = Description {
        name: "heracles",
        summary: "lets best-effort work grow beside a service by latency slack, load and memory bandwidth",
        source: "Heracles: Lo et al., ISCA 2015, Algorithms 1 and 2; snu2020 §3.5",
        interval: Nanos::from_secs(2),
        signals: &[
            Need::must(Signal::Latency),
            Need::or(Signal::RequestRate, "load is not asked"),
            Need::or(Signal::MemoryBandwidth, "best-effort work gets cores by slack alone"),
            Need::or(Signal::WorkloadBandwidth, "bandwidth of best-effort work is taken for all of it"),
            Need::or(Signal::InstructionRate, "whether best-effort work gains by a way is not asked"),
        ],
        knobs: &[
            Need::must(KnobKind::Cpus),
            Need::must(KnobKind::Pause),
            Need::or(KnobKind::CacheWays, "the cache is not divided"),
            Need::or(KnobKind::MaxFrequencyKhz, "`frequency = true` has no effect"),
        ],
        rules: &[],
        keys: &[Uses::critical(Key::Slo)],
        grants: false,
    };

    /// Cores and ways of best-effort work; None: it is off.
    #[must_use]
    pub fn best_effort(&self) -> Option<(u32, u32)> {
        self.share.on.then_some((self.share.cores, self.share.ways))
    }

    /// Algorithm 1.
    fn look(&mut self, view: &View, plan: &mut Plan) {
        let Some((slack, at)) = slack(view) else {
            // At the first step no client can have reported.
            if self.stated.is_some() && self.said_absent.first() {
                plan.note(NoteKind::Warning, None, "no application latency with an SLO is reported: nothing changes");
            }
            return;
        };
        if at <= self.reported {
            return;
        }
        self.said_absent.forget();
        (self.reported, self.slack) = (at, slack);
        let load = self.load(view);
        if load.is_none() && self.said_no_peak.first() {
            plan.note(NoteKind::Warning, None, "no peak_rate, or no request rate: load is not asked");
        }
        let before = self.share;
        let allowed = top::allowed(slack, load, self.share.on, &self.config);
        match allowed {
            Some(Allowed::OffForCooldown) => {
                self.off_until = view.now + self.config.cooldown;
                self.switch_off();
            }
            Some(Allowed::Off) => self.switch_off(),
            Some(_) if view.now < self.off_until => {}
            Some(allowed) => {
                self.can_grow = allowed == Allowed::Grow;
                if !self.share.on {
                    self.switch_on(view);
                }
                if allowed == Allowed::Shrink {
                    self.share.cores = self.share.cores.min(self.config.cores_left);
                }
            }
            None => {}
        }
        if before.on != self.share.on {
            let text = if self.share.on {
                "slack and load allow best-effort work"
            } else {
                "latency or load: best-effort work is off"
            };
            plan.note(NoteKind::Because, None, text);
        }
    }

    fn switch_off(&mut self) {
        self.can_grow = false;
        self.share.on = false;
    }

    /// §4.3: one core and a tenth of the LLC.
    fn switch_on(&mut self, view: &View) {
        let ways = view
            .controls
            .ways()
            .map_or(0, |(ways, least)| ((f64::from(ways) * self.config.first_ways) as u32).clamp(least, ways - least));
        self.share = Share { on: true, cores: 1, ways, khz: None };
        self.memory = Memory::default();
    }

    /// The highest load of a service, 0–1.
    fn load(&self, view: &View) -> Option<f64> {
        let services = view.owned().filter(|(_, spec)| spec.is_lc());
        let rates = services.filter_map(|(id, _)| at(&view.workloads.request_rate, id.index()).usable());
        rates.reduce(f64::max).filter(|_| self.config.peak_rate > 0.0).map(|rate| rate / self.config.peak_rate)
    }

    /// Algorithm 2.
    fn act(&mut self, view: &View, plan: &mut Plan) {
        if !self.share.on {
            return;
        }
        let most_cores = (view.pool().len() as u32).saturating_sub(1).max(1);
        let Some(seen) = seen(view) else {
            // Without bandwidth: by slack alone.
            if self.can_grow && self.slack > self.config.slack_grow {
                self.share.cores = (self.share.cores + 1).min(most_cores);
            }
            return;
        };
        let most_ways = view.controls.ways().map_or(0, |(ways, least)| ways - least);
        match self.memory.step(seen, self.share.cores, self.can_grow, self.slack, &self.config) {
            Step::None => self.faster(view),
            Step::Lose(_) if self.slower(view) => {
                plan.note(
                    NoteKind::Because,
                    None,
                    "memory bandwidth is above its limit: frequency of best-effort work",
                );
            }
            Step::Lose(cores) => {
                self.share.cores = self.share.cores.saturating_sub(cores).max(1);
                plan.note(NoteKind::Because, None, "memory bandwidth is above its limit: best-effort work loses cores");
            }
            Step::Way if self.share.ways >= most_ways || !self.has_ways => self.memory.has_no_way(),
            Step::Way => self.share.ways += 1,
            Step::WayBack => self.share.ways -= 1,
            Step::Core => self.share.cores = (self.share.cores + 1).min(most_cores),
        }
    }

    /// A step of frequency less; false: there is none, or frequencies are not set.
    fn slower(&mut self, view: &View) -> bool {
        let Some((low, high, step)) = self.range(view) else { return false };
        let then = self.share.khz.unwrap_or(high).saturating_sub(step);
        if then < low {
            return false;
        }
        self.share.khz = Some(then);
        true
    }

    fn faster(&mut self, view: &View) {
        if let (Some((_, high, step)), Some(khz), true) = (self.range(view), self.share.khz, self.can_grow) {
            self.share.khz = Some(khz + step).filter(|then| *then < high);
        }
    }

    fn range(&self, view: &View) -> Option<(u32, u32, u32)> {
        let range = view.controls.frequencies_of(&view.pool()).filter(|_| self.has_frequency);
        range.map(|(low, high, step)| (low, high, if step > 0 { step } else { (high - low.min(high)) / 10 }))
    }

    /// Is best-effort work paused? Without a service there is none to be kept from harm, and it has all.
    fn is_off(&self, view: &View) -> bool {
        !self.share.on && view.owned().any(|(_, spec)| spec.is_lc())
    }

    /// All settings.
    fn settings(&mut self, view: &View) -> Vec<KnobSetting> {
        let pool = view.pool();
        let all = pool.len() as u32;
        self.share.cores = self.share.cores.clamp(1, all.saturating_sub(1).max(1));
        let mut best_effort = CpuSet::EMPTY;
        for core in view.topology.cores().iter().rev() {
            let room = (self.share.cores as usize).saturating_sub(best_effort.len());
            core.intersection(&pool).iter().take(room).for_each(|cpu| best_effort.insert(cpu));
        }
        let rest = pool.difference(&best_effort);
        let (own, rest) = if self.share.on && !rest.is_empty() { (best_effort, rest) } else { (pool, pool) };
        let is_off = self.is_off(view);
        let mut settings = Vec::new();
        let mut set = |target, knob| settings.push(KnobSetting { target, knob });
        for (id, spec) in view.owned().filter(|_| !pool.is_empty()) {
            let cpus = if spec.is_lc() { rest } else { own };
            set(Target::Workload(id), Knob::Cpus(view.within_or_any(id, &cpus)));
            if !spec.is_lc() {
                set(Target::Workload(id), Knob::Pause(is_off));
            }
        }
        if let (true, Some((ways, _))) = (self.has_ways, view.controls.ways()) {
            let row = u32::MAX >> (32 - ways.clamp(1, 32));
            let low = u32::MAX.checked_shr(32 - self.share.ways.min(ways)).unwrap_or(0);
            let apart = self.share.on && self.share.ways > 0;
            for (id, spec) in view.owned() {
                let mask = match (apart, spec.is_lc()) {
                    (false, _) => row,
                    (true, true) => row & !low,
                    (true, false) => low,
                };
                set(Target::Workload(id), Knob::CacheWays(mask));
            }
        }
        if self.has_frequency {
            for cpu in pool.iter() {
                let Some(control) = view.controls.frequency_of(cpu) else { continue };
                let limit = self.share.khz.filter(|_| own.contains(cpu) && self.share.on).unwrap_or(u32::MAX);
                set(
                    Target::Cpu(cpu),
                    Knob::MaxFrequencyKhz(limit.clamp(control.min_khz, control.max_khz.max(control.min_khz))),
                );
            }
        }
        settings
    }

    /// A host without CAT or cpufreq refuses the whole plan: without them from then on.
    fn handle(&mut self, view: &View, events: &[Event], plan: &mut Plan) {
        for event in events {
            if let Event::Outcome(Outcome { plan: number, part: Part::Knobs, verdict: Verdict::Refused(why) }) = event
                && Some(*number) == self.hardware_plan
                && matches!(why, Refusal::Unsupported(_))
            {
                // Ways first, then frequencies.
                if self.has_ways { self.has_ways = false } else { self.has_frequency = false }
            }
            self.wanted.handle(view.now, event, plan);
        }
    }
}

/// The least slack of all services with an SLO, and the time of its report.
fn slack(view: &View) -> Option<(f64, Nanos)> {
    let services = view.owned().filter(|(_, spec)| spec.is_lc() && spec.slo.is_some());
    let mut least: Option<(f64, Nanos)> = None;
    for (id, spec) in services {
        let report = at(&view.workloads.latency, id.index());
        let (latency, target) = (report.usable()?, spec.slo?.bound.0.max(1) as f64);
        let slack = (target - latency.0 as f64) / target;
        least = Some(least.filter(|(known, _)| *known <= slack).unwrap_or((slack, report.at)));
    }
    least
}

/// The bandwidth of all and of best-effort work.
fn seen(view: &View) -> Option<Seen> {
    let total = view.machine.memory_bandwidth.usable()?.0;
    let best_effort = || view.owned().filter(|(_, spec)| !spec.is_lc()).map(|(id, _)| id.index());
    let each = best_effort().map(|slot| at(&view.workloads.memory_bandwidth, slot).usable().map(|rate| rate.0));
    let done = best_effort().map(|slot| at(&view.workloads.instruction_rate, slot).usable());
    Some(Seen { total, best_effort: each.sum::<Option<f64>>().unwrap_or(total), done: done.sum() })
}

impl Policy for Heracles {
    fn describe(&self) -> &'static Description {
        &Self::DESCRIPTION
    }

    fn step(&mut self, view: &View, events: &[Event], plan: &mut Plan) -> Wake {
        self.handle(view, events, plan);
        // A service that comes later finds it off, whatever the one before allowed.
        if self.share.on && !view.owned().any(|(_, spec)| spec.is_lc()) {
            self.switch_off();
            self.slack = 0.0;
        }
        let comes_or_goes = |event: &Event| {
            matches!(
                event,
                Event::Attached(_) | Event::Detached(_) | Event::Online(_) | Event::Offline(_) | Event::Allowed(_)
            )
        };
        let is_top = self.top.is_due(view.now, self.config.interval);
        let is_sub = self.sub.is_due(view.now, self.config.subinterval);
        if is_top {
            self.look(view, plan);
        }
        if is_sub {
            self.act(view, plan);
        }
        let is_news = self.stated != Some((self.share, view.pool(), self.is_off(view)));
        if is_news || self.wanted.is_due(view.now) || events.iter().any(comes_or_goes) {
            let settings = self.settings(view);
            self.stated = Some((self.share, view.pool(), self.is_off(view)));
            self.wanted.want(settings, plan);
            let hardware =
                |setting: &KnobSetting| matches!(setting.knob, Knob::CacheWays(_) | Knob::MaxFrequencyKhz(_));
            if plan.knobs.iter().any(hardware) {
                self.hardware_plan = Some(plan.number);
            }
        }
        self.top.wake().sooner(self.sub.wake()).sooner(self.wanted.wake())
    }
}
