//! Items from traces and observations, whose values are selected by JSONPath.
//!
//! The id of an item follows from the dataset and the source: an addition that is repeated adds nothing.

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_domain::access::Permission::{DatasetWrite, TraceRead};
use perpend_domain::dataset::ItemPatch;
use perpend_domain::filter::{Filter, OBSERVATIONS, TRACES};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::json_path::{JsonPath, Steps};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Digest;
use perpend_domain::query;
use perpend_domain::telemetry::{
    ObservationCursor, ObservationQuery, StoredObservation, StoredTrace,
};
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, must_be_one_of};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::batch::OutcomeCounts;
use super::find::find;
use super::writer::{
    ItemChange, ItemOutcome, ItemProblem, ItemResult, ItemWrite, OnExisting, WriteOptions,
};
use crate::state::{App, Routes};

const FROM_TRACES: &str = "/api/v1/datasets/{datasetName}/from-traces";

/// Most ids in one request.
const MAX_IDS: usize = 1_000;
/// Most sources of a query.
const MAX_MATCHES: u32 = 10_000;
/// Sources of a query without `limit`.
const DEFAULT_MATCHES: u32 = 1_000;
/// Sources that are read at a time.
const PER_READ: u32 = 100;
/// Contents of the sources that are read at a time, as JSON.
const READ_BYTES: usize = 8 << 20;
/// Rows that are tested at a time for conditions that no database can test.
const MAX_TESTED: u64 = 20_000;
/// Outcomes in a response.
const MAX_LISTED: usize = 100;
/// Steps of the evaluation of a path.
const MAX_STEPS: usize = 1_000_000;

pub(super) fn routes(routes: &mut Routes) {
    let add = Operation::post(
        "addDatasetItemsFromTraces",
        FROM_TRACES,
        "Add items made of traces or observations, chosen by ids or by a filter",
        DatasetWrite,
    );
    routes.add(add.body::<FromTracesInput>(), add_items);
}

/// Sources of items, and the paths of their values. One of `traceIds`, `observations` and `query` is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemsFromTraces)]
struct FromTracesInput {
    /// At most 1,000 traces.
    trace_ids: Option<Vec<String>>,
    /// At most 1,000 observations.
    observations: Option<Vec<ObservationRef>>,
    /// Filter as text, as on the pages of traces and observations. An empty text matches all.
    query: Option<String>,
    /// With `query`: `observation` (default) or `trace`.
    target: Option<String>,
    /// With `query`: most sources, the latest first; 1 to 10,000, 1,000 when absent.
    limit: Option<u32>,
    #[serde(default)]
    mapping: PathsInput,
    /// `update` (default) or `skip` for items that exist.
    on_existing: Option<String>,
    /// Only reports the outcomes, with the values of the items.
    #[serde(default)]
    dry_run: bool,
}

/// An observation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemSource)]
struct ObservationRef {
    trace_id: String,
    observation_id: String,
}

/// JSONPaths over an object with `input`, `output`, `metadata`, `id`, `traceId`, `name`, `tags`, `userId` and
/// `sessionId` of a source. A path that selects several nodes gives a list.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemPaths)]
struct PathsInput {
    /// `$.input` when absent.
    input: Option<String>,
    /// `$.output` when absent; an empty text selects nothing.
    expected_output: Option<String>,
    /// Nothing when absent.
    metadata: Option<String>,
}

/// Outcomes of an addition.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemsFromTracesResult)]
struct FromTracesView {
    counts: OutcomeCounts,
    /// The first 100 outcomes; those with problems first.
    results: Vec<SourceOutcome>,
    /// Whether more sources match the query than the limit.
    has_more: bool,
}

/// The outcome for one source.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemSourceOutcome)]
struct SourceOutcome {
    trace_id: String,
    observation_id: Option<String>,
    /// Id of the item.
    id: String,
    result: ItemResult,
    problems: Vec<ItemProblem>,
    /// The values of the item; of a dry run only.
    item: Option<SourceItem>,
}

/// Values of an item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemValues)]
struct SourceItem {
    input: AnyJson,
    expected_output: AnyJson,
    metadata: AnyJson,
}

/// A path and the member of the item that it gives.
struct MemberPath {
    field: &'static str,
    path: JsonPath,
}

/// A trace or an observation as one document.
struct SourceDocument {
    trace_id: String,
    observation_id: Option<String>,
    document: Value,
}

