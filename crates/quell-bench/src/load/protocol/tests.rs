use proptest::prelude::*;

use super::*;
use crate::load::Target;

/// Answers of each protocol as its servers write them.
fn text(protocol: Protocol, answer: Answer) -> Option<Vec<u8>> {
    // A value full of text that looks like protocol.
    let value =
        |bytes: u32| -> Vec<u8> { b"END\r\n$3\r\nHTTP/1.1 ".iter().copied().cycle().take(bytes as usize).collect() };
    let head = |text: String, bytes: u32, tail: &[u8]| [text.as_bytes(), &value(bytes), tail].concat();
    Some(match (protocol, answer) {
        (Protocol::Memcached, Answer::Hit { bytes }) => {
            head(format!("VALUE quell0000000001 0 {bytes}\r\n"), bytes, b"\r\nEND\r\n")
        }
        (Protocol::Memcached, Answer::Miss) => b"END\r\n".to_vec(),
        (Protocol::Memcached, Answer::Stored) => b"STORED\r\n".to_vec(),
        (Protocol::Memcached, Answer::NotStored) => b"NOT_STORED\r\n".to_vec(),
        (Protocol::Memcached, Answer::Deleted) => b"NOT_FOUND\r\n".to_vec(),
        (Protocol::Memcached, Answer::Error) => b"SERVER_ERROR out of memory storing object\r\n".to_vec(),
        (Protocol::RedisHash, Answer::Stored) => b":0\r\n".to_vec(),
        (Protocol::RedisHash, Answer::Deleted) => return None,
        (Protocol::RedisHash, other) => return text(Protocol::Redis, other),
        (Protocol::Redis, Answer::Hit { bytes }) => head(format!("${bytes}\r\n"), bytes, b"\r\n"),
        (Protocol::Redis, Answer::Miss) => b"$-1\r\n".to_vec(),
        (Protocol::Redis, Answer::Stored) => b"+OK\r\n".to_vec(),
        (Protocol::Redis, Answer::Deleted) => b":1\r\n".to_vec(),
        (Protocol::Redis, Answer::Error) => b"-OOM command not allowed\r\n".to_vec(),
        // With a length, and in chunks.
        (Protocol::Http, Answer::Hit { bytes }) if bytes % 2 == 0 => {
            head(format!("HTTP/1.1 200 OK\r\ncontent-LENGTH: {bytes}\r\nServer: x\r\n\r\n"), bytes, b"")
        }
        (Protocol::Http, Answer::Hit { bytes }) => head(
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x};name=v\r\n"),
            bytes,
            b"\r\n0\r\nLast: 1\r\n\r\n",
        ),
        (Protocol::Http, Answer::Error) => b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy".to_vec(),
        _ => return None,
    })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        (0u32..300).prop_map(|bytes| Answer::Hit { bytes }),
        Just(Answer::Miss),
        Just(Answer::Stored),
        Just(Answer::NotStored),
        Just(Answer::Deleted),
        Just(Answer::Error),
    ]
}

const ALL: [Protocol; 4] = [Protocol::Memcached, Protocol::Redis, Protocol::RedisHash, Protocol::Http];

proptest! {
    #[test]
    fn answers_survive_any_cut(
        answers in prop::collection::vec(any_answer(), 1..20),
        cuts in prop::collection::vec(1usize..40, 1..200),
    ) {
        for protocol in ALL {
            let answers: Vec<Answer> = answers.iter().copied().filter(|a| text(protocol, *a).is_some()).collect();
            let stream: Vec<u8> = answers.iter().filter_map(|a| text(protocol, *a)).flatten().collect();
            let mut parser = Parser::new(protocol);
            let mut seen = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, later) = rest.split_at((*cut).min(rest.len()));
                prop_assert_eq!(parser.feed(piece, |answer| seen.push(answer)), Ok(()), "{:?}", protocol);
                rest = later;
            }
            prop_assert_eq!(seen, answers, "{:?}", protocol);
        }
    }

    #[test]
    fn any_bytes_are_survived(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..8)) {
        for protocol in ALL {
            let mut parser = Parser::new(protocol);
            for piece in &pieces {
                if parser.feed(piece, |_| ()).is_err() {
                    break;
                }
            }
            let _ = protocol.greeting(&pieces.concat());
        }
    }
}

#[test]
fn every_single_cut_of_one_stream() {
    let answers = [Answer::Hit { bytes: 5 }, Answer::Stored, Answer::Hit { bytes: 0 }, Answer::Miss, Answer::Error];
    for protocol in ALL {
        let answers: Vec<Answer> = answers.iter().copied().filter(|a| text(protocol, *a).is_some()).collect();
        let stream: Vec<u8> = answers.iter().filter_map(|a| text(protocol, *a)).flatten().collect();
        for cut in 0..=stream.len() {
            let mut parser = Parser::new(protocol);
            let mut seen = Vec::new();
            parser.feed(&stream[..cut], |a| seen.push(a)).unwrap();
            parser.feed(&stream[cut..], |a| seen.push(a)).unwrap();
            assert_eq!(seen, answers, "{protocol:?} cut at {cut}");
        }
    }
}

