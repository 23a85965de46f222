//! Reads a body from the wire within its memory and time limits.

use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use futures_util::StreamExt as _;
use perpend_config::Ingest;
use tokio::time::Instant;

use super::account::Account;
use super::pace::Pace;
use crate::Web;
use crate::problem::{Code, Problem};

/// A body in memory and the account it is charged to.
#[derive(Debug)]
pub struct ChargedBody {
    pub bytes: Vec<u8>,
    pub account: Account,
}

pub fn too_large(max_bytes: usize) -> Problem {
    let limit = match max_bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    };
    let message = format!("the body is larger than {limit}, on the wire or decoded");
    Problem::new(Code::TooLarge, message)
}

/// Reads the whole body of a request, at most `max_bytes`, and charges it to the account of the request.
///
/// # Errors
/// 415 for a body with a content encoding; 413 beyond the limit, before reading when `Content-Length` exceeds it;
/// 408 for a sender that is too slow; 503 when the memory is in use; 400 when the body ends early.
pub async fn read(web: &Web, request: Request, max_bytes: usize) -> Result<ChargedBody, Problem> {
    refuse_encoded(request.headers())?;
    read_encoded(web, request, max_bytes).await
}

fn refuse_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    for value in headers.get_all(CONTENT_ENCODING) {
        let encoding = String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
            let message = format!(
                "Content-Encoding must be identity or absent on this path, got {encoding:?}; the OTLP paths accept gzip, \
                 deflate and zstd"
            );
            return Err(Problem::new(Code::UnsupportedMediaType, message));
        }
    }
    Ok(())
}

/// As [`read`], for a handler that decodes the body itself.
///
/// # Errors
/// As [`read`], except 415.
pub async fn read_encoded(
    web: &Web,
    request: Request,
    max_bytes: usize,
) -> Result<ChargedBody, Problem> {
    let account = Account::of(request.extensions()).cloned();
    let account = account.unwrap_or_else(|| web.admission.account());
    read_body(request.into_body(), account, &web.config.ingest, max_bytes).await
}

async fn read_body(
    body: Body,
    account: Account,
    limits: &Ingest,
    max_bytes: usize,
) -> Result<ChargedBody, Problem> {
    if (max_bytes as u64) < body.size_hint().lower() {
        return Err(too_large(max_bytes));
    }
    let mut pace = Pace::new(limits, Instant::now());
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    loop {
        let chunk = match tokio::time::timeout_at(pace.next(), chunks.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "request body ended early"
                );
                return Err(Problem::new(Code::InvalidBody, "the request body ended early"));
            }
            Ok(None) => break,
            Err(_) => return Err(too_slow(&pace, limits)),
        };
        if max_bytes < bytes.len() + chunk.len() {
            return Err(too_large(max_bytes));
        }
        account.take(chunk.len())?;
        bytes.extend_from_slice(&chunk);
        pace.record(chunk.len(), Instant::now());
    }
    Ok(ChargedBody { bytes, account })
}

/// A body that is passed on in chunks and not held in memory. The rate of the sender is limited, the time is not.
#[derive(Debug)]
pub struct BodyChunks {
    chunks: BodyDataStream,
    limits: Ingest,
    pace: Pace,
    max_bytes: u64,
    n_bytes: u64,
}

impl BodyChunks {
    /// The body of a request, at most `max_bytes`.
    ///
    /// # Errors
    /// 415 for a body with a content encoding; 413 when `Content-Length` exceeds the limit.
    pub fn of(web: &Web, request: Request, max_bytes: u64) -> Result<Self, Problem> {
        refuse_encoded(request.headers())?;
        let body = request.into_body();
        if max_bytes < body.size_hint().lower() {
            return Err(too_large(usize::try_from(max_bytes).unwrap_or(usize::MAX)));
        }
        let limits = web.config.ingest.clone();
        Ok(Self {
            chunks: body.into_data_stream(),
            pace: Pace::without_deadline(&limits, Instant::now()),
            limits,
            max_bytes,
            n_bytes: 0,
        })
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// 413 beyond the limit; 408 for a sender that is too slow; 400 when the body ends early.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let chunk = match tokio::time::timeout_at(self.pace.next(), self.chunks.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(_))) => {
                return Err(Problem::new(Code::InvalidBody, "the request body ended early"));
            }
            Ok(None) => return Ok(None),
            Err(_) => return Err(too_slow(&self.pace, &self.limits)),
        };
        self.n_bytes += chunk.len() as u64;
        if self.max_bytes < self.n_bytes {
            return Err(too_large(usize::try_from(self.max_bytes).unwrap_or(usize::MAX)));
        }
        self.pace.record(chunk.len(), Instant::now());
        Ok(Some(chunk))
    }
}

fn too_slow(pace: &Pace, limits: &Ingest) -> Problem {
    let message = match pace.is_over() {
        true => format!(
            "the request body took longer than {} s (ingest.body_deadline_seconds)",
            limits.body_deadline.as_secs()
        ),
        false => format!(
            "the request body arrived too slowly: at least {} KiB per second are required, with pauses of at most {} s \
             (ingest.min_body_kib_per_second, ingest.read_timeout_seconds)",
            limits.min_body_bytes_per_second >> 10,
            limits.read_timeout.as_secs()
        ),
    };
    Problem::too_slow(message)
}