fn content(payload: Option<&Payload>) -> Value {
    payload.map_or(Value::Null, Payload::to_value)
}

impl From<StoredObservation> for SourceDocument {
    fn from(stored: StoredObservation) -> Self {
        let observation = &stored.observation;
        let attributes = &stored.trace_attributes;
        Self {
            trace_id: observation.trace_id.to_string(),
            observation_id: Some(observation.id.to_string()),
            document: json!({
                "id": observation.id.as_str(),
                "traceId": observation.trace_id.as_str(),
                "name": observation.name,
                "input": content(observation.content.input.as_ref()),
                "output": content(observation.content.output.as_ref()),
                "metadata": observation.content.metadata,
                "tags": observation.tags,
                "userId": observation.user_id.as_ref().or(attributes.user_id.as_ref()),
                "sessionId": observation.session_id.as_ref().or(attributes.session_id.as_ref()),
            }),
        }
    }
}

impl From<StoredTrace> for SourceDocument {
    fn from(stored: StoredTrace) -> Self {
        let trace = &stored.trace;
        Self {
            trace_id: trace.id.to_string(),
            observation_id: None,
            document: json!({
                "id": trace.id.as_str(),
                "traceId": trace.id.as_str(),
                "name": trace.name,
                "input": content(trace.input.as_ref()),
                "output": content(trace.output.as_ref()),
                "metadata": trace.metadata,
                "tags": trace.tags,
                "userId": trace.user_id,
                "sessionId": trace.session_id,
            }),
        }
    }
}

impl PathsInput {
    fn read(&self) -> Result<Vec<MemberPath>, Problem> {
        let paths = [
            ("input", self.input.as_deref().unwrap_or("$.input")),
            ("expectedOutput", self.expected_output.as_deref().unwrap_or("$.output")),
            ("metadata", self.metadata.as_deref().unwrap_or_default()),
        ];
        let paths = paths.into_iter().filter(|(_, path)| !path.trim().is_empty());
        let paths = paths.map(|(field, path)| {
            let path = JsonPath::parse(path.trim()).map_err(|error| {
                Problem::new(Code::InvalidJsonPath, format!("mapping.{field}: {error}"))
            })?;
            Ok(MemberPath { field, path })
        });
        paths.collect()
    }
}

/// The values that paths select.
fn patch(source: &SourceDocument, paths: &[MemberPath]) -> Result<ItemPatch, Vec<ItemProblem>> {
    let mut patch = ItemPatch {
        source_trace_id: Some(source.trace_id.clone()),
        source_observation_id: source.observation_id.clone(),
        ..ItemPatch::default()
    };
    let mut problems = Vec::new();
    for MemberPath { field, path } in paths {
        let selected = path.select(&source.document, &mut Steps::new(MAX_STEPS));
        let value = match selected.as_deref() {
            Ok([]) => Err(format!("the path {} selects nothing", path.as_str())),
            Ok([only]) => Ok((*only).clone()),
            Ok(several) => Ok(several.iter().map(|node| (*node).clone()).collect()),
            Err(error) => Err(format!("the path {} takes {error}", path.as_str())),
        };
        match value {
            Ok(value) => match *field {
                "input" => patch.input = Some(value),
                "expectedOutput" => patch.expected_output = Some(value),
                _ => patch.metadata = Some(value),
            },
            Err(message) => problems.push(ItemProblem::new(field, message)),
        }
    }
    match problems.is_empty() {
        true => Ok(patch),
        false => Err(problems),
    }
}

/// The id of the item made of a source.
fn item_id(dataset_id: &str, source: &SourceDocument) -> String {
    let key = json!(["item-from", dataset_id, source.trace_id, source.observation_id]);
    let mut id = Digest::of(key.to_string().as_bytes()).to_string();
    id.truncate(32);
    id
}

/// An addition to a dataset.
struct Addition<'a> {
    app: &'a App,
    project: &'a ProjectId,
    dataset_id: &'a str,
    paths: Vec<MemberPath>,
    options: WriteOptions,
    counts: OutcomeCounts,
    invalid: Vec<SourceOutcome>,
    others: Vec<SourceOutcome>,
}

