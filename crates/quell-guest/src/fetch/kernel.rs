//! The guest's kernel: Debian's cloud flavour, which has sched_ext, BTF and everything that the guest needs built in
//! but overlayfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{Apt, KERNEL_SUITE};
use super::{btf, bzimage};
use crate::error::{LabError, Result};
use crate::{Cache, Progress};

/// Versions that serve, the best first. Old ones leave the archive in time, their modules and configurations first; the
/// next one is taken then.
pub const PREFERRED_KERNELS: [&str; 8] =
    ["6.18.15", "6.18.12", "6.18.9", "6.18.5", "7.0.13", "7.0.12", "6.19.14", "6.19.13"];

/// A kernel in the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Debian's version, like `6.18.15`.
    pub version: String,
    /// Its `uname -r`.
    pub release: String,
    /// Directory with `vmlinux` and, where the archive still had them, `config` and `overlay.ko.xz`.
    pub dir: PathBuf,
}

impl Kernel {
    /// The kernel `version`, or the first available one of [`PREFERRED_KERNELS`]: a cached one needs no network.
    ///
    /// # Errors
    /// When there is no such kernel, or schedulers would not load on it, or the network or the disk fail.
    pub fn get(cache: &Cache, version: Option<&str>, progress: &dyn Progress) -> Result<Self> {
        match version {
            Some(version) => match Self::cached(cache, version) {
                Some(kernel) => Ok(kernel),
                None => {
                    let apt = Apt::new(cache.root(), progress)?;
                    let archive = versions(&apt.package_names("linux-")?);
                    Self::fetch(cache, version, &apt, &archive, progress)
                }
            },
            None => {
                let cached = PREFERRED_KERNELS.iter().find_map(|version| Self::cached(cache, version));
                cached.map_or_else(|| Self::fetch_preferred(cache, progress), Ok)
            }
        }
    }

    /// The uncompressed kernel, as QEMU boots it.
    #[must_use]
    pub fn vmlinux(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// Modules that it needs to reach its devices, in the order in which they load: the files of its directory `modules`, if
    /// there is one. The kernels that the lab fetches have all of it built in.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        let directory = self.dir.join("modules");
        if !directory.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&directory).map_err(LabError::io("read", &directory))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        Ok(files)
    }

    /// Parameters that it is started with beside the lab's own: the words of its file `arguments`, if there is one.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let words = fs::read_to_string(self.dir.join("arguments")).unwrap_or_default();
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn entry(version: &str) -> String {
        format!("kernel-{version}")
    }

    fn cached(cache: &Cache, version: &str) -> Option<Self> {
        let dir = cache.get(&Self::entry(version))?;
        let release = fs::read_to_string(dir.join("release")).ok()?;
        Some(Self { version: version.to_owned(), release, dir })
    }

    fn fetch_preferred(cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        let apt = Apt::new(cache.root(), progress)?;
        let archive = versions(&apt.package_names("linux-")?);
        let mut tried = String::new();
        for version in PREFERRED_KERNELS {
            match Self::fetch(cache, version, &apt, &archive, progress) {
                Err(LabError::UnknownKernel { .. }) => tried += &format!("  {version}: no longer in the archive\n"),
                Err(LabError::UnfitKernel { why, .. }) => tried += &format!("  {version}: {why}\n"),
                other => return other,
            }
        }
        Err(LabError::NoKernelLeft { tried, suite: KERNEL_SUITE, available: list(&archive) })
    }

    fn fetch(
        cache: &Cache,
        version: &str,
        apt: &Apt,
        archive: &BTreeMap<String, Vec<String>>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let packages = archive.get(version).ok_or_else(|| LabError::UnknownKernel {
            version: version.to_owned(),
            suite: KERNEL_SUITE,
            available: list(archive),
        })?;
        cache.get_or_make(&Self::entry(version), |dir| {
            progress.step(&format!("fetching kernel {version} ({} from {KERNEL_SUITE})", packages.join(", ")));
            let root = dir.join("packages");
            apt.unpack(packages, &root)?;
            progress.step(&format!("unpacking kernel {version} and checking its BTF"));
            install(version, &root, dir, progress)?;
            fs::remove_dir_all(&root).map_err(LabError::io("remove", &root))
        })?;
        Self::cached(cache, version).ok_or_else(|| LabError::Malformed {
            path: cache.root().join(Self::entry(version)),
            why: "it has no file `release`".into(),
        })
    }
}

