//! The agent under test: what `quell run` and `quell restore` do, without their command lines.

use std::path::Path;

use quell_agent::config;
use quell_agent::guardian::{self, News, Options, RunDir, Site, Stale, put_back_journal};
use quell_agent::run::extras::host_options;
use quell_agent::run::{Agent, Extras};
use quell_linux::{LinuxHost, Roots};

use super::hardware;

pub fn run(directory: &str, path: &str) -> u8 {
    let config = config::read(Path::new(path)).expect("a good configuration");
    let claim = RunDir::at(directory.into()).and_then(|directory| directory.claim("agent")).expect("no other agent");
    let mut options = Options::new(claim);
    let hardware = hardware::site();
    options.site = hardware.clone().unwrap_or_default();
    options.news = Box::new(|news: News<'_>| match news {
        News::Died { how, report } => println!("{how}: {}", report.summary()),
        News::Hung(why) => {
            println!("hung: {why}");
            if !workers_die() {
                println!("{REPORTED_TOO_EARLY}");
            }
        }
        _ => {}
    });
    let ending = guardian::supervise(options, &mut |worker, journal| {
        let Ok(()) = worker.stop_on_signals() else { return 2 };
        if let Some(site) = &hardware {
            return hardware::turn(worker, journal, &config, site);
        }
        let options = host_options(&config, &Extras::default());
        let host = LinuxHost::new(Roots::default(), options).expect("a machine").with_journal(journal);
        let mut agent = Agent::new(host, config.clone(), Extras::default()).expect("the policies work here");
        agent.run(Some(worker), worker.stop()).map_or(3, |_| 0)
    });
    match ending {
        Ok(ending) => {
            for left in &ending.report.left {
                println!("left: {} {} {}", left.place, left.now, left.why);
            }
            ending.exit_status()
        }
        Err(error) => {
            println!("{error}");
            4
        }
    }
}

/// What the agent says if it reports a hung worker before that was killed.
pub const REPORTED_TOO_EARLY: &str = "reported before it was killed";

/// Do all children of this process die, or are they about to, while it does nothing? It waits for that.
fn workers_die() -> bool {
    let is_dying = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
        let is_killed = |name| u64::from_str_radix(&field(name), 16).is_ok_and(|pending| pending >> 8 & 1 == 1);
        status.is_empty() || field("State:").starts_with(['Z', 'X']) || is_killed("SigPnd:") || is_killed("ShdPnd:")
    };
    let own = std::process::id();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while std::time::Instant::now() < end {
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        if children.split_whitespace().all(is_dying) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    false
}

pub fn restore(directory: &str) -> u8 {
    let directory = RunDir::at(directory.into()).expect("the directory is there");
    for journal in directory.journals().expect("it can be read") {
        let Stale::Ours(claim) = journal else { return 5 };
        let site: Site = hardware::site().unwrap_or_default();
        let report = put_back_journal(&claim.journal(), &site, &mut || {}).expect("the journal can be read");
        for left in &report.left {
            println!("left: {} {} {}", left.place, left.now, left.why);
        }
        claim.clear();
    }
    0
}
