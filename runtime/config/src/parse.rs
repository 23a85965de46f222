//! Values of settings, parsed from text.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

pub(super) fn public_key(text: &str) -> Result<Option<String>, String> {
    if text.contains(':') || text.chars().any(char::is_control) {
        return Err("a public key holds no colon and no control character".to_owned());
    }
    Ok(some_text(text))
}

pub(super) fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Refuses a value in quotes, which some tools pass on instead of removing them.
pub(super) fn unquoted(text: &str) -> Result<&str, String> {
    let is_quoted = ['"', '\'']
        .iter()
        .any(|quote| text.len() > 1 && text.starts_with(*quote) && text.ends_with(*quote));
    match is_quoted {
        true => Err("must be without the quotes around it".to_owned()),
        false => Ok(text),
    }
}

pub(super) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().count() > 100 || text.chars().any(char::is_control) {
        return Err("a name has 1 to 100 characters and no control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Whether a text is a host with or without a port, an address, or a range of addresses.
pub(super) fn is_endpoint(text: &str) -> bool {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_address = bare.unwrap_or(text).parse::<IpAddr>().is_ok();
    if is_address || text.parse::<IpNet>().is_ok() || text.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_part = |c: char| c.is_alphanumeric() || "-._".contains(c);
    !host.is_empty()
        && host.chars().all(is_part)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| 0 < port))
}

pub(super) fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("must be an integer from {min} to {max}, got {text:?}")),
    }
}

pub(super) fn http_url(text: &str) -> Result<Option<String>, String> {
    let is_http = text.starts_with("http://") || text.starts_with("https://");
    if !text.is_empty() && !is_http {
        return Err(format!("must start with http:// or https://, got {text:?}"));
    }
    Ok(some_text(text))
}

/// Parses `name=value` pairs separated by commas. Errors do not quote values.
pub(super) fn request_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |(index, pair): (usize, &str)| {
        let parts = pair.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let is_name = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        let is_value = |c: u8| c == b' ' || c.is_ascii_graphic();
        match parts {
            Some((name, value))
                if !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value) =>
            {
                Ok((name.to_ascii_lowercase(), value.to_owned()))
            }
            _ => Err(format!(
                "must be pairs of the form name=value, separated by commas; pair {} is not",
                index + 1
            )),
        }
    };
    pairs.enumerate().map(pair).collect()
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if 0.0 < share && share <= 1.0 => Ok(share),
        _ => Err(format!("must be greater than 0 and at most 1, got {text:?}")),
    }
}
