//! The number of targets of a backfill before it starts.

use std::collections::BTreeMap;

use perpend_db::{Scratch, is_half_over};
use perpend_domain::backfill::{BackfillCounts, BackfillPlan};
use perpend_domain::evaluation::{Rule, TargetKind};
use perpend_domain::filter::{OBSERVATIONS, TRACES};
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::list::ListPosition;
use perpend_domain::telemetry::ObservationQuery;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceQuery;
use perpend_storage::Bounds;

use super::pages::range;
use crate::Scheduler;

/// Maximum of examined targets if their row is enough.
const MAX_EXAMINED: u64 = 10_000;
/// Maximum of examined targets if content, traces or scores have to be read.
const MAX_READ: u64 = 1_000;

/// Targets and executions of a backfill, counted over its newest targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackfillEstimate {
    /// Counts of the examined targets.
    pub counts: BackfillCounts,
    /// Executions over the examined targets, by evaluator.
    pub executions: BTreeMap<EvaluatorId, u64>,
    /// Whether all targets of the range were examined.
    pub is_whole: bool,
    /// Start of the last examined target.
    pub reached_at: Option<Timestamp>,
}

impl Scheduler {
    /// Applies a backfill to the newest targets of its range without making executions. The rule may be disabled or
    /// paused.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn estimate_backfill(
        &self,
        project: &ProjectId,
        plan: &BackfillPlan,
        rule: Rule,
    ) -> Result<BackfillEstimate, perpend_db::Error> {
        let inner = &self.inner;
        let rule = Rule { enabled: true, paused: None, ..rule };
        let scan = inner.scan_of(project, plan, rule).await?;
        let reads_more = scan.rule.reads_content
            || scan.rule.reads_more_than_observation()
            || !plan.target.is_of_observations();
        let max_examined = if reads_more { MAX_READ } else { MAX_EXAMINED };
        let mut found = BackfillEstimate::default();
        let mut cursor: Option<String> = None;
        while found.counts.n_examined < max_examined && !is_half_over() {
            let _scratch = Scratch::begin();
            let page = inner.backfill_page(&scan, cursor, u64::MAX).await?;
            found.counts.add(&page.counts);
            for each in page.executions {
                *found.executions.entry(each.execution.evaluator_id).or_default() += 1;
            }
            found.reached_at = page.reached_at.or(found.reached_at);
            cursor = page.cursor;
            if page.is_end {
                found.is_whole = true;
                break;
            }
        }
        Ok(found)
    }

    /// The number of targets in the range of a backfill, whether they match or not; `None` if it is not cheap to count.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn targets_in_range(
        &self,
        project: &ProjectId,
        plan: &BackfillPlan,
    ) -> Result<Option<u64>, perpend_db::Error> {
        let telemetry = &self.inner.deps.store.telemetry;
        Ok(match plan.target {
            TargetKind::Observation | TargetKind::Experiment => {
                let query = ObservationQuery {
                    filter: range(OBSERVATIONS, "startTime", plan),
                    limit: 1,
                    without_records: true,
                    with_total: true,
                    ..ObservationQuery::default()
                };
                let page = telemetry.observations(project, &query).await?;
                (!page.is_total_cut).then_some(page.n_total)
            }
            TargetKind::Trace => {
                let query = TraceQuery {
                    filter: range(TRACES, "timestamp", plan),
                    limit: 1,
                    ..TraceQuery::default()
                };
                let bounds = Bounds { max_tested: u64::MAX, max_counted: None };
                let first = ListPosition::default();
                let found = telemetry.traces_from(project, &query, &first, bounds).await?;
                found.total.filter(|total| !total.is_more).map(|total| total.n)
            }
            TargetKind::Session | TargetKind::Run => None,
        })
    }
}
