//! Responses of experiment items. Related data is loaded for a whole page at once.

use std::collections::HashMap;

use perpend_api_types::any_json::AnyJson;
use perpend_api_types::score::ScoreV3;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{Level, Observation};
use perpend_domain::payload::Payload;
use perpend_domain::score::Score;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::ScoredSubject;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::super::params::{object, score_views};
use super::item::Item;
use crate::state::App;

/// Selected field groups and limits of each item.
#[derive(Clone, Debug)]
pub(super) struct ItemFields {
    pub(super) fields: Vec<String>,
    pub(super) score_limit: u32,
}

impl ItemFields {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field == name)
    }
}

type Key = (TraceId, ObservationId);

/// Related data of the items of a page.
#[derive(Default)]
struct PageData {
    /// The observation of each item, by its index in the page.
    keys: Vec<Option<Key>>,
    roots: HashMap<Key, Observation>,
    /// Items of links by id and time.
    items: HashMap<(String, Timestamp), DatasetItem>,
    scores: Vec<Vec<Score>>,
}

impl PageData {
    async fn read(
        app: &App,
        project: &ProjectId,
        page: &[Item],
        fields: &ItemFields,
    ) -> Result<Self, Problem> {
        let mut data = Self { keys: keys(app, project, page).await?, ..Self::default() };
        let with_content = fields.has("io") || fields.has("metadata");
        let needs_root = |item: &Item| with_content || matches!(item, Item::Link(_));
        let selected = page.iter().zip(&data.keys);
        let selected = selected.filter(|(item, _)| needs_root(item));
        let selected: Vec<Key> = selected.filter_map(|(_, key)| key.clone()).collect();
        let roots = app.store.telemetry.target_observations(project, &selected, with_content);
        for root in roots.await? {
            let key = (root.trace_id.clone(), root.id.clone());
            data.roots.insert(key, root);
        }
        if fields.has("io") || fields.has("itemMetadata") {
            let links = page.iter().filter_map(|item| match item {
                Item::Link(parts) => Some((parts.0.item_id.as_str(), parts.0.version())),
                Item::Span(_) => None,
            });
            let versions: Vec<(&str, Timestamp)> = links.collect();
            data.items = app.store.catalog.dataset_items_at(project, &versions).await?;
        }
        if fields.has("scores") {
            data.scores = data.scores(app, project, page, fields.score_limit).await?;
        }
        Ok(data)
    }

    /// The newest scores of the trace of each item or of the observation
    /// of the item.
    async fn scores(
        &self,
        app: &App,
        project: &ProjectId,
        page: &[Item],
        limit: u32,
    ) -> Result<Vec<Vec<Score>>, Problem> {
        let traces: Vec<Option<TraceId>> = page.iter().map(trace_of).collect();
        let mut places = Vec::with_capacity(page.len());
        let mut at = Vec::with_capacity(page.len());
        for (n, (trace, key)) in traces.iter().zip(&self.keys).enumerate() {
            if let Some(trace) = trace {
                places.push(ScoredSubject::Trace(trace, key.as_ref().map(|(_, id)| id)));
                at.push(n);
            }
        }
        let found = app.store.telemetry.newest_scores(project, &places, limit).await?;
        let mut scores = vec![Vec::new(); page.len()];
        for (n, own) in at.into_iter().zip(found) {
            scores[n] = own;
        }
        Ok(scores)
    }

    fn root(&self, at: usize) -> Option<&Observation> {
        self.roots.get(self.keys.get(at)?.as_ref()?)
    }
}

fn trace_of(item: &Item) -> Option<TraceId> {
    match item {
        Item::Span(span) => Some(span.trace_id.clone()),
        Item::Link(parts) => TraceId::new(&parts.0.trace_id).ok(),
    }
}

/// The observations of items: the span itself, the observation of a link, or the root of its trace.
async fn keys(app: &App, project: &ProjectId, page: &[Item]) -> Result<Vec<Option<Key>>, Problem> {
    let named = |item: &Item| match item {
        Item::Span(span) => Some((span.trace_id.clone(), span.id.clone())),
        Item::Link(parts) => {
            let id = parts.0.observation_id.as_deref()?;
            Some((trace_of(item)?, ObservationId::new(id).ok()?))
        }
    };
    let mut keys: Vec<Option<Key>> = page.iter().map(named).collect();
    let unnamed = page.iter().zip(&keys).filter(|(_, key)| key.is_none());
    let traces: Vec<TraceId> = unnamed.filter_map(|(item, _)| trace_of(item)).collect();
    if traces.is_empty() {
        return Ok(keys);
    }
    let roots = app.store.telemetry.trace_roots(project, &traces).await?;
    for (item, key) in page.iter().zip(&mut keys).filter(|(_, key)| key.is_none()) {
        if let Some(trace) = trace_of(item)
            && let Some(root) = roots.get(&trace)
        {
            *key = Some((trace, root.clone()));
        }
    }
    Ok(keys)
}

