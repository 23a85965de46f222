//! Scheme, host and port of this server as seen by clients, for links in responses.
//!
//! Invariant:
//! - **A sender cannot choose the host of a link.** Without `server.public_url` the `Host` header counts only when it names
//!   an address, this machine, or a single label such as the name of a container: no name that can be registered.

use std::net::{Ipv6Addr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use perpend_config::Config;

/// The origin for the sender of these headers. HTTP/2 has the host in the URI (`authority`).
#[must_use]
pub fn of(config: &Config, headers: &HeaderMap, authority: Option<&str>) -> String {
    if let Some(url) = &config.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let header = headers.get(HOST).and_then(|host| host.to_str().ok());
    match header.or(authority).filter(|host| is_local(host)) {
        Some(host) => format!("http://{host}"),
        None => format!("http://{}", reachable(config.listen)),
    }
}

/// Replaces an unspecified address by the loopback address.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        let loopback = match listen.is_ipv4() {
            true => std::net::Ipv4Addr::LOCALHOST.into(),
            false => Ipv6Addr::LOCALHOST.into(),
        };
        listen.set_ip(loopback);
    }
    listen
}

/// Whether this is a host, with or without port, that cannot be registered by others.
fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.parse::<std::net::Ipv4Addr>().is_ok()
        || is_label(name)
        || name.strip_suffix(".localhost").is_some_and(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_can_be_registered_is_not_put_into_links() {
        let mut config = Config::defaults().unwrap();
        config.listen = "0.0.0.0:3000".parse().unwrap();
        let with = |host: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            of(&config, &headers, None)
        };
        for host in ["localhost:3000", "10.1.2.3", "[::1]:80", "perpend:3000", "a.localhost"] {
            assert_eq!(with(host), format!("http://{host}"));
        }
        for host in
            ["evil.example", "evil.example:3000", "a@b", "localhost@evil.example", "a/b", "a b", ""]
        {
            assert_eq!(with(host), "http://127.0.0.1:3000", "{host}");
        }
        config.public_url = Some("https://perpend.example/".to_owned());
        assert_eq!(of(&config, &HeaderMap::new(), None), "https://perpend.example");
    }
}