impl Addition<'_> {
    async fn add(&mut self, sources: Vec<SourceDocument>) -> Result<(), Problem> {
        let (mut writes, mut written) = (Vec::new(), Vec::new());
        for source in sources {
            let id = item_id(self.dataset_id, &source);
            match patch(&source, &self.paths) {
                Ok(patch) => {
                    written.push((source, patch.clone()));
                    writes.push(ItemWrite { id, change: ItemChange::Put(patch) });
                }
                Err(problems) => {
                    let result = ItemResult::Invalid;
                    let outcome = ItemOutcome { id, result, problems, version: None };
                    self.record(source, None, outcome);
                }
            }
        }
        let writer = self.app.item_writer();
        let outcomes = writer.write(self.project, self.dataset_id, &writes, self.options);
        for ((source, patch), outcome) in written.into_iter().zip(Box::pin(outcomes).await?) {
            self.record(source, Some(patch), outcome);
        }
        Ok(())
    }

    fn record(&mut self, source: SourceDocument, patch: Option<ItemPatch>, outcome: ItemOutcome) {
        self.counts.add(outcome.result);
        let list = match outcome.result {
            ItemResult::Invalid => &mut self.invalid,
            _ => &mut self.others,
        };
        if MAX_LISTED <= list.len() {
            return;
        }
        let patch = patch.filter(|_| self.options.is_dry_run);
        list.push(SourceOutcome {
            trace_id: source.trace_id,
            observation_id: source.observation_id,
            id: outcome.id,
            result: outcome.result,
            problems: outcome.problems,
            item: patch.map(|patch| SourceItem {
                input: patch.input.unwrap_or_default().into(),
                expected_output: patch.expected_output.unwrap_or_default().into(),
                metadata: patch.metadata.unwrap_or_default().into(),
            }),
        });
    }

    /// Adds a source that must exist.
    fn refuse(&mut self, trace_id: &str, observation_id: Option<&str>, message: &str) {
        let source = SourceDocument {
            trace_id: trace_id.to_owned(),
            observation_id: observation_id.map(str::to_owned),
            document: Value::Null,
        };
        let id = item_id(self.dataset_id, &source);
        let problems = vec![ItemProblem::new("", message)];
        let outcome = ItemOutcome { id, result: ItemResult::Invalid, problems, version: None };
        self.record(source, None, outcome);
    }

    async fn add_traces(&mut self, ids: &[String]) -> Result<(), Problem> {
        for some in ids.chunks(PER_READ as usize) {
            let mut sources = Vec::new();
            for id in some {
                let found = match TraceId::new(id) {
                    Ok(id) => self.app.store.telemetry.trace(self.project, &id, true).await?,
                    Err(_) => None,
                };
                match found {
                    Some(stored) => sources.push(SourceDocument::from(stored)),
                    None => self.refuse(id, None, "no such trace in this project"),
                }
            }
            self.add(sources).await?;
        }
        Ok(())
    }

    async fn add_observations(&mut self, refs: &[ObservationRef]) -> Result<(), Problem> {
        for some in refs.chunks(PER_READ as usize) {
            let mut sources = Vec::new();
            for ObservationRef { trace_id, observation_id } in some {
                let ids = (TraceId::new(trace_id), ObservationId::new(observation_id));
                let found = match &ids {
                    (Ok(trace), Ok(id)) => {
                        self.app.store.telemetry.observation_of(self.project, trace, id).await?
                    }
                    _ => None,
                };
                match found {
                    Some(stored) => sources.push(SourceDocument::from(stored)),
                    None => {
                        let message = "no such observation in this project";
                        self.refuse(trace_id, Some(observation_id), message);
                    }
                }
            }
            self.add(sources).await?;
        }
        Ok(())
    }

    /// Adds the matching observations; whether there are more.
    async fn add_matching_observations(
        &mut self,
        filter: Filter,
        limit: u32,
    ) -> Result<bool, Problem> {
        let mut n_left = limit;
        let mut query = ObservationQuery {
            filter,
            with_content: true,
            without_records: true,
            max_tested: MAX_TESTED,
            max_bytes: READ_BYTES,
            ..ObservationQuery::default()
        };
        loop {
            query.limit = PER_READ.min(n_left);
            let read = self.app.store.telemetry.observations(self.project, &query);
            let page = reading::limited(&self.app.web, self.project, read).await?;
            let last = page.items.last().map(|stored| ObservationCursor {
                start: stored.observation.start,
                trace_id: stored.observation.trace_id.clone(),
                id: stored.observation.id.clone(),
            });
            n_left = n_left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
            let after = page.scan_limit.map(|limit| limit.after).or(last);
            self.add(page.items.into_iter().map(SourceDocument::from).collect()).await?;
            if !page.has_more || after.is_none() || n_left == 0 {
                return Ok(page.has_more);
            }
            query.after = after;
        }
    }

    /// Adds the matching traces; whether there are more.
    async fn add_matching_traces(&mut self, filter: Filter, limit: u32) -> Result<bool, Problem> {
        let query = TraceQuery { filter, limit, with_content: true, ..TraceQuery::default() };
        let telemetry = &self.app.store.telemetry;
        let read = telemetry.find_page(self.project, &query);
        let (mut reader, n_total) = reading::limited(&self.app.web, self.project, read).await?;
        while !reader.is_done() {
            let read = telemetry.next_traces(&mut reader);
            let some = reading::limited(&self.app.web, self.project, read).await?;
            self.add(some.into_iter().map(SourceDocument::from).collect()).await?;
        }
        Ok(u64::from(limit) < n_total)
    }
}

