//! Files for browsers: style sheets, scripts and the logo.

use std::sync::Arc;

use axum::extract::{OriginalUri, State};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use brotli::enc::BrotliEncoderParams;
use perpend_http_kit::compression;
use perpend_http_kit::problem::Problem;
use perpend_views::layout::assets::Asset;

use crate::request::reply::on_blocking_thread;
use crate::state::App;

/// `GET /assets/{file}`: the file name contains a digest of the content.
pub(crate) async fn asset(
    State(app): State<App>,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asset = app.asset(address.path()).ok_or_else(|| Problem::not_found("file"))?;
    let headers_of_file = [
        (CONTENT_TYPE, asset.content_type),
        // The name changes with the content.
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (VARY, "accept-encoding"),
    ];
    if compression::prefers_brotli(&headers) {
        let packed = compressed(&asset).await?;
        if !packed.is_empty() {
            return Ok((headers_of_file, [(CONTENT_ENCODING, "br")], packed).into_response());
        }
    }
    Ok((headers_of_file, asset.bytes.to_vec()).into_response())
}

/// The file compressed at the highest Brotli level. This is slow, so the result is cached.
async fn compressed(asset: &Arc<Asset>) -> Result<Vec<u8>, Problem> {
    if let Some(packed) = asset.packed.get() {
        return Ok(packed.clone());
    }
    let asset = Arc::clone(asset);
    on_blocking_thread(move || asset.packed.get_or_init(|| compress(&asset.bytes)).clone()).await
}

/// Empty on a failure; the file is then sent uncompressed.
fn compress(mut bytes: &[u8]) -> Vec<u8> {
    let params = BrotliEncoderParams {
        quality: 11,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut packed = Vec::new();
    let written = brotli::BrotliCompress(&mut bytes, &mut packed, &params);
    written.map(|_| packed).unwrap_or_default()
}
