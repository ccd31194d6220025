//! The agent under test: what `quell run` and `quell restore` do, without their command lines.

use std::path::Path;

use quell_agent::config;
use quell_agent::guardian::{self, News, Options, RunDir, Stale, put_back_journal};
use quell_agent::run::agent::host_options;
use quell_agent::run::{Agent, Extras};
use quell_linux::{LinuxHost, Roots};

pub fn run(directory: &str, path: &str) -> u8 {
    let config = config::read(Path::new(path)).expect("a good configuration");
    let claim = RunDir::at(directory.into()).and_then(|directory| directory.claim("agent")).expect("nobody else");
    let mut options = Options::new(claim);
    options.news = Box::new(|news: News<'_>| match news {
        News::Died { how, report } => println!("{how}: {}", report.summary()),
        News::Hung(why) => println!("hung: {why}"),
        _ => {}
    });
    let ending = guardian::supervise(options, &mut |worker, journal| {
        let Ok(()) = worker.stop_on_signals() else { return 2 };
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

pub fn restore(directory: &str) -> u8 {
    let directory = RunDir::at(directory.into()).expect("the directory is there");
    for journal in directory.journals().expect("it can be read") {
        let Stale::Ours(claim) = journal else { return 5 };
        let report = put_back_journal(&claim.journal(), &Roots::default()).expect("the journal can be read");
        for left in &report.left {
            println!("left: {} {} {}", left.place, left.now, left.why);
        }
        claim.clear();
    }
    0
}
