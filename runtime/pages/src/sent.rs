//! What a browser says beside its question: where a form was sent from, and what its reader prefers.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use perpend_ui::{Preferences, Shell};
use perpend_web::problem::{Code, Problem};

/// Browsers say where a form was sent from; other clients say nothing and carry no cookie of ours.
pub(super) fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Problem::new(
            Code::AccessDenied,
            "this form was sent from another site",
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

/// What stands around the page of somebody without a session.
pub(super) fn shell(headers: &HeaderMap) -> Shell {
    Shell {
        preferences: preferences(headers),
        ..Shell::default()
    }
}
