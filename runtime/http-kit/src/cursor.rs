//! Opaque places in a list.

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
/// [`broken`], where there is none.
pub fn decode(params: &Params) -> Result<Option<Value>, Problem> {
    let value = params.text("cursor").map(opened);
    value.map(|value| value.ok_or_else(broken)).transpose()
}

/// The JSON inside a text that [`encode`] wrote; none for any other.
#[must_use]
pub fn opened(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The error for a cursor that no endpoint gave out.
#[must_use]
pub fn broken() -> Problem {
    Problem::query("cursor", "not a cursor that this endpoint gave out")
}

/// The place named by the `cursor` parameter, in lists ordered by time and id.
///
/// # Errors
/// [`broken`], for a cursor of another list.
pub fn place(params: &Params) -> Result<Option<Cursor>, Problem> {
    let Some(value) = decode(params)? else {
        return Ok(None);
    };
    match (value[0].as_i64(), value[1].as_str()) {
        (Some(micros), Some(id)) => {
            Ok(Some(Cursor { at: Timestamp::from_micros(micros), id: id.to_owned() }))
        }
        _ => Err(broken()),
    }
}

/// `meta` of a cursor page; the cursor is absent on the last one.
#[must_use]
pub fn meta(next: Option<&Cursor>) -> CursorMeta {
    CursorMeta {
        cursor: next.map(|next| encode(&json!([next.at.as_micros(), next.id]))),
        limit: None,
    }
}
