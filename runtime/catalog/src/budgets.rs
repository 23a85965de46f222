//! Budgets of rules, evaluators and projects, and pauses that end at a time.

use perpend_db::{Tx, checked, from_json, in_transaction, query, to_json};
use perpend_domain::budget::{Budget, BudgetScope, ScopedBudget};
use perpend_domain::evaluation::Pause;
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::revision::{RAISE, raise_from};
use crate::{Catalog, Error, audit};

const WHAT: &str = "budget";
const OF_CALL: &str = "
    SELECT 'rule', id, budget FROM rules WHERE project_id = $1 AND id = $2
    UNION ALL
    SELECT scope, scope_id, budget FROM budgets
     WHERE project_id = $1 AND (scope = 'project' OR (scope = 'evaluator' AND scope_id = $3))";
const OF_PROJECT: &str = "
    SELECT 'rule', id, budget FROM rules WHERE project_id = $1
    UNION ALL
    SELECT scope, scope_id, budget FROM budgets WHERE project_id = $1";
const PUT_OF_PROJECT: &str = "
    INSERT INTO budgets (project_id, scope, scope_id, budget, updated_at) VALUES ($1, 'project', $1, $2, $3)
    ON CONFLICT (project_id, scope, scope_id) DO UPDATE SET budget = excluded.budget, updated_at = excluded.updated_at";
/// Inserts nothing if the project has no such evaluator.
const PUT_OF_EVALUATOR: &str = "
    INSERT INTO budgets (project_id, scope, scope_id, budget, updated_at)
    SELECT $1, 'evaluator', id, $2, $3 FROM evaluators WHERE project_id = $1 AND id = $4
    ON CONFLICT (project_id, scope, scope_id) DO UPDATE SET budget = excluded.budget, updated_at = excluded.updated_at";
const RESUME: &str = "
    UPDATE evaluators
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $3
     WHERE project_id = $1 AND paused_reason = $2 AND ($4 = '' OR id = $4)";
const TAKE_AGAIN: &str = "
    UPDATE assignments SET skipped_until = NULL
     WHERE project_id = $1 AND skipped_until IS NOT NULL AND ($2 = '' OR evaluator_id = $2)";
const LEAVE_OUT: &str = "
    UPDATE assignments SET skipped_until = $4
     WHERE project_id = $1 AND rule_id = $2 AND evaluator_id = $3 AND (skipped_until IS NULL OR skipped_until < $4)";
const END_OF_RULES: &str = "
    UPDATE rules
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $1
     WHERE paused_until <= $1 AND paused_reason NOT IN ('PLUGIN_FAILING', 'UPSTREAM_FAILING')";
const END_OF_EVALUATORS: &str = "
    UPDATE evaluators
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $1
     WHERE paused_until <= $1";
const END_OF_SKIPS: &str = "UPDATE assignments SET skipped_until = NULL WHERE skipped_until <= $1";

fn each(rows: Vec<(String, String, String)>) -> Result<Vec<ScopedBudget>, Error> {
    let mut all = Vec::new();
    for (scope, id, budgets) in rows {
        let scope: BudgetScope = checked(WHAT, &scope)?;
        let budgets: Vec<Budget> = from_json(WHAT, &budgets)?;
        all.extend(budgets.into_iter().map(|budget| ScopedBudget {
            scope,
            id: id.clone(),
            budget,
        }));
    }
    Ok(all)
}

async fn resume(
    tx: &mut Tx,
    project: &ProjectId,
    evaluator: Option<&EvaluatorId>,
    now: Timestamp,
) -> Result<(), Error> {
    let evaluator = evaluator.map_or("", EvaluatorId::as_str);
    query(RESUME)
        .bind(project.as_str())
        .bind(Pause::BUDGET_REACHED)
        .bind(now.as_micros())
        .bind(evaluator)
        .execute(&mut *tx)
        .await?;
    query(TAKE_AGAIN).bind(project.as_str()).bind(evaluator).execute(tx).await?;
    Ok(())
}

impl Catalog {
    /// All budgets of a project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn budgets(&self, project: &ProjectId) -> Result<Vec<ScopedBudget>, Error> {
        let args = [project.as_str().into()];
        each(self.pool.select(OF_PROJECT, &args).await?)
    }

    /// The budgets that limit a model call of this rule and evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn budgets_of_call(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        evaluator: &EvaluatorId,
    ) -> Result<Vec<ScopedBudget>, Error> {
        let args = [project.as_str().into(), rule.as_str().into(), evaluator.as_str().into()];
        each(self.pool.select(OF_CALL, &args).await?)
    }

    /// Sets the budgets of an evaluator, or without one those of the project. Evaluators paused for an
    /// exhausted budget resume and are checked against the new one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such evaluator.
    pub async fn put_budgets(
        &self,
        project: &ProjectId,
        evaluator: Option<&EvaluatorId>,
        budgets: &[Budget],
        now: Timestamp,
    ) -> Result<(), Error> {
        let scope = match evaluator {
            Some(_) => BudgetScope::Evaluator,
            None => BudgetScope::Project,
        };
        let id = evaluator.map_or(project.as_str(), EvaluatorId::as_str);
        let mut before = self.budgets(project).await?;
        before.retain(|budget| budget.scope == scope && budget.id == id);
        let before: Vec<Budget> = before.into_iter().map(|budget| budget.budget).collect();
        audit::note(
            "budget",
            id,
            Some(json!({ "budget": before })),
            Some(json!({ "budget": budgets })),
        );
        let budgets = to_json(WHAT, &budgets)?;
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            let sql = match evaluator {
                Some(_) => PUT_OF_EVALUATOR,
                None => PUT_OF_PROJECT,
            };
            let mut put = query(sql).bind(project.as_str()).bind(&budgets).bind(now.as_micros());
            if let Some(evaluator) = evaluator {
                put = put.bind(evaluator.as_str());
            }
            if put.execute(&mut tx).await? == 0 {
                return Err(Error::NotFound);
            }
            resume(&mut tx, project, evaluator, now).await?;
        });
        Ok(())
    }

    /// Skips targets for an evaluator of a rule until a budget is renewed; without a time, until the budget
    /// is changed. Does nothing if the catalog has changed since revision `seen`: the budget may have been
    /// raised.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skip_targets(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        evaluator: &EvaluatorId,
        until: Option<Timestamp>,
        seen: i64,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            if !raise_from(&mut tx, Some(seen)).await? {
                return Ok(());
            }
            query(LEAVE_OUT)
                .bind(project.as_str())
                .bind(rule.as_str())
                .bind(evaluator.as_str())
                .bind(until.map_or(i64::MAX, Timestamp::as_micros))
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }

    /// Ends the pauses whose time is over. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_pauses(&self, now: Timestamp) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            for sql in [END_OF_RULES, END_OF_EVALUATORS, END_OF_SKIPS] {
                query(sql).bind(now.as_micros()).execute(&mut tx).await?;
            }
        });
        Ok(())
    }
}
