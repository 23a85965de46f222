//! The bytes of media: those stored by themselves, and those that stand inside a recorded value.
//!
//! Invariants:
//! - **Nothing that was recorded runs here.** Only types that a browser draws or plays leave under their
//!   own name; everything else, SVG and HTML above all, is a file to download, and so is text that is called a picture.
//! - **Found as the page found it.** The number of a medium inside a value is the one that
//!   `perpend_views` counted when it made the page.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use perpend_domain::payload::Payload;
use perpend_http_kit::problem::Problem;
use perpend_views::{decode_segment, inline_medium, inline_type};

use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::raw::{self, RawParams};

/// Stored media never change under their id. Kept for an hour, so that each step of an agent does not
/// load the pictures of its conversation again.
const CACHE_POLICY: &str = "private, max-age=3600";

fn unknown() -> Problem {
    Problem::not_found("medium")
}

/// `GET P/media/{media}`
pub(crate) async fn stored_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let telemetry = &app.store.telemetry;
    let id = decode_segment(&id);
    let medium = telemetry.medium(&viewer.project, id).await?;
    let content_type = medium.ok_or_else(unknown)?.content_type;
    let bytes = telemetry.media_bytes(&viewer.project, id).await?;
    let bytes = bytes.ok_or_else(unknown)?;
    let mut response = answer((&content_type, id), bytes, &headers);
    if response.status().is_success() {
        let kept = HeaderValue::from_static(CACHE_POLICY);
        response.headers_mut().insert(CACHE_CONTROL, kept);
    }
    Ok(response)
}

