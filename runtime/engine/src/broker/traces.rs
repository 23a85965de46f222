//! `trace-reader`: the recorded execution behind an item, piece by piece.

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::{StoredObservation, Walk};
use perpend_domain::time::Timestamp;
use perpend_protocol::host_call::{
    Kind, ObservationFilter, ObservationHead, ObservationPage, Part, Severity, TraceError,
    TraceInfo,
};
use perpend_protocol::{HostReply, HostRequest, MAX_FRAME};
use perpend_sql::Error;
use perpend_telemetry::Telemetry;
use serde_json::Value;

/// Observations of a page at most.
const MAX_PAGE: u32 = 500;
/// The largest piece: the answer has to fit the frame that carries it.
const MAX_PIECE: usize = MAX_FRAME / 2;

type Answer<T> = Result<T, TraceError>;

/// Reads for one call.
pub(super) struct Reader<'c> {
    pub(super) telemetry: &'c Telemetry,
    pub(super) project: &'c ProjectId,
    /// The trace of the call's item.
    pub(super) readable: Option<&'c str>,
}

impl Reader<'_> {
    pub(super) async fn answer(&self, request: HostRequest) -> HostReply {
        match request {
            HostRequest::GetTrace { trace_id } => HostReply::GetTrace(self.info(&trace_id).await),
            HostRequest::ListObservations {
                trace_id,
                filter,
                cursor,
                limit,
            } => {
                let page = self.page(&trace_id, filter, cursor, limit).await;
                HostReply::ListObservations(page)
            }
            HostRequest::Read {
                trace_id,
                observation_id,
                part,
            } => HostReply::Read(self.read(&trace_id, &observation_id, part).await),
            HostRequest::Complete(_) | HostRequest::Embed { .. } => request.not_granted(),
        }
    }

    /// The trace, when it is the one of the item.
    fn readable(&self, trace_id: &str) -> Answer<TraceId> {
        match self.readable {
            Some(readable) if readable == trace_id => {
                TraceId::new(trace_id).map_err(|_| no_trace())
            }
            Some(_) => Err(TraceError::NotGranted(
                "only the trace of the item can be read".into(),
            )),
            None => Err(TraceError::NotGranted(
                "the item has no trace, or the evaluator does not declare that it needs `trace`"
                    .into(),
            )),
        }
    }

    async fn info(&self, trace_id: &str) -> Answer<TraceInfo> {
        let id = self.readable(trace_id)?;
        let found = self.telemetry.trace(self.project, &id, false).await;
        let trace = found.map_err(|error| failed(&error))?;
        let trace = trace.ok_or_else(no_trace)?.trace;
        let metadata = (!trace.metadata.is_empty()).then(|| Value::Object(trace.metadata));
        Ok(TraceInfo {
            id: trace.id.to_string(),
            name: trace.name,
            session_id: trace.session_id,
            user_id: trace.user_id,
            start_ms: millis(trace.timestamp),
            tags: trace.tags,
            metadata: metadata.map(|metadata| metadata.to_string()),
            n_observations: trace.n_observations,
        })
    }

    async fn page(
        &self,
        trace_id: &str,
        filter: ObservationFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<ObservationPage> {
        let id = self.readable(trace_id)?;
        let limit = limit.clamp(1, MAX_PAGE);
        let walk = Walk {
            parent: filter.parent_id,
            kinds: filter.kinds.into_iter().map(stored_kind).collect(),
            name: filter.name,
            after: cursor.as_deref().map(parse_cursor).transpose()?,
            // One more tells whether there is a next page.
            limit: limit + 1,
        };
        let found = self.telemetry.walk_trace(self.project, &id, &walk).await;
        let mut found = found.map_err(|error| failed(&error))?;
        let has_more = limit < u32::try_from(found.len()).unwrap_or(u32::MAX);
        found.truncate(limit as usize);
        let last = found.last().map(|last| &last.observation);
        Ok(ObservationPage {
            next_cursor: last.filter(|_| has_more).map(cursor_behind),
            observations: found.into_iter().map(head).collect(),
        })
    }

    async fn read(
        &self,
        trace_id: &str,
        observation_id: &str,
        part: Part,
    ) -> Answer<Option<Payload>> {
        let id = self.readable(trace_id)?;
        let missing = || TraceError::NotFound("the trace has no such observation".into());
        let observation = ObservationId::new(observation_id).map_err(|_| missing())?;
        let found = self
            .telemetry
            .observation_of(self.project, &id, &observation);
        let found = found.await.map_err(|error| failed(&error))?;
        let content = found.ok_or_else(missing)?.observation.content;
        let piece = match part {
            Part::Input => content.input,
            Part::Output => content.output,
            Part::Metadata => Some(content.metadata)
                .filter(|metadata| !metadata.is_empty())
                .map(|metadata| Payload::Json(Value::Object(metadata).to_string())),
        };
        match piece {
            Some(piece) if MAX_PIECE < piece.as_str().len() => Err(TraceError::TooLarge(format!(
                "{} bytes in one piece, {MAX_PIECE} can be read",
                piece.as_str().len()
            ))),
            piece => Ok(piece),
        }
    }
}

fn no_trace() -> TraceError {
    TraceError::NotFound("the trace is gone".into())
}

/// The guest learns nothing about our storage; the log has it.
fn failed(error: &Error) -> TraceError {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "trace not read for a plug-in"
    );
    TraceError::Unavailable("the trace cannot be read now".into())
}

fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or_default()
}

fn cursor_behind(last: &Observation) -> String {
    format!("{}.{}", last.start.as_micros(), last.id)
}

fn parse_cursor(cursor: &str) -> Answer<(Timestamp, ObservationId)> {
    let unknown = || TraceError::NotFound("the cursor is not one that this list gave".into());
    let (start, id) = cursor.split_once('.').ok_or_else(unknown)?;
    let start = start.parse().map_err(|_| unknown())?;
    let id = ObservationId::new(id).map_err(|_| unknown())?;
    Ok((Timestamp::from_micros(start), id))
}

fn head(stored: StoredObservation) -> ObservationHead {
    let own = stored.observation;
    let size = |payload: &Option<Payload>| payload.as_ref().map_or(0, |text| text.as_str().len());
    ObservationHead {
        id: own.id.to_string(),
        parent_id: own.parent_id.as_ref().map(ToString::to_string),
        kind: contract_kind(own.kind),
        name: Some(own.name).filter(|name| !name.is_empty()),
        start_ms: millis(own.start),
        end_ms: own.end.map(millis),
        severity: match own.level {
            Level::Debug => Severity::Debug,
            Level::Default => Severity::Standard,
            Level::Warning => Severity::Warning,
            Level::Error => Severity::Error,
        },
        status_message: own.status_message,
        model: own.model,
        input_tokens: own.usage.get("input").copied(),
        output_tokens: own.usage.get("output").copied(),
        input_size: size(&own.content.input) as u64,
        output_size: size(&own.content.output) as u64,
    }
}

/// The same kinds in two spellings, both ways.
macro_rules! kinds {
    ($($name:ident),*) => {
        const fn contract_kind(kind: ObservationKind) -> Kind {
            match kind { $(ObservationKind::$name => Kind::$name,)* }
        }
        const fn stored_kind(kind: Kind) -> ObservationKind {
            match kind { $(Kind::$name => ObservationKind::$name,)* }
        }
    };
}
kinds!(
    Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail
);
