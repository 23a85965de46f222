//! The media that messages name, loaded for a request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::FailureClass;
use perpend_domain::slots::ModelFailure;
use perpend_domain::telemetry::TraceScope;
use perpend_telemetry::Telemetry;
use perpend_worker_protocol::host_call::{Allowance, CompletionRequest, Medium, TraceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::traces::Readable;

/// Media of one request, each as often as it is named: so often it is sent.
const MAX_MEDIA: usize = 16;
/// Bytes of them together: as text in a request they take a third more.
const MAX_BYTES: usize = 5 << 20;
/// The same of all requests of one `complete-all`, which are made at the same time.
const MAX_BYTES_OF_ALL: usize = 16 << 20;
/// MiB of media that wait for answers at a time, of all evaluations.
const MAX_MIB: usize = 64;
/// Longer ids are of no medium.
const MAX_ID: usize = 200;

/// Loads media, so many at a time.
#[derive(Clone)]
pub(super) struct Media {
    telemetry: Telemetry,
    mib: Arc<Semaphore>,
}

fn invalid(message: impl Into<String>) -> ModelFailure {
    ModelFailure::new(FailureClass::InvalidInput, message)
}

fn failed(error: &perpend_db::Error) -> ModelFailure {
    tracing::error!(error = error as &dyn std::error::Error, "media not read for a plug-in");
    ModelFailure::new(FailureClass::UpstreamUnavailable, "the media cannot be read now")
}

impl Media {
    pub(super) fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone(), mib: Arc::new(Semaphore::new(MAX_MIB)) }
    }

    /// Loads what the requests name into them. What it takes is counted until the permit is dropped.
    pub(super) async fn load(
        &self,
        project: &ProjectId,
        readable: &Readable,
        allowance: &Allowance,
        requests: &mut [CompletionRequest],
    ) -> Result<Option<OwnedSemaphorePermit>, ModelFailure> {
        let mut wanted: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for request in &*requests {
            if MAX_MEDIA < request.media_ids().count() {
                let message = format!("a request names at most {MAX_MEDIA} media");
                return Err(invalid(message));
            }
            for id in request.media_ids() {
                if seen.insert(id.to_owned()) {
                    wanted.push(id.to_owned());
                }
            }
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let sizes = self.sizes(project, readable, &wanted).await?;
        let mut n_sent = 0;
        for request in &*requests {
            let sent = request.media_ids().filter_map(|id| sizes.get(id));
            let n_bytes: usize = sent.map(|own| own.1).sum();
            if MAX_BYTES < n_bytes {
                let message = format!(
                    "the media of a request have {n_bytes} bytes, and {MAX_BYTES} are possible"
                );
                return Err(invalid(message));
            }
            n_sent += n_bytes;
        }
        if MAX_BYTES_OF_ALL < n_sent {
            let message = format!(
                "the media of the requests have {n_sent} bytes, and {MAX_BYTES_OF_ALL} are possible at a time"
            );
            return Err(invalid(message));
        }
        let n_read: usize = sizes.values().map(|(_, n_bytes)| n_bytes).sum();
        if let Err(TraceError::TooLarge(spent)) = allowance.count_read(n_read) {
            return Err(invalid(spent));
        }
        let n_mib = u32::try_from(n_sent.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.mib).acquire_many_owned(n_mib).await;
        let permit = permit.map_err(|_| {
            ModelFailure::new(FailureClass::UpstreamUnavailable, "the server is ending")
        })?;
        let mut loaded: HashMap<&str, Medium> = HashMap::with_capacity(wanted.len());
        for id in &wanted {
            let bytes = self.telemetry.media_bytes(project, id).await;
            let bytes = bytes.map_err(|error| failed(&error))?;
            let bytes = bytes.ok_or_else(|| missing(id))?;
            let content_type = sizes.get(id).map(|(kind, _)| kind.clone());
            let medium = Medium {
                id: id.clone(),
                content_type: content_type.unwrap_or_default(),
                bytes: bytes.into(),
            };
            loaded.insert(id, medium);
        }
        for request in requests {
            let named: HashSet<&str> = request.media_ids().collect();
            let media: Vec<Medium> =
                named.iter().filter_map(|id| loaded.get(*id).cloned()).collect();
            request.media = media;
        }
        Ok(Some(permit))
    }

    /// The type and size of each, when the item's trace, session or run has it.
    async fn sizes(
        &self,
        project: &ProjectId,
        readable: &Readable,
        wanted: &[String],
    ) -> Result<HashMap<String, (String, usize)>, ModelFailure> {
        let ids: Vec<&str> =
            wanted.iter().map(String::as_str).filter(|id| id.len() <= MAX_ID).collect();
        let scopes = [
            readable.trace.as_deref().map(TraceScope::Trace),
            readable.session.as_deref().map(TraceScope::Session),
            readable.run.as_deref().map(TraceScope::Run),
        ];
        let mut there = HashSet::new();
        for within in scopes.into_iter().flatten() {
            let found = self.telemetry.media_within(project, within, &ids).await;
            there.extend(found.map_err(|error| failed(&error))?);
        }
        if let Some(id) = wanted.iter().find(|id| !there.contains(id.as_str())) {
            return Err(missing(id));
        }
        let found = self.telemetry.media_there(project, &ids).await;
        let found = found.map_err(|error| failed(&error))?;
        if let Some(id) = wanted.iter().find(|id| !found.contains_key(id.as_str())) {
            return Err(missing(id));
        }
        let known = found.into_iter().map(|(id, medium)| {
            let n_bytes = usize::try_from(medium.content_length).unwrap_or(usize::MAX);
            (id, (medium.content_type, n_bytes))
        });
        Ok(known.collect())
    }
}

fn missing(id: &str) -> ModelFailure {
    let id: String = id.chars().take(MAX_ID).collect();
    invalid(format!("the medium {id:?} is none of the traces that this evaluation can read"))
}
