//! The example's three servers of memcached's protocol: each answers all of many connections at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

/// A server; it ends with this value.
struct Server(Child, String);

impl Server {
    fn start(kind: &str, work: &str) -> Server {
        let program = env::current_exe().unwrap().parent().unwrap().join("../examples/server");
        let mut command = Command::new(program);
        command.args([kind, "127.0.0.1:0", work]).env("QUELL_RUNTIME", "/nonexistent/quell.sock");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Server(child, address.trim().to_owned())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.1).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn says(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![0; answer.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), answer);
}

#[test]
fn each_server_answers_every_request_of_every_connection() {
    for kind in ["stealing", "tokio", "threads"] {
        let server = Server::start(kind, "20");
        thread::scope(|scope| {
            for client in 0..24 {
                let mut stream = server.connect();
                scope.spawn(move || {
                    for round in 0..50 {
                        let (key, value) = (format!("key-{client}"), format!("{client}:{round}"));
                        let size = value.len();
                        says(&mut stream, &format!("set {key} 5 0 {size}\r\n{value}\r\n"), "STORED\r\n");
                        let answer = format!("VALUE {key} 5 {size}\r\n{value}\r\nEND\r\n");
                        says(&mut stream, &format!("get {key}\r\nget {key}\r\n"), &format!("{answer}{answer}"));
                    }
                    says(&mut stream, &format!("delete key-{client}\r\n"), "DELETED\r\n");
                    stream.write_all(b"quit\r\n").unwrap();
                    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "it ends the connection");
                });
            }
        });
        let mut stream = server.connect();
        says(&mut stream, "nonsense\r\n", "ERROR\r\n");
        // A request in parts.
        stream.write_all(b"set part 0 0 4\r\nab").unwrap();
        thread::sleep(Duration::from_millis(5));
        says(&mut stream, "cd\r\n", "STORED\r\n");
        says(&mut stream, "get part\r\n", "VALUE part 0 4\r\nabcd\r\nEND\r\n");
    }
}
