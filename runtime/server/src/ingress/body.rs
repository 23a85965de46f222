//! Reads a body from the wire, counted and timed.

use axum::body::Body;
use futures_util::StreamExt as _;

use super::admission::{Account, Admission};
use crate::config::Ingest;
use crate::problem::{Code, Problem};

/// A body in memory, and its share of the budget.
pub(super) struct Counted {
    pub(super) data: Vec<u8>,
    pub(super) account: Account,
}

impl Counted {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.data
    }
}

pub(super) fn too_large(max_bytes: usize) -> Problem {
    let limit = max_bytes >> 20;
    let message = format!("the body is larger than {limit} MiB, on the wire or decoded");
    Problem::new(Code::TooLarge, message)
}

/// Reads all of it.
pub(super) async fn read(
    body: Body,
    limits: &Ingest,
    admission: &Admission,
) -> Result<Counted, Problem> {
    let mut account = admission.account();
    let mut data = Vec::new();
    let mut chunks = body.into_data_stream();
    loop {
        let next = tokio::time::timeout(limits.read_timeout, chunks.next()).await;
        let chunk = match next {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "body broke off");
                return Err(Problem::new(Code::InvalidBody, "the body broke off"));
            }
            Ok(None) => break,
            Err(_) => {
                return Err(Problem::new(Code::InvalidBody, "the body stopped coming"));
            }
        };
        if data.len() + chunk.len() > limits.max_body_bytes {
            return Err(too_large(limits.max_body_bytes));
        }
        account.take(chunk.len())?;
        data.extend_from_slice(&chunk);
    }
    Ok(Counted { data, account })
}
