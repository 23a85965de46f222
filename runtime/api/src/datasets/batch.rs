//! Changes of many items of a dataset in one request, each with its own outcome.

use axum::extract::{Path, State};
use perpend_domain::access::Permission::DatasetWrite;
use perpend_domain::dataset::{ItemPatch, ItemStatus, MAX_ITEM_ID_CHARS};
use perpend_domain::ids::MAX_ID_CHARS;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, from_value, must_be_one_of};
use perpend_http_kit::problem::{Code, Issue, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::items::{invalid_id, is_id};
use super::writer::{
    ItemChange, ItemOutcome, ItemProblem, ItemResult, ItemWrite, OnExisting, WriteOptions,
};
use crate::state::{App, Routes};

const BATCH: &str = "/api/v1/datasets/{datasetName}/items/batch";
/// Most items in one request.
const MAX_ITEMS: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let write = Operation::post(
        "writeDatasetItems",
        BATCH,
        "Create, change, archive and delete up to 1,000 items; each has its own outcome",
        DatasetWrite,
    );
    routes.add(write.body::<BatchInput>(), write_items);
}

/// Changes of items. Valid changes are made even if others are invalid.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemBatch)]
struct BatchInput {
    /// 1 to 1,000 changes of different items.
    #[schema(value_type = Vec<BatchItem>)]
    items: Vec<Value>,
    /// `update` (default) or `skip` for items that exist.
    on_existing: Option<String>,
    /// Only reports the outcomes.
    #[serde(default)]
    dry_run: bool,
}

/// A change of an item. Absent members of an existing item are kept; `null` clears `input`, `expectedOutput` and
/// `metadata`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DatasetItemChange)]
struct BatchItem {
    /// 1 to 255 characters; generated when absent.
    id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    input: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    expected_output: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Value>,
    source_trace_id: Option<String>,
    source_observation_id: Option<String>,
    /// `ACTIVE` or `ARCHIVED`.
    status: Option<String>,
    /// Deletes the item; other members must be absent.
    #[serde(default)]
    delete: bool,
}

/// Distinguishes `null` from absent.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Outcomes of changes, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemBatchResult)]
pub(super) struct BatchView {
    pub(super) results: Vec<OutcomeView>,
    pub(super) counts: OutcomeCounts,
}

/// The outcome of one change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemOutcome)]
pub(super) struct OutcomeView {
    /// Id of the item; absent for an invalid change without one.
    id: Option<String>,
    result: ItemResult,
    /// Start of the version of the item after the change, with microseconds.
    #[schema(value_type = Option<Timestamp>)]
    version: Option<String>,
    problems: Vec<ItemProblem>,
}

/// Numbers of changes by outcome.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatasetItemOutcomeCounts)]
pub(super) struct OutcomeCounts {
    created: u64,
    updated: u64,
    unchanged: u64,
    deleted: u64,
    skipped: u64,
    invalid: u64,
}

impl OutcomeCounts {
    pub(super) fn add(&mut self, result: ItemResult) {
        let count = match result {
            ItemResult::Created => &mut self.created,
            ItemResult::Updated => &mut self.updated,
            ItemResult::Unchanged => &mut self.unchanged,
            ItemResult::Deleted => &mut self.deleted,
            ItemResult::Skipped => &mut self.skipped,
            ItemResult::Invalid => &mut self.invalid,
        };
        *count += 1;
    }
}

impl From<ItemOutcome> for OutcomeView {
    fn from(outcome: ItemOutcome) -> Self {
        Self {
            id: (!outcome.id.is_empty()).then_some(outcome.id),
            result: outcome.result,
            version: outcome.version.map(|version| version.to_iso_micros()),
            problems: outcome.problems,
        }
    }
}

impl BatchView {
    pub(super) fn of(outcomes: Vec<ItemOutcome>) -> Self {
        let mut counts = OutcomeCounts::default();
        outcomes.iter().for_each(|outcome| counts.add(outcome.result));
        Self { results: outcomes.into_iter().map(OutcomeView::from).collect(), counts }
    }
}

