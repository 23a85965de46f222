//! Items of a comparison whose outputs differ. Outputs are read when they are needed for the first time.

use std::collections::{HashMap, HashSet};

use perpend_db::{Error, Scratch};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Digest;
use perpend_experiments::ItemSelection;
use perpend_experiments::comparison::{ItemComparison, ItemRun};

use crate::{ComparedRuns, Store};

/// Outputs that are in memory at a time.
const PER_READ: usize = 200;

/// The trace of a result, and its observation unless the item is the trace.
type OutputKey = (TraceId, Option<ObservationId>);

fn digest(output: &Payload) -> Digest {
    Digest::of(output.as_str().as_bytes())
}

impl ComparedRuns {
    /// The items of a selection, in the order of the comparison; `None` before the outputs that decide about it were read.
    #[must_use]
    pub fn known_items(&self, show: ItemSelection) -> Option<Vec<&ItemComparison>> {
        let changed = match show {
            ItemSelection::Changed => Some(self.changed_outputs.get()?),
            _ => None,
        };
        let is_selected = |item: &&ItemComparison| {
            show.holds(item) || changed.is_some_and(|changed| changed.contains(&item.item_id))
        };
        Some(self.comparison.items.iter().filter(is_selected).collect())
    }
}

impl Store {
    /// The items of a selection, in the order of the comparison.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn selected_items<'r>(
        &self,
        project: &ProjectId,
        runs: &'r ComparedRuns,
        show: ItemSelection,
    ) -> Result<Vec<&'r ItemComparison>, Error> {
        if show == ItemSelection::Changed {
            runs.changed_outputs.get_or_try_init(|| self.changed_outputs(project, runs)).await?;
        }
        Ok(runs.known_items(show).unwrap_or_default())
    }

    /// The items with another output in a run than in the baseline. Of repetitions the first one counts.
    async fn changed_outputs(
        &self,
        project: &ProjectId,
        runs: &ComparedRuns,
    ) -> Result<HashSet<String>, Error> {
        let output_key = |run: &ItemRun| (run.trace_id.clone(), run.observation_id.clone());
        let items = || runs.comparison.items.iter();
        let output_keys: HashSet<OutputKey> =
            items().flat_map(|item| item.runs.iter().flatten()).map(output_key).collect();
        let output_keys: Vec<OutputKey> = output_keys.into_iter().collect();
        let mut outputs: HashMap<OutputKey, Digest> = HashMap::with_capacity(output_keys.len());
        for some in output_keys.chunks(PER_READ) {
            outputs.extend(self.output_digests(project, some).await?);
        }
        let base = runs.base();
        let changed = items().filter(|item| {
            let Some(Some(before)) = item.runs.get(base) else { return false };
            let before = outputs.get(&output_key(before));
            item.runs.iter().flatten().any(|run| outputs.get(&output_key(run)) != before)
        });
        Ok(changed.map(|item| item.item_id.clone()).collect())
    }

    /// The digests of the outputs of results. A result whose observation has no output has that of its trace.
    async fn output_digests(
        &self,
        project: &ProjectId,
        output_keys: &[OutputKey],
    ) -> Result<HashMap<OutputKey, Digest>, Error> {
        let _scratch = Scratch::begin();
        let keys = output_keys.iter().filter_map(|(trace, id)| Some((trace.clone(), id.clone()?)));
        let keys: Vec<(TraceId, ObservationId)> = keys.collect();
        let mut found = HashMap::with_capacity(output_keys.len());
        for own in self.telemetry.target_observations(project, &keys, true).await? {
            if let Some(output) = &own.content.output {
                found.insert((own.trace_id, Some(own.id)), digest(output));
            }
        }
        for output_key in output_keys {
            if found.contains_key(output_key) {
                continue;
            }
            let stored = self.telemetry.trace(project, &output_key.0, true).await?;
            if let Some(output) = stored.and_then(|stored| stored.trace.output) {
                found.insert(output_key.clone(), digest(&output));
            }
        }
        Ok(found)
    }
}
