//! A trace with its observations and scores, streamed: memory holds one part of it.

use perpend_api_types::observation::FullObservation;
use perpend_api_types::score::ScoreV2;
use perpend_api_types::trace::{Trace, TraceWithAll};
use perpend_catalog::{Categories, ObservationReferences};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::list::Cursor;
use perpend_domain::score::{Score, ScoreDataType};
use perpend_domain::telemetry::{ScoreQuery, StoredObservation};
use perpend_http_kit::answer::Streamed;
use perpend_http_kit::parts::{self, ArrayWriter, BodyParts, json};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::TraceReader;

use crate::records::state::App;

/// Scores per part.
const SCORES: u32 = 1_000;

/// The remaining parts of a trace.
pub(super) struct TraceParts {
    pub(super) app: App,
    pub(super) project: ProjectId,
    pub(super) trace: TraceId,
    /// `None` without the group `observations`.
    pub(super) observations: Option<TraceReader>,
    pub(super) scores: ScoreProgress,
    pub(super) members: ArrayWriter,
}

/// Progress of the scores.
#[derive(Debug)]
pub(super) enum ScoreProgress {
    /// Not part of the response.
    Omitted,
    NotStarted,
    /// Continued after this score.
    After(Cursor),
}

/// The response: `trace`, an object, with the members `observations` and `scores`.
pub(super) async fn answer(
    trace: &Trace,
    parts: TraceParts,
) -> Result<Streamed<TraceWithAll>, Problem> {
    let mut first = Vec::new();
    json(&mut first, trace)?;
    // Removes the closing brace.
    first.pop();
    first.extend_from_slice(b",\"observations\":[");
    parts::answer(first, parts).await.map(Streamed::new)
}

impl BodyParts for TraceParts {
    /// Writes the next observations, and after the last of them the scores.
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        if let Some(reader) = &mut self.observations {
            let rows = self.app.store.telemetry.next_observations(reader).await?;
            let is_done = reader.is_done();
            let is_observation = |stored: &StoredObservation| !stored.observation.is_trace_record();
            let (catalog, now) = (&self.app.store.catalog, self.app.web.clock.now());
            let observations = rows.iter().filter(|stored| is_observation(stored));
            let observations = observations.map(|stored| &stored.observation);
            let prices = &self.app.prices;
            let known =
                ObservationReferences::of(catalog, prices, &self.project, observations, now)
                    .await?;
            for row in rows.into_iter().filter(is_observation) {
                let named = known.named_by(&row.observation);
                self.members.push(out, &FullObservation::new(row, named))?;
            }
            if !is_done {
                return Ok(false);
            }
            self.observations = None;
        }
        let after = match std::mem::replace(&mut self.scores, ScoreProgress::Omitted) {
            ScoreProgress::Omitted => {
                out.extend_from_slice(b"],\"scores\":[]}");
                return Ok(true);
            }
            ScoreProgress::NotStarted => {
                out.extend_from_slice(b"],\"scores\":[");
                self.members = ArrayWriter::default();
                None
            }
            ScoreProgress::After(cursor) => Some(cursor),
        };
        match self.some_scores(out, after.as_ref()).await? {
            Some(cursor) => {
                self.scores = ScoreProgress::After(cursor);
                Ok(false)
            }
            None => {
                out.extend_from_slice(b"]}");
                Ok(true)
            }
        }
    }
}

impl TraceParts {
    /// Appends scores and returns the cursor of the next ones.
    async fn some_scores(
        &mut self,
        out: &mut Vec<u8>,
        after: Option<&Cursor>,
    ) -> Result<Option<Cursor>, Problem> {
        let query = ScoreQuery { trace_ids: vec![self.trace.clone()], ..ScoreQuery::default() };
        let telemetry = &self.app.store.telemetry;
        let found = telemetry.scores(&self.project, &query, after, SCORES).await?;
        // The score format of this response has no corrections.
        let is_listed =
            |score: &&Score| score.written.value.data_type() != ScoreDataType::Correction;
        let scores = &found.items;
        let categories = Categories::of(&self.app.store.catalog, &self.project, scores).await?;
        for score in scores.iter().filter(is_listed) {
            let view = ScoreV2::new(score, |label| categories.number(score, label));
            self.members.push(out, &view)?;
        }
        Ok(found.next)
    }
}
