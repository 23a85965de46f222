//! Validates replies of models against schemas of guests. Runs in a check process, as all untrusted schemas.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use perpend_domain::ids::ProjectId;
use perpend_llm::ReplyValidator;
use perpend_worker_protocol::{SchemaCheck, SchemaKind};

use crate::Engine;

/// The project under which these checks are queued.
const QUEUE_NAME: &str = "perpend-replies";

/// Validates replies with an engine that is set later, because the engine needs the models whose replies are validated.
#[derive(Clone, Default)]
pub struct EngineReplyValidator(Arc<OnceLock<Weak<Engine>>>);

impl EngineReplyValidator {
    /// Sets the engine. Later calls have no effect.
    pub fn bind(&self, engine: &Arc<Engine>) {
        let _ = self.0.set(Arc::downgrade(engine));
    }
}

impl ReplyValidator for EngineReplyValidator {
    fn check<'a>(
        &'a self,
        schema: &'a str,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let engine = self.0.get().and_then(Weak::upgrade);
            let engine = engine.ok_or("the server is starting or shutting down")?;
            let queue = ProjectId::new(QUEUE_NAME).map_err(|error| error.to_string())?;
            let check = SchemaCheck {
                schema: schema.to_owned(),
                kind: SchemaKind::Any,
                values: vec![value.to_owned()],
            };
            let answer = engine.check_schema(&queue, check).await;
            let reports =
                answer.map_err(|error| error.to_string())?.map_err(|mismatch| mismatch.message)?;
            let mismatches = reports.into_iter().flat_map(|report| report.mismatches);
            Ok(mismatches
                .map(|mismatch| match mismatch.pointer.as_str() {
                    "" => mismatch.message,
                    pointer => format!("{pointer}: {}", mismatch.message),
                })
                .collect())
        })
    }
}
