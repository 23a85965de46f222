//! Observations that a run links as items: they are targets like the spans of items.
//!
//! Whichever of the observation and the link arrives later leads to the decision. An observation that arrives
//! after its link is decided with the attributes of the link. A link that arrives later decides nothing here:
//! the observation gets a due watch with the rules that read these attributes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use perpend_domain::evaluation::Target;
use perpend_domain::experiment::{LinkedItem, add_item_content};
use perpend_domain::ids::{ObservationId, ProjectId, RuleId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::IngestChange;
use perpend_domain::time::Timestamp;

use crate::deps::{Error, Inner};
use crate::matcher::Pass;
use crate::score_triggers::watch_for;

type ObservationKey = (TraceId, ObservationId);

/// The linked traces of each project with the time of the last link.
fn linked(touched: &[IngestChange]) -> BTreeMap<&ProjectId, BTreeMap<&TraceId, Timestamp>> {
    let mut linked: BTreeMap<&ProjectId, BTreeMap<&TraceId, Timestamp>> = BTreeMap::new();
    for row in touched.iter().filter(|row| !row.linked.is_empty()) {
        let of_project = linked.entry(&row.project).or_default();
        for trace in &row.linked {
            let last = of_project.entry(trace).or_insert(row.received_at);
            *last = row.received_at.max(*last);
        }
    }
    linked
}

impl Inner {
    /// Makes rules of experiments examine the observations that these change rows link.
    pub(crate) async fn match_linked(
        &self,
        pass: &mut Pass<'_>,
        touched: &[IngestChange],
    ) -> Result<(), Error> {
        let store = &self.deps.store;
        // Observations written by the same rows were decided with their links.
        let written: HashSet<(&ProjectId, &TraceId, &ObservationId)> = touched
            .iter()
            .flat_map(|row| {
                row.observations.iter().map(move |(trace, id)| (&row.project, trace, id))
            })
            .collect();
        for (project, traces) in linked(touched) {
            let mut rules = pass.catalog.observation_rules(project);
            rules.retain(|rule| rule.reads_experiment);
            let has_run_rules = pass.catalog.has_run_rules(project);
            if rules.is_empty() && !has_run_rules {
                continue;
            }
            let ids: Vec<TraceId> = traces.keys().map(|id| (*id).clone()).collect();
            self.watch_missing(pass, project, &ids).await?;
            let items = store.telemetry.linked_items(project, &ids).await?;
            if has_run_rules {
                for item in &items {
                    let linked_at = traces.get(&item.trace_id).copied().unwrap_or(pass.now);
                    pass.note_run(project, &item.run_id, linked_at);
                }
            }
            let keys: BTreeSet<ObservationKey> =
                items.into_iter().map(|item| (item.trace_id, item.observation_id)).collect();
            for (trace, id) in keys {
                let linked_at = traces.get(&trace).copied().unwrap_or(pass.now);
                if written.contains(&(project, &trace, &id)) {
                    continue;
                }
                let target = Target::Observation(trace, id);
                let of_item = rules.iter().filter(|rule| rule.rule.created_at <= linked_at);
                let of_item: Vec<RuleId> = of_item.map(|rule| rule.rule.id.clone()).collect();
                if !of_item.is_empty() && !pass.add_waiting(project, &target, &of_item) {
                    let existing = store.ledger.watch(project, &target).await?;
                    pass.set_watch(watch_for(project, target, existing, of_item, pass.now));
                }
            }
        }
        Ok(())
    }

    /// Gives linked observations the experiment attributes that spans of items have. Returns the time of the
    /// last link.
    pub(crate) async fn attach_links(
        &self,
        project: &ProjectId,
        observations: Vec<&mut Observation>,
    ) -> Result<Option<Timestamp>, perpend_db::Error> {
        self.attach(project, observations, false).await
    }

    /// The same together with the parts of the dataset items that the observations do not have.
    pub(crate) async fn attach_items(
        &self,
        project: &ProjectId,
        observations: Vec<&mut Observation>,
    ) -> Result<(), perpend_db::Error> {
        self.attach(project, observations, true).await.map(drop)
    }

    async fn attach(
        &self,
        project: &ProjectId,
        mut observations: Vec<&mut Observation>,
        with_item: bool,
    ) -> Result<Option<Timestamp>, perpend_db::Error> {
        observations.retain(|own| !own.is_experiment_item() && !own.is_trace_record());
        let traces: BTreeSet<&TraceId> = observations.iter().map(|own| &own.trace_id).collect();
        let traces: Vec<TraceId> = traces.into_iter().cloned().collect();
        if traces.is_empty() {
            return Ok(None);
        }
        let links = self.deps.store.telemetry.linked_items(project, &traces).await?;
        // Of several links of an observation the last one counts.
        let links: HashMap<ObservationKey, LinkedItem> = links
            .into_iter()
            .map(|link| ((link.trace_id.clone(), link.observation_id.clone()), link))
            .collect();
        let mut linked_at = None;
        for own in observations {
            let Some(link) = links.get(&(own.trace_id.clone(), own.id.clone())) else {
                continue;
            };
            link.apply(own);
            linked_at = linked_at.max(Some(link.linked_at));
            if with_item {
                let (catalog, telemetry) = (&self.deps.store.catalog, &self.deps.store.telemetry);
                if link.is_whole
                    && let Some(trace) = telemetry.target_trace(project, &link.trace_id).await?
                {
                    own.content.input = trace.input.or_else(|| own.content.input.take());
                    own.content.output = trace.output.or_else(|| own.content.output.take());
                }
                let item = catalog.dataset_item_at(project, &link.item_id, link.version()).await?;
                if let Some(item) = item {
                    add_item_content(own, &item);
                }
            }
        }
        Ok(linked_at)
    }
}
