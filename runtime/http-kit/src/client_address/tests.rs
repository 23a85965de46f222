//! The client address for well-formed, malformed and forged headers.

use axum::http::HeaderValue;
use proptest::prelude::*;

use super::*;

const PROXY: &str = "10.0.0.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        (HeaderName::from_static(name), value)
    });
    let mut headers = HeaderMap::new();
    pairs.for_each(|(name, value)| {
        headers.append(name, value);
    });
    headers
}

/// The client behind a connection from `peer`, where 10.0.0.0/8 and fd00::/8 are proxies.
fn client(peer: &str, pairs: &[(&'static str, &str)]) -> IpAddr {
    let trusted = "10.0.0.0/8, fd00::/8".parse().unwrap();
    ClientAddress::resolve(ip(peer), &headers(pairs), &trusted).ip()
}

#[test]
fn headers_count_from_trusted_proxies_only_and_the_rightmost_foreign_hop_is_the_client() {
    let chain = ("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.3.0.1");
    assert_eq!(client("198.51.100.7", &[chain]), ip("198.51.100.7"));
    assert_eq!(client(PROXY, &[chain]), ip("192.0.2.1"));
    assert_eq!(client("::ffff:10.0.0.1", &[chain]), ip("192.0.2.1"));
    assert_eq!(client(PROXY, &[]), ip(PROXY));
    // Lines of one name are one list.
    let lines = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.1")];
    assert_eq!(client(PROXY, &lines), ip("192.0.2.1"));
    // A request that a proxy makes itself.
    assert_eq!(client(PROXY, &[("x-forwarded-for", "10.9.9.9, 10.3.0.1")]), ip("10.9.9.9"));
}

#[test]
fn addresses_are_read_as_proxies_write_them() {
    for (text, expected) in [
        ("192.0.2.1:4711", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ] {
        assert_eq!(client(PROXY, &[("x-forwarded-for", text)]), ip(expected), "{text}");
        let quoted = format!("proto=https;For=\"{text}\";by=_x");
        assert_eq!(client(PROXY, &[("forwarded", &quoted)]), ip(expected), "{quoted}");
    }
    let chain = "for=6.6.6.6;by=\"a, b\", for=192.0.2.1;proto=http, for=\"[fd00::2]:80\"";
    assert_eq!(client(PROXY, &[("forwarded", chain)]), ip("192.0.2.1"));
}

#[test]
fn a_malformed_hop_ends_the_chain_at_the_last_trusted_one() {
    for text in ["unknown", "", "1.2.3", "6.6.6.6, _hidden", "6.6.6.6,", "é"] {
        assert_eq!(client(PROXY, &[("x-forwarded-for", text)]), ip(PROXY), "{text:?}");
        let further = format!("{text}, 10.3.0.1");
        assert_eq!(client(PROXY, &[("x-forwarded-for", &further)]), ip("10.3.0.1"), "{text:?}");
    }
    for text in ["for=unknown", "for=6.6.6.6;for=7.7.7.7", "by=6.6.6.6", "for=\"6.6.6.6", ""] {
        assert_eq!(client(PROXY, &[("forwarded", text)]), ip(PROXY), "{text:?}");
    }
}

#[test]
fn two_headers_that_differ_are_ignored() {
    let ours = ("x-forwarded-for", "192.0.2.1");
    assert_eq!(client(PROXY, &[ours, ("forwarded", "for=6.6.6.6")]), ip(PROXY));
    assert_eq!(client(PROXY, &[ours, ("forwarded", "for=192.0.2.1")]), ip("192.0.2.1"));
}

#[test]
fn a_list_of_all_addresses_is_refused_in_every_notation() {
    for list in [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.0/8, 0.0.0.0/1, 128.0.0.0/1",
        "::ffff:0:0/96",
        "8000::/1,::/1",
    ] {
        let refused = list.parse::<TrustedProxies>().unwrap_err();
        assert!(refused.contains("/0"), "{list}: {refused}");
    }
    for list in ["localhost", "10.0.0.0/33", "10.0.0.0 10.0.0.1"] {
        let refused = list.parse::<TrustedProxies>().unwrap_err();
        assert!(refused.contains("10.1.0.0/16"), "{list}: {refused}");
    }
    let mapped: TrustedProxies = "::ffff:10.0.0.0/104".parse().unwrap();
    assert_eq!(Ok(mapped), "10.0.0.0/8".parse());
    assert_eq!("".parse(), Ok(TrustedProxies::default()));
}

#[test]
fn a_client_of_ipv6_is_counted_by_its_64_bits_and_one_of_translated_ipv4_by_its_32() {
    let network = |text| ClientAddress(ip(text)).network().to_string();
    assert_eq!(network("192.0.2.1"), "192.0.2.1/32");
    assert_eq!(network("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
    assert_eq!(network("64:ff9b::192.0.2.1"), "192.0.2.1/32");
    assert_eq!(network("64:ff9b::192.0.2.2"), "192.0.2.2/32");
    assert_eq!(network("64:ff9b:0:0:1::192.0.2.1"), "64:ff9b::/64");
}

/// Header lines made mostly of tokens of this grammar.
fn line() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("for=".to_owned()),
        Just(",".to_owned()),
        Just(";".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("6.6.6.6".to_owned()),
        Just("10.0.0.9".to_owned()),
        Just("[2001:db8::1]:80".to_owned()),
        "[ -~]{0,6}",
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn without_trust_no_header_changes_the_address(forwarded in line(), x in line()) {
        let pairs = [("forwarded", forwarded.as_str()), ("x-forwarded-for", x.as_str())];
        prop_assert_eq!(client("198.51.100.7", &pairs), ip("198.51.100.7"));
    }

    #[test]
    fn the_entry_of_the_proxy_counts_whatever_the_client_sends(begin in line(), v6 in any::<bool>()) {
        let (seen, node) = match v6 {
            true => ("2001:db8::7", "\"[2001:db8::7]:4711\""),
            false => ("192.0.2.7", "192.0.2.7"),
        };
        let x = format!("{begin}, {seen}");
        prop_assert_eq!(client(PROXY, &[("x-forwarded-for", &x)]), ip(seen));
        // A quote that the client left open hides what the proxy wrote: then the proxy itself is named.
        let one_line = format!("{begin}, for={node};proto=https");
        let found = client(PROXY, &[("forwarded", &one_line)]);
        prop_assert!(found == ip(seen) || found == ip(PROXY), "{} from {}", found, one_line);
        let own_line = format!("for={node};proto=https");
        let lines = [("forwarded", begin.as_str()), ("forwarded", own_line.as_str())];
        prop_assert_eq!(client(PROXY, &lines), ip(seen));
    }

    #[test]
    fn a_chain_of_trusted_proxies_leads_to_its_client(
        client_bits in any::<u32>(),
        proxies in proptest::collection::vec(any::<[u8; 3]>(), 0..6),
    ) {
        let first = std::net::Ipv4Addr::from_bits(client_bits);
        prop_assume!(first.octets()[0] != 10);
        let hops = proxies.iter().map(|[a, b, c]| format!("10.{a}.{b}.{c}"));
        let hops: Vec<_> = std::iter::once(first.to_string()).chain(hops).collect();
        prop_assert_eq!(client(PROXY, &[("x-forwarded-for", &hops.join(", "))]), IpAddr::V4(first));
        let elements: Vec<_> = hops.iter().map(|hop| format!("for={hop}")).collect();
        prop_assert_eq!(client(PROXY, &[("forwarded", &elements.join(","))]), IpAddr::V4(first));
    }
}
