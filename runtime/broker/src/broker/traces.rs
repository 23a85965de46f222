//! `trace-reader`: the traces of an item. Also checks access for the other readers.

use std::borrow::Cow;
use std::collections::HashMap;

use perpend_db::Error;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Item;
use perpend_domain::telemetry::{StoredObservation, TraceWalkQuery};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_storage::Store;
use perpend_worker_protocol::host_call::{
    Allowance, Hit, Kind, ObservationFilter, ObservationHead, ObservationPage, ObservationPart,
    OutlineEntry, OutlinePage, Severity, Slice, TraceError, TraceInfo,
};
use perpend_worker_protocol::{HostReply, HostRequest, MAX_FRAME};
use serde_json::Value;

use super::{outline, search};

/// Maximum number of observations of a page.
const MAX_PAGE: u32 = 500;
/// Maximum size of a part that is read at once; the reply must fit in a frame.
const MAX_PIECE: usize = MAX_FRAME / 2;

/// Maximum number of observations of a trace that has an outline.
const MAX_OUTLINED: u32 = 50_000;
/// Bytes per observation that an outline counts towards the scan limit.
const SUMMARY_BYTES: usize = 64;
/// Maximum number of observations whose contents are in memory.
const MAX_LOADED: u32 = 50;
/// Maximum number of bytes that one search scans.
const MAX_SEARCHED: usize = 256 << 20;
const MAX_HITS: u32 = 100;
const MAX_TEXT: usize = 1_000;
const MAX_RANGE: u32 = 1 << 20;

pub(super) type TraceResult<T> = Result<T, TraceError>;

/// The trace, session or run of an item, which its evaluation can read.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadScope {
    pub(super) trace: Option<String>,
    pub(super) session: Option<String>,
    pub(super) run: Option<String>,
}

impl ReadScope {
    pub(super) fn of(item: &Item) -> Self {
        Self {
            trace: item.trace.as_ref().map(|trace| trace.trace_id.clone()),
            session: item.session.clone(),
            run: item.run.clone(),
        }
    }
}

/// Serves the readers of one call.
pub(super) struct Reader<'c> {
    pub(super) store: &'c Store,
    pub(super) project: &'c ProjectId,
    pub(super) read_scope: &'c ReadScope,
    /// Counts scanned bytes.
    pub(super) allowance: &'c Allowance,
}

