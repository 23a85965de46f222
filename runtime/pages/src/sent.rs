//! What a browser says beside its question: where a form was sent from, and what its reader prefers.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use perpend_ui::{Preferences, Shell};
use perpend_web::problem::{Code, Problem};

/// Browsers say where a form was sent from: over HTTPS and on this machine with a header of its own, elsewhere with the
/// origin alone. Other clients say nothing and carry no cookie of ours.
pub(super) fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let is_ours = match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(site) => matches!(site, b"same-origin" | b"none"),
        None => headers.get(ORIGIN).is_none_or(|origin| {
            let origin = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.split_once("://"));
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            origin.map(|(_, host)| host) == host
        }),
    };
    match is_ours {
        true => Ok(()),
        false => Err(Problem::new(
            Code::AccessDenied,
            "this form was sent from another site; a proxy in front of this server has to pass the Host header on",
        )),
    }
}

/// What the browser that sends these headers is to be shown.
pub(super) fn preferences(headers: &HeaderMap) -> Preferences {
    let lists = headers.get_all(COOKIE).iter();
    let lists = lists.filter_map(|list| list.to_str().ok());
    let mut cookies = lists
        .flat_map(|list| list.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let ours = cookies.find(|(name, _)| *name == Preferences::COOKIE);
    ours.map_or_else(Preferences::default, |(_, value)| {
        Preferences::of_cookie(value)
    })
}

/// The frame of a page without a session.
pub(super) fn shell(headers: &HeaderMap) -> Shell {
    Shell {
        preferences: preferences(headers),
        ..Shell::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_another_origin_is_refused_whatever_the_browser_says_of_it() {
        for (sent, is_ours) in [
            (
                vec![("sec-fetch-site", "same-origin"), ("origin", "null")],
                true,
            ),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("origin", "http://perpend.example:4747")], true),
            (vec![("origin", "http://other.example")], false),
            (vec![("origin", "null")], false),
            (vec![], true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("perpend.example:4747"));
            for (name, value) in &sent {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(same_site(&headers).is_ok(), is_ours, "{sent:?}");
        }
    }
}
