//! The bytes of media, to and from signed addresses.

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

/// How long a download waits for room among the others.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(20);
/// Bytes of a download that are handed on at once.
const PIECE: usize = 64 << 10;
/// How long the bytes of a download may be under way, and how much longer for each mebibyte of them: a megabit a
/// second is enough for any. Who reads slowly must not keep the others waiting.
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
        let message = format!("{n_announced} bytes were announced, {} came", bytes.len());
        return Err(Problem::body("", message));
    }
    if Digest::of(&bytes).as_bytes().as_slice() != medium.sha256 {
        return Err(Problem::body("", "the bytes do not have the announced SHA-256 hash"));
    }
    app.store.telemetry.store_media(&project, &medium, &bytes, app.web.clock.now()).await?;
    Ok(StatusCode::OK)
}

/// The room that the bytes of a medium take.
fn kibibytes(medium: &Medium) -> u32 {
    u32::try_from((medium.content_length >> 10) + 1).unwrap_or(u32::MAX)
}

fn transfer_time(n_kib: u32) -> Duration {
    TRANSFER_TIME + TRANSFER_TIME_PER_MIB * (n_kib >> 10)
}

/// The bytes piece by piece. The room they take is given back when the last one is handed on, when nobody
/// waits for it any more, or after `time`: then the body ends in an error.
fn in_pieces(bytes: Vec<u8>, room: OwnedSemaphorePermit, time: Duration) -> Body {
    let n_bytes = bytes.len();
    let (sender, receiver) = mpsc::channel(1);
    // A task of its own: nobody asks the body for more, and so nobody asks for the time, while a client does
    // not read.
    tokio::spawn(async move {
        let handing_on = async {
            for piece in bytes.chunks(PIECE) {
                // A copy: a share of the bytes that waits in a connection would keep all of them in memory.
                if sender.send(Bytes::copy_from_slice(piece)).await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(time, handing_on).await.is_err() {
            tracing::debug!(n_bytes, "a download took longer than {} s", time.as_secs());
        }
        drop(bytes);
        drop(room);
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

/// Shown in a page; everything else is offered as a file.
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
    // A larger one, which a span may hold, takes all of it.
    let room = downloads.acquire_many_owned(n_kib.min(HELD_KIB));
    let room = tokio::time::timeout(WAIT_FOR_ROOM, room)
        .await
        .map_err(|_| Problem::unavailable("too many downloads are under way; try again"))?
        .map_err(|_| Problem::internal())?;
    // The room bounds the memory that they take.
    let bytes = perpend_db::unlimited(app.store.telemetry.media_bytes(&project, &id));
    let bytes = bytes.await?.ok_or_else(missing)?;
    let content_type = HeaderValue::try_from(&medium.content_type);
    let fallback = HeaderValue::from_static("application/octet-stream");
    let disposition = match is_shown(&medium.content_type) {
        true => "inline",
        false => "attachment",
    };
    // What a client uploaded must not run as a page of this server.
    let headers: [(HeaderName, HeaderValue); 6] = [
        (CONTENT_TYPE, content_type.unwrap_or(fallback)),
        (CONTENT_LENGTH, HeaderValue::from(bytes.len())),
        (CONTENT_DISPOSITION, HeaderValue::from_static(disposition)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
    ];
    let body = in_pieces(bytes, room, transfer_time(n_kib));
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

    /// All of the room, once it is free.
    async fn room(downloads: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        let room = Arc::clone(downloads).acquire_many_owned(ALL);
        room.await.unwrap()
    }

    #[tokio::test]
    async fn a_download_takes_its_room_until_it_is_sent_or_given_up() {
        let downloads = downloads();
        for n in [0, 1, PIECE, 2 * PIECE + 1] {
            let bytes: Vec<u8> = (0..n).map(|at| (at % 251) as u8).collect();
            let body = in_pieces(bytes.clone(), room(&downloads).await, LONG);
            assert_eq!(downloads.available_permits(), 0);
            let sent = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            assert!(sent == bytes, "{n}");
        }
        drop(in_pieces(vec![1; 9 * PIECE], room(&downloads).await, LONG));
        drop(room(&downloads).await);
    }

    #[tokio::test]
    async fn a_download_that_nobody_reads_gives_its_room_back_and_ends_in_an_error() {
        let downloads = downloads();
        let body = in_pieces(vec![7; 9 * PIECE], room(&downloads).await, Duration::ZERO);
        drop(room(&downloads).await);
        let mut pieces = body.into_data_stream();
        let first = pieces.next().await.unwrap().unwrap();
        assert_eq!(first.len(), PIECE);
        let error = pieces.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("took too long"), "{error}");
        assert!(pieces.next().await.is_none());
    }
}
