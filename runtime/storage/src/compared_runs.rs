//! Comparisons of runs, and a cache of those that were computed recently.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::experiment::{ItemResult, ItemScore, RunResults};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_experiments::options::MAX_RUNS;
use perpend_experiments::{CompareError, Comparison, compare};
use perpend_telemetry::experiments::RunRevision;
use tokio::sync::OnceCell;

use crate::{ComparisonQuery, Store};
use perpend_db::{Error, apart};

/// Cached comparisons.
const MAX_ENTRIES: usize = 16;
/// Memory of all cached comparisons together, roughly.
const MAX_BYTES: usize = 64 << 20;
/// The age at which an entry expires, in milliseconds: changes of evaluators and new runs with the metadata of the baseline
/// are not part of the revisions.
const MAX_AGE_MS: i64 = 60_000;

/// Runs with their results and their comparison.
#[derive(Debug)]
pub struct ComparedRuns {
    /// The runs, in the requested order.
    pub results: Vec<RunResults>,
    /// Their comparison.
    pub comparison: Comparison,
    /// The items with another output than in the baseline, once they are known.
    pub(crate) changed_outputs: OnceCell<HashSet<String>>,
}

impl ComparedRuns {
    /// The dataset of the runs.
    #[must_use]
    pub fn dataset(&self) -> Option<&str> {
        self.results.first()?.run.dataset_id.as_deref()
    }

    /// The index of the baseline.
    #[must_use]
    pub fn base(&self) -> usize {
        self.comparison.runs.iter().position(|run| run.is_base).unwrap_or_default()
    }
}

/// Reason why runs cannot be compared.
#[derive(Debug)]
pub enum CompareRunsError {
    /// One of the runs is unknown.
    UnknownRun(String),
    /// A further run of the baseline is unknown.
    UnknownNoiseRun(String),
    /// The runs or the options do not allow a comparison.
    Compare(CompareError),
}

impl Store {
    /// The comparison of runs, from the cache if nothing has changed since it was computed. The inner error is a reason why
    /// there is no comparison.
    ///
    /// # Errors
    /// When the database fails, or the results exceed the memory of the request.
    pub async fn compare_runs(
        &self,
        project: &ProjectId,
        ids: &[String],
        query: &ComparisonQuery,
        now: Timestamp,
    ) -> Result<Result<Arc<ComparedRuns>, CompareRunsError>, Error> {
        let n = ids.len();
        if !(2..=MAX_RUNS).contains(&n) {
            return Ok(Err(CompareRunsError::Compare(CompareError::NumberOfRuns { n })));
        }
        let key =
            ComparisonKey { project: project.clone(), ids: ids.to_vec(), query: query.clone() };
        // Revisions are read before the results.
        let mut revisions = self.run_revisions(project, ids).await?;
        if let Some((cached, runs)) = self.comparisons.get(&key, now) {
            let noise = self.run_revisions(project, &runs.comparison.noise_runs).await?;
            if cached == [revisions.as_slice(), noise.as_slice()].concat() {
                return Ok(Ok(runs));
            }
        }
        let results = match self.results_of_runs(project, ids).await? {
            Ok(results) => results,
            Err(id) => return Ok(Err(CompareRunsError::UnknownRun(id))),
        };
        let noise_runs = self.noise_run_ids(project, &results, query).await?;
        revisions.extend(self.run_revisions(project, &noise_runs).await?);
        let options = self.compare_options_with(project, &results, query, &noise_runs).await?;
        let options = match options {
            Ok(options) => options,
            Err(id) => return Ok(Err(CompareRunsError::UnknownNoiseRun(id))),
        };
        let computed = tokio::task::spawn_blocking(move || {
            let comparison = compare(&results, &options)?;
            let changed_outputs = OnceCell::new();
            Ok::<_, CompareError>(ComparedRuns { results, comparison, changed_outputs })
        });
        let computed = computed.await.map_err(|error| Error::Unavailable(error.to_string()))?;
        let runs = match computed {
            Ok(runs) => Arc::new(runs),
            Err(error) => return Ok(Err(CompareRunsError::Compare(error))),
        };
        self.comparisons.put(key, revisions, now, &runs);
        Ok(Ok(runs))
    }

    async fn run_revisions(
        &self,
        project: &ProjectId,
        ids: &[String],
    ) -> Result<Vec<RunRevision>, Error> {
        let revisions = ids.iter().map(|id| apart(self.telemetry.run_revision(project, id)));
        futures_util::future::join_all(revisions).await.into_iter().collect()
    }
}

#[derive(Debug, PartialEq)]
struct ComparisonKey {
    project: ProjectId,
    ids: Vec<String>,
    query: ComparisonQuery,
}

#[derive(Debug)]
struct CachedComparison {
    key: ComparisonKey,
    /// Of the compared runs, then of the further runs of the baseline.
    revisions: Vec<RunRevision>,
    at: Timestamp,
    n_bytes: usize,
    runs: Arc<ComparedRuns>,
}

