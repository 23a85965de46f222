//! Changes of a trace by users: its bookmark and its tags. A change is an update of the trace, written like
//! those of batches, but no activity of the application: complete targets do not wait again, and no evaluator
//! runs again. An export of changed rows contains it with the next change by a sender.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::marks::TraceMarks;
use perpend_domain::patch::Patch;
use perpend_domain::pricing::PriceTable;
use perpend_domain::telemetry::EventBatch;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

impl Telemetry {
    /// Changes the marks of a trace. `event` identifies the change: the same one again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] without such a trace, [`Error::TooLong`] if its id is too long for the id of its
    /// record.
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
        // Marks have no usage, so prices do not apply.
        self.write_events(project, batch, &PriceTable::default(), seen).await
    }
}
