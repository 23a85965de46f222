//! The client address of a request: that of its connection, or the one reported by a trusted proxy.
//!
//! Invariants:
//! - **A client cannot choose its address.** Forwarding headers count only when the connection comes from a
//!   trusted proxy. They are read from the right, because each proxy appends the address it saw; everything to
//!   the left of the first foreign address was written by the client.
//! - **Malformed headers cost precision, not safety.** A malformed chain ends at the last address that a trusted
//!   proxy reported, at worst the address of the connection.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::FromRequestParts;
use axum::http::header::FORWARDED;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use perpend_config::TrustedProxies;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of a client, without port. An IPv4 address inside IPv6 is shown as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The address behind a connection from `peer` with these headers.
    #[must_use]
    pub fn resolve(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> Self {
        let peer = peer.to_canonical();
        if !trusted.contains(peer) {
            return Self(peer);
        }
        let forwarded = headers
            .contains_key(FORWARDED)
            .then(|| nearest_foreign(peer, forwarded_hops(headers), trusted));
        let x_forwarded_for = headers
            .contains_key(X_FORWARDED_FOR)
            .then(|| nearest_foreign(peer, x_forwarded_for_hops(headers), trusted));
        Self(match (forwarded, x_forwarded_for) {
            (Some(one), Some(other)) if one == other => one,
            (Some(only), None) | (None, Some(only)) => only,
            // With two different answers one of them may come from the client, through a proxy that writes the
            // other header and passes this one on.
            _ => peer,
        })
    }

    /// Whether a sender outside the trusted proxies sent a forwarding header.
    pub fn is_claimed(peer: IpAddr, headers: &HeaderMap, trusted: &TrustedProxies) -> bool {
        let is_forwarded = headers.contains_key(FORWARDED) || headers.contains_key(X_FORWARDED_FOR);
        is_forwarded && !trusted.contains(peer.to_canonical())
    }

    /// The address of the client that sent the request with these extensions.
    #[must_use]
    pub fn in_request(extensions: &Extensions) -> Self {
        // The layer `edge::note_client` is around every path; the fallback is for requests without a connection.
        let unknown = Self(Ipv6Addr::UNSPECIFIED.into());
        extensions.get().copied().unwrap_or(unknown)
    }

    /// The address itself.
    #[must_use]
    pub const fn ip(self) -> IpAddr {
        self.0
    }

    /// The network of one client: an IPv4 address, or a /64 of IPv6, within which it chooses
    /// its addresses freely. All of IPv4 behind a translator (NAT64) is in one /64, `64:ff9b::/96`, and counts as IPv4.
    #[must_use]
    pub fn network(self) -> IpNet {
        match self.0 {
            IpAddr::V4(address) => Ipv4Net::from(address).into(),
            IpAddr::V6(address) => match address.octets() {
                [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => {
                    Ipv4Net::from(Ipv4Addr::new(a, b, c, d)).into()
                }
                _ => {
                    let prefix = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64));
                    Ipv6Net::new_assert(prefix, 64).into()
                }
            },
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first foreign address of a chain that is read from the nearest hop on, or the last trusted one before a
/// malformed hop.
fn nearest_foreign(
    peer: IpAddr,
    hops: impl Iterator<Item = Option<IpAddr>>,
    trusted: &TrustedProxies,
) -> IpAddr {
    let mut nearest = peer;
    for hop in hops {
        let Some(address) = hop else { break };
        nearest = address;
        if !trusted.contains(address) {
            break;
        }
    }
    nearest
}

/// The hops of `X-Forwarded-For`, nearest first; `None` for one that is not an address.
fn x_forwarded_for_hops(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let values = headers.get_all(X_FORWARDED_FOR).iter().rev();
    let hops = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    hops.map(|hop| str::from_utf8(hop).ok().and_then(address))
}

/// The hops of `Forwarded` (RFC 7239), nearest first; `None` for one that is not an address.
fn forwarded_hops(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let values = headers.get_all(FORWARDED).iter().rev();
    values.flat_map(|value| {
        let elements = value.to_str().ok().and_then(|text| split(text, ','));
        // With unbalanced quotes the elements cannot be separated.
        let elements = elements.unwrap_or_else(|| vec!["?"]);
        elements.into_iter().rev().map(forwarded_for)
    })
}

/// The address in `for=` of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = split(element, ';')?;
    let mut found = pairs.into_iter().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    });
    let (value, None) = (found.next()?, found.next()) else {
        return None;
    };
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    address(quoted.unwrap_or(value))
}

/// Splits at a separator outside of quoted strings; `None` when a quoted string does not end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if in_quotes => is_escaped = true,
            '"' => in_quotes = !in_quotes,
            char if char == separator && !in_quotes => {
                parts.push(text.get(start..at)?);
                start = at + char.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text.get(start..)?);
    (!in_quotes).then_some(parts)
}

/// An address as proxies write it: with or without port, IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let plain = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let address = plain.or_else(with_port).or_else(|| bracketed().map(IpAddr::V6));
    address.map(|address| address.to_canonical())
}

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::in_request(&parts.extensions))
    }
}

#[cfg(test)]
mod tests;
