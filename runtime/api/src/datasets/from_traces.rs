//! Items from traces and observations, whose values are selected by JSONPath.
//!
//! The id of an item follows from the dataset and the source: an addition that is repeated adds nothing.

use perpend_api_types::any_json::AnyJson;
use perpend_catalog::dataset_imports::{
    DatasetImport, ImportAdvance, ImportCounts, ImportReject, MAX_REJECTS,
};
use perpend_domain::dataset::ItemPatch;
use perpend_domain::dataset_import::ImportState;
use perpend_domain::filter::{Filter, OBSERVATIONS, TRACES};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::json_path::{JsonPath, Steps};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Digest;
use perpend_domain::query;
use perpend_domain::telemetry::{
    ObservationCursor, ObservationQuery, StoredObservation, StoredTrace,
};
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::extract::{from_json, must_be_one_of};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::batch::OutcomeCounts;
use super::writer::{
    ItemChange, ItemOutcome, ItemProblem, ItemResult, ItemWrite, ItemWriter, OnExisting,
    WriteOptions,
};

/// Most ids in one request.
const MAX_IDS: usize = 1_000;
/// Most sources of a query.
const MAX_MATCHES: u32 = 10_000;
/// Most sources of a query in the background.
const MAX_BACKGROUND_MATCHES: u32 = 100_000;
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

/// Sources of items, and the paths of their values. One of `traceIds`, `observations` and `query` is required.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemsFromTraces)]
pub(super) struct FromTracesInput {
    /// At most 1,000 traces.
    trace_ids: Option<Vec<String>>,
    /// At most 1,000 observations.
    observations: Option<Vec<ObservationRef>>,
    /// Filter as text, as on the pages of traces and observations. An empty text matches all.
    query: Option<String>,
    /// With `query`: `observation` (default) or `trace`.
    target: Option<String>,
    /// With `query`: most sources, the latest first; 1 to 10,000, with `background` to 100,000; 1,000 when absent.
    limit: Option<u32>,
    #[serde(default)]
    mapping: PathsInput,
    /// `update` (default) or `skip` for items that exist.
    on_existing: Option<String>,
    /// Only reports the outcomes, with the values of the items.
    #[serde(default)]
    dry_run: bool,
    /// With `query`: adds the items as an import in the background, whose id is in the response.
    #[serde(default)]
    background: bool,
}

/// An observation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemSource)]
struct ObservationRef {
    trace_id: String,
    observation_id: String,
}

/// JSONPaths over an object with `input`, `output`, `metadata`, `id`, `traceId`, `name`, `tags`, `userId` and
/// `sessionId` of a source. A path that selects several nodes gives a list.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
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
pub(super) struct FromTracesView {
    counts: OutcomeCounts,
    /// The first 100 outcomes; those with problems first.
    results: Vec<SourceOutcome>,
    /// Whether more sources match the query than the limit.
    has_more: bool,
    /// Import that adds the items in the background.
    import_id: Option<String>,
}

impl FromTracesView {
    /// The response while an import adds the items.
    pub(super) fn in_background(import_id: String) -> Self {
        Self {
            counts: OutcomeCounts::default(),
            results: Vec::new(),
            has_more: false,
            import_id: Some(import_id),
        }
    }
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
    writer: &'a ItemWriter,
    project: &'a ProjectId,
    dataset_id: &'a str,
    paths: Vec<MemberPath>,
    options: WriteOptions,
    counts: OutcomeCounts,
    invalid: Vec<SourceOutcome>,
    others: Vec<SourceOutcome>,
    /// The import that this addition is.
    progress: Option<BackgroundProgress<'a>>,
}

/// Progress of an addition in the background.
struct BackgroundProgress<'a> {
    import: &'a DatasetImport,
    counts: ImportCounts,
    rejects: Vec<ImportReject>,
    /// The import was cancelled.
    is_cancelled: bool,
}

