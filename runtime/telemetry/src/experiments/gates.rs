//! Outcomes of gates of runs.

use perpend_domain::experiment::GateRecord;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{Cursor, Page};
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::{Arg, Sql, from_json, to_json};

/// Idempotent: a gate is written once.
const INSERT: &str = "
    INSERT INTO experiment_gates (project_id, run_id, id, outcome, report, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project_id, run_id, id) DO NOTHING";

perpend_db::record! {
    struct GateRow {
        id: String,
        run_id: String,
        outcome: String,
        report: String,
        created_at: i64,
    }
}

impl TryFrom<GateRow> for GateRecord {
    type Error = Error;

    fn try_from(row: GateRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            run_id: row.run_id,
            outcome: row.outcome,
            report: from_json("gate", &row.report)?,
            created_at: Timestamp::from_micros(row.created_at),
        })
    }
}

impl Telemetry {
    /// Stores the outcome of a gate.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn write_gate(&self, project: &ProjectId, gate: &GateRecord) -> Result<(), Error> {
        let report = to_json("gate", &gate.report)?;
        let args: [Arg<'_>; 6] = [
            project.as_str().into(),
            gate.run_id.as_str().into(),
            gate.id.as_str().into(),
            gate.outcome.as_str().into(),
            report.as_str().into(),
            gate.created_at.as_micros().into(),
        ];
        self.pool.change(INSERT, &args).await?;
        Ok(())
    }

    /// A page of the gates of a run, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn gates(
        &self,
        project: &ProjectId,
        run_id: &str,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<GateRecord>, Error> {
        let mut sql = Sql::default();
        sql.bind_text(project.as_str());
        sql.bind_text(run_id);
        sql.push(
            "SELECT id, run_id, outcome, report, created_at FROM experiment_gates
              WHERE project_id = $1 AND run_id = $2",
        );
        if let Some(after) = after {
            let at = sql.bind(after.at.as_micros().into());
            let id = sql.bind_text(&after.id);
            sql.push(&format!(" AND (created_at, id) < ({at}, {id})"));
        }
        sql.push(&format!(" ORDER BY created_at DESC, id DESC LIMIT {}", u64::from(limit) + 1));
        let rows: Vec<GateRow> = self.pool.select(&sql.text, &sql.args).await?;
        let gates = rows.into_iter().map(GateRecord::try_from).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(gates, limit, |gate| Cursor::new(gate.created_at, gate.id.clone())))
    }
}
