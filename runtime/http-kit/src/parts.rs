//! JSON responses that are streamed in parts: memory holds one part, however large the response is.
//!
//! A response of one part has a length and, on failure, a status. Further parts are written as the client reads them; when a
//! later part fails, the connection is closed, so that no client mistakes half a response for a whole one.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;

use crate::problem::Problem;

/// The remaining parts of a response.
pub trait BodyParts: Send + 'static {
    /// Appends the next part; `true` after the last one.
    ///
    /// # Errors
    /// When the part cannot be read.
    fn write(&mut self, out: &mut Vec<u8>) -> impl Future<Output = Result<bool, Problem>> + Send;
}

/// A response that starts with `first`.
///
/// # Errors
/// When the first part cannot be read.
pub async fn answer(mut first: Vec<u8>, mut parts: impl BodyParts) -> Result<Response, Problem> {
    let is_last = parts.write(&mut first).await?;
    let body = match is_last {
        true => Body::from(first),
        false => stream_of(first, parts),
    };
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

fn stream_of(first: Vec<u8>, parts: impl BodyParts) -> Body {
    let pieces = stream::try_unfold((Some(first), Some(parts)), |(first, parts)| async move {
        if let Some(first) = first {
            return Ok(Some((Bytes::from(first), (None, parts))));
        }
        let Some(mut parts) = parts else {
            return Ok(None);
        };
        let mut part = Vec::new();
        let is_last = parts.write(&mut part).await.map_err(|problem| {
            tracing::error!(error = problem.message(), "a streamed response was aborted");
            io::Error::other("the rest of the response could not be read")
        })?;
        let parts = (!is_last).then_some(parts);
        Ok::<_, io::Error>(Some((Bytes::from(part), (None, parts))))
    });
    Body::from_stream(pieces)
}

/// Writes the elements of a JSON array.
#[derive(Debug, Default)]
pub struct ArrayWriter {
    has_elements: bool,
}

impl ArrayWriter {
    /// Appends an element.
    ///
    /// # Errors
    /// 500 when the value cannot be serialized, which is logged.
    pub fn push(&mut self, out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
        if std::mem::replace(&mut self.has_elements, true) {
            out.push(b',');
        }
        json(out, value)
    }
}

/// Appends a value as JSON.
///
/// # Errors
/// 500 when the value cannot be serialized, which is logged.
pub fn json(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(out, value).map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "a response could not be serialized");
        Problem::internal()
    })
}

/// The start of a list, `{"data":[`.
pub const LIST: &[u8] = b"{\"data\":[";

/// Appends the end of a list: its `meta`.
///
/// # Errors
/// 500 when the value cannot be serialized, which is logged.
pub fn end_list(out: &mut Vec<u8>, meta: &impl Serialize) -> Result<(), Problem> {
    out.extend_from_slice(b"],\"meta\":");
    json(out, meta)?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;

    struct Numbers {
        next: u32,
        end: u32,
        members: ArrayWriter,
    }

    impl BodyParts for Numbers {
        async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
            self.members.push(out, &self.next)?;
            self.next += 1;
            if self.next < self.end {
                return Ok(false);
            }
            end_list(out, &json!({}))?;
            Ok(true)
        }
    }

    #[tokio::test]
    async fn a_response_in_parts_is_one_document_and_a_short_one_has_a_length() {
        for end in [1, 5] {
            let numbers = Numbers { next: 0, end, members: ArrayWriter::default() };
            let body = answer(LIST.to_vec(), numbers).await.unwrap().into_body();
            let length = axum::body::HttpBody::size_hint(&body).exact();
            assert_eq!(length.is_some(), end == 1);
            let bytes = body.collect().await.unwrap().to_bytes();
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            let all: Vec<u32> = (0..end).collect();
            assert_eq!(read, json!({ "data": all, "meta": {} }));
        }
    }
}