impl BackgroundProgress<'_> {
    fn record(&mut self, source: &SourceDocument, outcome: &ItemOutcome) {
        let counts = &mut self.counts;
        counts.n_rows += 1;
        outcome.result.count(counts);
        if outcome.result == ItemResult::Invalid
            && counts.n_invalid <= MAX_REJECTS
            && let Some(problem) = outcome.problems.first()
        {
            let place = match &source.observation_id {
                Some(id) => format!("observation {id} of trace {}", source.trace_id),
                None => format!("trace {}", source.trace_id),
            };
            self.rejects.push(ImportReject {
                place: counts.n_rows,
                row: counts.n_rows,
                column: String::new(),
                pointer: format!("/{}{}", problem.field, problem.pointer),
                message: format!("{place}: {}", problem.message),
            });
        }
    }

    fn advance(
        &mut self,
        project: &ProjectId,
        state: ImportState,
        now: Timestamp,
    ) -> ImportAdvance {
        ImportAdvance {
            project: project.clone(),
            id: self.import.id.clone(),
            revision: self.import.revision,
            state,
            counts: self.counts,
            rejects: std::mem::take(&mut self.rejects),
            error: None,
            now,
        }
    }
}

impl Addition<'_> {
    async fn add(&mut self, sources: Vec<SourceDocument>) -> Result<(), Problem> {
        let (mut writes, mut written) = (Vec::new(), Vec::new());
        for source in sources {
            let id = item_id(self.dataset_id, &source);
            match patch(&source, &self.paths) {
                Ok(patch) => {
                    written.push((source, patch.clone()));
                    writes.push(ItemWrite { id, change: ItemChange::Put(Box::new(patch)) });
                }
                Err(problems) => {
                    let result = ItemResult::Invalid;
                    let outcome = ItemOutcome { id, result, problems, version: None };
                    self.record(source, None, outcome);
                }
            }
        }
        let outcomes = self.writer.write(self.project, self.dataset_id, &writes, self.options);
        for ((source, patch), outcome) in written.into_iter().zip(Box::pin(outcomes).await?) {
            self.record(source, Some(patch), outcome);
        }
        if let Some(progress) = &mut self.progress {
            let now = self.writer.web.clock.now();
            let advance = progress.advance(self.project, ImportState::Importing, now);
            let is_advanced = self.writer.store.catalog.advance_dataset_import(&advance).await?;
            progress.is_cancelled = !is_advanced;
        }
        Ok(())
    }

    fn is_cancelled(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.is_cancelled)
    }

    fn record(&mut self, source: SourceDocument, patch: Option<ItemPatch>, outcome: ItemOutcome) {
        self.counts.add(outcome.result);
        if let Some(progress) = &mut self.progress {
            progress.record(&source, &outcome);
        }
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
                    Ok(id) => self.writer.store.telemetry.trace(self.project, &id, true).await?,
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
                        self.writer.store.telemetry.observation_of(self.project, trace, id).await?
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
            let read = self.writer.store.telemetry.observations(self.project, &query);
            let page = reading::limited(&self.writer.web, self.project, read).await?;
            let last = page.items.last().map(|stored| ObservationCursor {
                start: stored.observation.start,
                trace_id: stored.observation.trace_id.clone(),
                id: stored.observation.id.clone(),
            });
            n_left = n_left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
            let after = page.scan_limit.map(|limit| limit.after).or(last);
            self.add(page.items.into_iter().map(SourceDocument::from).collect()).await?;
            if !page.has_more || after.is_none() || n_left == 0 || self.is_cancelled() {
                return Ok(page.has_more);
            }
            query.after = after;
        }
    }

    /// Adds the matching traces; whether there are more.
    async fn add_matching_traces(&mut self, filter: Filter, limit: u32) -> Result<bool, Problem> {
        let query = TraceQuery { filter, limit, with_content: true, ..TraceQuery::default() };
        let telemetry = &self.writer.store.telemetry;
        let read = telemetry.find_page(self.project, &query);
        let (mut reader, n_total) = reading::limited(&self.writer.web, self.project, read).await?;
        while !reader.is_done() && !self.is_cancelled() {
            let read = telemetry.next_traces(&mut reader);
            let some = reading::limited(&self.writer.web, self.project, read).await?;
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

/// The traces or observations that items are made of.
enum Sources<'i> {
    Traces(&'i [String]),
    Observations(&'i [ObservationRef]),
    MatchingTraces(Filter, u32),
    MatchingObservations(Filter, u32),
}

impl FromTracesInput {
    fn sources(&self) -> Result<Sources<'_>, Problem> {
        match (&self.trace_ids, &self.observations, &self.query) {
            (Some(ids), None, None) => {
                checked_count("traceIds", ids.len())?;
                Ok(Sources::Traces(ids))
            }
            (None, Some(refs), None) => {
                checked_count("observations", refs.len())?;
                Ok(Sources::Observations(refs))
            }
            (None, None, Some(text)) => {
                let limit = self.checked_limit()?;
                match self.target.as_deref() {
                    None | Some("observation") => {
                        Ok(Sources::MatchingObservations(filter_of(text, false)?, limit))
                    }
                    Some("trace") => Ok(Sources::MatchingTraces(filter_of(text, true)?, limit)),
                    Some(other) => {
                        let message = must_be_one_of(&["observation", "trace"], other);
                        Err(Problem::body("target", message))
                    }
                }
            }
            _ => {
                let message = "exactly one of `traceIds`, `observations` and `query` is required";
                Err(Problem::body("", message))
            }
        }
    }

    fn checked_limit(&self) -> Result<u32, Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_MATCHES);
        let max = if self.background { MAX_BACKGROUND_MATCHES } else { MAX_MATCHES };
        match (1..=max).contains(&limit) {
            true => Ok(limit),
            false => {
                Err(Problem::body("limit", format!("must be between 1 and {max}, got {limit}")))
            }
        }
    }

    fn options(&self) -> Result<WriteOptions, Problem> {
        let on_existing = match self.on_existing.as_deref() {
            None | Some("update") => OnExisting::Update,
            Some("skip") => OnExisting::Skip,
            Some(other) => {
                let message = must_be_one_of(&["update", "skip"], other);
                return Err(Problem::body("onExisting", message));
            }
        };
        Ok(WriteOptions { on_existing, is_dry_run: self.dry_run })
    }

    /// The request and its summary, if items are added in the background.
    pub(super) fn in_background(&self) -> Result<Option<(Vec<u8>, Value)>, Problem> {
        if !self.background {
            return Ok(None);
        }
        if self.query.is_none() || self.dry_run {
            let message = "must be used with `query` and without `dryRun`";
            return Err(Problem::body("background", message));
        }
        self.sources()?;
        self.options()?;
        self.mapping.read()?;
        let request = serde_json::to_vec(self).map_err(|_| Problem::internal())?;
        Ok(Some((request, json!({ "query": self.query, "target": self.target }))))
    }

    /// Adds the items to a dataset of a project.
    pub(super) async fn run(
        &self,
        writer: &ItemWriter,
        place: (&ProjectId, &str),
    ) -> Result<FromTracesView, Problem> {
        let mut addition = Addition::new(writer, place, self)?;
        let has_more = self.add(&mut addition).await?;
        let Addition { counts, invalid: mut results, others, .. } = addition;
        results.extend(others);
        results.truncate(MAX_LISTED);
        Ok(FromTracesView { counts, results, has_more, import_id: None })
    }

    /// Adds the items; whether more sources match the query.
    async fn add(&self, addition: &mut Addition<'_>) -> Result<bool, Problem> {
        match self.sources()? {
            Sources::Traces(ids) => Box::pin(addition.add_traces(ids)).await.map(|()| false),
            Sources::Observations(refs) => {
                Box::pin(addition.add_observations(refs)).await.map(|()| false)
            }
            Sources::MatchingTraces(filter, limit) => {
                Box::pin(addition.add_matching_traces(filter, limit)).await
            }
            Sources::MatchingObservations(filter, limit) => {
                Box::pin(addition.add_matching_observations(filter, limit)).await
            }
        }
    }
}

