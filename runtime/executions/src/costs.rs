//! Costs of model calls per day, and reservations for calls in progress. Budgets are compared with their sum.

use std::collections::HashMap;

use perpend_db::{Arg, ColumnType, Tx, despite_collisions, in_transaction};
use perpend_domain::budget::{BudgetScope, ScopedBudget};
use perpend_domain::ids::ProjectId;
use perpend_domain::model_call::ModelCall;
use perpend_domain::time::Timestamp;

use super::exchanges::AttemptKey;
use super::row::id_bytes;
use crate::{Error, Ledger};

pub(super) const DAY_MICROS: i64 = 86_400_000_000;

const ADD: &str = "
    INSERT INTO model_costs (project_id, day, rule_id, evaluator_id, provider, model, n_calls, n_failed, n_unpriced,
                             input_tokens, output_tokens, cost, n_cached, saved)
    VALUES ($1, $2, $3, $4, $5, $6, $12, $7, $8, $9, $10, $11, $13, $14)
    ON CONFLICT (project_id, day, rule_id, evaluator_id, provider, model) DO UPDATE SET
        n_calls = model_costs.n_calls + excluded.n_calls,
        n_failed = model_costs.n_failed + excluded.n_failed,
        n_unpriced = model_costs.n_unpriced + excluded.n_unpriced,
        input_tokens = model_costs.input_tokens + excluded.input_tokens,
        output_tokens = model_costs.output_tokens + excluded.output_tokens,
        cost = model_costs.cost + excluded.cost,
        n_cached = model_costs.n_cached + excluded.n_cached,
        saved = model_costs.saved + excluded.saved";
const RELEASE: &str = "DELETE FROM model_reservations WHERE id = $1";
const TURN: &str = "
    INSERT INTO model_turns (project_id, n) VALUES ($1, 1)
    ON CONFLICT (project_id) DO UPDATE SET n = model_turns.n + 1";
const RESERVE: &str = "
    INSERT INTO model_reservations (id, project_id, rule_id, evaluator_id, usd, until, execution_id, fence)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (id) DO UPDATE SET usd = excluded.usd, until = excluded.until, fence = excluded.fence";
const END_ALL: &str = "DELETE FROM model_reservations";
const SWEEP: &str = "DELETE FROM model_reservations WHERE project_id = $1 AND until <= $2";
/// `$3` is a rule and `$4` an evaluator; an empty text matches all. A reservation ends with the lease under
/// which it was made: that of an execution, or that of a run, which is recorded as the evaluator.
const SPENT: &str = "
    SELECT COALESCE((SELECT SUM(cost) FROM model_costs
                      WHERE project_id = $1 AND $2 <= day AND rule_id <> ''
                        AND ($3 = '' OR rule_id = $3) AND ($4 = '' OR evaluator_id = $4)), 0.0),
           COALESCE((SELECT SUM(r.usd) FROM model_reservations r
                      WHERE r.project_id = $1 AND ($3 = '' OR r.rule_id = $3) AND ($4 = '' OR r.evaluator_id = $4)
                        AND $5 < r.until
                        AND (EXISTS (SELECT 1 FROM executions e
                                      WHERE e.project_id = r.project_id AND e.id = r.execution_id
                                        AND e.state = 1 AND e.fence = r.fence AND $5 < e.due_at)
                             OR EXISTS (SELECT 1 FROM server_runs s
                                         WHERE s.project_id = r.project_id AND s.id = r.evaluator_id
                                           AND s.fence = r.fence AND $5 < s.lease_until))), 0.0)";
const BY_DAY: &str = "
    SELECT day, rule_id, evaluator_id, provider, model, n_calls, n_failed, n_unpriced, input_tokens, output_tokens, cost,
           n_cached, saved
      FROM model_costs
     WHERE project_id = $1 AND $2 <= day AND day < $3
     ORDER BY day DESC, cost DESC, rule_id, evaluator_id, provider, model
     LIMIT $4";