impl Reader<'_> {
    pub(super) async fn answer(&self, request: HostRequest) -> HostReply {
        match request {
            HostRequest::GetTrace { trace_id } => HostReply::GetTrace(self.info(&trace_id).await),
            HostRequest::ListObservations { trace_id, filter, cursor, limit } => {
                let page = self.page(&trace_id, filter, cursor, limit).await;
                HostReply::ListObservations(page)
            }
            HostRequest::Read { trace_id, observation_id, part } => {
                HostReply::Read(self.read(&trace_id, &observation_id, part).await)
            }
            HostRequest::Outline { trace_id, parent_id, cursor, limit } => {
                let (parent, cursor) = (parent_id.as_deref(), cursor.as_deref());
                HostReply::Outline(self.outline(&trace_id, parent, cursor, limit).await)
            }
            HostRequest::Search { trace_id, text, limit } => {
                HostReply::Search(self.search(&trace_id, &text, limit).await)
            }
            HostRequest::ReadRange { trace_id, observation_id, part, offset, length } => {
                let target = (trace_id.as_str(), observation_id.as_str(), part);
                HostReply::ReadRange(self.range(target, offset, length).await)
            }
            HostRequest::GetSession { session_id } => {
                HostReply::GetSession(self.session(&session_id).await)
            }
            HostRequest::ListTraces { session_id, cursor, limit } => {
                let page = self.traces_of_session(&session_id, cursor.as_deref(), limit);
                HostReply::ListTraces(page.await)
            }
            HostRequest::GetRun { run_id } => HostReply::GetRun(self.run(&run_id).await),
            HostRequest::ListRunItems { run_id, cursor, limit } => {
                let page = self.items_of_run(&run_id, cursor.as_deref(), limit);
                HostReply::ListRunItems(page.await)
            }
            HostRequest::Complete(_) | HostRequest::Embed { .. } => request.not_granted(),
        }
    }

    /// Parses a trace id. Fails when the trace is not the item's and not in the item's session or run.
    async fn readable_trace(&self, trace_id: &str) -> TraceResult<TraceId> {
        let ReadScope { trace, session, run } = self.read_scope;
        let id = TraceId::new(trace_id);
        if trace.as_deref() == Some(trace_id) {
            return id.map_err(|_| no_trace());
        }
        let telemetry = &self.store.telemetry;
        if let (Some(session), Ok(id)) = (session, &id)
            && telemetry
                .session_has_trace(self.project, session, id)
                .await
                .map_err(|error| failed(&error))?
        {
            return Ok(id.clone());
        }
        if let (Some(run), Ok(id)) = (run, &id)
            && telemetry
                .run_has_trace(self.project, run, id)
                .await
                .map_err(|error| failed(&error))?
        {
            return Ok(id.clone());
        }
        let message = match (trace, session, run) {
            (_, Some(_), _) => "only traces of the item's session can be read",
            (_, _, Some(_)) => "only traces of the item's run can be read",
            (Some(_), None, None) => "only the trace of the item can be read",
            (None, None, None) => "the item has no trace, or the evaluator was not granted `trace`",
        };
        Err(TraceError::NotGranted(message.into()))
    }

    async fn info(&self, trace_id: &str) -> TraceResult<TraceInfo> {
        let id = self.readable_trace(trace_id).await?;
        let found = self.store.telemetry.trace(self.project, &id, false).await;
        let trace = found.map_err(|error| failed(&error))?;
        Ok(info_of(trace.ok_or_else(no_trace)?.trace))
    }

    async fn page(
        &self,
        trace_id: &str,
        filter: ObservationFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> TraceResult<ObservationPage> {
        let id = self.readable_trace(trace_id).await?;
        let limit = limit.clamp(1, MAX_PAGE);
        let walk = TraceWalkQuery {
            parent: filter.parent_id,
            kinds: filter.kinds.into_iter().map(stored_kind).collect(),
            name: filter.name,
            after: cursor.as_deref().map(parse_cursor).transpose()?,
            // One more than requested tells whether there is a next page.
            limit: limit + 1,
        };
        let found = self.store.telemetry.walk_trace(self.project, &id, &walk).await;
        let mut found = found.map_err(|error| failed(&error))?;
        let has_more = limit < u32::try_from(found.len()).unwrap_or(u32::MAX);
        found.truncate(limit as usize);
        let last = found.last().map(|last| &last.observation);
        Ok(ObservationPage {
            next_cursor: last.filter(|_| has_more).map(cursor_after),
            observations: found.into_iter().map(head).collect(),
        })
    }

    async fn read_part(
        &self,
        trace_id: &str,
        observation_id: &str,
        part: ObservationPart,
    ) -> TraceResult<Option<Payload>> {
        let id = self.readable_trace(trace_id).await?;
        let missing = || TraceError::NotFound("the trace has no such observation".into());
        let observation = ObservationId::new(observation_id).map_err(|_| missing())?;
        let telemetry = &self.store.telemetry;
        let found = telemetry.observation_of(self.project, &id, &observation);
        let found = found.await.map_err(|error| failed(&error))?;
        let content = found.ok_or_else(missing)?.observation.content;
        Ok(piece(content, part))
    }

    async fn read(
        &self,
        trace_id: &str,
        observation_id: &str,
        part: ObservationPart,
    ) -> TraceResult<Option<Payload>> {
        match self.read_part(trace_id, observation_id, part).await? {
            Some(piece) if MAX_PIECE < piece.as_str().len() => Err(TraceError::TooLarge(format!(
                "the part has {} bytes, and at most {MAX_PIECE} can be read at once; read it in ranges",
                piece.as_str().len()
            ))),
            piece => Ok(piece),
        }
    }

    async fn range(
        &self,
        (trace_id, observation_id, part): (&str, &str, ObservationPart),
        offset: u64,
        length: u32,
    ) -> TraceResult<Option<Slice>> {
        let payload = self.read_part(trace_id, observation_id, part).await?;
        if let Some(payload) = &payload {
            self.allowance.count_scanned(payload.as_str().len())?;
        }
        Ok(payload.map(|payload| slice(&payload, offset, length.min(MAX_RANGE))))
    }

    async fn outline(
        &self,
        trace_id: &str,
        parent: Option<&str>,
        cursor: Option<&str>,
        limit: u32,
    ) -> TraceResult<OutlinePage> {
        let id = self.readable_trace(trace_id).await?;
        let telemetry = &self.store.telemetry;
        let summaries = telemetry.skeleton(self.project, &id, MAX_OUTLINED + 1);
        let summaries = summaries.await.map_err(|error| failed(&error))?;
        if (MAX_OUTLINED as usize) < summaries.len() {
            return Err(TraceError::TooLarge(format!(
                "a trace with more than {MAX_OUTLINED} observations has no outline; list the observations instead"
            )));
        }
        self.allowance.count_scanned(summaries.len() * SUMMARY_BYTES)?;
        let nodes = outline::depth_first(&summaries, parent)
            .ok_or_else(|| TraceError::NotFound("the trace has no such observation".into()))?;
        let first = match cursor {
            None => 0,
            Some(last) => {
                let position = nodes.iter().position(|node| summaries[node.index].id == last);
                1 + position.ok_or_else(unknown_cursor)?
            }
        };
        let limit = limit.clamp(1, MAX_PAGE) as usize;
        let nodes = &nodes[first.min(nodes.len())..];
        let page = &nodes[..limit.min(nodes.len())];
        let ids: Vec<&str> = page.iter().map(|node| summaries[node.index].id.as_str()).collect();
        let sizes = self.sizes(&id, &ids).await?;
        let entry = |node: &outline::OutlineNode| {
            let summary = &summaries[node.index];
            let (input_size, output_size) = sizes.get(&summary.id).copied().unwrap_or_default();
            let duration = summary.end.map(|end| millis(end).saturating_sub(millis(summary.start)));
            OutlineEntry {
                id: summary.id.clone(),
                parent_id: summary.parent_id.clone(),
                depth: node.depth,
                kind: contract_kind(summary.kind),
                name: Some(summary.name.clone()).filter(|name| !name.is_empty()),
                severity: severity(summary.level),
                start_ms: millis(summary.start),
                duration_ms: duration,
                input_size,
                output_size,
                n_children: node.n_children,
            }
        };
        let last = page.last().filter(|_| page.len() < nodes.len());
        Ok(OutlinePage {
            next_cursor: last.map(|node| summaries[node.index].id.clone()),
            entries: page.iter().map(entry).collect(),
        })
    }

    /// Bytes of the inputs and outputs of these observations.
    async fn sizes(
        &self,
        trace: &TraceId,
        ids: &[&str],
    ) -> TraceResult<HashMap<String, (u64, u64)>> {
        let mut sizes = HashMap::with_capacity(ids.len());
        for chunk in ids.chunks(MAX_LOADED as usize) {
            let telemetry = &self.store.telemetry;
            let found = telemetry.observations_of(self.project, trace, chunk).await;
            for stored in found.map_err(|error| failed(&error))? {
                let content = &stored.observation.content;
                let both = (size(&content.input), size(&content.output));
                let n_bytes = both.0.saturating_add(both.1);
                self.allowance.count_scanned(usize::try_from(n_bytes).unwrap_or(usize::MAX))?;
                sizes.insert(stored.observation.id.to_string(), both);
            }
        }
        Ok(sizes)
    }

    async fn search(&self, trace_id: &str, text: &str, limit: u32) -> TraceResult<Vec<Hit>> {
        let id = self.readable_trace(trace_id).await?;
        if text.is_empty() || MAX_TEXT < text.len() {
            return Err(TraceError::TooLarge(format!(
                "the search text must have 1 to {MAX_TEXT} bytes, got {}",
                text.len()
            )));
        }
        let limit = limit.clamp(1, MAX_HITS) as usize;
        let needle = search::Needle::new(text);
        let mut hits = Vec::new();
        let mut n_searched = 0;
        let mut after = None;
        loop {
            let walk = TraceWalkQuery {
                after: after.take(),
                limit: MAX_LOADED,
                ..TraceWalkQuery::default()
            };
            let found = self.store.telemetry.walk_trace(self.project, &id, &walk);
            let found = found.await.map_err(|error| failed(&error))?;
            let is_last = found.len() < MAX_LOADED as usize;
            for StoredObservation { observation, .. } in found {
                after = Some((observation.start, observation.id.clone()));
                for part in
                    [ObservationPart::Input, ObservationPart::Output, ObservationPart::Metadata]
                {
                    let Some(piece) = piece_of(&observation.content, part) else {
                        continue;
                    };
                    let n_bytes = piece.as_str().len();
                    self.allowance.count_scanned(n_bytes)?;
                    n_searched += n_bytes;
                    if MAX_SEARCHED < n_searched {
                        return Err(TraceError::TooLarge(format!(
                            "the trace has more than {} MiB to search; {} hits so far",
                            MAX_SEARCHED >> 20,
                            hits.len()
                        )));
                    }
                    for (offset, excerpt) in needle.hits(piece.as_str(), limit - hits.len()) {
                        hits.push(Hit {
                            observation_id: observation.id.to_string(),
                            part,
                            offset: offset as u64,
                            excerpt,
                        });
                    }
                    if limit <= hits.len() {
                        return Ok(hits);
                    }
                }
            }
            if is_last {
                return Ok(hits);
            }
            // A search is long: let other tasks of this thread run.
            tokio::task::yield_now().await;
        }
    }
}

