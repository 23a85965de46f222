//! Queues of executions, one per rule, class and lane.

use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::evaluation::{ExecutionClass, Lane, QueueKind};
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::codes::Coded as _;
use super::row::{class_code, lane_code};
use crate::{Error, Ledger};
use perpend_db::checked;
use perpend_db::{ColumnType, Tx, query};

/// A queue with executions that are not held: waiting or running ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionQueue {
    /// The number of the queue.
    pub id: i64,
    /// The project; `None` if the row of the queue is gone. The remaining executions are still claimed.
    pub project: Option<ProjectId>,
    /// The rule that made the executions; `None` as for `project`.
    pub rule: Option<RuleId>,
    /// Class and lane.
    pub kind: QueueKind,
    /// When the first execution of the queue is due, or the first lease ends.
    pub due_at: Timestamp,
}

/// Key of a queue to which executions are added.
pub(super) type ExecutionQueueKey<'k> = (&'k ProjectId, &'k RuleId, QueueKind);

/// Skips from one queue to the next in the index, so that the cost does not depend on the number of waiting
/// executions.
const OPEN: &str = "
    WITH RECURSIVE open (id) AS (
        SELECT MIN(queue) FROM executions WHERE state < 3
        UNION ALL
        SELECT (SELECT MIN(queue) FROM executions WHERE state < 3 AND queue > open.id)
          FROM open WHERE open.id IS NOT NULL)
    SELECT open.id, q.project_id, q.rule_id, q.class, q.lane,
           (SELECT MIN(due_at) FROM executions WHERE state < 3 AND queue = open.id) AS due_at
      FROM open LEFT JOIN execution_queues q ON q.id = open.id
     WHERE open.id IS NOT NULL";
const FIND: &str = "
    SELECT id FROM execution_queues
     WHERE project_id = $1 AND rule_id = $2 AND class = $3 AND lane = $4";
const ADD: &str = "
    INSERT INTO execution_queues (project_id, rule_id, class, lane) VALUES ($1, $2, $3, $4)
    ON CONFLICT (project_id, rule_id, class, lane) DO NOTHING";

perpend_db::record! {
    struct QueueRow {
        id: i64,
        project_id: Option<String>,
        rule_id: Option<String>,
        class: Option<i16>,
        lane: Option<i16>,
        due_at: Option<i64>,
    }
}

impl TryFrom<QueueRow> for ExecutionQueue {
    type Error = Error;

    fn try_from(row: QueueRow) -> Result<Self, Error> {
        let project = row.project_id.map(|id| checked("queue", &id));
        let rule = row.rule_id.map(|id| checked("queue", &id));
        let class = row.class.map(ExecutionClass::of_code);
        let lane = row.lane.map(Lane::of_code);
        Ok(Self {
            id: row.id,
            project: project.transpose()?,
            rule: rule.transpose()?,
            kind: QueueKind {
                lane: lane.transpose()?.unwrap_or(Lane::Code),
                class: class.transpose()?.unwrap_or(ExecutionClass::Continuous),
            },
            due_at: Timestamp::from_micros(row.due_at.unwrap_or(i64::MAX)),
        })
    }
}

/// The numbers of these queues. Missing queues are inserted.
pub(super) async fn numbers<'k>(
    tx: &mut Tx,
    keys: BTreeSet<ExecutionQueueKey<'k>>,
) -> Result<BTreeMap<ExecutionQueueKey<'k>, i64>, Error> {
    let mut numbers = BTreeMap::new();
    for key in keys {
        let (project, rule, kind) = key;
        let args = [
            project.as_str().into(),
            rule.as_str().into(),
            i64::from(class_code(kind.class)).into(),
            i64::from(lane_code(kind.lane)).into(),
        ];
        let mut found = tx.rows(FIND, &args, &[ColumnType::Int]).await?;
        if found.is_empty() {
            tx.execute(ADD, &args).await?;
            found = tx.rows(FIND, &args, &[ColumnType::Int]).await?;
        }
        let number = found.first().map(|cells| cells[0].int()).transpose()?;
        numbers.insert(key, number.ok_or(Error::Conflict("no such queue"))?);
    }
    Ok(numbers)
}

impl Ledger {
    /// All queues with executions that are not held, including those without a due execution. Crosses
    /// tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execution_queues(&self) -> Result<Vec<ExecutionQueue>, Error> {
        let rows: Vec<QueueRow> = query(OPEN).fetch_all(&self.pool).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }
}
