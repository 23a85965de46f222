//! Request headers of browsers: the origin of forms, cookies and preferences.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, HOST, ORIGIN, REFERER};
use perpend_http_kit::cookies::cookie_values;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{Forms, Preferences, Shell};

use crate::state::App;

/// Rejects a form that was not sent from this server.
pub(crate) fn same_site(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    match is_same_origin(app.web.config.public_url.as_deref(), headers) {
        true => Ok(()),
        false => Err(Problem::new(
            Code::AccessDenied,
            "the form was sent from another site or without an `Origin` header; a proxy in front of this server must \
             forward the headers `Host` and `Origin`",
        )),
    }
}

/// Browsers send `Sec-Fetch-Site` over HTTPS and to localhost, and otherwise only `Origin`. A request without either header
/// does not come from a page of this server.
fn is_same_origin(public_url: Option<&str>, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else {
        return false;
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match public_url {
        Some(public) => public.trim_end_matches('/') == origin,
        None => host.is_some() && origin.split_once("://").map(|(_, host)| host) == host,
    }
}

/// The address if it is a path of this server.
pub(crate) fn local(address: &str) -> Option<&str> {
    let bytes = address.as_bytes();
    let is_local = bytes.first() == Some(&b'/')
        && !matches!(bytes.get(1), Some(b'/' | b'\\'))
        && bytes.iter().all(|byte| (0x21..0x7f).contains(byte));
    is_local.then_some(address)
}

/// The path of the `Referer` header.
pub(crate) fn referring_page(headers: &HeaderMap) -> Option<&str> {
    let from = headers.get(REFERER)?.to_str().ok()?;
    let (_, rest) = from.split_once("://")?;
    rest.find('/').and_then(|at| local(&rest[at..]))
}

/// The display preferences in the cookie.
pub(crate) fn preferences(headers: &HeaderMap) -> Preferences {
    let stored = cookie_values(headers, Preferences::COOKIE).next();
    stored.map_or_else(Preferences::default, Preferences::of_cookie)
}

/// The cookie with the last selected display forms of values, in the format of a query string.
pub(crate) const FORMS_COOKIE: &str = "perpend_forms";

/// The display forms of values that apply if the URL has none.
pub(crate) fn forms(headers: &HeaderMap) -> Forms {
    let mut forms = Forms::default();
    let stored = cookie_values(headers, FORMS_COOKIE).next().unwrap_or_default();
    for (name, value) in form_urlencoded::parse(stored.as_bytes()) {
        forms.take(&name, &value);
    }
    forms
}

/// Whether the client accepts HTML.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Whether a script of a page sent the request. Browsers send `Sec-Fetch-Mode` only over HTTPS and to localhost; elsewhere
/// the scripts are recognized by their `Accept` header, which is `text/html` alone.
pub(crate) fn is_script_request(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-mode") {
        Some(mode) => mode != "navigate",
        None => headers.get(ACCEPT).is_some_and(|kinds| kinds == "text/html"),
    }
}

/// The shell of a page without a session.
pub(crate) fn shell(headers: &HeaderMap) -> Shell {
    Shell { preferences: preferences(headers), ..Shell::default() }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_of_another_origin_is_rejected_with_either_header() {
        let site = |site| vec![("sec-fetch-site", site)];
        let origin = |origin| vec![("origin", origin)];
        for (sent, by_host, by_url) in [
            (vec![("sec-fetch-site", "same-origin"), ("origin", "null")], true, true),
            (site("none"), true, true),
            (site("same-site"), false, false),
            (site("cross-site"), false, false),
            (origin("http://perpend.example:4747"), true, false),
            (origin("https://perpend.example"), false, true),
            (origin("http://other.example"), false, false),
            (origin("null"), false, false),
            (vec![], false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("perpend.example:4747"));
            for (name, value) in &sent {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_same_origin(None, &headers), by_host, "{sent:?}");
            let public = Some("https://perpend.example/");
            assert_eq!(is_same_origin(public, &headers), by_url, "{sent:?}");
        }
    }

    #[test]
    fn only_paths_of_this_server_are_local() {
        assert_eq!(local("/traces/a?observation=b"), Some("/traces/a?observation=b"));
        for outside in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "x"]
        {
            assert_eq!(local(outside), None, "{outside:?}");
        }
    }
}
