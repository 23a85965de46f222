//! Collects experiments from spans and links.

use std::collections::HashMap;

use perpend_domain::dataset::DatasetRun;
use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry::{ExperimentSummary, Period, RunLinks};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use serde_json::Value;

use crate::state::App;

/// An experiment, as far as its items in a period show.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) metadata: Option<Value>,
    pub(crate) dataset_id: Option<String>,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) n_items: u64,
}

impl Experiment {
    fn of_spans(found: ExperimentSummary) -> Self {
        let link = found.link;
        Self {
            name: link.name.unwrap_or_else(|| found.id.clone()),
            description: link.description,
            metadata: link.metadata,
            dataset_id: link.dataset_id,
            start: found.start,
            end: found.end,
            n_items: found.n_items,
            id: found.id,
        }
    }

    fn of_links(found: RunLinks) -> Self {
        Self {
            name: found.id.clone(),
            description: None,
            metadata: None,
            dataset_id: None,
            start: found.start,
            end: found.end,
            n_items: found.n_items,
            id: found.id,
        }
    }

    fn add_links(&mut self, links: &RunLinks) {
        self.start = self.start.min(links.start);
        self.end = self.end.max(links.end);
        self.n_items += links.n_items;
    }

    fn add_run(&mut self, run: DatasetRun) {
        self.name = run.name;
        if !run.dataset_id.is_empty() {
            self.dataset_id = Some(run.dataset_id);
        }
        self.description = run.description.or_else(|| self.description.take());
        if !run.metadata.is_null() {
            self.metadata = Some(run.metadata);
        }
    }
}

/// The ids of the experiments with items that started in a period, the one with the newest item first.
pub(super) async fn active(
    app: &App,
    project: &ProjectId,
    period: Period,
) -> Result<Vec<(Timestamp, String)>, Problem> {
    let mut newest: HashMap<String, Timestamp> = HashMap::new();
    let spans = app.store.telemetry.span_activity(project, period).await?;
    let runs = app.store.telemetry.run_activity(project, None, period).await?;
    let runs = runs.into_iter().map(|(id, _, linked)| (id, linked));
    for (id, at) in spans.into_iter().chain(runs) {
        let known = newest.entry(id).or_insert(at);
        *known = at.max(*known);
    }
    let mut active: Vec<(Timestamp, String)> =
        newest.into_iter().map(|(id, at)| (at, id)).collect();
    active.sort_unstable_by(|a, b| b.cmp(a));
    Ok(active)
}

/// These experiments with the data of their items in a period, in the given order.
pub(super) async fn experiments(
    app: &App,
    project: &ProjectId,
    ids: &[&str],
    period: Period,
) -> Result<Vec<Experiment>, Problem> {
    let store = &app.store;
    let mut found: HashMap<String, Experiment> = HashMap::new();
    for spans in store.telemetry.span_experiments(project, ids, period).await? {
        found.insert(spans.id.clone(), Experiment::of_spans(spans));
    }
    for links in store.telemetry.linked_runs(project, ids, period).await? {
        match found.get_mut(&links.id) {
            Some(experiment) => experiment.add_links(&links),
            None => {
                found.insert(links.id.clone(), Experiment::of_links(links));
            }
        }
    }
    for run in store.telemetry.dataset_runs_by_id(project, ids).await? {
        if let Some(experiment) = found.get_mut(&run.id) {
            experiment.add_run(run);
        }
    }
    Ok(ids.iter().filter_map(|id| found.remove(*id)).collect())
}