const BY_RULE: &str = "
    SELECT rule_id, SUM(cost), CAST(SUM(n_unpriced) AS BIGINT) FROM model_costs
     WHERE project_id = $1 AND $2 <= day AND rule_id <> '' GROUP BY rule_id";
const BY_EVALUATOR: &str = "
    SELECT evaluator_id, SUM(cost), CAST(SUM(n_unpriced) AS BIGINT) FROM model_costs
     WHERE project_id = $1 AND $2 <= day AND rule_id <> '' GROUP BY evaluator_id";

perpend_db::record! {
    struct CostRow {
        day: i64,
        rule_id: String,
        evaluator_id: String,
        provider: String,
        model: String,
        n_calls: i64,
        n_failed: i64,
        n_unpriced: i64,
        input_tokens: i64,
        output_tokens: i64,
        cost: f64,
        n_cached: i64,
        saved: f64,
    }
}

/// Costs of the calls of one UTC day, per rule, evaluator and model.
#[derive(Clone, Debug, PartialEq)]
pub struct DayCost {
    /// Start of the day.
    pub day: Timestamp,
    /// The rule; empty for calls of trials, checks and preflights.
    pub rule: String,
    /// The evaluator.
    pub evaluator: String,
    /// The name of the connection.
    pub provider: String,
    /// The requested model.
    pub model: String,
    /// Requests, including failed ones.
    pub n_calls: u64,
    /// Requests without a usable response.
    pub n_failed: u64,
    /// Answered requests without a known price.
    pub n_unpriced: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// US dollars, without the calls whose price is unknown.
    pub cost: f64,
    /// Requests answered by stored replies. The other counts do not include them.
    pub n_cached: u64,
    /// Cost that stored replies saved, US dollars, without the calls whose price is unknown.
    pub saved: f64,
}

/// Costs of the calls of a rule or evaluator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleCost {
    /// US dollars, without the calls whose price is unknown.
    pub cost: f64,
    /// Answered requests without a known price.
    pub n_unpriced: u64,
}

/// The cost to reserve before a model call.
#[derive(Clone, Debug, PartialEq)]
pub struct CostReservation {
    /// Id of the reservation. A repeated call has an equal id.
    pub id: String,
    /// US dollars.
    pub usd: f64,
    /// The cost of such calls is unknown, and `usd` is an upper bound. If the budget has less, the call takes
    /// all that is left, and later calls wait until its cost is known.
    pub is_unknown: bool,
    /// Latest end of the call.
    pub until: Timestamp,
}

impl CostReservation {
    /// The amount of a budget that is reserved for the call, US dollars; `None` if the budget has too little
    /// left.
    #[must_use]
    pub fn fits(&self, spending: Spending, limit: f64) -> Option<f64> {
        let taken = spending.spent + spending.reserved;
        if limit <= taken {
            return None;
        }
        match taken + self.usd <= limit {
            true => Some(self.usd),
            false => self.is_unknown.then_some(limit - taken),
        }
    }
}

/// Use of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// US dollars spent in the current window.
    pub spent: f64,
    /// US dollars reserved for calls in progress.
    pub reserved: f64,
}

/// A budget that has too little left for a call.
#[derive(Clone, Debug, PartialEq)]
pub struct InsufficientBudget {
    /// Index of the budget in the request.
    pub place: usize,
    /// Its use.
    pub spending: Spending,
}

/// Adds one exchange to the sums and returns its reservation. An exchange answered by a stored reply used no
/// tokens.
pub(super) async fn settle(
    tx: &mut Tx,
    attempt_key: &AttemptKey,
    call: &ModelCall,
    reservation: Option<&str>,
) -> Result<(), Error> {
    let of = (attempt_key.rule.as_str(), attempt_key.evaluator.as_str());
    add(tx, &attempt_key.project, of, call).await?;
    if let Some(id) = reservation {
        tx.execute(RELEASE, &[id.into()]).await?;
    }
    Ok(())
}

