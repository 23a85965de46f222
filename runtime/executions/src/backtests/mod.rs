//! Backtests: their progress and their pairs of scores.
//!
//! Invariants:
//! - **No target twice, none lost.** The position and the pairs up to it are written in one transaction.
//! - **One writer.** A step is written only under the fence of the latest claim, and only while the backtest is running.
//! - **No live score.** Results are in `backtest_pairs` alone.

mod pairs;

use perpend_db::{
    Arg, Tx, checked, despite_collisions, digest, from_json, in_transaction, query, to_json,
};
use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::{
    Backtest, BacktestCounts, BacktestPlan, BacktestReason, MAX_RUNNING_BACKTESTS,
};
use perpend_domain::evaluation::{EvaluatorVersion, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::time::Timestamp;

use super::backfills::{BackfillChange, state_code, stored};
use super::claim::Lease;
use super::codes::Coded as _;
use crate::{Error, Ledger};

pub use pairs::{BacktestStep, Flip, FlipCursor};
pub(super) use pairs::{FORGET_COMMENTS, FORGET_SESSION_COMMENTS};
use pairs::{WHAT, totals};

perpend_db::record! {
    struct VersionRow {
        version_id: String,
        version_number: i32,
        plugin: Vec<u8>,
        plugin_name: String,
        plugin_version: String,
        plugin_evaluator: String,
        config: String,
        mapping: String,
        grants: String,
        slots: String,
        fingerprint: Vec<u8>,
    }
}

perpend_db::record! {
    struct CountsRow {
        n_examined: i64,
        n_items: i64,
        n_unscored: i64,
        n_refused: i64,
        n_left_out: i64,
        n_completed: i64,
        n_skipped: i64,
        n_failed: i64,
        n_pairs: i64,
        n_unpaired: i64,
        cost_usd: f64,
        before_calls: i64,
        before_latency_ms: i64,
        before_usd: f64,
        before_unpriced: i64,
        after_calls: i64,
        after_latency_ms: i64,
        after_usd: f64,
        after_unpriced: i64,
    }
}

perpend_db::record! {
    struct BacktestRow {
        project_id: String,
        id: String,
        evaluator_id: String,
        evaluator_name: String,
        version: VersionRow,
        rule_id: Option<String>,
        target: String,
        from_at: i64,
        to_at: i64,
        filter: String,
        item_mapping: Option<String>,
        on_missing: String,
        is_fresh: i16,
        max_items: Option<i64>,
        max_usd: Option<f64>,
        n_in_range: Option<i64>,
        usd_per_target: Option<f64>,
        state: i16,
        reason: Option<String>,
        resume_after: Option<String>,
        reached_at: Option<i64>,
        counts: CountsRow,
        failures: String,
        adopted_version: Option<i32>,
        created_at: i64,
        updated_at: i64,
        ended_at: Option<i64>,
    }
}

/// The columns of [`BacktestRow`].
const COLUMNS: &str = "project_id, id, evaluator_id, evaluator_name, version_id, version_number, plugin, plugin_name, \
     plugin_version, plugin_evaluator, config, mapping, grants, slots, fingerprint, rule_id, target, from_at, to_at, filter, \
     item_mapping, on_missing, is_fresh, max_items, max_usd, n_in_range, usd_per_target, state, reason, resume_after, \
     reached_at, n_examined, n_items, n_unscored, n_refused, n_left_out, n_completed, n_skipped, n_failed, n_pairs, \
     n_unpaired, cost_usd, before_calls, before_latency_ms, before_usd, before_unpriced, after_calls, after_latency_ms, \
     after_usd, after_unpriced, failures, adopted_version, created_at, updated_at, ended_at";

const INSERT: &str = "
    INSERT INTO backtests
           (project_id, id, evaluator_id, evaluator_name, version_id, version_number, plugin, plugin_name, plugin_version,
            plugin_evaluator, config, mapping, grants, slots, fingerprint, rule_id, target, from_at, to_at, filter,
            item_mapping, on_missing, is_fresh, max_items, max_usd, n_in_range, usd_per_target, state, fence, lease_until,
            n_examined, n_items, n_unscored, n_refused, n_left_out, n_completed, n_skipped, n_failed, n_pairs, n_unpaired,
            cost_usd, before_calls, before_latency_ms, before_usd, before_unpriced, after_calls, after_latency_ms, after_usd,
            after_unpriced, failures, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
            $25, $26, $27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0.0, 0, 0, 0, 0.0, 0, '[]', $28, $28)";
const COUNT_RUNNING: &str = "SELECT COUNT(*) FROM backtests WHERE project_id = $1 AND state = 0";
/// The first number keeps these locks apart from others of this database.
const LOCK_RUNNING_POSTGRES: &str = "SELECT COUNT(pg_advisory_xact_lock(4707218, hashtext($1)))";
const CLAIM: &str = "
    UPDATE backtests SET fence = $3, lease_until = $4
     WHERE project_id = $1 AND id = $2 AND state = 0 AND lease_until <= $5";
const RENEW: &str = "
    UPDATE backtests SET lease_until = $4 WHERE project_id = $1 AND id = $2 AND state = 0 AND fence = $3";
/// The step ends the lease.
const ADVANCE: &str = "
    UPDATE backtests
       SET state = $4, reason = $5, resume_after = $6, reached_at = $7, failures = $8, n_examined = $9, n_items = $10,
           n_unscored = $11, n_refused = $12, n_left_out = $13, n_completed = $14, n_skipped = $15, n_failed = $16,
           n_pairs = $17, n_unpaired = $18, cost_usd = $19, before_calls = $20, before_latency_ms = $21, before_usd = $22,
           before_unpriced = $23, after_calls = $24, after_latency_ms = $25, after_usd = $26, after_unpriced = $27,
           updated_at = $28, ended_at = $29, lease_until = 0
     WHERE project_id = $1 AND id = $2 AND fence = $3 AND state = 0";
const PAUSE: &str = "
    UPDATE backtests SET state = 1, lease_until = 0, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state = 0";
const RESUME: &str = "
    UPDATE backtests SET state = 0, updated_at = $3 WHERE project_id = $1 AND id = $2 AND state = 1";
const CANCEL: &str = "
    UPDATE backtests SET state = 3, reason = NULL, lease_until = 0, updated_at = $3, ended_at = $3
     WHERE project_id = $1 AND id = $2 AND state < 2";
const ADOPT: &str = "
    UPDATE backtests SET adopted_version = $3, updated_at = $4 WHERE project_id = $1 AND id = $2";

impl From<CountsRow> for BacktestCounts {
    fn from(row: CountsRow) -> Self {
        let before = (row.before_calls, row.before_latency_ms, row.before_usd, row.before_unpriced);
        let after = (row.after_calls, row.after_latency_ms, row.after_usd, row.after_unpriced);
        Self {
            n_examined: row.n_examined.unsigned_abs(),
            n_items: row.n_items.unsigned_abs(),
            n_unscored: row.n_unscored.unsigned_abs(),
            n_refused: row.n_refused.unsigned_abs(),
            n_left_out: row.n_left_out.unsigned_abs(),
            n_completed: row.n_completed.unsigned_abs(),
            n_skipped: row.n_skipped.unsigned_abs(),
            n_failed: row.n_failed.unsigned_abs(),
            n_pairs: row.n_pairs.unsigned_abs(),
            n_unpaired: row.n_unpaired.unsigned_abs(),
            cost_usd: row.cost_usd,
            before: totals(before),
            after: totals(after),
        }
    }
}

impl VersionRow {
    fn version(self, created_at: Timestamp) -> Result<EvaluatorVersion, Error> {
        Ok(EvaluatorVersion {
            id: checked(WHAT, &self.version_id)?,
            number: self.version_number.max(0).cast_unsigned(),
            plugin: digest(WHAT, &self.plugin)?,
            plugin_name: self.plugin_name,
            plugin_version: self.plugin_version,
            plugin_evaluator: self.plugin_evaluator,
            config: from_json(WHAT, &self.config)?,
            mapping: from_json(WHAT, &self.mapping)?,
            grants: from_json(WHAT, &self.grants)?,
            slots: from_json(WHAT, &self.slots)?,
            fingerprint: digest(WHAT, &self.fingerprint)?,
            created_at,
        })
    }
}

impl TryFrom<BacktestRow> for Backtest {
    type Error = Error;

    fn try_from(row: BacktestRow) -> Result<Self, Error> {
        let reason = row.reason.as_deref();
        let target: TargetKind = checked(WHAT, &row.target)?;
        let sent = from_json(WHAT, &row.filter)?;
        let created_at = Timestamp::from_micros(row.created_at);
        let rule = row.rule_id.as_deref().map(|id| checked::<RuleId>(WHAT, id));
        let mapping = row.item_mapping.as_deref().map(|mapping| from_json(WHAT, mapping));
        Ok(Self {
            project: checked(WHAT, &row.project_id)?,
            id: row.id,
            plan: BacktestPlan {
                evaluator: checked(WHAT, &row.evaluator_id)?,
                evaluator_name: row.evaluator_name,
                version: row.version.version(created_at)?,
                rule: rule.transpose()?,
                target,
                from: Timestamp::from_micros(row.from_at),
                to: Timestamp::from_micros(row.to_at),
                filter: WrittenFilter::stored(sent, target.filter_columns()).0,
                mapping: mapping.transpose()?,
                on_missing: checked(WHAT, &row.on_missing)?,
                is_fresh: row.is_fresh != 0,
                max_items: row.max_items.map(i64::unsigned_abs),
                max_usd: row.max_usd,
                n_in_range: row.n_in_range.map(i64::unsigned_abs),
                usd_per_target: row.usd_per_target,
            },
            state: BackfillState::of_code(row.state)?,
            reason: reason.map(|reason| checked(WHAT, reason)).transpose()?,
            cursor: row.resume_after,
            reached_at: row.reached_at.map(Timestamp::from_micros),
            counts: row.counts.into(),
            failures: from_json(WHAT, &row.failures)?,
            adopted_version: row.adopted_version.map(i32::unsigned_abs),
            created_at,
            updated_at: Timestamp::from_micros(row.updated_at),
            ended_at: row.ended_at.map(Timestamp::from_micros),
        })
    }
}

/// Whether another backtest of the project may run. Serialises the transactions that start backtests, so that the next one
/// counts what this one starts; SQLite has one writer at a time.
async fn may_run(tx: &mut Tx, project: &ProjectId) -> Result<bool, Error> {
    let args: [Arg<'_>; 1] = [project.as_str().into()];
    if tx.is_postgres() {
        tx.integer(LOCK_RUNNING_POSTGRES, &args).await?;
    }
    Ok(tx.integer(COUNT_RUNNING, &args).await?.unsigned_abs() < MAX_RUNNING_BACKTESTS)
}

fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM backtests {rest}")
}

fn rows_of(rows: Vec<BacktestRow>) -> Result<Vec<Backtest>, Error> {
    rows.into_iter().map(TryInto::try_into).collect()
}

impl Ledger {
    /// Stores a new backtest, which is running. `false` if [`MAX_RUNNING_BACKTESTS`] of the project run; nothing is stored
    /// then.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_backtest(
        &self,
        project: &ProjectId,
        id: &str,
        plan: &BacktestPlan,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let version = &plan.version;
        let mapping = plan.mapping.as_ref().map(|mapping| to_json(WHAT, mapping)).transpose()?;
        let args: [Arg<'_>; 28] = [
            project.as_str().into(),
            id.into(),
            plan.evaluator.as_str().into(),
            plan.evaluator_name.as_str().into(),
            version.id.as_str().into(),
            i64::from(version.number).into(),
            version.plugin.as_bytes().as_slice().into(),
            version.plugin_name.as_str().into(),
            version.plugin_version.as_str().into(),
            version.plugin_evaluator.as_str().into(),
            to_json(WHAT, &version.config)?.into(),
            to_json(WHAT, &version.mapping)?.into(),
            to_json(WHAT, &version.grants)?.into(),
            to_json(WHAT, &version.slots)?.into(),
            version.fingerprint.as_bytes().as_slice().into(),
            plan.rule.as_ref().map(RuleId::as_str).into(),
            plan.target.as_str().into(),
            plan.from.as_micros().into(),
            plan.to.as_micros().into(),
            to_json(WHAT, &plan.filter.sent())?.into(),
            mapping.as_deref().into(),
            plan.on_missing.as_str().into(),
            plan.is_fresh.into(),
            plan.max_items.map(stored).into(),
            plan.max_usd.into(),
            plan.n_in_range.map(stored).into(),
            plan.usd_per_target.into(),
            now.as_micros().into(),
        ];
        despite_collisions!(self.start_backtest_once(project, INSERT, &args).await)
    }

    /// Runs a statement that starts a backtest, if another one may run.
    async fn start_backtest_once(
        &self,
        project: &ProjectId,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<bool, Error> {
        in_transaction!(&self.pool, |tx| {
            if !may_run(&mut tx, project).await? {
                return Ok(false);
            }
            tx.execute(sql, args).await?;
        });
        Ok(true)
    }

    /// One backtest.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtest(&self, project: &ProjectId, id: &str) -> Result<Option<Backtest>, Error> {
        let row: Option<BacktestRow> = query(select("WHERE project_id = $1 AND id = $2"))
            .bind(project.as_str())
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        row.map(TryInto::try_into).transpose()
    }

    /// A page of at most `limit` backtests, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtests(
        &self,
        project: &ProjectId,
        position: &ListPosition,
        limit: u32,
    ) -> Result<BidirectionalPage<Backtest>, Error> {
        let (sign, order) = match position.is_backwards {
            true => (">", "created_at, id"),
            false => ("<", "created_at DESC, id DESC"),
        };
        let start = if position.is_backwards { i64::MIN } else { i64::MAX };
        let cursor = position.cursor.as_ref();
        let rows: Vec<BacktestRow> = query(select(&format!(
            "WHERE project_id = $1 AND (created_at, id) {sign} ($2, $3) ORDER BY {order} LIMIT $4"
        )))
        .bind(project.as_str())
        .bind(cursor.map_or(start, |cursor| cursor.at.as_micros()))
        .bind(cursor.map_or("", |cursor| cursor.id.as_str()))
        .bind(i64::from(limit) + 1)
        .fetch_all(&self.pool)
        .await?;
        let mut items = rows_of(rows)?;
        let has_more = (limit as usize) < items.len();
        items.truncate(limit as usize);
        let at = |each: &Backtest| Cursor::new(each.created_at, each.id.clone());
        Ok(BidirectionalPage::read(items, position, has_more, at))
    }

    /// At most `limit` running backtests that no node has claimed, those that have waited longest first. Crosses tenants:
    /// for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn due_backtests(&self, now: Timestamp, limit: u32) -> Result<Vec<Backtest>, Error> {
        let rows: Vec<BacktestRow> =
            query(select("WHERE state = 0 AND lease_until <= $1 ORDER BY updated_at, id LIMIT $2"))
                .bind(now.as_micros())
                .bind(i64::from(limit))
                .fetch_all(&self.pool)
                .await?;
        rows_of(rows)
    }

    /// Claims a running backtest; `false` if another node has claimed it, or it is not running any more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_backtest(
        &self,
        (project, id): (&ProjectId, &str),
        lease: Lease,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 5] = [
            project.as_str().into(),
            id.into(),
            lease.fence.into(),
            lease.until.as_micros().into(),
            now.as_micros().into(),
        ];
        Ok(self.pool.change(CLAIM, &args).await? == 1)
    }

    /// Extends a claim; `false` if it has ended, or the backtest is not running any more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn renew_backtest(
        &self,
        (project, id): (&ProjectId, &str),
        lease: Lease,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 4] = [
            project.as_str().into(),
            id.into(),
            lease.fence.into(),
            lease.until.as_micros().into(),
        ];
        Ok(self.pool.change(RENEW, &args).await? == 1)
    }

    /// Writes a step and ends its claim. `false` if the claim has ended, or the backtest is not running any more; nothing
    /// is written then.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn advance_backtest(
        &self,
        step: &BacktestStep,
        fence: i64,
        now: Timestamp,
    ) -> Result<bool, Error> {
        despite_collisions!(self.advance_backtest_once(step, fence, now).await)
    }

    async fn advance_backtest_once(
        &self,
        step: &BacktestStep,
        fence: i64,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let next = &step.next;
        let (counts, before, after) = (&next.counts, next.counts.before, next.counts.after);
        let args: [Arg<'_>; 29] = [
            next.project.as_str().into(),
            next.id.as_str().into(),
            fence.into(),
            i64::from(state_code(next.state)).into(),
            next.reason.map(BacktestReason::as_str).into(),
            next.cursor.as_deref().into(),
            next.reached_at.map(Timestamp::as_micros).into(),
            to_json(WHAT, &next.failures)?.into(),
            stored(counts.n_examined).into(),
            stored(counts.n_items).into(),
            stored(counts.n_unscored).into(),
            stored(counts.n_refused).into(),
            stored(counts.n_left_out).into(),
            stored(counts.n_completed).into(),
            stored(counts.n_skipped).into(),
            stored(counts.n_failed).into(),
            stored(counts.n_pairs).into(),
            stored(counts.n_unpaired).into(),
            counts.cost_usd.into(),
            stored(before.n_calls).into(),
            stored(before.latency_ms).into(),
            before.cost_usd.into(),
            stored(before.n_unpriced).into(),
            stored(after.n_calls).into(),
            stored(after.latency_ms).into(),
            after.cost_usd.into(),
            stored(after.n_unpriced).into(),
            now.as_micros().into(),
            next.ended_at.map(Timestamp::as_micros).into(),
        ];
        in_transaction!(&self.pool, |tx| {
            if tx.execute(ADVANCE, &args).await? == 0 {
                return Ok(false);
            }
            tx.reach("backtest: advanced")?;
            pairs::put(&mut tx, step).await?;
        });
        Ok(true)
    }

    /// Changes the state of a backtest, and returns it; `None` if it does not exist. A change that its state does not
    /// allow has no effect, nor has `Resume` if [`MAX_RUNNING_BACKTESTS`] of the project run.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn change_backtest(
        &self,
        project: &ProjectId,
        id: &str,
        change: BackfillChange,
        now: Timestamp,
    ) -> Result<Option<Backtest>, Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), id.into(), now.as_micros().into()];
        match change {
            BackfillChange::Pause => self.pool.change(PAUSE, &args).await.map(drop)?,
            BackfillChange::Cancel => self.pool.change(CANCEL, &args).await.map(drop)?,
            BackfillChange::Resume => {
                despite_collisions!(self.start_backtest_once(project, RESUME, &args).await)
                    .map(drop)?;
            }
        }
        self.backtest(project, id).await
    }

    /// Notes the number of the version that was made current by adopting a backtest.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_adopted(
        &self,
        (project, id): (&ProjectId, &str),
        version: u32,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 4] =
            [project.as_str().into(), id.into(), i64::from(version).into(), now.as_micros().into()];
        self.pool.change(ADOPT, &args).await?;
        Ok(())
    }
}
