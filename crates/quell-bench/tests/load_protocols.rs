//! The generator against redis and HTTP servers of the test's own, and against what is neither.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use quell_bench::load::{self, Endpoint, Live, LoadSpec, Monitor, Protocol};

const MS: u64 = 1_000_000;

/// Serves each connection on a thread; ends with the process. Returns the address.
fn serve(connection: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = connection.clone();
            thread::spawn(move || connection(stream).ok());
        }
    });
    address
}

fn spec(url: &str) -> LoadSpec {
    let endpoint: Endpoint = url.parse().unwrap();
    let protocol = endpoint.protocol.unwrap_or_default();
    LoadSpec {
        target: endpoint.target,
        protocol,
        path: endpoint.path.unwrap_or_else(|| "/".into()),
        rate: 1_000.0,
        duration_ns: 1_000 * MS,
        warmup_ns: 200 * MS,
        connections: 4,
        set_ratio: if protocol == Protocol::Http { 0.0 } else { 0.1 },
        keys: 200,
        ..LoadSpec::default()
    }
}

/// What a redis of the test's own holds, and how many keys it was asked to set.
#[derive(Default)]
struct Redis {
    keys: Mutex<HashMap<String, Vec<u8>>>,
    sets: AtomicUsize,
}

impl Redis {
    fn start() -> (Arc<Redis>, String) {
        let redis = Arc::new(Redis::default());
        let shared = Arc::clone(&redis);
        let address = serve(move |stream| shared.answer(stream));
        (redis, format!("redis://{address}"))
    }

    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        let line = |input: &mut BufReader<TcpStream>, mark: char| {
            let mut line = String::new();
            input.read_line(&mut line)?;
            let digits = line.trim_end().strip_prefix(mark).ok_or(std::io::ErrorKind::InvalidData)?;
            digits.parse::<usize>().map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))
        };
        loop {
            let mut words = Vec::new();
            for _ in 0..line(&mut input, '*')? {
                let mut word = vec![0; line(&mut input, '$')? + 2];
                input.read_exact(&mut word)?;
                word.truncate(word.len() - 2);
                words.push(word);
            }
            let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
            let answer = match (text(&words[0]).as_str(), &words[1..]) {
                ("INFO", _) => b"$23\r\nredis_version:7.0.15\r\n\r\n\r\n".to_vec(),
                ("GET", [key]) => match self.keys.lock().unwrap().get(&text(key)) {
                    Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                    None => b"$-1\r\n".to_vec(),
                },
                ("SET", [key, value]) => {
                    self.sets.fetch_add(1, Relaxed);
                    self.keys.lock().unwrap().insert(text(key), value.clone());
                    b"+OK\r\n".to_vec()
                }
                ("HGET", [key, _]) => match self.keys.lock().unwrap().get(&text(key)) {
                    Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
                    None => b"$-1\r\n".to_vec(),
                },
                ("HSET", [key, field, value]) => {
                    assert_eq!(field, b"f");
                    self.sets.fetch_add(1, Relaxed);
                    let old = self.keys.lock().unwrap().insert(text(key), value.clone());
                    format!(":{}\r\n", usize::from(old.is_none())).into_bytes()
                }
                ("DEL", [key]) => {
                    format!(":{}\r\n", usize::from(self.keys.lock().unwrap().remove(&text(key)).is_some())).into_bytes()
                }
                _ => b"-ERR unknown command\r\n".to_vec(),
            };
            out.write_all(&answer)?;
        }
    }
}

#[test]
fn redis_is_loaded_and_what_was_written_is_gone_afterwards() {
    for scheme in ["redis", "redis-hash"] {
        loads_and_leaves_nothing(scheme);
    }
}

fn loads_and_leaves_nothing(scheme: &str) {
    let (redis, url) = Redis::start();
    let url = url.replacen("redis", scheme, 1);
    redis.keys.lock().unwrap().insert("theirs".into(), b"x".to_vec());
    let monitor = Monitor { live: Some(Live::default()), ..Monitor::default() };
    let report = load::run_watched(&spec(&url), &monitor).unwrap();
    assert_eq!((report.server.as_str(), report.counts.answered), ("redis 7.0.15", report.counts.due));
    assert!(report.counts.hits > 500 && report.counts.misses == 0, "{:?}", report.counts);
    assert!(redis.sets.load(Relaxed) > 200, "the keys beforehand, and sets");
    let left: Vec<String> = redis.keys.lock().unwrap().keys().cloned().collect();
    assert_eq!((left, report.keys_deleted), (vec!["theirs".to_owned()], Some(200)));
    // What was good could be taken out while it ran, the warm-up with it.
    let live: u64 = monitor.live.unwrap().take().iter().map(|(_, count)| count).sum();
    assert!(live > report.counts.answered, "{live}");
}

