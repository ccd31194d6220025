//! A memcached of known behaviour, one thread a connection, inside the test's process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How the server answers.
#[derive(Clone, Copy)]
pub enum Behaviour {
    /// Every request takes this long, one after the other on each connection.
    Delay(Duration),
    /// At once, but after the given number of a connection's requests nothing for this long.
    Stall(u64, Duration),
    /// With an error.
    Refuse,
    /// Not at all after the given number of a connection's requests: it hangs up.
    HangUp(u64),
    /// With another protocol.
    Http,
}

/// Starts the server; it ends with the process. Returns its address.
pub fn start(behaviour: Behaviour) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The other end may go whenever it likes.
            thread::spawn(move || {
                stream.set_nodelay(true)?;
                serve(stream.try_clone()?, stream, behaviour)
            });
        }
    });
    address
}

/// The same on a Unix socket.
#[allow(dead_code, reason = "not every test needs one")]
pub fn start_on(path: &Path, behaviour: Behaviour) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream.try_clone()?, stream, behaviour));
        }
    });
}

fn serve(input: impl Read, mut out: impl Write, behaviour: Behaviour) -> std::io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == ["version"] {
            out.write_all(b"VERSION 1.6.0\r\n")?;
            continue;
        }
        let answer = match words[..] {
            ["get", key] => format!("VALUE {key} 0 3\r\nabc\r\nEND\r\n"),
            ["set", _, _, _, bytes] => {
                let mut value = vec![0; bytes.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut value)?;
                "STORED\r\n".to_owned()
            }
            ["delete", _] => "DELETED\r\n".to_owned(),
            _ => panic!("unknown request {line:?}"),
        };
        match behaviour {
            Behaviour::Delay(delay) => thread::sleep(delay),
            Behaviour::Stall(after, stall) if number == after => thread::sleep(stall),
            Behaviour::HangUp(after) if number > after => return Ok(()),
            _ => {}
        }
        match behaviour {
            Behaviour::Refuse => out.write_all(b"SERVER_ERROR out of memory\r\n")?,
            Behaviour::Http => out.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?,
            _ => out.write_all(answer.as_bytes())?,
        }
    }
    Ok(())
}
