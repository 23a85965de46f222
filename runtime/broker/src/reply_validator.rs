//! Replies of models against schemas that guests wrote: in a child process, as all schemas of others.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use perpend_domain::ids::ProjectId;
use perpend_llm::ReplyValidator;
use perpend_worker_protocol::{SchemaCheck, SchemaKind};

use crate::Engine;

/// Whose turn these checks take among those of all projects.
const TURN: &str = "perpend-replies";

/// Checks replies with an engine that is there later: the engine itself needs the models whose replies are checked.
#[derive(Clone, Default)]
pub struct EngineReplyValidator(Arc<OnceLock<Weak<Engine>>>);

impl EngineReplyValidator {
    /// Uses this engine from now on. Only the first one counts.
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
            let engine = engine.ok_or("the server is starting or ending")?;
            let turn = ProjectId::new(TURN).map_err(|error| error.to_string())?;
            let check = SchemaCheck {
                schema: schema.to_owned(),
                kind: SchemaKind::Any,
                values: vec![value.to_owned()],
            };
            let answer = engine.check_schema(&turn, check).await;
            let held = answer.map_err(|why| why.to_string())?.map_err(|wrong| wrong.message)?;
            let mismatches = held.into_iter().flat_map(|held| held.mismatches);
            Ok(mismatches
                .map(|wrong| match wrong.pointer.as_str() {
                    "" => wrong.message,
                    pointer => format!("{pointer}: {}", wrong.message),
                })
                .collect())
        })
    }
}
