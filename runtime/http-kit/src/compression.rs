//! Compression of responses: zstd, Brotli or gzip.
//!
//! Invariants:
//! - **No secret is compressed.** The length of a compressed response depends on repetitions in it, so a caller that
//!   can put text into it could guess the rest (BREACH). A response marked by [`keep_secret`] is not compressed.
//! - **An `ETag` identifies bytes.** A compressed response has other bytes, so its `ETag` becomes weak.
//! - **No response blocks a thread.** A large body is compressed chunk by chunk, and other tasks run in between.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY,
};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};

/// A shorter response fits into one packet uncompressed.
const MIN_BYTES: u64 = 1_024;
/// Bytes compressed at a time, which takes a few milliseconds.
const CHUNK_BYTES: usize = 256 << 10;
/// Prefixes of the media types that are compressed.
const TYPES: [&str; 5] = [
    "text/",
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "image/svg+xml",
];

/// Marks a response with a secret.
#[derive(Clone, Copy)]
struct Secret;

/// The status set by the handler.
#[derive(Clone, Copy)]
struct HandlerStatus(StatusCode);

/// Marks a response with a secret: it is neither cached nor compressed.
pub async fn keep_secret(mut response: Response) -> Response {
    response.extensions_mut().insert(Secret);
    let policy = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, policy);
    response
}

/// Compresses the responses of `paths`. The levels are those of the library: 3 for zstd, 4 for Brotli,
/// 6 for gzip.
pub fn around<S: Clone + Send + Sync + 'static>(paths: Router<S>) -> Router<S> {
    let layer = CompressionLayer::new().compress_when(SizeAbove::new(MIN_BYTES).and(may_compress));
    paths.layer(from_fn(before)).layer(layer).layer(from_fn(after))
}

/// Whether a caller prefers Brotli to every other encoding that it names: a file stored in Brotli
/// can be sent as stored.
#[must_use]
pub fn prefers_brotli(headers: &HeaderMap) -> bool {
    let (mut brotli, mut best) = (0.0, 0.0_f32);
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().to_ascii_lowercase();
        let weight = weight.strip_prefix("q=").and_then(|q| q.parse().ok());
        let weight: f32 = weight.unwrap_or(0.0);
        if name.trim().eq_ignore_ascii_case("br") {
            brotli = weight;
        }
        best = best.max(weight);
    }
    brotli > 0.0 && brotli >= best
}

fn may_compress(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_text = media_type.is_some_and(|kind| TYPES.iter().any(|start| kind.starts_with(start)));
    // Files are sent as they were stored.
    is_text && !headers.contains_key(CONTENT_DISPOSITION) && extensions.get::<Secret>().is_none()
}

/// Inner layer, before the compression.
async fn before(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let status = response.status();
    response.extensions_mut().insert(HandlerStatus(status));
    if status == StatusCode::NOT_MODIFIED {
        // It has no body, and repeats the `Vary` of the full response.
        response.headers_mut().append(VARY, ACCEPT_ENCODING.into());
    }
    if may_compress(status, Version::HTTP_11, response.headers(), response.extensions()) {
        response = response.map(|body| Body::new(ChunkedBody::new(body)));
    }
    response
}

/// Outer layer, after the compression.
async fn after(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    // The library answers 406 to a caller that accepts no encoding, not even identity, although the
    // handler has done its work by then. Such a caller gets the uncompressed response.
    if let Some(HandlerStatus(status)) = response.extensions().get().copied() {
        *response.status_mut() = status;
    }
    if response.headers().contains_key(CONTENT_ENCODING)
        && let Some(tag) = response.headers().get(ETAG)
        && !tag.as_bytes().starts_with(b"W/")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        response.headers_mut().insert(ETAG, weak);
    }
    response
}

/// A body in chunks of at most [`CHUNK_BYTES`], which yields to other tasks between two of them.
struct ChunkedBody {
    body: Body,
    /// Rest of the last frame of the body.
    rest: Bytes,
    is_pausing: bool,
}

impl ChunkedBody {
    const fn new(body: Body) -> Self {
        Self { body, rest: Bytes::new(), is_pausing: false }
    }
}

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        if std::mem::take(&mut self.is_pausing) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_pausing = true;
        let n = CHUNK_BYTES.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(n)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (n, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(n + body.lower());
        if let Some(upper) = body.upper() {
            hint.set_upper(n + upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::StreamExt as _;

    use super::*;

    #[test]
    fn brotli_is_preferred_when_it_is_named_with_the_highest_weight() {
        for (accepted, is_preferred) in [
            ("gzip, deflate, br, zstd", true),
            ("BR;Q=1.0", true),
            ("gzip;q=0.5, br;q=0.5", true),
            ("gzip", false),
            ("br;q=0", false),
            ("br;q=much", false),
            ("br;q=0.2, gzip;q=0.9", false),
            ("identity, br;q=0.5", false),
            ("*", false),
            ("", false),
        ] {
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(accepted))];
            let headers = HeaderMap::from_iter(headers);
            assert_eq!(prefers_brotli(&headers), is_preferred, "{accepted}");
        }
        assert!(!prefers_brotli(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_chunked_body_has_the_same_bytes_and_length() {
        for n in [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 1] {
            let bytes: Vec<u8> = (0..n).map(|at| (at % 251) as u8).collect();
            let body = Body::new(ChunkedBody::new(Body::from(bytes.clone())));
            assert_eq!(body.size_hint().exact(), Some(n as u64));
            assert!(to_bytes(body, usize::MAX).await.unwrap() == bytes, "{n}");
            let mut pieces = Body::new(ChunkedBody::new(Body::from(bytes))).into_data_stream();
            while let Some(piece) = pieces.next().await {
                assert!(piece.unwrap().len() <= CHUNK_BYTES);
            }
        }
    }
}
