//! What the name of a cgroup says: a unit, a container, a pod.

/// The id of the container whose cgroup has this name: the id itself, or `docker-ID.scope`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `libpod-ID.scope`. What a container engine runs beside one (`conmon`) is not in it.
pub(super) fn container(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    if name.contains("conmon") {
        return None;
    }
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// The id of the container in which a cgroup lies, by its path from the root: the outermost one.
pub fn container_in(path: &str) -> Option<&str> {
    path.split('/').find_map(container)
}

/// The uid of the pod whose cgroup has this name: `podUID`, or `kubepods-burstable-podUID.slice` with `_` for `-`; where kubelet
/// has a cgroup root of its own, that slice's name is before it: `nodes-kubepods-burstable-podUID.slice`.
pub(super) fn pod(name: &str) -> Option<String> {
    let (before, uid) = match name.strip_suffix(".slice") {
        Some(slice) => slice.split_once("pod").and_then(|_| slice.rsplit_once("-pod"))?,
        None => ("kubepods", name.strip_prefix("pod")?),
    };
    before.split('-').any(|part| part == "kubepods").then(|| uid.replace('_', "-").to_ascii_lowercase())
}

/// The unit's name of a cgroup: systemd puts a `_` before one that could be taken for a kernel's file (`_memory.service`).
pub(super) fn own_name(cgroup: &str) -> &str {
    cgroup.strip_prefix('_').unwrap_or(cgroup)
}

/// The service of this machine's systemd in which a cgroup lies, by its path from the root: the first one, below slices alone.
pub fn unit_of(path: &str) -> Option<&str> {
    let name = path.split('/').find(|name| !name.is_empty() && !name.ends_with(".slice"))?;
    let is_name = |name: &&str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte)) && !name.starts_with('-')
    };
    Some(own_name(name)).filter(|name| name.ends_with(".service")).filter(is_name)
}

/// A unit's name without systemd's escapes (systemd.unit(5)): `foo@a\x2db.service` is `foo@a-b.service`.
pub(super) fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = after.strip_prefix(b"x").and_then(byte_of).filter(|_| first == b'\\');
        bytes.push(escape.unwrap_or(first));
        rest = if escape.is_some() { &after[3..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

/// The byte of two hexadecimal digits.
fn byte_of(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_systemd_are_read() {
        for (name, meant) in
            [("a\\x2db", "a-b"), ("a\\x2", "a\\x2"), ("\\xzz", "\\xzz"), ("dev-\\xc3\\xb6", "dev-ö"), ("a", "a")]
        {
            assert_eq!(unescaped(name), meant);
        }
        assert_eq!(unescaped("\\xff"), "\\xff", "no text");
        assert_eq!((own_name("_memory.service"), own_name("db.service")), ("memory.service", "db.service"));
    }

    #[test]
    fn a_service_is_the_first_one_below_slices() {
        for path in ["/system.slice/db.service", "system.slice/db.service/inner", "/a.slice/a-b.slice/_db.service"] {
            assert_eq!(unit_of(path), Some("db.service"), "{path}");
        }
        for path in
            ["/", "/system.slice", "/docker/1/system.slice/db.service", "/m.slice/c.scope/db.service", "/a b.service"]
        {
            assert_eq!(unit_of(path), None, "{path}");
        }
    }

    #[test]
    fn a_pods_slice_is_below_any_root_and_another_slice_is_no_pod() {
        for name in
            ["kubepods-pod0a_1b.slice", "nodes-kubepods-burstable-pod0a_1b.slice", "a-b-kubepods-pod0a_1b.slice"]
        {
            assert_eq!(pod(name).as_deref(), Some("0a-1b"), "{name}");
        }
        for name in ["nodes-pod0a_1b.slice", "mykubepods-pod0a_1b.slice", "kubepods.slice", "podless.slice"] {
            assert_eq!(pod(name), None, "{name}");
        }
    }
}
