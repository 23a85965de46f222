//! Upload and download of media through signed URLs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use perpend_domain::access::Permission::{ContentRead, IngestWrite};
use perpend_domain::plugin::Digest;
use perpend_http_kit::admission::{Account, AccountOwner, read};
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading;
use perpend_telemetry::media::Medium;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::link::authorize;
use super::signer::HELD_KIB;
use crate::state::App;

/// How long a download waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a download per chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Time limit of a download, and its increase per mebibyte: a megabit per
/// second is enough. A slow client must not block other downloads.
const TRANSFER_TIME: Duration = Duration::from_secs(120);
const TRANSFER_TIME_PER_MIB: Duration = Duration::from_secs(9);

pub(super) async fn put_content(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<StatusCode, Problem> {
    let sender = (ClientAddress::in_request(request.extensions()), request.headers());
    let project = authorize(&app, "PUT", &id, &params, sender, IngestWrite).await?;
    let medium = app.store.telemetry.medium(&project, &id).await?;
    let medium = medium.ok_or_else(|| Problem::not_found("medium"))?;
    let n_announced = usize::try_from(medium.content_length).unwrap_or_default();
    if let Some(account) = Account::of(request.extensions()) {
        account.belongs_to(AccountOwner::Project(project.clone()));
    }
    let bytes = read(&app.web, request, n_announced).await?.bytes;
    if bytes.len() != n_announced {
        let message =
            format!("the body must have the announced {n_announced} bytes, got {}", bytes.len());
        return Err(Problem::body("", message));
    }
    if Digest::of(&bytes).as_bytes().as_slice() != medium.sha256 {
        return Err(Problem::body("", "the body must have the announced SHA-256 hash"));
    }
    app.store.telemetry.store_media(&project, &medium, &bytes, app.web.clock.now()).await?;
    Ok(StatusCode::OK)
}

/// Memory of a medium in KiB.
fn kibibytes(medium: &Medium) -> u32 {
    u32::try_from((medium.content_length >> 10) + 1).unwrap_or(u32::MAX)
}

fn transfer_time(n_kib: u32) -> Duration {
    TRANSFER_TIME + TRANSFER_TIME_PER_MIB * (n_kib >> 10)
}

/// Sends the bytes in chunks. The memory permit is released when the last chunk is sent, when the client
/// disconnects, or after `time`, when the body ends in an error.
fn chunked(bytes: Vec<u8>, permit: OwnedSemaphorePermit, time: Duration) -> Body {
    let n_bytes = bytes.len();
    let (sender, receiver) = mpsc::channel(1);
    // A separate task: the body is not polled, and therefore no timeout would run, while a client does
    // not read.
    tokio::spawn(async move {
        let send = async {
            for chunk in bytes.chunks(CHUNK_BYTES) {
                // A copy: a slice that waits in a connection would keep all of the bytes in memory.
                if sender.send(Bytes::copy_from_slice(chunk)).await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(time, send).await.is_err() {
            tracing::debug!(n_bytes, "a download took longer than {} s", time.as_secs());
        }
        drop(bytes);
        drop(permit);
    });
    let pieces = stream::unfold((receiver, n_bytes), |(mut receiver, n_left)| async move {
        if n_left == 0 {
            return None;
        }
        let cut_off = || io::Error::new(io::ErrorKind::TimedOut, "the download took too long");
        let piece = receiver.recv().await.ok_or_else(cut_off);
        let n_left = piece.as_ref().map_or(0, |piece| n_left - piece.len());
        Some((piece, (receiver, n_left)))
    });
    Body::from_stream(pieces)
}

/// Whether the content type may be displayed inline; any other is a download.
fn is_shown(content_type: &str) -> bool {
    let kinds = ["image/", "audio/", "video/"];
    kinds.iter().any(|kind| content_type.starts_with(kind)) && content_type != "image/svg+xml"
}

pub(super) async fn get_content(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    client: ClientAddress,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let project = authorize(&app, "GET", &id, &params, (client, &headers), ContentRead).await?;
    reading::belongs_to(&project);
    let missing = || Problem::not_found("medium");
    let medium = app.store.telemetry.medium(&project, &id).await?.ok_or_else(missing)?;
    let downloads = Arc::clone(&app.media_signer.downloads);
    let n_kib = kibibytes(&medium);
    // A larger medium, which a span may contain, takes all permits.
    let permit = downloads.acquire_many_owned(n_kib.min(HELD_KIB));
    let permit = tokio::time::timeout(MEMORY_TIMEOUT, permit)
        .await
        .map_err(|_| {
            Problem::unavailable("too many downloads are in progress; send the request again")
        })?
        .map_err(|_| Problem::internal())?;
    // The permit bounds the memory.
    let bytes = perpend_db::unlimited(app.store.telemetry.media_bytes(&project, &id));
    let bytes = bytes.await?.ok_or_else(missing)?;
    let content_type = HeaderValue::try_from(&medium.content_type);
    let fallback = HeaderValue::from_static("application/octet-stream");
    let disposition = match is_shown(&medium.content_type) {
        true => "inline",
        false => "attachment",
    };
    // Uploaded content must not run as a page of this server.
    let headers: [(HeaderName, HeaderValue); 6] = [
        (CONTENT_TYPE, content_type.unwrap_or(fallback)),
        (CONTENT_LENGTH, HeaderValue::from(bytes.len())),
        (CONTENT_DISPOSITION, HeaderValue::from_static(disposition)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
    ];
    let body = chunked(bytes, permit, transfer_time(n_kib));
    Ok((headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    const ALL: u32 = 9;
    const LONG: Duration = Duration::from_secs(3_600);

    fn downloads() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(ALL as usize))
    }

    /// All permits, once they are free.
    async fn all_permits(downloads: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        let permits = Arc::clone(downloads).acquire_many_owned(ALL);
        permits.await.unwrap()
    }

    #[tokio::test]
    async fn a_download_holds_its_permit_until_it_is_sent_or_abandoned() {
        let downloads = downloads();
        for n in [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1] {
            let bytes: Vec<u8> = (0..n).map(|at| (at % 251) as u8).collect();
            let body = chunked(bytes.clone(), all_permits(&downloads).await, LONG);
            assert_eq!(downloads.available_permits(), 0);
            let sent = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            assert!(sent == bytes, "{n}");
        }
        drop(chunked(vec![1; 9 * CHUNK_BYTES], all_permits(&downloads).await, LONG));
        drop(all_permits(&downloads).await);
    }

    #[tokio::test]
    async fn an_unread_download_releases_its_permit_and_ends_in_an_error() {
        let downloads = downloads();
        let body = chunked(vec![7; 9 * CHUNK_BYTES], all_permits(&downloads).await, Duration::ZERO);
        drop(all_permits(&downloads).await);
        let mut pieces = body.into_data_stream();
        let first = pieces.next().await.unwrap().unwrap();
        assert_eq!(first.len(), CHUNK_BYTES);
        let error = pieces.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("took too long"), "{error}");
        assert!(pieces.next().await.is_none());
    }
}
