//! The items of an experiment, and an estimate of its calls and cost from the length of prompts and expected outputs.

use std::borrow::Cow;
use std::sync::Arc;

use perpend_api_types::server_run::{NewExperiment, UnfilledItem};
use perpend_db::Scratch;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::filter::{Cell, Row};
use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Usage;
use perpend_domain::pricing::PriceTable;
use perpend_domain::prompt::PromptBody;
use perpend_domain::server_run::{MAX_CALLS, RunTask, filled};
use perpend_domain::time::Timestamp;
use perpend_executions::RunItem;
use perpend_http_kit::problem::Problem;
use serde_json::Value;

use super::plan::Plan;
use crate::model_calls::{BYTES_PER_TOKEN, OUTPUT_TOKENS};
use crate::state::App;

/// Items that are read at a time.
const PER_READ: usize = 200;
/// Listed items that do not fill a prompt.
const MAX_UNFILLED: usize = 20;

/// The estimate of a run.
#[derive(Debug, Default)]
pub(super) struct RunEstimate {
    pub(super) n_calls: u64,
    /// US dollars; absent if the price is unknown.
    pub(super) cost_usd: Option<f64>,
    pub(super) n_unfilled: u64,
    /// The first of them.
    pub(super) unfilled: Vec<UnfilledItem>,
}

/// A run while its items are counted.
struct Counter<'p> {
    task: &'p RunTask,
    /// The prompt of a model.
    prompt: Option<PromptBody>,
    estimate: RunEstimate,
    input_tokens: u64,
    output_tokens: u64,
}

struct FilteredItem<'i>(&'i DatasetItem);

impl Row for FilteredItem<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(Cow::Borrowed(&self.0.id)),
            "metadata" => {
                let members = self.0.metadata.as_object();
                members.map_or(Cell::Null, |members| Cell::Object(Cow::Borrowed(members)))
            }
            _ => Cell::Null,
        }
    }
}

fn tokens_of(value: &Value) -> u64 {
    let n_bytes = match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    (n_bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

impl Counter<'_> {
    fn count(&mut self, item: &DatasetItem) {
        let messages = self.prompt.as_ref().map(|prompt| filled(prompt, &item.input));
        let messages = match messages {
            None => Vec::new(),
            Some(Ok(messages)) => messages,
            Some(Err(error)) => {
                self.estimate.n_unfilled += 1;
                if self.estimate.unfilled.len() < MAX_UNFILLED {
                    let message = error.to_string();
                    let item_id = item.id.clone();
                    self.estimate.unfilled.push(UnfilledItem { item_id, message });
                }
                return;
            }
        };
        self.estimate.n_calls += 1;
        let contents = messages.iter().filter_map(|message| message.get("content"));
        self.input_tokens += contents.map(tokens_of).sum::<u64>();
        self.output_tokens += match &item.expected_output {
            Value::Null => OUTPUT_TOKENS,
            expected => tokens_of(expected),
        };
    }

    fn end(mut self, (prices, repetitions): (&PriceTable, u32), now: Timestamp) -> RunEstimate {
        let repetitions = u64::from(repetitions);
        self.estimate.n_calls *= repetitions;
        if let RunTask::Model(task) = self.task {
            let usage = Usage::from([
                ("input".to_owned(), (self.input_tokens * repetitions).into()),
                ("output".to_owned(), (self.output_tokens * repetitions).into()),
            ]);
            self.estimate.cost_usd = prices.cost_of_call(&task.model.model, &usage, now);
        }
        self.estimate
    }
}

/// The items of the experiment, and the estimate of each run.
///
/// # Errors
/// 400 for an unknown item, no items or too many calls.
pub(super) async fn of(
    app: &App,
    project: &ProjectId,
    input: &NewExperiment,
    plan: &Plan,
) -> Result<(Vec<RunItem>, Vec<RunEstimate>), Problem> {
    let starts = selected(app, project, input, plan).await?;
    let mut counters: Vec<Counter<'_>> = plan
        .runs
        .iter()
        .map(|run| Counter {
            task: &run.task,
            prompt: match &run.task {
                RunTask::Model(task) => PromptBody::from_stored(task.prompt.body.clone()),
                RunTask::Endpoint(_) => None,
            },
            estimate: RunEstimate::default(),
            input_tokens: 0,
            output_tokens: 0,
        })
        .collect();
    let mut items = Vec::with_capacity(starts.len());
    for some in starts.chunks(PER_READ) {
        // Only the ids are kept.
        let _scratch = Scratch::begin();
        let versions: Vec<(&str, Timestamp)> =
            some.iter().map(|(id, start)| (id.as_str(), *start)).collect();
        let mut found = app.store.catalog.dataset_item_versions_at(project, &versions).await?;
        found.retain(|item| plan.filter.matches(&FilteredItem(item)));
        for (id, start) in some {
            let Some(item) = found.iter().find(|item| item.id == *id) else {
                continue;
            };
            counters.iter_mut().for_each(|counter| counter.count(item));
            items.push(RunItem { id: id.clone(), version: *start });
        }
    }
    check_size(&items, plan)?;
    let now = app.web.clock.now();
    let prices: Arc<PriceTable> = app.prices.of(&app.store.catalog, project, now).await?;
    let terms = (prices.as_ref(), plan.repetitions);
    let estimates = counters.into_iter().map(|counter| counter.end(terms, now));
    Ok((items, estimates.collect()))
}

fn check_size(items: &[RunItem], plan: &Plan) -> Result<(), Problem> {
    if items.is_empty() {
        let message = "no active item of the dataset is selected";
        return Err(Problem::body("dataset", message));
    }
    let n_results = (items.len() as u64)
        .saturating_mul(plan.repetitions.into())
        .saturating_mul(plan.runs.len() as u64);
    if MAX_CALLS < n_results {
        let message = format!(
            "items, repetitions, prompts and models must give at most {MAX_CALLS} calls, got {n_results}"
        );
        return Err(Problem::body("dataset", message));
    }
    Ok(())
}

/// The ids and versions of the active items, or of those that are named.
async fn selected(
    app: &App,
    project: &ProjectId,
    input: &NewExperiment,
    plan: &Plan,
) -> Result<Vec<(String, Timestamp)>, Problem> {
    let of = (plan.dataset.id.as_str(), plan.at);
    let all = app.store.catalog.dataset_item_starts(project, of, MAX_CALLS + 1).await?;
    let Some(ids) = &input.item_ids else {
        return Ok(all);
    };
    let by_id: std::collections::HashMap<&str, Timestamp> =
        all.iter().map(|(id, start)| (id.as_str(), *start)).collect();
    let mut seen = std::collections::HashSet::new();
    let mut selected = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let field = format!("itemIds[{at}]");
        let Some(start) = by_id.get(id.as_str()) else {
            let message = format!("the dataset has no active item {id:?} at this time");
            return Err(Problem::body(&field, message));
        };
        if !seen.insert(id.as_str()) {
            return Err(Problem::body(&field, format!("must be unique, got {id:?} twice")));
        }
        selected.push((id.clone(), *start));
    }
    Ok(selected)
}
