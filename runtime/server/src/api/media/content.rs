//! The bytes of media, to and from signed addresses.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use assay_domain::plugin::Digest;
use assay_store::media::Medium;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;

use super::link::opened;
use crate::App;
use crate::extract::{Params, read};
use crate::problem::Problem;

/// How long an upload or a download waits for room among the others.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(20);
/// Bytes of a download that are handed on at once.
const PIECE: usize = 64 << 10;
/// How long the body of an upload may take, and how much longer for each mebibyte of it: a megabit a second
/// is enough for any.
const UPLOAD_TIME: Duration = Duration::from_secs(120);
const UPLOAD_TIME_PER_MIB: Duration = Duration::from_secs(9);

pub(super) async fn put_content(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<StatusCode, Problem> {
    let project = opened(&app, "PUT", &id, &params, request.headers()).await?;
    let medium = app.store.medium(&project, &id).await?;
    let medium = medium.ok_or_else(|| Problem::not_found("medium"))?;
    let n_announced = usize::try_from(medium.content_length).unwrap_or_default();
    let n_kib = kibibytes(&medium);
    // Who trickles must not keep the others waiting.
    let time = UPLOAD_TIME + UPLOAD_TIME_PER_MIB * (n_kib >> 10);
    let uploads = &app.media_signer.uploads;
    let room = tokio::time::timeout(WAIT_FOR_ROOM, uploads.acquire_many(n_kib)).await;
    let _room = room
        .map_err(|_| Problem::unavailable("too many uploads are under way; try again"))?
        .map_err(|_| Problem::internal())?;
    let bytes = tokio::time::timeout(time, read(request, n_announced)).await;
    let bytes = bytes.map_err(|_| {
        let message = format!("the upload took longer than {} s", time.as_secs());
        Problem::body("", message)
    })??;
    if bytes.len() != n_announced {
        let message = format!("{n_announced} bytes were announced, {} came", bytes.len());
        return Err(Problem::body("", message));
    }
    if Digest::of(&bytes).as_bytes().as_slice() != medium.sha256 {
        return Err(Problem::body(
            "",
            "the bytes do not have the announced SHA-256 hash",
        ));
    }
    app.store
        .store_media(&project, &medium, &bytes, app.clock.now())
        .await?;
    Ok(StatusCode::OK)
}

/// The room that the bytes of a medium take.
fn kibibytes(medium: &Medium) -> u32 {
    u32::try_from((medium.content_length >> 10) + 1).unwrap_or(u32::MAX)
}

/// The bytes piece by piece; the room they take is given back when the last one is sent or nobody waits for
/// it any more.
fn in_pieces(bytes: Vec<u8>, room: OwnedSemaphorePermit) -> Body {
    let pieces = stream::unfold((Bytes::from(bytes), room), |(mut rest, room)| async move {
        let piece = rest.split_to(PIECE.min(rest.len()));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, room)))
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
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let project = opened(&app, "GET", &id, &params, &headers).await?;
    let missing = || Problem::not_found("medium");
    let medium = app.store.medium(&project, &id).await?.ok_or_else(missing)?;
    let downloads = Arc::clone(&app.media_signer.downloads);
    let room = downloads.acquire_many_owned(kibibytes(&medium));
    let room = tokio::time::timeout(WAIT_FOR_ROOM, room)
        .await
        .map_err(|_| Problem::unavailable("too many downloads are under way; try again"))?
        .map_err(|_| Problem::internal())?;
    let bytes = app
        .store
        .media_bytes(&project, &id)
        .await?
        .ok_or_else(missing)?;
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
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=3600"),
        ),
    ];
    Ok((headers, in_pieces(bytes, room)).into_response())
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_download_takes_its_room_until_it_is_sent_or_given_up() {
        let downloads = Arc::new(Semaphore::new(9));
        let room = async || {
            let room = Arc::clone(&downloads).acquire_many_owned(9);
            room.await.unwrap()
        };
        for n in [0, 1, PIECE, 2 * PIECE + 1] {
            let bytes = vec![7; n];
            let body = in_pieces(bytes.clone(), room().await);
            assert_eq!(downloads.available_permits(), 0);
            let sent = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            assert_eq!(sent, bytes);
            assert_eq!(downloads.available_permits(), 9);
        }
        drop(in_pieces(vec![1; PIECE], room().await));
        assert_eq!(downloads.available_permits(), 9);
    }
}
