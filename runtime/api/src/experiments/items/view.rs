//! Responses of experiment items. Related data is loaded for a whole page at once.

use std::collections::HashMap;

use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::score::Score;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::Place;
use serde_json::{Value, json};

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
    items: HashMap<String, DatasetItem>,
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
                Item::Link(parts) => Some(parts.0.item_id.as_str()),
                Item::Span(_) => None,
            });
            let ids: Vec<&str> = links.collect();
            for item in app.store.catalog.dataset_items_by_id(project, &ids).await? {
                data.items.insert(item.id.clone(), item);
            }
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
                places.push(Place::Trace(trace, key.as_ref().map(|(_, id)| id)));
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

/// The items of a page.
pub(super) async fn views(
    app: &App,
    project: &ProjectId,
    page: &[Item],
    fields: &ItemFields,
) -> Result<Vec<Value>, Problem> {
    let data = PageData::read(app, project, page, fields).await?;
    let views = page.iter().enumerate().map(|(at, item)| {
        let mut view = core(item, &data, at);
        if fields.has("dataset") {
            view["experimentDatasetId"] = json!(item.dataset_id());
            view["experimentItemVersion"] = json!(match item {
                Item::Span(span) => span.link.item_version,
                Item::Link(parts) => parts.0.dataset_version,
            });
        }
        let root = data.root(at);
        if fields.has("metadata") {
            let metadata = root.map(|root| Value::Object(root.content.metadata.clone()));
            view["metadata"] = object(metadata.as_ref());
        }
        more(item, &data, fields, &mut view);
        if fields.has("io") {
            let content = root.map(|root| &root.content);
            let input = content.and_then(|content| content.input.as_ref());
            let output = content.and_then(|content| content.output.as_ref());
            view["input"] = json!(input.map(Payload::as_str));
            view["output"] = json!(output.map(Payload::as_str));
        }
        if let Some(scores) = data.scores.get(at) {
            view["scores"] = score_views(project, scores);
        }
        view
    });
    Ok(views.collect())
}

fn core(item: &Item, data: &PageData, at: usize) -> Value {
    let (experiment_id, experiment_name) = item.experiment();
    let root = data.root(at);
    let (trace_id, id, start, end, level, environment) = match (root, item) {
        (Some(root), _) => (
            root.trace_id.as_str(),
            root.id.as_str(),
            root.start,
            root.end,
            root.level.as_str(),
            root.environment.as_str(),
        ),
        (None, Item::Span(span)) => (
            span.trace_id.as_str(),
            span.id.as_str(),
            span.start,
            span.end,
            span.level.as_str(),
            span.environment.as_str(),
        ),
        (None, Item::Link(parts)) => (
            parts.0.trace_id.as_str(),
            parts.0.id.as_str(),
            parts.0.created_at,
            None,
            "DEFAULT",
            "default",
        ),
    };
    json!({
        "id": id,
        "traceId": trace_id,
        "startTime": start,
        "endTime": end,
        "level": level,
        "environment": environment,
        "experimentId": experiment_id,
        "experimentName": experiment_name,
        "experimentItemId": item.item_id(),
    })
}

/// Adds the data of the dataset item and of the experiment.
fn more(item: &Item, data: &PageData, fields: &ItemFields, view: &mut Value) {
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
            let stored = data.items.get(&link.item_id);
            let expected =
                stored.map(|item| &item.expected_output).filter(|expected| !expected.is_null());
            let expected =
                expected.map(|value| Payload::from_value(value.clone()).as_str().to_owned());
            let item_metadata = stored.map(|item| &item.metadata);
            (expected, item_metadata, Some(&run.metadata), &run.description)
        }
    };
    if fields.has("io") {
        view["expectedOutput"] = json!(expected);
    }
    if fields.has("itemMetadata") {
        view["experimentItemMetadata"] = object(item_metadata);
    }
    if fields.has("experimentMetadata") {
        view["experimentMetadata"] = object(metadata);
        view["experimentDescription"] = json!(description);
    }
}
