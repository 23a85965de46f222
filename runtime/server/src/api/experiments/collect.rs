//! Gathers the experiments of a time from spans and links.

use std::collections::{HashMap, HashSet};

use assay_domain::dataset::{DatasetRun, DatasetRunItem};
use assay_domain::ids::ProjectId;
use assay_domain::time::Timestamp;
use assay_store::Paging;
use assay_store::datasets::{ExperimentSpan, LinkQuery, SpanQuery};
use serde_json::Value;

use super::Range;
use crate::App;
use crate::problem::Problem;

/// Rows read in one go.
const PER_READ: u32 = 1_000;

/// One experiment, as far as the time that is asked for goes.
#[derive(Clone, Debug)]
pub(in crate::api) struct Experiment {
    pub(in crate::api) id: String,
    pub(in crate::api) name: String,
    pub(in crate::api) description: Option<String>,
    pub(in crate::api) metadata: Option<Value>,
    pub(in crate::api) dataset_id: Option<String>,
    pub(in crate::api) start: Timestamp,
    pub(in crate::api) end: Timestamp,
    pub(in crate::api) n_items: u64,
    /// Traces whose items are counted: a link to one of them says nothing new.
    traces: HashSet<String>,
}

impl Experiment {
    fn new(id: &str, at: Timestamp) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            description: None,
            metadata: None,
            dataset_id: None,
            start: at,
            end: at,
            n_items: 0,
            traces: HashSet::new(),
        }
    }

    fn add_span(&mut self, span: &ExperimentSpan) {
        let link = &span.link;
        self.n_items += 1;
        self.start = self.start.min(span.start);
        self.end = self.end.max(span.end.unwrap_or(span.start));
        self.traces.insert(span.trace_id.to_string());
        // Spans come newest first: what the newest says holds.
        if self.n_items == 1 {
            self.name = link.name.clone().unwrap_or_else(|| self.name.clone());
        }
        self.description = self.description.take().or_else(|| link.description.clone());
        self.metadata = self.metadata.take().or_else(|| link.metadata.clone());
        self.dataset_id = self.dataset_id.take().or_else(|| link.dataset_id.clone());
    }

    fn add_link(&mut self, link: &DatasetRunItem) {
        self.start = self.start.min(link.created_at);
        self.end = self.end.max(link.created_at);
        if self.traces.insert(link.trace_id.clone()) {
            self.n_items += 1;
        }
    }

    fn add_run(&mut self, run: &DatasetRun) {
        self.name.clone_from(&run.name);
        self.dataset_id = Some(run.dataset_id.clone());
        self.description = run.description.clone().or_else(|| self.description.take());
        if !run.metadata.is_null() {
            self.metadata = Some(run.metadata.clone());
        }
    }
}

/// Every experiment with activity in the time, latest activity first.
pub(in crate::api) async fn experiments(
    app: &App,
    project: &ProjectId,
    range: Range,
) -> Result<Vec<Experiment>, Problem> {
    let mut found: HashMap<String, Experiment> = HashMap::new();
    let mut query = SpanQuery {
        from: range.from,
        to: range.to,
        limit: PER_READ,
        ..SpanQuery::default()
    };
    loop {
        let (spans, next) = app.store.experiment_spans(project, &query).await?;
        for span in &spans {
            let Some(id) = &span.link.id else { continue };
            let entry = found.entry(id.clone());
            entry
                .or_insert_with(|| Experiment::new(id, span.start))
                .add_span(span);
        }
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    add_links(app, project, range, &mut found).await?;
    for run in app.store.dataset_runs(project, None).await? {
        if let Some(experiment) = found.get_mut(&run.id) {
            experiment.add_run(&run);
        }
    }
    let mut all: Vec<Experiment> = found.into_values().collect();
    all.sort_unstable_by(|a, b| (b.end, &b.id).cmp(&(a.end, &a.id)));
    Ok(all)
}

async fn add_links(
    app: &App,
    project: &ProjectId,
    range: Range,
    found: &mut HashMap<String, Experiment>,
) -> Result<(), Problem> {
    let query = LinkQuery {
        from: range.from,
        to: range.to,
        ..LinkQuery::default()
    };
    for page in 1.. {
        let paging = Paging {
            page,
            limit: PER_READ,
        };
        let links = app.store.run_items(project, &query, paging).await?.items;
        for link in &links {
            let entry = found.entry(link.run_id.clone());
            entry
                .or_insert_with(|| Experiment::new(&link.run_id, link.created_at))
                .add_link(link);
        }
        if links.len() < PER_READ as usize {
            break;
        }
    }
    Ok(())
}