/// A part of a content; `None` when it is absent or empty.
fn piece(content: Content, part: ObservationPart) -> Option<Payload> {
    match part {
        ObservationPart::Input => content.input,
        ObservationPart::Output => content.output,
        ObservationPart::Metadata => Some(content.metadata)
            .filter(|metadata| !metadata.is_empty())
            .map(|metadata| Payload::Json(Value::Object(metadata).to_string())),
    }
}

fn piece_of(content: &Content, part: ObservationPart) -> Option<Cow<'_, Payload>> {
    match part {
        ObservationPart::Input => content.input.as_ref().map(Cow::Borrowed),
        ObservationPart::Output => content.output.as_ref().map(Cow::Borrowed),
        ObservationPart::Metadata if content.metadata.is_empty() => None,
        ObservationPart::Metadata => {
            let text = Value::Object(content.metadata.clone()).to_string();
            Some(Cow::Owned(Payload::Json(text)))
        }
    }
}

/// A byte range of a part; both ends are moved back to a character boundary.
fn slice(payload: &Payload, offset: u64, length: u32) -> Slice {
    let text = payload.as_str();
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    let end = begin.saturating_add(length as usize).min(text.len());
    let (begin, end) = (text.floor_char_boundary(begin), text.floor_char_boundary(end));
    Slice {
        text: text[begin..end].to_owned(),
        offset: begin as u64,
        total: text.len() as u64,
        is_json: matches!(payload, Payload::Json(_)),
    }
}

