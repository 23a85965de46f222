//! Loads the media that the messages of a request refer to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::FailureClass;
use perpend_domain::slots::ModelFailure;
use perpend_domain::telemetry::TraceScope;
use perpend_telemetry::Telemetry;
use perpend_worker_protocol::host_call::{Allowance, CompletionRequest, Medium, TraceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::traces::ReadScope;

/// Maximum number of references to media in one request; each is sent.
const MAX_MEDIA: usize = 16;
/// Maximum total size of the media of one request; base64 adds a third.
const MAX_BYTES: usize = 5 << 20;
/// Maximum total size of the media of one `complete-all`, whose requests are concurrent.
const MAX_TOTAL_BYTES: usize = 16 << 20;
/// Maximum MiB of media of all requests in flight.
const MAX_MIB: usize = 64;
/// No medium has a longer id.
const MAX_ID: usize = 200;

/// Loads media within a memory limit.
#[derive(Clone)]
pub(super) struct Media {
    telemetry: Telemetry,
    mib: Arc<Semaphore>,
}

fn invalid(message: impl Into<String>) -> ModelFailure {
    ModelFailure::new(FailureClass::InvalidInput, message)
}

fn failed(error: &perpend_db::Error) -> ModelFailure {
    tracing::error!(error = error as &dyn std::error::Error, "cannot read media for a plug-in");
    ModelFailure::new(FailureClass::UpstreamUnavailable, "the media cannot be read at the moment")
}

impl Media {
    pub(super) fn new(telemetry: &Telemetry) -> Self {
        Self { telemetry: telemetry.clone(), mib: Arc::new(Semaphore::new(MAX_MIB)) }
    }

    /// Loads the media of the requests into them. The memory is accounted for until the permit is dropped.
    pub(super) async fn load(
        &self,
        project: &ProjectId,
        read_scope: &ReadScope,
        allowance: &Allowance,
        requests: &mut [CompletionRequest],
    ) -> Result<Option<OwnedSemaphorePermit>, ModelFailure> {
        let mut ids: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for request in &*requests {
            if MAX_MEDIA < request.media_ids().count() {
                let message = format!("a request can refer to at most {MAX_MEDIA} media");
                return Err(invalid(message));
            }
            for id in request.media_ids() {
                if seen.insert(id.to_owned()) {
                    ids.push(id.to_owned());
                }
            }
        }
        if ids.is_empty() {
            return Ok(None);
        }
        let sizes = self.sizes(project, read_scope, &ids).await?;
        let mut n_sent = 0;
        for request in &*requests {
            let sent = request.media_ids().filter_map(|id| sizes.get(id));
            let n_bytes: usize = sent.map(|own| own.1).sum();
            if MAX_BYTES < n_bytes {
                let message = format!(
                    "the media of a request must have at most {MAX_BYTES} bytes, got {n_bytes}"
                );
                return Err(invalid(message));
            }
            n_sent += n_bytes;
        }
        if MAX_TOTAL_BYTES < n_sent {
            let message = format!(
                "the media of concurrent requests must have at most {MAX_TOTAL_BYTES} bytes, got {n_sent}"
            );
            return Err(invalid(message));
        }
        let n_read: usize = sizes.values().map(|(_, n_bytes)| n_bytes).sum();
        if let Err(TraceError::TooLarge(message)) = allowance.count_read(n_read) {
            return Err(invalid(message));
        }
        let n_mib = u32::try_from(n_sent.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.mib).acquire_many_owned(n_mib).await;
        let permit = permit.map_err(|_| {
            ModelFailure::new(FailureClass::UpstreamUnavailable, "the server is shutting down")
        })?;
        let mut loaded: HashMap<&str, Medium> = HashMap::with_capacity(ids.len());
        for id in &ids {
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

    /// The content type and size of each medium. Fails when the item's trace, session or run does not contain a medium.
    async fn sizes(
        &self,
        project: &ProjectId,
        read_scope: &ReadScope,
        all: &[String],
    ) -> Result<HashMap<String, (String, usize)>, ModelFailure> {
        let ids: Vec<&str> =
            all.iter().map(String::as_str).filter(|id| id.len() <= MAX_ID).collect();
        let scopes = [
            read_scope.trace.as_deref().map(TraceScope::Trace),
            read_scope.session.as_deref().map(TraceScope::Session),
            read_scope.run.as_deref().map(TraceScope::Run),
        ];
        let mut readable_ids = HashSet::new();
        for within in scopes.into_iter().flatten() {
            let found = self.telemetry.media_within(project, within, &ids).await;
            readable_ids.extend(found.map_err(|error| failed(&error))?);
        }
        if let Some(id) = all.iter().find(|id| !readable_ids.contains(id.as_str())) {
            return Err(missing(id));
        }
        let found = self.telemetry.stored_media(project, &ids).await;
        let found = found.map_err(|error| failed(&error))?;
        if let Some(id) = all.iter().find(|id| !found.contains_key(id.as_str())) {
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
    invalid(format!("the medium {id:?} is not part of a trace that this evaluation can read"))
}
