//! Inputs, expected outputs and outputs of the results that a page shows.

use std::collections::{HashMap, HashSet};

use perpend_domain::dataset::{DatasetItem, as_of};
use perpend_domain::experiment::{ItemResult, RunResults};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{encode, segment};
use serde_json::Value;

use crate::read;
use crate::state::App;

/// The values of a result.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultContents {
    pub(super) input: Option<Payload>,
    pub(super) expected: Option<Payload>,
    pub(super) output: Option<Payload>,
    /// The status message of an observation with an error.
    pub(super) message: Option<String>,
}

/// The trace of a result, and its observation unless the item is the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultPlace<'r> {
    pub(super) trace: &'r TraceId,
    pub(super) observation: Option<&'r ObservationId>,
}

impl<'r> From<&'r ItemResult> for ResultPlace<'r> {
    fn from(result: &'r ItemResult) -> Self {
        Self { trace: &result.trace_id, observation: result.observation_id.as_ref() }
    }
}

impl ResultPlace<'_> {
    /// URL of the trace with the observation selected.
    pub(super) fn href(self, base: &str) -> String {
        let trace = format!("{base}/traces/{}", segment(self.trace.as_str()));
        match self.observation {
            Some(id) => format!("{trace}?observation={}", encode(id.as_str())),
            None => trace,
        }
    }

    /// Reads the values. A value that the observation does not have is that of the trace.
    pub(super) async fn contents(
        self,
        app: &App,
        project: &ProjectId,
    ) -> Result<ResultContents, Problem> {
        let mut contents = ResultContents::default();
        if let Some(id) = self.observation
            && let Some(found) =
                read::observation_with_content(app, project, self.trace, id).await?
        {
            contents.expected = found.experiment.and_then(|link| link.item_expected_output);
            contents.input = found.content.input;
            contents.output = found.content.output;
            contents.message = found.status_message;
        }
        if (contents.input.is_none() || contents.output.is_none())
            && let Some(trace) = read::trace_with_content(app, project, self.trace).await?
        {
            contents.input = contents.input.or(trace.input);
            contents.output = contents.output.or(trace.output);
        }
        Ok(contents)
    }
}

/// Items of a dataset by id.
#[derive(Debug, Default)]
pub(super) struct DatasetItems(HashMap<String, DatasetItem>);

impl DatasetItems {
    /// The items of runs over a dataset in the versions that the first of the runs with a result used.
    pub(super) async fn read(
        app: &App,
        project: &ProjectId,
        runs: &[&RunResults],
        ids: &[&str],
    ) -> Result<Self, Problem> {
        let shown: HashSet<&str> = ids.iter().copied().collect();
        let mut versions: HashMap<&str, Timestamp> = HashMap::with_capacity(ids.len());
        let mut of_runs = None;
        for run in runs {
            let Some(dataset) = run.run.dataset_id.as_deref() else { continue };
            let created_at = as_of(run.run.created_at);
            of_runs.get_or_insert((dataset, created_at));
            for result in run.items.iter().filter(|one| shown.contains(one.item_id.as_str())) {
                let version = result.item_version.map_or(created_at, as_of);
                versions.entry(result.item_id.as_str()).or_insert(version);
            }
        }
        let Some((dataset, created_at)) = of_runs else {
            return Ok(Self::default());
        };
        let wanted = ids.iter().map(|id| (*id, versions.get(id).copied().unwrap_or(created_at)));
        let wanted: Vec<(&str, Timestamp)> = wanted.collect();
        let found = app.store.catalog.dataset_items_at(project, &wanted).await?;
        let own = found.into_values().filter(|item| item.dataset_id == dataset);
        Ok(Self(own.map(|item| (item.id.clone(), item)).collect()))
    }

    /// Adds the input and the expected output that a result did not record.
    pub(super) fn complete(&self, item: &str, contents: &mut ResultContents) {
        let Some(item) = self.0.get(item) else {
            return;
        };
        let payload =
            |value: &Value| (!value.is_null()).then(|| Payload::from_value(value.clone()));
        if let Some(input) = payload(&item.input) {
            contents.input = Some(input);
        }
        if contents.expected.is_none() {
            contents.expected = payload(&item.expected_output);
        }
    }

    /// Whether the dataset has the item.
    pub(super) fn has(&self, item: &str) -> bool {
        self.0.contains_key(item)
    }
}
