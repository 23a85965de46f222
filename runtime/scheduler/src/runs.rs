//! Runs of experiments as targets: when their rules examine them, and the item that their evaluators get.

use std::collections::{BTreeMap, HashMap};

use perpend_domain::evaluation::{Target, TargetKind};
use perpend_domain::experiment::{ExpectedScores, ItemResult, RunAccount, RunResults};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::score::ScoreValue;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;
use perpend_executions::{NewWatch, Watch};
use serde_json::{Map, Value, json};

use crate::call::Loaded;
use crate::completeness::SETTLE_MS;
use crate::deps::Inner;
use crate::matcher::Pass;

/// Runs with more content are passed without inputs and outputs, which `run-reader` reads by page.
const MAX_CONTENT_BYTES: usize = 4 << 20;
/// Observations that are read in one statement.
const PER_READ: usize = 100;

type ObservationKey = (TraceId, ObservationId);

impl Pass<'_> {
    /// Notes the run of an observation that represents an item.
    pub(crate) fn note_result(&mut self, project: &ProjectId, own: &Observation, at: Timestamp) {
        let link = own.experiment.as_ref().filter(|_| own.is_experiment_item());
        if let Some(run) = link.and_then(|link| link.id.as_deref()) {
            self.note_run(project, run, at);
        }
    }

    pub(crate) fn note_run(&mut self, project: &ProjectId, run: &str, at: Timestamp) {
        let last = self.runs.entry((project.clone(), run.to_owned())).or_insert(at);
        *last = at.max(*last);
    }

    /// Sets watches so that rules of runs examine the noted runs when no result has come for a while.
    pub(crate) fn watch_runs(&mut self) {
        for ((project, run), at) in std::mem::take(&mut self.runs) {
            let rules = self.catalog.rules_of(&project, TargetKind::Run);
            let waits = rules.iter().map(|rule| rule.rule.timing.settle_ms.unwrap_or(SETTLE_MS));
            let Some(settle_ms) = waits.min() else {
                continue;
            };
            let awaited = self.catalog.awaited();
            let awaited = rules.iter().filter(|rule| awaited.contains(&rule.rule.id));
            let waiting = awaited.map(|rule| rule.rule.id.clone()).collect();
            self.set_watch(NewWatch {
                watch: Watch {
                    project,
                    target: Target::Run(run),
                    began_at: at,
                    changed_at: at,
                    looked_at: Timestamp::from_micros(0),
                    due_at: at.plus_millis(settle_ms.max(0)),
                    waiting,
                },
                was_due_at: None,
            });
        }
    }
}

impl Inner {
    /// The progress of a run; it has a marker if all items of its dataset have a result that has ended.
    pub(crate) async fn run_progress(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Option<Progress>, perpend_db::Error> {
        let store = &self.deps.store;
        let results = store.run_results(project, run).await?;
        let times = store.telemetry.run_times(project, run).await?;
        let (Some(results), Some((first_seen, last_seen))) = (results, times) else {
            return Ok(None);
        };
        let account = RunAccount::of(&results, &ExpectedScores::default());
        let open = results.items.iter().filter(|item| item.latency_ms.is_none());
        let n_open = open.count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Some(Progress {
            first_seen,
            last_seen,
            has_root: false,
            root_ended_at: None,
            n_open: count(n_open),
            has_marker: account.is_complete && account.n_expected.is_some() && n_open == 0,
            n_observations: count(results.items.len()),
        }))
    }

    /// A run with its results as the input of the item (evaluation.md 7.8).
    pub(crate) async fn load_run(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Option<Loaded>, perpend_db::Error> {
        let Some(results) = self.deps.store.run_results(project, run).await? else {
            return Ok(None);
        };
        let contents = self.contents_of(project, &results).await?;
        let mut in_order: Vec<&ItemResult> = results.items.iter().collect();
        // Results are ordered by start, which is the order of repetitions.
        in_order.sort_by(|a, b| a.item_id.cmp(&b.item_id));
        let mut repetitions: BTreeMap<&str, u32> = BTreeMap::new();
        let items: Vec<Value> = in_order
            .into_iter()
            .map(|result| {
                let repetition = repetitions.entry(&result.item_id).or_default();
                let item = item_value(result, *repetition, contents.get(&result.trace_id));
                *repetition += 1;
                item
            })
            .collect();
        let input = Payload::Json(json!({ "items": items }).to_string());
        Ok(Some(Loaded::of_run(results.run, input)))
    }

    /// The observations of the results with content, by trace; empty if there is too much.
    async fn contents_of(
        &self,
        project: &ProjectId,
        results: &RunResults,
    ) -> Result<HashMap<TraceId, Vec<Observation>>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let whole = results.items.iter().filter(|item| item.observation_id.is_none());
        let whole: Vec<TraceId> = whole.map(|item| item.trace_id.clone()).collect();
        let linked = telemetry.linked_items(project, &whole).await?;
        let mut keys: Vec<ObservationKey> = results
            .items
            .iter()
            .filter_map(|item| Some((item.trace_id.clone(), item.observation_id.clone()?)))
            .chain(linked.into_iter().map(|item| (item.trace_id, item.observation_id)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let mut contents: HashMap<TraceId, Vec<Observation>> = HashMap::new();
        let sizes = telemetry.content_sizes(project, &keys).await?;
        if MAX_CONTENT_BYTES < sizes.into_iter().sum::<usize>() {
            return Ok(contents);
        }
        for some in keys.chunks(PER_READ) {
            let mut found = telemetry.target_observations(project, some, true).await?;
            self.attach_items(project, found.iter_mut().collect()).await?;
            for own in found {
                contents.entry(own.trace_id.clone()).or_default().push(own);
            }
        }
        Ok(contents)
    }
}

/// A result as an evaluator gets it.
fn item_value(result: &ItemResult, repetition: u32, of_trace: Option<&Vec<Observation>>) -> Value {
    let own = of_trace.and_then(|all| match &result.observation_id {
        Some(id) => all.iter().find(|own| own.id == *id),
        None => all.iter().find(|own| own.is_root()),
    });
    let scores: Map<String, Value> = result
        .scores
        .iter()
        .map(|score| {
            let value = match &score.value {
                ScoreValue::Numeric(number) => json!(number),
                ScoreValue::Boolean(truth) => json!(truth),
                ScoreValue::Categorical(text)
                | ScoreValue::Text(text)
                | ScoreValue::Correction(text) => json!(text),
            };
            (score.name.clone(), value)
        })
        .collect();
    let mut item = json!({ "id": result.item_id, "repetition": repetition, "scores": scores });
    if result.is_error {
        let message = own.and_then(|own| own.status_message.clone());
        item["error"] = json!(message.unwrap_or_else(|| "the item failed".to_owned()));
    }
    if let Some(own) = own {
        let value = |part: Option<&Payload>| part.map(Payload::to_value);
        let link = own.experiment.as_ref();
        let expected = link.and_then(|link| link.item_expected_output.as_ref());
        let parts = [
            ("input", value(own.content.input.as_ref())),
            ("output", value(own.content.output.as_ref())),
            ("expectedOutput", value(expected)),
            ("metadata", link.and_then(|link| link.item_metadata.clone())),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                item[name] = part;
            }
        }
    }
    item
}