pub(super) fn info_of(trace: Trace) -> TraceInfo {
    let metadata = (!trace.metadata.is_empty()).then(|| Value::Object(trace.metadata));
    TraceInfo {
        id: trace.id.to_string(),
        name: trace.name,
        session_id: trace.session_id,
        user_id: trace.user_id,
        start_ms: millis(trace.timestamp),
        tags: trace.tags,
        metadata: metadata.map(|metadata| metadata.to_string()),
        n_observations: trace.n_observations,
    }
}

pub(super) fn unknown_cursor() -> TraceError {
    TraceError::NotFound("unknown cursor; use `next-cursor` of a page of this list".into())
}

const fn severity(level: Level) -> Severity {
    match level {
        Level::Debug => Severity::Debug,
        Level::Default => Severity::Standard,
        Level::Warning => Severity::Warning,
        Level::Error => Severity::Error,
    }
}

fn size(payload: &Option<Payload>) -> u64 {
    payload.as_ref().map_or(0, |text| text.as_str().len() as u64)
}

fn no_trace() -> TraceError {
    TraceError::NotFound("the trace was deleted".into())
}

/// Logs a storage error and hides it from the guest.
pub(super) fn failed(error: &Error) -> TraceError {
    tracing::error!(error = error as &dyn std::error::Error, "cannot read a trace for a plug-in");
    TraceError::Unavailable("the trace cannot be read at the moment".into())
}

pub(super) fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or_default()
}

fn cursor_after(last: &Observation) -> String {
    format!("{}.{}", last.start.as_micros(), last.id)
}

fn parse_cursor(cursor: &str) -> TraceResult<(Timestamp, ObservationId)> {
    let (start, id) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let start = start.parse().map_err(|_| unknown_cursor())?;
    let id = ObservationId::new(id).map_err(|_| unknown_cursor())?;
    Ok((Timestamp::from_micros(start), id))
}

fn head(stored: StoredObservation) -> ObservationHead {
    let own = stored.observation;
    ObservationHead {
        id: own.id.to_string(),
        parent_id: own.parent_id.as_ref().map(ToString::to_string),
        kind: contract_kind(own.kind),
        name: Some(own.name).filter(|name| !name.is_empty()),
        start_ms: millis(own.start),
        end_ms: own.end.map(millis),
        severity: severity(own.level),
        status_message: own.status_message,
        model: own.model,
        input_tokens: own.usage.get("input").map(|n| n.to_u64()),
        output_tokens: own.usage.get("output").map(|n| n.to_u64()),
        input_size: size(&own.content.input),
        output_size: size(&own.content.output),
    }
}

/// Conversions between the kinds of the protocol and of the domain.
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
kinds!(Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail);
