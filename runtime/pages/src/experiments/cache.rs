//! Comparisons that were computed recently. An entry is used again unless observations or scores of the project, or the
//! definitions of its scores have changed since, and for one minute at most: changes of datasets are not noticed earlier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::experiment::RunResults;
use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;
use perpend_experiments::comparison::Comparison;
use perpend_experiments::options::ScoreDefinition;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::{EnvironmentFilter, Telemetry};
use perpend_views::RunsQuery;

/// Comparisons of all projects; each may take some megabytes.
const MAX_ENTRIES: usize = 6;
/// Lifetime of an entry, in milliseconds.
const TTL_MS: i64 = 60_000;
/// A transaction may commit so much later than the time of its rows, in milliseconds.
const COMMIT_MS: i64 = 10_000;

/// Everything but the data that a comparison depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ComparisonKey {
    project: ProjectId,
    runs: Vec<String>,
    base: Option<String>,
    segment: Option<String>,
    correction: Option<String>,
    reducer: Option<String>,
}

impl ComparisonKey {
    pub(super) fn new(project: &ProjectId, query: &RunsQuery) -> Self {
        Self {
            project: project.clone(),
            runs: query.runs.clone(),
            base: query.base.clone(),
            segment: query.segment.clone(),
            correction: query.correction.clone(),
            reducer: query.reducer.clone(),
        }
    }
}

/// The compared runs and their comparison.
#[derive(Debug)]
pub(super) struct ComparedRuns {
    pub(super) results: Vec<RunResults>,
    pub(super) comparison: Comparison,
}

/// A comparison with what it was computed from.
#[derive(Clone, Debug)]
pub(super) struct CachedComparison {
    /// The time before the data were read.
    pub(super) at: Timestamp,
    pub(super) definitions: BTreeMap<String, ScoreDefinition>,
    pub(super) runs: Arc<ComparedRuns>,
}

impl CachedComparison {
    /// Whether no observation and no score of the project has changed since the data were read.
    pub(super) async fn is_current(
        &self,
        telemetry: &Telemetry,
        project: &ProjectId,
    ) -> Result<bool, Problem> {
        let since = (self.at.plus_millis(-COMMIT_MS), 1);
        let all = EnvironmentFilter::Without(&[]);
        let (_, has_observations) =
            telemetry.observations_since(project, (None, None), all, since).await?;
        if has_observations {
            return Ok(false);
        }
        let (_, has_scores) =
            telemetry.scores_since(project, &ScoreQuery::default(), since).await?;
        Ok(!has_scores)
    }
}

/// The comparisons, the least recently used one is evicted.
pub(crate) struct ComparisonCache(Mutex<LruCache<ComparisonKey, CachedComparison>>);

impl std::fmt::Debug for ComparisonCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComparisonCache").finish_non_exhaustive()
    }
}

impl Default for ComparisonCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_ENTRIES)))
    }
}

impl ComparisonCache {
    /// The entry, unless it has expired.
    pub(super) fn get(&self, key: &ComparisonKey, now: Timestamp) -> Option<CachedComparison> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(key)?;
        let age = now.as_millis() - entry.at.as_millis();
        (0..TTL_MS).contains(&age).then(|| entry.clone())
    }

    pub(super) fn insert(&self, key: ComparisonKey, entry: CachedComparison) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(key, entry);
    }
}
