//! Counters per rule, hour and reason.

use std::collections::BTreeMap;

use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use crate::{Error, Ledger};
use perpend_db::{Tx, query};

const HOUR_MICROS: i64 = 3_600_000_000;

/// Number of targets or executions of a rule within one hour, by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// Start of the hour.
    pub hour: Timestamp,
    /// A refusal such as `sampled_out`, `made`, or an outcome such as `completed`.
    pub reason: String,
    /// The count.
    pub n: u64,
}

impl RuleCount {
    /// Reason for targets that passed the filter and are in the sample.
    pub const SAMPLED: &'static str = "sampled";
    /// Reason for targets without an execution because a budget was exhausted.
    pub const BUDGET: &'static str = "budget";
    /// Reason for skipped executions that an exhausted budget ended.
    pub const SKIPPED_FOR_BUDGET: &'static str = "skipped_for_budget";
}

/// An increment of one counter.
struct CounterIncrement<'a> {
    project: &'a ProjectId,
    rule: &'a RuleId,
    hour: i64,
    reason: &'a str,
    n: u64,
}

impl<'a> CounterIncrement<'a> {
    /// One row per key, in the order of keys, so that two transactions that count the same keys wait for each
    /// other instead of deadlocking.
    fn grouped(counts: &'a [(ProjectId, RuleId, &'static str, u64)], now: Timestamp) -> Vec<Self> {
        let mut sums: BTreeMap<(&ProjectId, &RuleId, &str), u64> = BTreeMap::new();
        for (project, rule, reason, n) in counts {
            *sums.entry((project, rule, reason)).or_default() += n;
        }
        let hour = now.as_micros().div_euclid(HOUR_MICROS) * HOUR_MICROS;
        let row = |((project, rule, reason), n)| Self { project, rule, hour, reason, n };
        sums.into_iter().map(row).collect()
    }
}

const ADD: &str = "
    INSERT INTO rule_counts (project_id, rule_id, hour, reason, n) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (project_id, rule_id, hour, reason) DO UPDATE SET n = rule_counts.n + excluded.n";
const OF_RULE: &str = "
    SELECT hour, reason, n FROM rule_counts
     WHERE project_id = $1 AND rule_id = $2 AND $3 <= hour
     ORDER BY hour DESC, reason";

/// Adds to the counters, inside a transaction.
pub(super) async fn add(
    tx: &mut Tx,
    counts: &[(ProjectId, RuleId, &'static str, u64)],
    now: Timestamp,
) -> Result<(), Error> {
    for count in CounterIncrement::grouped(counts, now) {
        let args = [
            count.project.as_str().into(),
            count.rule.as_str().into(),
            count.hour.into(),
            count.reason.into(),
            (count.n as i64).into(),
        ];
        tx.execute(ADD, &args).await?;
    }
    Ok(())
}

impl Ledger {
    /// Counters of a rule since `from`, newest hour first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_counts(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        from: Timestamp,
    ) -> Result<Vec<RuleCount>, Error> {
        let rows: Vec<(i64, String, i64)> = query(OF_RULE)
            .bind(project.as_str())
            .bind(rule.as_str())
            .bind(from.as_micros().div_euclid(HOUR_MICROS) * HOUR_MICROS)
            .fetch_all(&self.pool)
            .await?;
        let count = |(hour, reason, n): (i64, String, i64)| RuleCount {
            hour: Timestamp::from_micros(hour),
            reason,
            n: n.unsigned_abs(),
        };
        Ok(rows.into_iter().map(count).collect())
    }
}