/// Takes the guest's files from the unpacked packages in `root`.
fn install(version: &str, root: &Path, dir: &Path, progress: &dyn Progress) -> Result<()> {
    let missing = |what: &str| LabError::UnfitKernel { version: version.to_owned(), why: format!("no {what} in it") };
    let image = find(root, &|name| name.starts_with("vmlinuz")).ok_or_else(|| missing("vmlinuz"))?;
    let release = release_of(&image).ok_or_else(|| missing("release"))?;
    let bytes = fs::read(&image).map_err(LabError::io("read", &image))?;
    let vmlinux = bzimage::vmlinux(&bytes).map_err(|why| LabError::Malformed { path: image.clone(), why })?;
    btf::check(&vmlinux).map_err(|why| LabError::UnfitKernel { version: version.to_owned(), why })?;
    let write = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, content).map_err(LabError::io("write", &path))
    };
    write("vmlinux", &vmlinux)?;
    write("release", release.as_bytes())?;
    let mut missing = Vec::new();
    for (name, target) in [("overlay.ko.xz", "overlay.ko.xz"), (&*format!("config-{release}"), "config")] {
        match find(root, &|found| found == name || found == target) {
            Some(file) => {
                let target = dir.join(target);
                fs::copy(&file, &target).map_err(LabError::io("write", &target))?;
            }
            None => missing.push(name.to_owned()),
        }
    }
    if !missing.is_empty() {
        progress.step(&format!(
            "the archive no longer has {} of kernel {version}: without the module the host's files are read-only in the \
             guest, without the configuration some schedulers do not load",
            missing.join(" and ")
        ));
    }
    Ok(())
}

/// The kernel's release: in its name (`/boot/vmlinuz-RELEASE`), or, in later packages, in its directory's.
fn release_of(image: &Path) -> Option<String> {
    let name = image.file_name()?.to_str()?;
    match name.strip_prefix("vmlinuz-") {
        Some(release) => Some(release.to_owned()),
        None => Some(image.parent()?.file_name()?.to_str()?.to_owned()),
    }
}

/// The first regular file below `dir` whose name satisfies `pleases`.
pub(super) fn find(dir: &Path, pleases: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    entries.iter().find_map(|entry| {
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            return find(&entry.path(), pleases);
        }
        (kind.is_file() && pleases(&entry.file_name().to_string_lossy())).then(|| entry.path())
    })
}

/// Kernel versions in the archive, each with its packages: one `image`, or `binary`, `modules` and `base`. Real-time ones end
/// in `-rt`.
fn versions(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let flavours = [("-cloud-amd64", ""), ("-rt-amd64", "-rt")];
        let flavour = flavours.iter().find_map(|(flavour, sign)| Some((name.strip_suffix(flavour)?, *sign)));
        let Some((rest, sign)) = flavour.and_then(|(name, sign)| Some((name.strip_prefix("linux-")?, sign))) else {
            continue;
        };
        let Some((part, version)) = rest.split_once('-') else { continue };
        let Some((version, suite)) = version.split_once('+') else { continue };
        if ["image", "binary", "modules", "base"].contains(&part)
            && suite.starts_with("deb13")
            && version.starts_with(|first: char| first.is_ascii_digit())
        {
            found.entry(format!("{version}{sign}")).or_default().push(name.clone());
        }
    }
    for packages in found.values_mut() {
        packages.sort();
        // If the kernel is split up, the image package is empty.
        if packages.iter().any(|name| name.starts_with("linux-binary-")) {
            packages.retain(|name| !name.starts_with("linux-image-"));
        }
    }
    found.retain(|_, packages| {
        packages.iter().any(|name| name.starts_with("linux-image-") || name.starts_with("linux-binary-"))
    });
    found
}

fn list(archive: &BTreeMap<String, Vec<String>>) -> String {
    let mut versions: Vec<_> = archive.keys().map(String::as_str).collect();
    versions.sort_by_key(|version| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>());
    if versions.is_empty() { "none".into() } else { versions.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn packages_are_grouped_by_version() {
        let archive = versions(&names(&[
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-amd64",
            "linux-image-6.18.15+deb13-rt-amd64",
            "linux-image-7.0.13+deb13-cloud-amd64",
            "linux-modules-7.0.13+deb13-cloud-amd64",
            "linux-binary-7.0.13+deb13-cloud-amd64",
            "linux-base-7.0.13+deb13-cloud-amd64",
            "linux-binary-unsigned-7.2.12+deb13-cloud-amd64",
            "linux-image-6.12.73+deb12-cloud-amd64",
            "linux-image-cloud-amd64",
            "linux-modules-7.9.9+deb13-cloud-amd64",
        ]));
        assert_eq!(archive.keys().collect::<Vec<_>>(), ["6.18.15", "6.18.15-rt", "7.0.13"]);
        assert_eq!(archive["6.18.15"], ["linux-image-6.18.15+deb13-cloud-amd64"]);
        assert_eq!(archive["6.18.15-rt"], ["linux-image-6.18.15+deb13-rt-amd64"]);
        let split = ["base", "binary", "modules"].map(|part| format!("linux-{part}-7.0.13+deb13-cloud-amd64"));
        assert_eq!(archive["7.0.13"], split);
    }

    #[test]
    fn a_release_stands_in_the_name_or_in_the_directorys() {
        assert_eq!(release_of(Path::new("boot/vmlinuz-6.18.15+deb13-rt-amd64")).unwrap(), "6.18.15+deb13-rt-amd64");
        assert_eq!(release_of(Path::new("lib/modules/7.3.4+deb13-rt-amd64/vmlinuz")).unwrap(), "7.3.4+deb13-rt-amd64");
    }

    #[test]
    fn versions_are_listed_in_their_order() {
        let archive = versions(&names(&[
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.9+deb13-cloud-amd64",
            "linux-image-10.0.1+deb13-cloud-amd64",
        ]));
        assert_eq!(list(&archive), "6.18.9, 6.18.15, 10.0.1");
    }
}