/// Adds a call to the sums of its day.
async fn add(
    tx: &mut Tx,
    project: &ProjectId,
    (rule, evaluator): (&str, &str),
    call: &ModelCall,
) -> Result<(), Error> {
    let day = call.started_at.as_micros().div_euclid(DAY_MICROS) * DAY_MICROS;
    let is_failed = call.error.is_some();
    let is_unpriced = !is_failed && call.cost.is_none();
    let is_sent = !call.is_from_cache;
    let count = |n: u64| match is_sent {
        true => Arg::from(i64::try_from(n).unwrap_or(i64::MAX)),
        false => 0_i64.into(),
    };
    let args: [Arg<'_>; 14] = [
        project.as_str().into(),
        day.into(),
        rule.into(),
        evaluator.into(),
        call.provider.as_str().into(),
        call.model.as_str().into(),
        i64::from(is_failed).into(),
        i64::from(is_unpriced).into(),
        count(call.input_tokens),
        count(call.output_tokens),
        call.cost.unwrap_or_default().into(),
        i64::from(is_sent).into(),
        i64::from(call.is_from_cache).into(),
        call.saved.unwrap_or_default().into(),
    ];
    tx.execute(ADD, &args).await?;
    Ok(())
}

fn spent_args<'a>(
    project: &'a ProjectId,
    budget: &'a ScopedBudget,
    now: Timestamp,
) -> [Arg<'a>; 5] {
    let only = |scope| match budget.scope == scope {
        true => budget.id.as_str(),
        false => "",
    };
    [
        project.as_str().into(),
        budget.budget.window.start(now).as_micros().into(),
        only(BudgetScope::Rule).into(),
        only(BudgetScope::Evaluator).into(),
        now.as_micros().into(),
    ]
}

impl Ledger {
    /// Reserves the cost of a call in all of its budgets, or returns the budget that has too little left.
    ///
    /// # Errors
    /// When the database fails; nothing is reserved then.
    pub async fn reserve(
        &self,
        attempt_key: &AttemptKey,
        budgets: &[ScopedBudget],
        reservation: &CostReservation,
        now: Timestamp,
    ) -> Result<Result<(), InsufficientBudget>, Error> {
        despite_collisions!(self.reserve_once(attempt_key, budgets, reservation, now).await)
    }

    async fn reserve_once(
        &self,
        attempt_key: &AttemptKey,
        budgets: &[ScopedBudget],
        reservation: &CostReservation,
        now: Timestamp,
    ) -> Result<Result<(), InsufficientBudget>, Error> {
        let project = attempt_key.project.as_str();
        let execution = id_bytes(&attempt_key.execution).ok_or_else(|| Error::Inconsistent {
            what: "execution",
            detail: format!("the id {} is not hexadecimal", attempt_key.execution),
        })?;
        Ok(in_transaction!(&self.pool, |tx| {
            tx.execute(TURN, &[project.into()]).await?;
            let (mut insufficient, mut usd) = (None, reservation.usd);
            for (place, budget) in budgets.iter().enumerate() {
                let args = spent_args(&attempt_key.project, budget, now);
                let rows = tx.rows(SPENT, &args, &[ColumnType::Float, ColumnType::Float]).await?;
                let spending = match rows.first() {
                    Some(cells) => {
                        Spending { spent: cells[0].float()?, reserved: cells[1].float()? }
                    }
                    None => Spending::default(),
                };
                match reservation.fits(spending, budget.budget.usd) {
                    Some(granted) => usd = usd.min(granted),
                    None => {
                        insufficient = Some(InsufficientBudget { place, spending });
                        break;
                    }
                }
            }
            match insufficient {
                Some(insufficient) => Err(insufficient),
                None => {
                    tx.execute(SWEEP, &[project.into(), now.as_micros().into()]).await?;
                    let args: [Arg<'_>; 8] = [
                        reservation.id.as_str().into(),
                        project.into(),
                        attempt_key.rule.as_str().into(),
                        attempt_key.evaluator.as_str().into(),
                        usd.into(),
                        reservation.until.as_micros().into(),
                        execution.as_slice().into(),
                        attempt_key.fence.into(),
                    ];
                    tx.execute(RESERVE, &args).await?;
                    tx.reach("asking: reserved")?;
                    Ok(())
                }
            }
        }))
    }

