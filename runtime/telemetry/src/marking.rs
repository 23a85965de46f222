//! What people change of a trace: its bookmark and its tags. It is an update of the trace, written as those that come
//! in batches are.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::patch::{Patch, TraceMarks};
use perpend_domain::pricing::PriceTable;
use perpend_domain::telemetry::EventBatch;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

impl Telemetry {
    /// Changes the marks of a trace. `event` names the change: the same one again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] without such a trace, [`Error::TooLong`] when its id leaves no room for a record of it.
    pub async fn mark_trace(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        marks: &TraceMarks,
        (event, now): (String, Timestamp),
    ) -> Result<(), Error> {
        if self.trace_version(project, trace).await?.is_none() {
            return Err(Error::NotFound);
        }
        let patch = Patch::marking(trace, marks, event, now).ok_or(Error::TooLong)?;
        let batch = EventBatch {
            patches: vec![patch],
            ..EventBatch::default()
        };
        // Marks have no usage, so no price applies to them.
        self.write_events(project, batch, &PriceTable::default(), now)
            .await
    }
}