#[test]
fn what_is_not_the_protocol_is_refused() {
    let long = [b'x'; lines::LINE_BYTES + 1];
    for (protocol, stream) in [
        (Protocol::Memcached, &b"HTTP/1.1 400 Bad Request\r\n"[..]),
        (Protocol::Memcached, b"END\n"),
        (Protocol::Memcached, b"VALUE key 0\r\n"),
        (Protocol::Memcached, b"VALUE key 0 -1\r\n"),
        (Protocol::Memcached, b"VALUE key 0 99999999999\r\n"),
        (Protocol::Memcached, b"VALUE key 0 1\r\nx\r\nSTORED\r\n"),
        (Protocol::Memcached, &long),
        (Protocol::Redis, b"STORED\r\n"),
        (Protocol::Redis, b"$-2\r\n"),
        (Protocol::Redis, b"*1\r\n$1\r\na\r\n"),
        (Protocol::Http, b"STORED\r\n"),
        (Protocol::Http, b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        (Protocol::Http, b"HTTP/1.1 200 OK\r\n\r\nuntil the end"),
        (Protocol::Http, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        let mut parser = Parser::new(protocol);
        assert_eq!(parser.feed(stream, |_| ()), Err(Malformed), "{:?}", String::from_utf8_lossy(stream));
    }
}

#[test]
fn an_interim_answer_is_not_the_answer() {
    let mut parser = Parser::new(Protocol::Http);
    let mut seen = Vec::new();
    let stream = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    parser.feed(stream, |answer| seen.push(answer)).unwrap();
    assert_eq!(seen, [Answer::Hit { bytes: 0 }]);
}

fn spec(protocol: Protocol) -> LoadSpec {
    let target = Target::Tcp("127.0.0.1:80".into());
    LoadSpec { protocol, target, path: "/a?b".into(), value_bytes: 3, ..LoadSpec::default() }
}

#[test]
fn requests_are_as_the_protocols_document_them() {
    for (protocol, expected) in [
        (
            Protocol::Memcached,
            "get quell0000000042\r\nset quell2147483647 0 0 3\r\nqqq\r\ndelete quell0000000007\r\n".to_owned(),
        ),
        (
            Protocol::Redis,
            "*2\r\n$3\r\nGET\r\n$15\r\nquell0000000042\r\n*3\r\n$3\r\nSET\r\n$15\r\nquell2147483647\r\n$3\r\nqqq\r\n\
             *2\r\n$3\r\nDEL\r\n$15\r\nquell0000000007\r\n"
                .into(),
        ),
        (
            Protocol::Http,
            format!(
                "GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUser-Agent: quell-load/{}\r\nAccept: */*\r\n\r\n",
                env!("CARGO_PKG_VERSION")
            ),
        ),
    ] {
        let requests = Requests::new(&spec(protocol));
        let mut out = Vec::new();
        requests.encode(Slot::new(0, Operation::Get, 42), &mut out);
        if protocol != Protocol::Http {
            requests.encode(Slot::new(0, Operation::Set, 2_147_483_647), &mut out);
            requests.encode_delete(7, &mut out);
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn an_encoded_request_fits_its_bound() {
    for protocol in ALL {
        for value_bytes in [1, 9, 10, 1000, 1 << 20] {
            let requests = Requests::new(&LoadSpec { value_bytes, ..spec(protocol) });
            let mut out = Vec::new();
            requests.encode(Slot::new(0, Operation::Set, 7), &mut out);
            assert!(out.len() <= requests.longest());
        }
    }
}

#[test]
fn servers_are_known_by_their_greeting() {
    let welcome = |text: &str| Greeting::Welcome(text.into());
    assert_eq!(Protocol::Memcached.greeting(b"VERSION 1.6.18\r\n"), welcome("memcached 1.6.18"));
    assert_eq!(Protocol::Memcached.greeting(b"VERSI"), Greeting::Unfinished);
    let info = b"$33\r\n# Server\r\nredis_version:7.0.15\r\n\r\n";
    assert_eq!(Protocol::Redis.greeting(info), welcome("redis 7.0.15"));
    assert_eq!(Protocol::Redis.greeting(&info[..20]), Greeting::Unfinished);
    let page = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(Protocol::Http.greeting(page), welcome("nginx/1.22"));
    assert_eq!(Protocol::Http.greeting(&page[..30]), Greeting::Unfinished);
    for (asked, answer, words) in [
        (Protocol::Memcached, &b"HTTP/1.1 400 Bad Request\r\n"[..], "HTTP/1.1 400"),
        (Protocol::Memcached, b"-ERR unknown command 'version'\r\n", "-ERR unknown"),
        (Protocol::Memcached, b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (Protocol::Redis, b"ERROR\r\n", "ERROR"),
        (Protocol::Redis, b"-NOAUTH Authentication required.\r\n", "NOAUTH"),
        (Protocol::Http, b"ERROR\r\n", "ERROR"),
        (Protocol::Http, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        (Protocol::Http, b"HTTP/1.0 200 OK\r\n\r\n", "without a length"),
    ] {
        match asked.greeting(answer) {
            Greeting::Foreign(said) => assert!(said.contains(words), "{said}"),
            other => panic!("{asked:?}: {other:?}"),
        }
    }
    assert_eq!(Protocol::of_answer(b"-ERR unknown command"), Some(Protocol::Redis));
    assert_eq!(Protocol::of_answer(b"HTTP/1.1 400"), Some(Protocol::Http));
    assert_eq!(Protocol::of_answer(b"ERROR\r\n"), Some(Protocol::Memcached));
}
