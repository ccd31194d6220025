//! A private apt: its own sources, indexes and archives, so that packages of other suites are available without root
//! and without a trace in the system's configuration. apt checks the signatures and the checksums.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{LabError, Result};
use crate::{Progress, tool};

/// Suite of the kernels.
pub const KERNEL_SUITE: &str = "trixie-backports";
/// Suite of QEMU: built against Debian 12's C library, so it runs on that and on anything newer.
pub const QEMU_SUITE: &str = "bookworm-backports";
/// Suite of the rest.
pub const BASE_SUITE: &str = "bookworm";

/// Indexes are not read again within this time.
const FRESH: Duration = Duration::from_secs(600);
/// Free space needed before anything is fetched, in bytes: apt hangs when its disk becomes full.
const NEEDED: u64 = 400 << 20;
const DEFAULT_MIRROR: &str = "http://deb.debian.org/debian";
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// The private apt.
pub struct Apt<'a> {
    dir: PathBuf,
    mirror: String,
    cache: PathBuf,
    progress: &'a dyn Progress,
    /// Held as long as this lives.
    _lock: File,
}

impl<'a> Apt<'a> {
    /// Prepares the configuration under `cache`. Of several processes one has it at a time, the others wait: apt
    /// itself would fail.
    ///
    /// # Errors
    /// When apt or Debian's keys are missing, the disk is nearly full, or the files cannot be written.
    pub fn new(cache: &Path, progress: &'a dyn Progress) -> Result<Self> {
        let dir = cache.join("apt");
        for sub in ["lists/partial", "cache/archives/partial"] {
            let sub = dir.join(sub);
            fs::create_dir_all(&sub).map_err(LabError::io("create", &sub))?;
        }
        let space =
            rustix::fs::statvfs(&dir).map_err(|errno| LabError::io("ask for the free space of", &dir)(errno.into()))?;
        if space.f_bavail * space.f_frsize < NEEDED {
            return Err(LabError::DiskFull { path: cache.to_path_buf() });
        }
        let lock_path = dir.join("lock");
        let lock = File::create(&lock_path).map_err(LabError::io("create", &lock_path))?;
        lock.lock().map_err(LabError::io("lock", &lock_path))?;
        let keyring = KEYRINGS
            .iter()
            .find(|path| Path::new(path).exists())
            .ok_or_else(|| LabError::MissingTool { tool: KEYRINGS[0].into(), package: "debian-archive-keyring" })?;
        let mirror = std::env::var("QUELL_LAB_MIRROR").ok().filter(|mirror| !mirror.is_empty());
        let mirror = mirror.or_else(|| system_mirror(Path::new("/etc/apt"))).unwrap_or_else(|| DEFAULT_MIRROR.into());
        let apt = Self { dir, mirror, cache: cache.to_path_buf(), progress, _lock: lock };
        apt.write("sources.list", &sources(&apt.mirror, keyring))?;
        apt.write("status", "")?;
        let system = tool::stdout(Command::new("apt-config").args(["dump", "Acquire"]), "apt")?;
        apt.write("apt.conf", &configuration(&apt.dir, &system))?;
        Ok(apt)
    }

    /// Every package name that starts with `prefix`.
    ///
    /// # Errors
    /// When the indexes are not available.
    pub fn package_names(&self, prefix: &str) -> Result<Vec<String>> {
        self.update()?;
        let names = tool::stdout(self.command("apt-cache").arg("pkgnames").arg(prefix), "apt")?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Downloads `packages` (`name` or `name/suite`) and unpacks them into `root`.
    ///
    /// # Errors
    /// When a package is not there, the network is not, or the disk is full.
    pub fn unpack(&self, packages: &[String], root: &Path) -> Result<()> {
        self.update()?;
        let debs = tempfile::tempdir_in(&self.dir).map_err(LabError::io("create a directory in", &self.dir))?;
        let mut command = self.command("apt-get");
        command.arg("download").args(packages).current_dir(debs.path());
        self.run(&mut command)?;
        extract_all(debs.path(), root, |_| true)
    }

    /// Downloads `package` of `suite` with all that it depends on, and unpacks it into `root`, but for those packages
    /// that `skip` names (by the start of the file's name).
    ///
    /// # Errors
    /// As [`Apt::unpack`].
    pub fn unpack_with_dependencies(&self, package: &str, suite: &str, skip: &[&str], root: &Path) -> Result<()> {
        self.update()?;
        let debs = tempfile::tempdir_in(&self.dir).map_err(LabError::io("create a directory in", &self.dir))?;
        let partial = debs.path().join("partial");
        fs::create_dir(&partial).map_err(LabError::io("create", &partial))?;
        let mut command = self.command("apt-get");
        command.args(["install", "--yes", "--download-only", "--no-install-recommends", "--target-release", suite]);
        command.arg("-o").arg(format!("Dir::Cache::archives={}", debs.path().display())).arg(package);
        self.run(&mut command)?;
        extract_all(debs.path(), root, |name| !skip.iter().any(|start| name.starts_with(start)))
    }

    fn update(&self) -> Result<()> {
        let stamp = self.dir.join("updated");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age > FRESH) {
            self.progress.step(&format!("reading Debian's package indexes from {}", self.mirror));
            self.run(self.command("apt-get").arg("update"))?;
            self.write("updated", &self.mirror)?;
        }
        Ok(())
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let output = tool::output(command, "apt")?;
        if output.status.success() {
            return Ok(());
        }
        let detail = tool::complaint(&output);
        Err(match Complaint::of(&detail) {
            Complaint::DiskFull => LabError::DiskFull { path: self.cache.clone() },
            Complaint::Network(line) => {
                LabError::Network { mirror: self.mirror.clone(), detail: line, cache: self.cache.clone() }
            }
            Complaint::Other => LabError::Tool { command: tool::line(command), detail },
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.dir.join("apt.conf")).env("LC_ALL", "C.UTF-8");
        command
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(LabError::io("write", &path))
    }
}

fn extract_all(debs: &Path, root: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(debs).map_err(LabError::io("list", debs))? {
        let path = entry.map_err(LabError::io("list", debs))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".deb") && wanted(&name) {
            let output = tool::output(Command::new("dpkg").arg("-x").arg(&path).arg(root), "dpkg")?;
            let complaint = tool::complaint(&output);
            if !output.status.success() {
                return Err(match Complaint::of(&complaint) {
                    Complaint::DiskFull => LabError::DiskFull { path: root.to_path_buf() },
                    _ => LabError::Tool { command: format!("dpkg -x {name}"), detail: complaint },
                });
            }
        }
    }
    Ok(())
}

