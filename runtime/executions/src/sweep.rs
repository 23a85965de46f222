//! Deletion of the rows of deleted projects.

use perpend_domain::ids::ProjectId;

use super::Ledger;
use crate::Error;
use perpend_db::TenantTable;

/// Attempts per transaction.
const CHUNK: i64 = 500;

/// Every table of this crate with rows of projects. Attempts are deleted first.
const TABLES: &[TenantTable] = &[
    TenantTable::of_project("watches", "project_id, trace_id, observation_id, session_id"),
    TenantTable::of_project("kept_answers", "execution_id, call, request, number"),
    TenantTable::of_project("stored_replies", "project_id, key"),
    TenantTable::of_project("model_calls", "seq"),
    TenantTable::of_project(
        "model_costs",
        "project_id, day, rule_id, evaluator_id, provider, model",
    ),
    TenantTable::of_project("model_reservations", "id"),
    TenantTable::of_project("model_turns", "project_id"),
    TenantTable::of_project("server_run_items", "project_id, run_id, place"),
    TenantTable::of_project("server_runs", "project_id, id"),
    TenantTable::of_project("backfill_executions", "project_id, backfill_id, execution_seq"),
    TenantTable::of_project("backfills", "project_id, id"),
    TenantTable::of_project("backtest_pairs", "project_id, backtest_id, number"),
    TenantTable::of_project("backtests", "project_id, id"),
    TenantTable::of_project("execution_logs", "execution_seq"),
    TenantTable::of_project("executions", "seq"),
    TenantTable::of_project("execution_queues", "id"),
    TenantTable::of_project("rule_counts", "project_id, rule_id, hour, reason"),
    TenantTable::of_project("rule_firings", "project_id, rule_id, fired_at"),
    TenantTable::of_project("rule_schedules", "project_id, rule_id"),
    TenantTable::of_project("rule_failures", "project_id, rule_id"),
];

const ATTEMPTS: &str = "
    DELETE FROM attempts WHERE seq IN
        (SELECT a.seq FROM executions e JOIN attempts a ON a.execution_seq = e.seq
          WHERE e.project_id = $1 LIMIT $2)";

impl Ledger {
    /// Deletes every row of a project in this crate, in steps. Returns the number of deleted rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        let owner = project.as_str();
        let mut n_found = self.pool.repeat(ATTEMPTS, &[owner.into(), CHUNK.into()]).await?;
        for table in TABLES {
            n_found += self.pool.empty(table, owner.into()).await?;
        }
        Ok(n_found)
    }

    /// Names of the tables from which a deleted project is removed.
    pub fn tables_swept() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|tenant_table| tenant_table.table)
    }
}
