//! memcached with the patch: built from a source that is not here, where there is one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn the_patch_is_short_and_calls_what_the_header_has() {
    let (patch, header) = (source("examples/memcached/memcached.patch"), source("quell.h"));
    let (patch, header) = (fs::read_to_string(patch).unwrap(), fs::read_to_string(header).unwrap());
    assert!(patch.lines().count() < 60);
    let added = patch
        .lines()
        .filter(|line| line.starts_with('+'))
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let calls: Vec<&str> = added.filter(|word| word.starts_with("quell_") && *word != "quell_worker").collect();
    assert!(calls.len() >= 5 && calls.iter().all(|call| header.contains(&format!("{call}("))), "{calls:?}");
}

/// With QUELL_MEMCACHED, the path of memcached_1.6.18.orig.tar.xz; CPPFLAGS and LDFLAGS lead to libevent where it is elsewhere.
#[test]
fn memcached_with_the_patch_serves_and_runs_without_an_agent() {
    let Some(tarball) = env::var_os("QUELL_MEMCACHED") else {
        return eprintln!(
            "not tested here: memcached's source is not there (QUELL_MEMCACHED=memcached_1.6.18.orig.tar.xz)"
        );
    };
    let directory = tempfile::tempdir().unwrap();
    let mut build = Command::new(source("examples/memcached/build"));
    build.arg(directory.path()).arg(fs::canonicalize(tarball).unwrap());
    let output = build.env("LIBQUELL", env::current_exe().unwrap().parent().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return eprintln!("not tested here: {said}");
    }
    assert!(output.status.success(), "{said}");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(directory.path().join("memcached"));
    command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string(), "-v"]).stderr(Stdio::piped());
    let mut server = Ours(command.env("QUELL_RUNTIME", directory.path().join("none")).spawn().unwrap());
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    stream.write_all(b"set a 0 0 2\r\nhi\r\nget a\r\n").unwrap();
    let expected = b"STORED\r\nVALUE a 0 2\r\nhi\r\nEND\r\n";
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
    let _ = server.0.kill();
    let mut said = String::new();
    server.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("no Quell agent answers"), "{said}");
}