/// `GET P/traces/{trace}/raw/{part}/media/{number}`
pub(crate) async fn trace_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path((_, trace, part, number)): Path<(String, String, String, String)>,
    Query(of): Query<RawParams>,
) -> Result<Response, Problem> {
    let content = raw::content_of_trace(&app, &viewer, &trace).await?;
    inside(raw::value(content, &part), &of, (&part, &number), &headers)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}/media/{number}`
pub(crate) async fn observation_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path((_, trace, observation, part, number)): Path<(String, String, String, String, String)>,
    Query(of): Query<RawParams>,
) -> Result<Response, Problem> {
    let content = raw::content_of_observation(&app, &viewer, &trace, &observation).await?;
    inside(raw::value(content, &part), &of, (&part, &number), &headers)
}

fn inside(
    value: Option<Payload>,
    of: &RawParams,
    (part, number): (&str, &str),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let value = of.node(value.ok_or_else(unknown)?)?;
    let n = number.parse().map_err(|_| unknown())?;
    let medium = inline_medium(&value, n).ok_or_else(unknown)?;
    let name = format!("{part}-{n}");
    Ok(answer((&medium.content_type, &name), medium.bytes, headers))
}

/// Bytes that are looked at to tell text from a picture or a sound.
const SNIFFED: usize = 512;

/// Whether the bytes begin as text does, which no picture and no sound is, whatever their sender calls them.
fn looks_like_text(bytes: &[u8]) -> bool {
    let begins = &bytes[..bytes.len().min(SNIFFED)];
    let is_utf8 = match std::str::from_utf8(begins) {
        Ok(_) => true,
        // A character may be cut at the end.
        Err(error) => error.error_len().is_none(),
    };
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | 0x0c | b'\r');
    !begins.is_empty() && is_utf8 && !begins.iter().any(is_control)
}

/// What a file of this type is called, with letters that every system takes.
fn file_name(name: &str, content_type: &str) -> String {
    let plain = content_type.split(';').next().unwrap_or_default().trim();
    let is_short = |ending: &&str| {
        matches!(ending.len(), 1..=5) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let ending = match plain {
        "image/svg+xml" => "svg",
        "image/jpeg" => "jpg",
        "audio/mpeg" => "mp3",
        "text/plain" => "txt",
        _ => {
            let ending = plain.split_once('/').map(|(_, ending)| ending);
            ending.filter(is_short).unwrap_or("bin")
        }
    };
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    let name: String = name.chars().take(80).map(plain).collect();
    format!("{name}.{ending}")
}

/// What of some bytes is asked for.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    Whole,
    /// From the first of them to before the other one.
    Part(usize, usize),
    /// They end before it.
    Unsatisfiable,
}

/// The part of `n` bytes that is asked for: players read what they seek. Several parts at once are answered with the whole, as
/// is what cannot be read.
fn byte_range(headers: &HeaderMap, n: usize) -> ByteRange {
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    // What the bytes were like before is not known.
    let range = range.filter(|_| !headers.contains_key(IF_RANGE));
    let ends = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = ends else {
        return ByteRange::Whole;
    };
    let [first, last] = [first, last].map(|end| (end.is_empty(), end.parse::<usize>()));
    match (first, last) {
        ((true, _), (_, Ok(n_last))) if 0 < n_last.min(n) => {
            ByteRange::Part(n.saturating_sub(n_last), n)
        }
        ((true, _), (_, Ok(_))) => ByteRange::Unsatisfiable,
        ((_, Ok(first)), (true, _)) if first < n => ByteRange::Part(first, n),
        ((_, Ok(first)), (_, Ok(last))) if first <= last && first < n => {
            ByteRange::Part(first, n.min(last.saturating_add(1)))
        }
        ((_, Ok(first)), (true, _)) if n <= first => ByteRange::Unsatisfiable,
        ((_, Ok(first)), (_, Ok(last))) if first <= last => ByteRange::Unsatisfiable,
        _ => ByteRange::Whole,
    }
}

fn answer(
    (content_type, name): (&str, &str),
    mut bytes: Vec<u8>,
    request_headers: &HeaderMap,
) -> Response {
    let shown = inline_type(content_type).filter(|_| !looks_like_text(&bytes));
    let file = file_name(name, content_type);
    let (content_type, disposition) = match shown {
        Some(shown) => (shown, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, content_type),
        (ACCEPT_RANGES, "bytes"),
        (CONTENT_SECURITY_POLICY, "sandbox"),
        // No page of another origin may embed it.
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let n = bytes.len();
    let (status, range) = match byte_range(request_headers, n) {
        ByteRange::Whole => (StatusCode::OK, None),
        ByteRange::Part(first, end) => {
            bytes.truncate(end);
            bytes.drain(..first);
            let range = format!("bytes {first}-{}/{n}", end - 1);
            (StatusCode::PARTIAL_CONTENT, Some(range))
        }
        ByteRange::Unsatisfiable => {
            bytes.clear();
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(format!("bytes */{n}")))
        }
    };
    let mut response = (status, headers, Body::from(bytes)).into_response();
    let disposition = format!("{disposition}; filename=\"{file}\"");
    let more = [(CONTENT_DISPOSITION, Some(disposition)), (CONTENT_RANGE, range)];
    for (name, value) in more {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[test]
    fn what_could_run_is_a_file() {
        let picture = b"\x89PNG\r\n\x1a\n".as_slice();
        let page = b"<html><script>alert(1)</script>".as_slice();
        for (recorded, bytes, sent, disposition) in [
            ("image/png", picture, "image/png", "inline; filename=\"a_b.png\""),
            ("audio/mp3", picture, "audio/mpeg", "inline; filename=\"a_b.mp3\""),
            ("image/png", page, FILE, "attachment; filename=\"a_b.png\""),
            ("image/svg+xml", page, FILE, "attachment; filename=\"a_b.svg\""),
            ("text/html", page, FILE, "attachment; filename=\"a_b.html\""),
            ("application/pdf", picture, FILE, "attachment; filename=\"a_b.pdf\""),
            ("image/png\r\nx: y", picture, FILE, "attachment; filename=\"a_b.bin\""),
        ] {
            let response = answer((recorded, "a/b"), bytes.to_vec(), &HeaderMap::new());
            let headers = response.headers();
            assert_eq!(headers[CONTENT_TYPE], sent);
            assert_eq!(headers[CONTENT_DISPOSITION], disposition);
            assert_eq!(headers[CONTENT_SECURITY_POLICY], "sandbox");
        }
    }

    const FILE: &str = "application/octet-stream";

    #[tokio::test]
    async fn a_player_gets_the_part_that_it_seeks() {
        for (range, wanted) in [
            ("bytes=0-1", ByteRange::Part(0, 2)),
            ("bytes=4-", ByteRange::Part(4, 10)),
            ("bytes=4-99", ByteRange::Part(4, 10)),
            ("bytes=-3", ByteRange::Part(7, 10)),
            ("bytes=-99", ByteRange::Part(0, 10)),
            ("bytes=10-", ByteRange::Unsatisfiable),
            ("bytes=-0", ByteRange::Unsatisfiable),
            ("bytes=10-12", ByteRange::Unsatisfiable),
            ("bytes=3-2", ByteRange::Whole),
            ("bytes=0-1,4-5", ByteRange::Whole),
            ("lines=0-1", ByteRange::Whole),
            ("bytes=-", ByteRange::Whole),
        ] {
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static(range))]);
            assert_eq!(byte_range(&headers, 10), wanted, "{range}");
        }
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=2-4"))]);
        let response = answer(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes 2-4/10");
        assert_eq!(response.headers()[ACCEPT_RANGES], "bytes");
        let sent = to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(&*sent, [2, 3, 4]);
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=10-"))]);
        let response = answer(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes */10");
        // Whether they are the bytes of that time is not known, so they are sent whole.
        let headers = HeaderMap::from_iter([
            (RANGE, HeaderValue::from_static("bytes=2-4")),
            (IF_RANGE, HeaderValue::from_static("\"a\"")),
        ]);
        let response = answer(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::OK);
    }
}
