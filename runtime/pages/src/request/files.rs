//! The embedded files: style sheets, scripts and the mark.

use axum::extract::OriginalUri;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use brotli::enc::BrotliEncoderParams;
use perpend_http_kit::compression;
use perpend_http_kit::problem::Problem;
use perpend_views::layout::assets::{self, Asset};

use crate::request::reply::laid_out;

/// One file, under the name that carries its digest.
pub(crate) async fn asset(
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asset = assets::find(address.path()).ok_or_else(|| Problem::not_found("file"))?;
    let named = [
        (CONTENT_TYPE, asset.content_type),
        // The name changes with the bytes.
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (VARY, "accept-encoding"),
    ];
    if compression::prefers_brotli(&headers) {
        let packed = packed(asset).await?;
        if !packed.is_empty() {
            return Ok((named, [(CONTENT_ENCODING, "br")], packed).into_response());
        }
    }
    Ok((named, asset.bytes).into_response())
}

/// A file compressed as far as Brotli can. That takes too long to be done for each answer: it is done once.
async fn packed(asset: &'static Asset) -> Result<&'static [u8], Problem> {
    let packed = match asset.packed.get() {
        Some(packed) => packed,
        None => laid_out(move || asset.packed.get_or_init(|| compressed(asset.bytes))).await?,
    };
    Ok(packed)
}

/// Nothing on a failure: then the file is sent as any other answer is.
fn compressed(mut bytes: &[u8]) -> Vec<u8> {
    let params = BrotliEncoderParams {
        quality: 11,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut packed = Vec::new();
    let written = brotli::BrotliCompress(&mut bytes, &mut packed, &params);
    written.map(|_| packed).unwrap_or_default()
}
