//! A trace with all that is in it, written while it is read: memory holds one part of it, however large it is.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use perpend_catalog::{Categories, LookedUp};
use perpend_contract::observation::Whole;
use perpend_contract::score::ScoreV2;
use perpend_contract::trace::{Trace, TraceWithAll};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::score::{Score, ScoreDataType};
use perpend_domain::telemetry::StoredObservation;
use perpend_telemetry::TraceReader;
use perpend_web::answer::Streamed;
use perpend_web::problem::Problem;
use serde::Serialize;

use crate::state::App;

/// What has not been written yet.
pub(super) struct Rest {
    pub(super) app: App,
    pub(super) project: ProjectId,
    pub(super) trace: TraceId,
    /// Absent when the caller wants no observations.
    pub(super) observations: Option<TraceReader>,
    /// No observation was written yet.
    pub(super) is_empty: bool,
    pub(super) with_scores: bool,
}

/// The answer: `trace`, an object, with the members `observations` and `scores`.
///
/// What fits into one part has a length. More of it is written as the caller takes it; when the database fails by
/// then, the connection breaks off, so that nobody takes half a trace for a whole one.
pub(super) async fn answer(
    trace: &Trace,
    mut rest: Rest,
) -> Result<Streamed<TraceWithAll>, Problem> {
    let mut first = Vec::new();
    write(&mut first, trace)?;
    // The object goes on.
    first.pop();
    first.extend_from_slice(b",\"observations\":[");
    let is_last = rest.write_part(&mut first).await?;
    let body = match is_last {
        true => Body::from(first),
        false => stream_of(first, rest),
    };
    let response = ([(CONTENT_TYPE, "application/json")], body).into_response();
    Ok(Streamed::new(response))
}

fn stream_of(first: Vec<u8>, rest: Rest) -> Body {
    let parts = stream::try_unfold((Some(first), Some(rest)), |(first, rest)| async move {
        if let Some(first) = first {
            return Ok(Some((Bytes::from(first), (None, rest))));
        }
        let Some(mut rest) = rest else {
            return Ok(None);
        };
        let mut part = Vec::new();
        let is_last = rest.write_part(&mut part).await.map_err(|problem| {
            let trace_id = rest.trace.as_str();
            tracing::error!(
                trace.id = trace_id,
                error = problem.message(),
                "an answer breaks off"
            );
            io::Error::other("the trace cannot be read further")
        })?;
        let rest = (!is_last).then_some(rest);
        Ok::<_, io::Error>(Some((Bytes::from(part), (None, rest))))
    });
    Body::from_stream(parts)
}

impl Rest {
    /// Appends the next observations, and after the last of them the scores; whether that was all.
    async fn write_part(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        if let Some(reader) = &mut self.observations {
            let steps = self.app.store.telemetry.next_observations(reader).await?;
            let is_done = reader.is_done();
            let is_step = |stored: &StoredObservation| !stored.observation.is_trace_record();
            let (catalog, now) = (&self.app.store.catalog, self.app.web.clock.now());
            let observations = steps.iter().filter(|stored| is_step(stored));
            let observations = observations.map(|stored| &stored.observation);
            let prices = &self.app.prices;
            let known = LookedUp::of(catalog, prices, &self.project, observations, now).await?;
            for step in steps.into_iter().filter(is_step) {
                if !std::mem::take(&mut self.is_empty) {
                    out.push(b',');
                }
                let named = known.named_by(&step.observation);
                write(out, &Whole::new(step, named))?;
            }
            if !is_done {
                return Ok(false);
            }
        }
        out.extend_from_slice(b"],\"scores\":");
        write(out, &self.scores().await?)?;
        out.push(b'}');
        Ok(true)
    }

    async fn scores(&self) -> Result<Vec<ScoreV2>, Problem> {
        if !self.with_scores {
            return Ok(Vec::new());
        }
        let trace = std::slice::from_ref(&self.trace);
        let found = self
            .app
            .store
            .telemetry
            .scores_of_traces(&self.project, trace)
            .await?;
        // The score model of this answer knows no corrections.
        let known = |score: &&Score| score.written.value.data_type() != ScoreDataType::Correction;
        let categories = Categories::of(&self.app.store.catalog, &self.project, &found).await?;
        let view = |score| ScoreV2::new(score, |label| categories.number(score, label));
        Ok(found.iter().filter(known).map(view).collect())
    }
}

fn write(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(out, value).map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "a trace cannot be written as JSON");
        Problem::internal()
    })
}