/// An item of an experiment. Groups that were not requested are absent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExperimentItem)]
pub(crate) struct ItemView {
    /// Id of the observation that represents the item.
    id: String,
    trace_id: String,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    level: Level,
    environment: String,
    experiment_id: String,
    experiment_name: String,
    experiment_item_id: String,
    #[serde(flatten)]
    #[schema(value_type = DatasetGroup)]
    dataset: Option<DatasetGroup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    metadata: Option<Option<Map<String, Value>>>,
    #[serde(flatten)]
    #[schema(value_type = IoGroup)]
    io: Option<IoGroup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    experiment_item_metadata: Option<Option<Map<String, Value>>>,
    #[serde(flatten)]
    #[schema(value_type = ExperimentGroup)]
    experiment: Option<ExperimentGroup>,
    /// The newest scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scores: Option<Vec<ScoreV3>>,
}

/// The group `dataset`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExperimentItemDataset)]
struct DatasetGroup {
    experiment_dataset_id: Option<String>,
    experiment_item_version: Option<Timestamp>,
}

/// The group `io`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExperimentItemIo)]
struct IoGroup {
    expected_output: Option<String>,
    input: Option<String>,
    output: Option<String>,
}

/// The group `experimentMetadata`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExperimentItemExperiment)]
struct ExperimentGroup {
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    experiment_metadata: Option<Map<String, Value>>,
    experiment_description: Option<String>,
}

/// The items of a page.
pub(super) async fn views(
    app: &App,
    project: &ProjectId,
    page: &[Item],
    fields: &ItemFields,
) -> Result<Vec<ItemView>, Problem> {
    let data = PageData::read(app, project, page, fields).await?;
    let views = page.iter().enumerate().map(|(at, item)| {
        let mut view = core(item, &data, at);
        view.dataset = fields.has("dataset").then(|| dataset_group(item));
        if fields.has("metadata") {
            let metadata = data.root(at).map(|root| root.content.metadata.clone());
            view.metadata = Some(metadata);
        }
        add_sources(item, &data, fields, (at, &mut view));
        view.scores = data.scores.get(at).map(|scores| score_views(project, scores));
        view
    });
    Ok(views.collect())
}

/// An item without groups.
fn core(item: &Item, data: &PageData, at: usize) -> ItemView {
    let (experiment_id, experiment_name) = item.experiment();
    let root = data.root(at);
    let (trace_id, id, start_time, end_time, level, environment) = match (root, item) {
        (Some(root), _) => (
            root.trace_id.as_str(),
            root.id.as_str(),
            root.start,
            root.end,
            root.level,
            root.environment.as_str(),
        ),
        (None, Item::Span(span)) => (
            span.trace_id.as_str(),
            span.id.as_str(),
            span.start,
            span.end,
            span.level,
            span.environment.as_str(),
        ),
        (None, Item::Link(parts)) => (
            parts.0.trace_id.as_str(),
            parts.0.id.as_str(),
            parts.0.created_at,
            None,
            Level::Default,
            "default",
        ),
    };
    ItemView {
        id: id.to_owned(),
        trace_id: trace_id.to_owned(),
        start_time,
        end_time,
        level,
        environment: environment.to_owned(),
        experiment_id: experiment_id.to_owned(),
        experiment_name: experiment_name.to_owned(),
        experiment_item_id: item.item_id().to_owned(),
        dataset: None,
        metadata: None,
        io: None,
        experiment_item_metadata: None,
        experiment: None,
        scores: None,
    }
}

fn dataset_group(item: &Item) -> DatasetGroup {
    DatasetGroup {
        experiment_dataset_id: item.dataset_id().map(str::to_owned),
        experiment_item_version: match item {
            Item::Span(span) => span.link.item_version,
            Item::Link(parts) => parts.0.dataset_version,
        },
    }
}

/// Adds the groups with data of the dataset item and of the experiment.
fn add_sources(
    item: &Item,
    data: &PageData,
    fields: &ItemFields,
    (at, view): (usize, &mut ItemView),
) {
    let (expected, item_metadata, metadata, description) = match item {
        Item::Span(span) => {
            let link = &span.link;
            let expected = link.item_expected_output.as_ref();
            (
                expected.map(|payload| payload.as_str().to_owned()),
                link.item_metadata.as_ref(),
                link.metadata.as_ref(),
                &link.description,
            )
        }
        Item::Link(parts) => {
            let (link, run) = parts.as_ref();
            let stored = data.items.get(&(link.item_id.clone(), link.version()));
            let expected =
                stored.map(|item| &item.expected_output).filter(|expected| !expected.is_null());
            let expected =
                expected.map(|value| Payload::from_value(value.clone()).as_str().to_owned());
            let item_metadata = stored.map(|item| &item.metadata);
            (expected, item_metadata, Some(&run.metadata), &run.description)
        }
    };
    if fields.has("io") {
        let content = data.root(at).map(|root| &root.content);
        let text = |payload: &Payload| payload.as_str().to_owned();
        view.io = Some(IoGroup {
            expected_output: expected,
            input: content.and_then(|content| content.input.as_ref()).map(text),
            output: content.and_then(|content| content.output.as_ref()).map(text),
        });
    }
    if fields.has("itemMetadata") {
        view.experiment_item_metadata = Some(object(item_metadata));
    }
    if fields.has("experimentMetadata") {
        view.experiment = Some(ExperimentGroup {
            experiment_metadata: object(metadata),
            experiment_description: description.clone(),
        });
    }
}
