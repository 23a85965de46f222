//! Bytes of stored media and of media embedded in recorded values.
//!
//! Invariants:
//! - **Recorded content never runs.** Only types that a browser displays or plays keep their content type. Everything else,
//!   such as SVG and HTML, is sent as a file to download, and so is text with the content type of an image.
//! - **Same numbering as the page.** `perpend_views` numbers the media in a value for the page and for this route.

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

/// A stored medium never changes. Cached for an hour, because each call of an agent repeats the images of its conversation.
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
    let mut response = medium_response((&content_type, id), bytes, &headers);
    if response.status().is_success() {
        let policy = HeaderValue::from_static(CACHE_POLICY);
        response.headers_mut().insert(CACHE_CONTROL, policy);
    }
    Ok(response)
}

/// `GET P/traces/{trace}/raw/{part}/media/{number}`
pub(crate) async fn trace_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path((_, trace, part, number)): Path<(String, String, String, String)>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    let content = raw::content_of_trace(&app, &viewer, &trace).await?;
    embedded_medium(raw::value(content, &part), &params, (&part, &number), &headers)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}/media/{number}`
pub(crate) async fn observation_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path((_, trace, observation, part, number)): Path<(String, String, String, String, String)>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    let content = raw::content_of_observation(&app, &viewer, &trace, &observation).await?;
    embedded_medium(raw::value(content, &part), &params, (&part, &number), &headers)
}

/// The medium with this number in a value.
pub(crate) fn embedded_medium(
    value: Option<Payload>,
    params: &RawParams,
    (part, number): (&str, &str),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let value = params.node(value.ok_or_else(unknown)?)?;
    let n = number.parse().map_err(|_| unknown())?;
    let medium = inline_medium(&value, n).ok_or_else(unknown)?;
    let name = format!("{part}-{n}");
    Ok(medium_response((&medium.content_type, &name), medium.bytes, headers))
}

/// Bytes examined to distinguish text from an image or audio.
const SNIFF_BYTES: usize = 512;

/// Whether the first bytes are text, which images and audio never are, regardless of the recorded type.
fn looks_like_text(bytes: &[u8]) -> bool {
    let begins = &bytes[..bytes.len().min(SNIFF_BYTES)];
    let is_utf8 = match std::str::from_utf8(begins) {
        Ok(_) => true,
        // The last character may be incomplete.
        Err(error) => error.error_len().is_none(),
    };
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | 0x0c | b'\r');
    !begins.is_empty() && is_utf8 && !begins.iter().any(is_control)
}

/// A file name with portable characters and an extension for the type.
fn file_name(name: &str, content_type: &str) -> String {
    let plain = content_type.split(';').next().unwrap_or_default().trim();
    let is_short = |extension: &&str| {
        matches!(extension.len(), 1..=5)
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let extension = match plain {
        "image/svg+xml" => "svg",
        "image/jpeg" => "jpg",
        "audio/mpeg" => "mp3",
        "text/plain" => "txt",
        _ => {
            let subtype = plain.split_once('/').map(|(_, subtype)| subtype);
            subtype.filter(is_short).unwrap_or("bin")
        }
    };
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    let name: String = name.chars().take(80).map(plain).collect();
    format!("{name}.{extension}")
}

/// The requested range of a body.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    Whole,
    /// Start and end offset, without the end.
    Part(usize, usize),
    /// It starts after the end of the body.
    Unsatisfiable,
}

/// The `Range` of a request for `n` bytes; players use it to seek. Multiple and invalid ranges give the whole body.
fn byte_range(headers: &HeaderMap, n: usize) -> ByteRange {
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok());
    // There is no validator to compare `If-Range` with.
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

fn medium_response(
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
        // Prevents embedding in pages of other origins.
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
    fn content_that_could_run_is_sent_as_a_download() {
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
            let response = medium_response((recorded, "a/b"), bytes.to_vec(), &HeaderMap::new());
            let headers = response.headers();
            assert_eq!(headers[CONTENT_TYPE], sent);
            assert_eq!(headers[CONTENT_DISPOSITION], disposition);
            assert_eq!(headers[CONTENT_SECURITY_POLICY], "sandbox");
        }
    }

    const FILE: &str = "application/octet-stream";

    #[tokio::test]
    async fn a_byte_range_is_served() {
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
        let response = medium_response(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes 2-4/10");
        assert_eq!(response.headers()[ACCEPT_RANGES], "bytes");
        let sent = to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(&*sent, [2, 3, 4]);
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=10-"))]);
        let response = medium_response(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes */10");
        // Without a validator, `If-Range` never matches, so the whole body is sent.
        let headers = HeaderMap::from_iter([
            (RANGE, HeaderValue::from_static("bytes=2-4")),
            (IF_RANGE, HeaderValue::from_static("\"a\"")),
        ]);
        let response = medium_response(("audio/wav", "a"), (0..10).collect(), &headers);
        assert_eq!(response.status(), StatusCode::OK);
    }
}