#[test]
fn keys_are_deleted_also_when_the_run_is_ended() {
    let (redis, url) = Redis::start();
    let long = LoadSpec { duration_ns: 60_000 * MS, preload: false, set_ratio: 1.0, ..spec(&url) };
    let monitor = Monitor::default();
    let report = thread::scope(|scope| {
        let run = scope.spawn(|| load::run_watched(&long, &monitor));
        while redis.keys.lock().unwrap().len() < 50 {
            assert!(!run.is_finished());
            thread::sleep(Duration::from_millis(5));
        }
        monitor.stop.store(true, Relaxed);
        run.join().unwrap().unwrap()
    });
    assert!(redis.keys.lock().unwrap().is_empty());
    assert!(report.keys_deleted.unwrap() >= 50, "{:?}", report.keys_deleted);
}

#[test]
fn gets_alone_set_nothing_and_kept_keys_stay() {
    let (redis, url) = Redis::start();
    let short = |change: fn(&mut LoadSpec)| {
        let mut spec = LoadSpec { duration_ns: 200 * MS, warmup_ns: 0, set_ratio: 0.0, ..spec(&url) };
        change(&mut spec);
        load::run(&spec).unwrap()
    };
    let nothing = short(|spec| spec.preload = false);
    assert_eq!((redis.sets.load(Relaxed), nothing.keys_deleted, nothing.counts.hits), (0, None, 0));
    let kept = short(|spec| spec.keep_keys = true);
    assert_eq!((redis.sets.load(Relaxed), kept.keys_deleted, kept.counts.misses), (200, None, 0));
    assert_eq!(redis.keys.lock().unwrap().len(), 200);
    let warm = short(|spec| spec.preload = false);
    assert_eq!((redis.sets.load(Relaxed), warm.counts.misses), (200, 0));
    assert!(warm.counts.hits > 0);
}

/// Answers GETs with a length or in chunks by turns, and hangs up after `hang_up_after` answers on a connection, as
/// most servers do.
fn http(hang_up_after: usize) -> (Arc<AtomicUsize>, String) {
    let together = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&together);
    let address = serve(move |stream| {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        for number in 1..=hang_up_after {
            let mut line = String::new();
            let mut first = true;
            loop {
                line.clear();
                if input.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if std::mem::take(&mut first) && !line.starts_with("GET /page HTTP/1.1") {
                    out.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
                }
                if line == "\r\n" {
                    break;
                }
            }
            if !input.buffer().is_empty() {
                seen.fetch_add(1, Relaxed);
            }
            let answer: &[u8] = match number % 2 {
                0 => b"HTTP/1.1 200 OK\r\nServer: own/1\r\nContent-Length: 5\r\n\r\nhello",
                _ => b"HTTP/1.1 200 OK\r\nServer: own/1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            };
            out.write_all(answer)?;
        }
        Ok(())
    });
    (together, format!("http://{address}"))
}

#[test]
fn http_is_loaded_with_one_get_at_a_time_and_connections_are_made_anew() {
    let (together, url) = http(50);
    let report = load::run(&spec(&format!("{url}/page"))).unwrap();
    assert_eq!((report.server.as_str(), report.counts.answered), ("own/1", report.counts.due));
    assert!(report.counts.due > 500 && report.counts.refused == 0, "{:?}", report.counts);
    assert!(report.reconnects >= 8, "{} of about 24", report.reconnects);
    assert_eq!((report.closed_connections, together.load(Relaxed)), (0, 0));
    assert_eq!(report.keys_deleted, None);
    assert!(report.caveats().iter().all(|caveat| !caveat.contains("closed")), "{:?}", report.caveats());
}

#[test]
fn what_is_something_else_is_refused_before_any_load() {
    let (_, url) = http(50);
    let address = url.trim_start_matches("http://");
    let (redis, redis_url) = Redis::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let ssh = serve(|mut stream| stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"));
    for (url, words) in [
        (format!("{url}/nothing"), ["404", "correct the path"]),
        (format!("redis://{address}"), ["404", "--protocol http"]),
        (redis_url.replace("redis", "memcached"), ["closes the connection", "memcached"]),
        (format!("memcached://{ssh}"), ["SSH-2.0", "memcached text protocol"]),
        (format!("redis://{ssh}"), ["SSH-2.0", "RESP"]),
        (format!("http://{ssh}"), ["SSH-2.0", "HTTP/1.1"]),
        (format!("redis://{}", silent.local_addr().unwrap()), ["says nothing", "RESP"]),
    ] {
        let text = load::run(&spec(&url)).unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{url}: {text}");
    }
    assert_eq!(redis.sets.load(Relaxed), 0);
}
