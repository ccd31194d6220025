//! Programs that run beside each other in a cell.

use serde::Serialize;

/// A memcached under an open-loop load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Server {
    /// Its name.
    pub name: &'static str,
    /// Its worker threads.
    pub threads: u32,
    /// Requests a second, on CPUs of 125 million instructions a second.
    pub rate: u32,
    /// CPUs that a policy guarantees it; it may burst onto all.
    pub cpus: u32,
}

/// A program that takes all CPU time it can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Hog {
    /// Its name.
    pub name: &'static str,
    /// Is it latency-critical to a policy?
    pub lc: bool,
    /// Threads for each CPU of the machine.
    pub threads_per_cpu: u32,
    /// Interval at which all its threads wake up, ms, and run for three tenths of the time; zero: they run always.
    pub wakes_every_ms: u32,
}

/// Servers and their neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Scene {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The first one is the subject of a comparison.
    pub servers: &'static [Server],
    /// The antagonists.
    pub hogs: &'static [Hog],
}

const SERVER: Server = Server { name: "server", threads: 1, rate: 1200, cpus: 1 };
const POOL: Server = Server { threads: 4, ..SERVER };
const ANTAGONIST: Hog = Hog { name: "antagonist", lc: false, threads_per_cpu: 2, wakes_every_ms: 0 };
const PHASED: Hog = Hog { wakes_every_ms: 200, ..ANTAGONIST };
const RUNAWAY: Hog = Hog { name: "runaway", lc: true, threads_per_cpu: 1, wakes_every_ms: 0 };
/// A third of a CPU, as the single server, over eleven programs.
const fn small(name: &'static str) -> Server {
    Server { name, threads: 1, rate: 110, cpus: 0 }
}

const MANY: [Server; 11] = [
    small("s1"),
    small("s2"),
    small("s3"),
    small("s4"),
    small("s5"),
    small("s6"),
    small("s7"),
    small("s8"),
    small("s9"),
    small("s10"),
    small("s11"),
];

/// All scenes; the first is that of the published table.
pub const SCENES: [Scene; 7] = [
    Scene { id: "spin", title: "memcached beside two spinning threads a CPU", servers: &[SERVER], hogs: &[ANTAGONIST] },
    Scene {
        id: "phased",
        title: "memcached beside two threads a CPU that all wake up every 200 ms",
        servers: &[SERVER],
        hogs: &[PHASED],
    },
    Scene {
        id: "pool",
        title: "memcached with four worker threads beside two spinning threads a CPU",
        servers: &[POOL],
        hogs: &[ANTAGONIST],
    },
    Scene {
        id: "pool-phased",
        title: "memcached with four worker threads beside two threads a CPU that all wake up every 200 ms",
        servers: &[POOL],
        hogs: &[PHASED],
    },
    Scene {
        id: "runaway",
        title: "memcached beside a latency-critical program that spins on every CPU, and best-effort work",
        servers: &[SERVER],
        hogs: &[RUNAWAY, ANTAGONIST],
    },
    Scene {
        id: "overload",
        title: "memcached beside another one that is overloaded, and best-effort work",
        servers: &[SERVER, Server { name: "overloaded", rate: 8000, ..SERVER }],
        hogs: &[ANTAGONIST],
    },
    Scene {
        id: "many",
        title: "eleven small memcacheds beside two best-effort programs",
        servers: &MANY,
        hogs: &[
            Hog { name: "batch-1", threads_per_cpu: 1, ..ANTAGONIST },
            Hog { name: "batch-2", threads_per_cpu: 1, ..ANTAGONIST },
        ],
    },
];

impl Scene {
    /// The scene with this name.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Scene> {
        SCENES.iter().find(|scene| scene.id == id)
    }

    /// The servers as the cell's script reads them, with `speed` times the load.
    pub(super) fn server_lines(&self, speed: u32) -> String {
        let line = |(at, server): (usize, &Server)| {
            let Server { name, threads, rate, cpus } = server;
            format!("{name} {} {threads} {} {cpus}", 11211 + at, rate * speed)
        };
        self.servers.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The hogs as the cell's script reads them.
    pub(super) fn hog_lines(&self, cpus: u32) -> String {
        let line = |hog: &Hog| {
            let Hog { name, lc, threads_per_cpu, wakes_every_ms } = hog;
            let (class, guaranteed) = if *lc { ("lc", 1) } else { ("be", 0) };
            let phases = match wakes_every_ms {
                0 => String::new(),
                period => format!(" --period {period}ms --duty 0.3"),
            };
            format!("{name} {class} {} {guaranteed}{phases}", threads_per_cpu * cpus)
        };
        self.hogs.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_have_names_of_their_own_and_so_have_their_programs() {
        for (at, scene) in SCENES.iter().enumerate() {
            assert!(SCENES[at + 1..].iter().all(|other| other.id != scene.id), "{}", scene.id);
            let mut names: Vec<_> =
                scene.servers.iter().map(|server| server.name).chain(scene.hogs.iter().map(|hog| hog.name)).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", scene.id);
        }
    }

    #[test]
    fn the_script_is_told_of_every_program() {
        let scene = Scene::find("runaway").unwrap();
        assert_eq!(scene.server_lines(4), "server 11211 1 4800 1");
        assert_eq!(scene.hog_lines(2), "runaway lc 2 1\nantagonist be 4 0");
        assert_eq!(Scene::find("phased").unwrap().hog_lines(1), "antagonist be 2 0 --period 200ms --duty 0.3");
        assert_eq!(Scene::find("overload").unwrap().server_lines(1).lines().nth(1), Some("overloaded 11212 1 8000 1"));
    }
}
