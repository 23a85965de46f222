//! Opaque cursors of lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use perpend_api_types::list::CursorMeta;
use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::extract::Params;
use crate::problem::Problem;

/// Text for `meta.cursor`.
#[must_use]
pub fn encode(parts: &Value) -> String {
    URL_SAFE_NO_PAD.encode(parts.to_string())
}

/// The JSON inside the `cursor` parameter.
///
/// # Errors
/// [`invalid_cursor`] for any other text.
pub fn decode(params: &Params) -> Result<Option<Value>, Problem> {
    let value = params.text("cursor").map(parse);
    value.map(|value| value.ok_or_else(invalid_cursor)).transpose()
}

/// The JSON inside a text written by [`encode`].
#[must_use]
pub fn parse(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The error for a cursor of another endpoint.
#[must_use]
pub fn invalid_cursor() -> Problem {
    Problem::query("cursor", "must be a cursor returned by this endpoint")
}

/// The `cursor` parameter of a list ordered by time and id.
///
/// # Errors
/// [`invalid_cursor`] for a cursor of another list.
pub fn position(params: &Params) -> Result<Option<Cursor>, Problem> {
    let Some(value) = decode(params)? else {
        return Ok(None);
    };
    match (value[0].as_i64(), value[1].as_str()) {
        (Some(micros), Some(id)) => {
            Ok(Some(Cursor::new(Timestamp::from_micros(micros), id.to_owned())))
        }
        _ => Err(invalid_cursor()),
    }
}

/// `meta` of a page; without a cursor on the last one.
#[must_use]
pub fn meta(next: Option<&Cursor>) -> CursorMeta {
    CursorMeta {
        cursor: next.map(|next| encode(&json!([next.at.as_micros(), next.id]))),
        limit: None,
    }
}
