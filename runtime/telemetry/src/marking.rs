//! What people change of a trace: its bookmark and its tags. It is an update of the trace, written as those that come
//! in batches are, but no activity of the application: nothing that was complete waits again, and no evaluator runs again
//! because of it. An export of what changed has it with the next change that a sender makes.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::marks::TraceMarks;
use perpend_domain::patch::Patch;
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
        let known = self.trace(project, trace, false).await?;
        let seen = known.ok_or(Error::NotFound)?.updated_at;
        let patch = Patch::marking(trace, marks, event, now).ok_or(Error::TooLong)?;
        let batch = EventBatch { patches: vec![patch], ..EventBatch::default() };
        // Marks have no usage, so no price applies to them.
        self.write_events(project, batch, &PriceTable::default(), seen).await
    }
}
