//! A session: traces of one conversation.

use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry;
use perpend_domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::trace::Trace;

/// A session.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    id: String,
    created_at: Timestamp,
    project_id: ProjectId,
    environment: String,
}

impl Session {
    /// From a stored session.
    #[must_use]
    pub fn new(project: &ProjectId, session: &telemetry::SessionSummary) -> Self {
        Self {
            id: session.id.clone(),
            created_at: session.created_at,
            project_id: project.clone(),
            environment: session.environment.clone(),
        }
    }
}

/// A session with its traces, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionWithTraces {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Its traces.
    pub traces: Vec<Trace>,
}
