//! A server as one text: `127.0.0.1:11211`, `unix:/run/m.sock`, `redis://127.0.0.1:6379`, `http://127.0.0.1:8080/path`.

use std::str::FromStr;

use super::protocol::Protocol;
use super::spec::Target;
use crate::{Error, Result};

/// A user's text for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its protocol, where the text has it.
    pub protocol: Option<Protocol>,
    /// Its address.
    pub target: Target,
    /// The path in an HTTP URL.
    pub path: Option<String>,
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse =
            |problem: &str, fix| Err(Error::Spec { field: "target", problem: format!("`{text}` {problem}"), fix });
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self { protocol: None, target: text.parse()?, path: None });
        };
        let protocol = match scheme {
            "memcached" => Protocol::Memcached,
            "redis" => Protocol::Redis,
            "redis-hash" => Protocol::RedisHash,
            "http" => Protocol::Http,
            "https" | "rediss" => return refuse("is encrypted", "load the server behind the encryption"),
            _ => return refuse("has an unknown scheme", "write memcached://, redis:// or http://"),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return refuse("has a user or a password", "load a server without one");
        }
        let path = match (protocol, path) {
            (Protocol::Http, "") => Some("/".to_owned()),
            (Protocol::Http, path) => Some(path.to_owned()),
            (_, "" | "/") | (Protocol::Redis | Protocol::RedisHash, "/0") => None,
            _ => return refuse("has a path", "leave it out: the keys go into the usual place"),
        };
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let target = match port {
            Some(_) => authority.parse()?,
            None => format!("{authority}:{}", protocol.usual_port()).parse()?,
        };
        Ok(Self { protocol: Some(protocol), target, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_read() {
        let tcp = |address: &str| Target::Tcp(address.into());
        for (text, protocol, target, path) in [
            ("127.0.0.1:11211", None, tcp("127.0.0.1:11211"), None),
            ("unix:/run/m.sock", None, Target::Unix("/run/m.sock".into()), None),
            ("redis://127.0.0.1:6380/0", Some(Protocol::Redis), tcp("127.0.0.1:6380"), None),
            ("redis-hash://localhost", Some(Protocol::RedisHash), tcp("localhost:6379"), None),
            ("redis://localhost", Some(Protocol::Redis), tcp("localhost:6379"), None),
            ("memcached://[::1]", Some(Protocol::Memcached), tcp("[::1]:11211"), None),
            ("http://127.0.0.1:8080/a/b?c=d", Some(Protocol::Http), tcp("127.0.0.1:8080"), Some("/a/b?c=d")),
            ("http://localhost", Some(Protocol::Http), tcp("localhost:80"), Some("/")),
        ] {
            let path = path.map(str::to_owned);
            assert_eq!(text.parse::<Endpoint>().unwrap(), Endpoint { protocol, target, path }, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_loaded_is_refused_with_the_fix() {
        for (text, words) in [
            ("somewhere", "HOST:PORT"),
            ("https://localhost/", "behind the encryption"),
            ("ftp://localhost/", "http://"),
            ("redis://:secret@localhost", "password"),
            ("redis://localhost/3", "leave it out"),
            ("http://localhost:http/", "HOST:PORT"),
        ] {
            let message = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(message.contains(text.split("://").last().unwrap().split('/').next().unwrap()), "{message}");
            assert!(message.contains(words), "{message}");
        }
    }
}
