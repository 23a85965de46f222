//! Answers compressed for callers that accept it: zstd, Brotli or gzip.
//!
//! Invariants:
//! - **No secret is compressed.** The length of a compressed answer depends on what repeats in it, so whoever
//!   can put text into it could guess the rest (BREACH). An answer that [`keep_secret`] marked goes as it is.
//! - **A tag names bytes.** A compressed answer has other bytes, so its `ETag` becomes weak.
//! - **No answer holds a thread.** A large body is compressed piece by piece, and other tasks run between.

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

/// A shorter answer fits into one packet however it is sent.
const MIN_BYTES: u64 = 1_024;
/// Compressed at a stretch: a few milliseconds.
const PIECE: usize = 256 << 10;
/// Beginnings of the media types that become shorter.
const TYPES: [&str; 5] = [
    "text/",
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "image/svg+xml",
];

/// The answer holds a secret.
#[derive(Clone, Copy)]
struct Secret;

/// The status that the handler gave.
#[derive(Clone, Copy)]
struct Given(StatusCode);

/// Marks an answer that holds a secret: no cache keeps it, and it is not compressed.
pub async fn keep_secret(mut response: Response) -> Response {
    response.extensions_mut().insert(Secret);
    let policy = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, policy);
    response
}

/// The same paths, their answers compressed. The levels are those of the library: 3 for zstd, 4 for Brotli,
/// 6 for gzip.
pub fn around<S: Clone + Send + Sync + 'static>(paths: Router<S>) -> Router<S> {
    let layer = CompressionLayer::new().compress_when(SizeAbove::new(MIN_BYTES).and(may_compress));
    paths.layer(from_fn(before)).layer(layer).layer(from_fn(after))
}

/// Whether a caller likes Brotli at least as well as any other encoding that it names: what is stored compressed
/// so may be sent as it is.
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

/// Around the handlers, before the answer is compressed.
async fn before(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let status = response.status();
    response.extensions_mut().insert(Given(status));
    if status == StatusCode::NOT_MODIFIED {
        // It has no body to be compressed, and names what the full answer depends on.
        response.headers_mut().append(VARY, ACCEPT_ENCODING.into());
    }
    if may_compress(status, Version::HTTP_11, response.headers(), response.extensions()) {
        response = response.map(|body| Body::new(InPieces::new(body)));
    }
    response
}

/// Around the compression.
async fn after(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    // The library answers 406 to a caller that accepts no encoding, not even the plain one, although the
    // handler has done its work by then. Such a caller gets the plain answer.
    if let Some(Given(status)) = response.extensions().get().copied() {
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

/// A body in pieces of at most [`PIECE`], which lets other tasks run between two of them.
struct InPieces {
    body: Body,
    /// What is left of the body's last frame.
    rest: Bytes,
    is_pausing: bool,
}

impl InPieces {
    const fn new(body: Body) -> Self {
        Self { body, rest: Bytes::new(), is_pausing: false }
    }
}

impl HttpBody for InPieces {
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
        let n = PIECE.min(self.rest.len());
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
    fn brotli_is_preferred_where_it_is_named_and_nothing_is_liked_better() {
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
    async fn a_body_in_pieces_is_the_same_body_of_the_same_length() {
        for n in [0, 1, PIECE, 3 * PIECE + 1] {
            let bytes: Vec<u8> = (0..n).map(|at| (at % 251) as u8).collect();
            let body = Body::new(InPieces::new(Body::from(bytes.clone())));
            assert_eq!(body.size_hint().exact(), Some(n as u64));
            assert!(to_bytes(body, usize::MAX).await.unwrap() == bytes, "{n}");
            let mut pieces = Body::new(InPieces::new(Body::from(bytes))).into_data_stream();
            while let Some(piece) = pieces.next().await {
                assert!(piece.unwrap().len() <= PIECE);
            }
        }
    }
}