    /// Adds a call of a trial to the costs of the project. It belongs to no rule and counts in no budget.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record_trial_call(
        &self,
        project: &ProjectId,
        call: &ModelCall,
    ) -> Result<(), Error> {
        despite_collisions!(self.record_trial_call_once(project, call).await)
    }

    async fn record_trial_call_once(
        &self,
        project: &ProjectId,
        call: &ModelCall,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            add(&mut tx, project, ("", ""), call).await?;
        });
        Ok(())
    }

    /// Ends all reservations. Only for the sole user of the database: the process that made them is gone.
    /// Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_all_reservations(&self) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            tx.execute(END_ALL, &[]).await?;
        });
        Ok(())
    }

    /// The use of a budget.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn spending(
        &self,
        project: &ProjectId,
        budget: &ScopedBudget,
        now: Timestamp,
    ) -> Result<Spending, Error> {
        let args = spent_args(project, budget, now);
        let rows: Vec<(f64, f64)> = self.pool.select(SPENT, &args).await?;
        let (spent, reserved) = rows.first().copied().unwrap_or_default();
        Ok(Spending { spent, reserved })
    }

    /// Costs of model calls between two days, by day descending, then by cost descending; at most `limit`
    /// rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn costs(
        &self,
        project: &ProjectId,
        (from, to): (Timestamp, Timestamp),
        limit: u32,
    ) -> Result<Vec<DayCost>, Error> {
        let args = [
            project.as_str().into(),
            (from.as_micros().div_euclid(DAY_MICROS) * DAY_MICROS).into(),
            to.as_micros().into(),
            i64::from(limit).into(),
        ];
        let rows: Vec<CostRow> = self.pool.select(BY_DAY, &args).await?;
        let row = |row: CostRow| DayCost {
            day: Timestamp::from_micros(row.day),
            rule: row.rule_id,
            evaluator: row.evaluator_id,
            provider: row.provider,
            model: row.model,
            n_calls: row.n_calls.unsigned_abs(),
            n_failed: row.n_failed.unsigned_abs(),
            n_unpriced: row.n_unpriced.unsigned_abs(),
            input_tokens: row.input_tokens.unsigned_abs(),
            output_tokens: row.output_tokens.unsigned_abs(),
            cost: row.cost,
            n_cached: row.n_cached.unsigned_abs(),
            saved: row.saved,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Costs by the id of the rule since the UTC day of a time. Rules without calls are absent.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn costs_by_rule(
        &self,
        project: &ProjectId,
        from: Timestamp,
    ) -> Result<HashMap<String, RuleCost>, Error> {
        self.cost_sums(BY_RULE, project, from).await
    }

    /// Costs of the calls for rules by the id of the evaluator since the UTC day of a time. Evaluators without
    /// calls are absent.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn costs_by_evaluator(
        &self,
        project: &ProjectId,
        from: Timestamp,
    ) -> Result<HashMap<String, RuleCost>, Error> {
        self.cost_sums(BY_EVALUATOR, project, from).await
    }

    async fn cost_sums(
        &self,
        sql: &str,
        project: &ProjectId,
        from: Timestamp,
    ) -> Result<HashMap<String, RuleCost>, Error> {
        let day = from.as_micros().div_euclid(DAY_MICROS) * DAY_MICROS;
        let args = [project.as_str().into(), day.into()];
        let rows: Vec<(String, f64, i64)> = self.pool.select(sql, &args).await?;
        let cost = |(id, cost, n_unpriced): (String, f64, i64)| {
            (id, RuleCost { cost, n_unpriced: n_unpriced.unsigned_abs() })
        };
        Ok(rows.into_iter().map(cost).collect())
    }
}