/// A change, or the problem of one that cannot be read.
fn change(app: &App, raw: &Value) -> Result<ItemWrite, ItemOutcome> {
    let id = raw["id"].as_str().unwrap_or_default();
    let invalid = |problem: ItemProblem| ItemOutcome {
        id: id.to_owned(),
        result: ItemResult::Invalid,
        problems: vec![problem],
        version: None,
    };
    let item: BatchItem =
        from_value(raw).map_err(|problem| invalid(ItemProblem::new("", problem.message())))?;
    if let Some(id) = item.id.as_deref().filter(|id| !is_id(id, MAX_ITEM_ID_CHARS)) {
        return Err(invalid(ItemProblem::new("id", invalid_id(id))));
    }
    let sources = [
        ("sourceTraceId", &item.source_trace_id),
        ("sourceObservationId", &item.source_observation_id),
    ];
    for (field, source) in sources {
        if source.as_deref().is_some_and(|id| !is_id(id, MAX_ID_CHARS)) {
            let message = perpend_domain::ids::InvalidId.to_string();
            return Err(invalid(ItemProblem::new(field, message)));
        }
    }
    let status = match item.status.as_deref() {
        None => None,
        Some("ACTIVE") => Some(ItemStatus::Active),
        Some("ARCHIVED") => Some(ItemStatus::Archived),
        Some(other) => {
            let message = must_be_one_of(&["ACTIVE", "ARCHIVED"], other);
            return Err(invalid(ItemProblem::new("status", message)));
        }
    };
    let patch = ItemPatch {
        status,
        input: item.input,
        expected_output: item.expected_output,
        metadata: item.metadata,
        source_trace_id: item.source_trace_id,
        source_observation_id: item.source_observation_id,
    };
    let change = match item.delete {
        true if patch != ItemPatch::default() => {
            let message = "must not be `true` together with members of the item";
            return Err(invalid(ItemProblem::new("delete", message)));
        }
        true if item.id.is_none() => {
            return Err(invalid(ItemProblem::new("id", "is required to delete an item")));
        }
        true => ItemChange::Delete,
        false => ItemChange::Put(Box::new(patch)),
    };
    Ok(ItemWrite { id: item.id.unwrap_or_else(|| app.web.ids.uuid().to_string()), change })
}

fn on_existing(raw: Option<&str>) -> Result<OnExisting, Problem> {
    match raw {
        None | Some("update") => Ok(OnExisting::Update),
        Some("skip") => Ok(OnExisting::Skip),
        Some(other) => Err(Problem::body("onExisting", must_be_one_of(&["update", "skip"], other))),
    }
}

async fn write_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<BatchInput>,
) -> Result<Answer<BatchView>, Problem> {
    let n_items = input.items.len();
    if n_items == 0 || MAX_ITEMS < n_items {
        let message = format!("must have 1 to {MAX_ITEMS} elements, got {n_items}");
        return Err(Problem::body("items", message));
    }
    let others = input.items.iter().enumerate().filter(|(_, item)| !item.is_object());
    let issues = others.map(|(at, _)| Issue {
        path: vec!["items".into(), at.into()],
        message: "must be an object".to_owned(),
    });
    let issues: Vec<Issue> = issues.collect();
    if !issues.is_empty() {
        return Err(Problem::issues(Code::InvalidBody, issues));
    }
    let on_existing = on_existing(input.on_existing.as_deref())?;
    let options = WriteOptions { on_existing, is_dry_run: input.dry_run };
    let stored = super::find::find(&app, &caller, &name).await?;
    let changes = input.items.iter().map(|raw| change(&app, raw));
    let (mut writes, mut refused) = (Vec::new(), Vec::new());
    for (at, change) in changes.enumerate() {
        match change {
            Ok(write) => writes.push(write),
            Err(outcome) => refused.push((at, outcome)),
        }
    }
    let dataset_id = &stored.dataset.id;
    let writer = app.item_writer();
    let written = Box::pin(writer.write(&caller.project, dataset_id, &writes, options)).await?;
    let mut outcomes = written;
    for (at, outcome) in refused {
        outcomes.insert(at, outcome);
    }
    Ok(Answer(BatchView::of(outcomes)))
}