/// Memory of the results and of what the comparison repeats of them, roughly.
fn memory(results: &[RunResults]) -> usize {
    let items = results.iter().flat_map(|run| &run.items);
    let scores = |item: &ItemResult| -> usize {
        let texts = |score: &ItemScore| {
            let texts = [score.value.text(), score.comment.as_deref()];
            texts.into_iter().flatten().map(str::len).sum::<usize>()
        };
        item.scores.iter().map(|score| (1 << 10) + texts(score)).sum()
    };
    items.map(|item| (1 << 9) + scores(item)).sum()
}

/// Comparisons that were computed recently, newest last.
#[derive(Debug, Default)]
pub(crate) struct ComparisonCache(Mutex<VecDeque<CachedComparison>>);

impl ComparisonCache {
    /// The comparison with the revisions of its runs when it was computed.
    fn get(
        &self,
        key: &ComparisonKey,
        now: Timestamp,
    ) -> Option<(Vec<RunRevision>, Arc<ComparedRuns>)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| now.micros_since(entry.at) < MAX_AGE_MS * 1_000);
        let found = entries.iter().find(|entry| entry.key == *key)?;
        Some((found.revisions.clone(), Arc::clone(&found.runs)))
    }

    /// Stores a comparison of results that were read after their revisions, unless it is too large.
    fn put(
        &self,
        key: ComparisonKey,
        revisions: Vec<RunRevision>,
        at: Timestamp,
        runs: &Arc<ComparedRuns>,
    ) {
        let n_bytes = memory(&runs.results);
        if MAX_BYTES < n_bytes {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key);
        let sum = |entries: &VecDeque<CachedComparison>| -> usize {
            entries.iter().map(|entry| entry.n_bytes).sum()
        };
        while MAX_ENTRIES <= entries.len() || MAX_BYTES < sum(&entries) + n_bytes {
            entries.pop_front();
        }
        entries.push_back(CachedComparison { key, revisions, at, n_bytes, runs: Arc::clone(runs) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_domain::experiment::ExperimentRun;
    use perpend_domain::ids::TraceId;
    use perpend_domain::score::ScoreValue;

    /// A comparison with one score, whose comment has this length.
    fn compared(n_bytes: usize) -> Arc<ComparedRuns> {
        let comparison = Comparison {
            base: "a".to_owned(),
            alpha: 0.05,
            runs: Vec::new(),
            noise_runs: Vec::new(),
            warnings: Vec::new(),
            metrics: Vec::new(),
            segments: Vec::new(),
            n_items: 0,
            items: Vec::new(),
        };
        let at = Timestamp::from_millis(0);
        let score = ItemScore {
            name: "score".to_owned(),
            value: ScoreValue::Boolean(true),
            comment: Some("c".repeat(n_bytes)),
            origin: None,
        };
        let item = ItemResult {
            item_id: "item".to_owned(),
            item_version: None,
            expected_output: None,
            trace_id: TraceId::new("t").unwrap(),
            observation_id: None,
            start: at,
            has_arrived: true,
            is_error: false,
            latency_ms: None,
            cost_usd: None,
            n_tokens: None,
            scores: vec![score],
        };
        let run = ExperimentRun {
            id: "run".to_owned(),
            name: "run".to_owned(),
            description: None,
            metadata: serde_json::Value::Null,
            dataset_id: None,
            dataset_name: None,
            created_at: at,
            updated_at: at,
        };
        let results =
            RunResults { run, expected_items: None, items: vec![item], scores: Vec::new() };
        let changed_outputs = OnceCell::new();
        Arc::new(ComparedRuns { results: vec![results], comparison, changed_outputs })
    }

    fn key(n: usize) -> ComparisonKey {
        ComparisonKey {
            project: ProjectId::new("p").unwrap(),
            ids: vec![n.to_string()],
            query: ComparisonQuery::default(),
        }
    }

    #[test]
    fn an_entry_expires_and_the_oldest_of_many_is_dropped() {
        let cache = ComparisonCache::default();
        let at = Timestamp::from_millis;
        cache.put(key(0), vec![RunRevision::default()], at(0), &compared(1));
        let (revisions, _) = cache.get(&key(0), at(1)).unwrap();
        assert_eq!(revisions, [RunRevision::default()]);
        assert!(cache.get(&key(0), at(MAX_AGE_MS)).is_none());
        for n in 0..=MAX_ENTRIES {
            cache.put(key(n), Vec::new(), at(0), &compared(1));
        }
        assert!(cache.get(&key(0), at(1)).is_none());
        assert!(cache.get(&key(MAX_ENTRIES), at(1)).is_some());
    }

    #[test]
    fn the_memory_of_all_entries_is_limited() {
        let cache = ComparisonCache::default();
        let at = Timestamp::from_millis(0);
        cache.put(key(0), Vec::new(), at, &compared(MAX_BYTES / 2 - 4_096));
        cache.put(key(1), Vec::new(), at, &compared(MAX_BYTES / 2 - 4_096));
        assert!(cache.get(&key(0), at).is_some() && cache.get(&key(1), at).is_some());
        cache.put(key(2), Vec::new(), at, &compared(8_192));
        assert!(cache.get(&key(0), at).is_none() && cache.get(&key(1), at).is_some());
        cache.put(key(3), Vec::new(), at, &compared(MAX_BYTES));
        assert!(cache.get(&key(3), at).is_none());
    }
}