/// Subject of apt's or dpkg's complaint.
#[derive(Debug, PartialEq)]
enum Complaint {
    DiskFull,
    Network(String),
    Other,
}

impl Complaint {
    fn of(text: &str) -> Self {
        const FULL: [&str; 3] = ["No space left on device", "enough free space", "Disk quota exceeded"];
        const NETWORK: [&str; 7] = [
            "Could not resolve",
            "Temporary failure resolving",
            "Could not connect",
            "Cannot initiate the connection",
            "Unable to connect",
            "Connection failed",
            "Failed to fetch",
        ];
        if FULL.iter().any(|sign| text.contains(sign)) {
            return Complaint::DiskFull;
        }
        match text.lines().find(|line| NETWORK.iter().any(|sign| line.contains(sign))) {
            Some(line) => Complaint::Network(line.trim_start_matches(['E', 'W', 'r', ':', ' ']).to_string()),
            None => Complaint::Other,
        }
    }
}

fn sources(mirror: &str, keyring: &str) -> String {
    let line = |suite| format!("deb [arch=amd64 signed-by={keyring}] {mirror} {suite} main\n");
    [KERNEL_SUITE, QEMU_SUITE, BASE_SUITE].map(line).concat()
}

/// The private configuration: all directories our own; of the system's only how to download (proxies and the like).
fn configuration(dir: &Path, system_acquire: &str) -> String {
    let dir = dir.display();
    let download: String = system_acquire
        .lines()
        .filter(|line| !line.contains("IndexTargets") && !line.contains("Languages"))
        .map(|line| format!("{line}\n"))
        .collect();
    format!(
        r#"{download}Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::Retries "1";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Dir::Etc::main "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::SourceList "{dir}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{dir}";
Dir::State::Lists "{dir}/lists";
Dir::State::Status "{dir}/status";
Dir::Cache "{dir}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"#
    )
}

/// The Debian mirror that the system's own apt uses, if it uses one.
fn system_mirror(etc_apt: &Path) -> Option<String> {
    let parts = fs::read_dir(etc_apt.join("sources.list.d")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = parts.chain([etc_apt.join("sources.list")]).collect();
    files.sort();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).find_map(|text| mirror_in(&text))
}

fn mirror_in(sources: &str) -> Option<String> {
    let lines = sources.lines().map(str::trim).filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let mut words = lines.flat_map(str::split_whitespace).map(|word| word.trim_end_matches('/'));
    words.find(|word| word.contains("://") && word.ends_with("/debian")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_the_systems() {
        let old = "# comment\ndeb http://security.debian.org/debian-security bookworm-security main\n\
                   deb [signed-by=/x] https://ftp.de.debian.org/debian/ bookworm main\n";
        assert_eq!(mirror_in(old).as_deref(), Some("https://ftp.de.debian.org/debian"));
        let new = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_in(new).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror_in("deb http://archive.ubuntu.com/ubuntu noble main\n"), None);
    }

    #[test]
    fn mirror_is_looked_for_in_every_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(system_mirror(dir.path()), None);
        fs::create_dir(dir.path().join("sources.list.d")).unwrap();
        fs::write(dir.path().join("sources.list.d/other.list"), "deb https://example.org/apt x main\n").unwrap();
        fs::write(dir.path().join("sources.list"), "deb http://deb.example/debian bookworm main\n").unwrap();
        assert_eq!(system_mirror(dir.path()).as_deref(), Some("http://deb.example/debian"));
    }

    #[test]
    fn complaints_are_told_apart() {
        let offline = "W: x\nE: Failed to fetch http://deb/x  Temporary failure resolving 'deb'\nE: Some index files";
        assert_eq!(
            Complaint::of(offline),
            Complaint::Network("Failed to fetch http://deb/x  Temporary failure resolving 'deb'".into())
        );
        assert_eq!(Complaint::of("E: You don't have enough free space in /x/."), Complaint::DiskFull);
        assert_eq!(Complaint::of("E: Failed to fetch x  write (28: No space left on device)"), Complaint::DiskFull);
        assert_eq!(Complaint::of("E: Unable to locate package x"), Complaint::Other);
    }

    #[test]
    fn system_proxies_are_kept_and_its_extra_indexes_are_not() {
        let system = "Acquire::http::Proxy \"http://proxy:3128\";\nAcquire::IndexTargets::deb::DEP-11 \"\";\n";
        let text = configuration(Path::new("/c"), system);
        assert!(text.contains("http://proxy:3128"));
        assert!(!text.contains("DEP-11"));
    }
}