/// The filter of a query text, all of whose terms must be readable.
fn filter_of(text: &str, is_trace: bool) -> Result<Filter, Problem> {
    let parsed = query::parse(text, if is_trace { TRACES } else { OBSERVATIONS });
    if let Some(fault) = parsed.faults().next() {
        return Err(Problem::body("query", fault.message.as_str()));
    }
    Ok(parsed.filter)
}

fn checked_count(field: &str, n: usize) -> Result<(), Problem> {
    match (1..=MAX_IDS).contains(&n) {
        true => Ok(()),
        false => Err(Problem::body(field, format!("must have 1 to {MAX_IDS} elements, got {n}"))),
    }
}

async fn add_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<FromTracesInput>,
) -> Result<Answer<FromTracesView>, Problem> {
    if !caller.scope.holds(TraceRead) {
        return Err(Problem::new(Code::AccessDenied, "requires the permission `trace.read`"));
    }
    let paths = input.mapping.read()?;
    let on_existing = match input.on_existing.as_deref() {
        None | Some("update") => OnExisting::Update,
        Some("skip") => OnExisting::Skip,
        Some(other) => {
            let message = must_be_one_of(&["update", "skip"], other);
            return Err(Problem::body("onExisting", message));
        }
    };
    let stored = find(&app, &caller, &name).await?;
    let mut addition = Addition {
        app: &app,
        project: &caller.project,
        dataset_id: &stored.dataset.id,
        paths,
        options: WriteOptions { on_existing, is_dry_run: input.dry_run },
        counts: OutcomeCounts::default(),
        invalid: Vec::new(),
        others: Vec::new(),
    };
    let has_more = match (&input.trace_ids, &input.observations, &input.query) {
        (Some(ids), None, None) => {
            checked_count("traceIds", ids.len())?;
            Box::pin(addition.add_traces(ids)).await?;
            false
        }
        (None, Some(refs), None) => {
            checked_count("observations", refs.len())?;
            Box::pin(addition.add_observations(refs)).await?;
            false
        }
        (None, None, Some(text)) => {
            let limit = input.limit.unwrap_or(DEFAULT_MATCHES);
            if !(1..=MAX_MATCHES).contains(&limit) {
                let message = format!("must be between 1 and {MAX_MATCHES}, got {limit}");
                return Err(Problem::body("limit", message));
            }
            match input.target.as_deref() {
                None | Some("observation") => {
                    let filter = filter_of(text, false)?;
                    Box::pin(addition.add_matching_observations(filter, limit)).await?
                }
                Some("trace") => {
                    let filter = filter_of(text, true)?;
                    Box::pin(addition.add_matching_traces(filter, limit)).await?
                }
                Some(other) => {
                    let message = must_be_one_of(&["observation", "trace"], other);
                    return Err(Problem::body("target", message));
                }
            }
        }
        _ => {
            let message = "exactly one of `traceIds`, `observations` and `query` is required";
            return Err(Problem::body("", message));
        }
    };
    let Addition { counts, mut invalid, others, .. } = addition;
    invalid.extend(others);
    invalid.truncate(MAX_LISTED);
    Ok(Answer(FromTracesView { counts, results: invalid, has_more }))
}