impl<'a> Addition<'a> {
    fn new(
        writer: &'a ItemWriter,
        (project, dataset_id): (&'a ProjectId, &'a str),
        input: &FromTracesInput,
    ) -> Result<Self, Problem> {
        Ok(Self {
            writer,
            project,
            dataset_id,
            paths: input.mapping.read()?,
            options: input.options()?,
            counts: OutcomeCounts::default(),
            invalid: Vec::new(),
            others: Vec::new(),
            progress: None,
        })
    }
}

/// Runs an addition in the background to its end. Items have derived ids, so an interrupted one starts again.
pub(super) async fn run_in_background(
    writer: &ItemWriter,
    project: &ProjectId,
    import: &DatasetImport,
    request: &[u8],
) -> Result<(), Problem> {
    let input: FromTracesInput = from_json(request)?;
    let mut addition = Addition::new(writer, (project, import.dataset_id.as_str()), &input)?;
    addition.progress = Some(BackgroundProgress {
        import,
        counts: ImportCounts::default(),
        rejects: Vec::new(),
        is_cancelled: false,
    });
    input.add(&mut addition).await?;
    if let Some(mut progress) = addition.progress {
        let now = writer.web.clock.now();
        let advance = progress.advance(project, ImportState::Completed, now);
        writer.store.catalog.advance_dataset_import(&advance).await?;
    }
    Ok(())
}
