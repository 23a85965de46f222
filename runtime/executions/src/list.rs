//! The executions of a project, newest first, and their costs.

use std::collections::HashMap;

use perpend_db::{Sized, query, value_list};
use perpend_domain::evaluation::{EndReason, Execution, ExecutionState};
use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::time::Timestamp;

use super::row::{COLUMNS, ExecutionRow, id_bytes, id_of, state_code};
use crate::{Error, Ledger};

/// `project_id || ''` keeps SQLite from reading all calls of the project.
static COSTS: Sized = Sized::new(|n| {
    format!(
        "SELECT execution_id, SUM(CASE WHEN error_class IS NULL THEN cost END), \
                SUM(CASE WHEN error_class IS NULL AND cost IS NULL THEN 1 ELSE 0 END) \
           FROM model_calls WHERE project_id || '' = $1 AND execution_id IN ({}) GROUP BY execution_id",
        value_list(n, 2)
    )
});

/// Selects executions of a project. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionFilter {
    /// Only in this state.
    pub state: Option<ExecutionState>,
    /// Only with this error class.
    pub class: Option<EndReason>,
    /// Only of this rule.
    pub rule: Option<RuleId>,
    /// Only of this evaluator.
    pub evaluator: Option<EvaluatorId>,
}

impl ExecutionFilter {
    /// Whether an index has the matching executions in order.
    fn is_covered(&self) -> bool {
        let Self { state, class, rule, evaluator } = self;
        matches!(state, None | Some(ExecutionState::Failed))
            && class.is_none()
            && rule.is_none()
            && evaluator.is_none()
    }
}

fn cursor(execution: &Execution) -> Cursor {
    Cursor::new(execution.created_at, execution.made.id.to_string())
}

/// Part of the list in one direction.
struct ListPart {
    /// An index has the failed executions in this order.
    is_failed: bool,
    is_backwards: bool,
    at: i64,
    id: Vec<u8>,
}

impl ListPart {
    fn new(filter: &ExecutionFilter, position: &ListPosition) -> Self {
        let ListPosition { cursor, is_backwards } = position;
        let start = if *is_backwards { i64::MIN } else { i64::MAX };
        let id = cursor.as_ref().and_then(|cursor| ExecutionId::new(&cursor.id).ok());
        Self {
            is_failed: filter.state == Some(ExecutionState::Failed),
            is_backwards: *is_backwards,
            at: cursor.as_ref().map_or(start, |cursor| cursor.at.as_micros()),
            id: id.and_then(|id| id_bytes(&id)).unwrap_or_default().to_vec(),
        }
    }

    fn order(&self) -> &'static str {
        match self.is_backwards {
            true => "created_at, id",
            false => "created_at DESC, id DESC",
        }
    }

    /// Statement for the executions from the position on. `$1` is the project, `$2` and `$3` the position.
    fn select(&self, columns: &str) -> String {
        let state = if self.is_failed { " AND state = 6" } else { "" };
        let sign = if self.is_backwards { '>' } else { '<' };
        let order = self.order();
        format!(
            "SELECT {columns} FROM executions \
             WHERE project_id = $1{state} AND (created_at, id) {sign} ($2, $3) ORDER BY {order}"
        )
    }

    /// Statement for the matching executions among the first ones.
    fn matching(&self) -> String {
        let (tested, order) = (self.select(COLUMNS), self.order());
        format!(
            "SELECT {COLUMNS} FROM ({tested} LIMIT $4) tested \
             WHERE ($5 < 0 OR state = $5) AND ($6 = '' OR error_class = $6) \
               AND ($7 = '' OR rule_id = $7) AND ($8 = '' OR evaluator_id = $8) \
             ORDER BY {order} LIMIT $9"
        )
    }
}

impl Ledger {
    /// Executions tested for one page if no index covers the filter.
    pub const MAX_TESTED: u32 = 10_000;

    /// A page of at most `limit` executions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn executions_from(
        &self,
        project: &ProjectId,
        filter: &ExecutionFilter,
        position: &ListPosition,
        limit: u32,
    ) -> Result<BidirectionalPage<Execution>, Error> {
        let part = ListPart::new(filter, position);
        let n_wanted = i64::from(limit) + 1;
        let is_covered = filter.is_covered();
        let n_tested = if is_covered { n_wanted } else { i64::from(Self::MAX_TESTED) };
        let rows: Vec<ExecutionRow> = query(part.matching())
            .bind(project.as_str())
            .bind(part.at)
            .bind(part.id.clone())
            .bind(n_tested)
            .bind(filter.state.map_or(-1, |state| i64::from(state_code(state))))
            .bind(filter.class.map_or("", EndReason::as_str))
            .bind(filter.rule.as_ref().map_or("", RuleId::as_str))
            .bind(filter.evaluator.as_ref().map_or("", EvaluatorId::as_str))
            .bind(n_wanted)
            .fetch_all(&self.pool)
            .await?;
        let rows = rows.into_iter().map(TryInto::try_into);
        let mut items = rows.collect::<Result<Vec<Execution>, Error>>()?;
        let has_more = (limit as usize) < items.len();
        items.truncate(limit as usize);
        let stopped = match has_more || is_covered {
            true => None,
            false => self.last_tested(project, &part).await?,
        };
        let page = BidirectionalPage::read(items, position, has_more, cursor);
        Ok(BidirectionalPage { stopped, ..page })
    }

    /// The position of the last tested execution, if there may be more.
    async fn last_tested(
        &self,
        project: &ProjectId,
        part: &ListPart,
    ) -> Result<Option<Cursor>, Error> {
        let last: Option<(i64, Vec<u8>)> =
            query(format!("{} LIMIT 1 OFFSET $4", part.select("created_at, id")))
                .bind(project.as_str())
                .bind(part.at)
                .bind(part.id.clone())
                .bind(i64::from(Self::MAX_TESTED) - 1)
                .fetch_optional(&self.pool)
                .await?;
        let cursor = |(at, id): (i64, Vec<u8>)| {
            let id = id_of(&id)?.to_string();
            Ok(Cursor::new(Timestamp::from_micros(at), id))
        };
        last.map(cursor).transpose()
    }

    /// Cost of the model calls of each execution in US dollars; `None` if a price is unknown. Executions
    /// without calls are absent.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execution_costs(
        &self,
        project: &ProjectId,
        executions: &[ExecutionId],
    ) -> Result<HashMap<ExecutionId, Option<f64>>, Error> {
        let ids: Vec<[u8; 16]> = executions.iter().filter_map(id_bytes).collect();
        let mut rest = ids.as_slice();
        let mut costs = HashMap::new();
        while !rest.is_empty() {
            let (sql, n) = COSTS.for_up_to(rest.len().next_power_of_two());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut query = query(sql).bind(project.as_str());
            // The last chunk repeats ids to reuse a prepared statement.
            for id in some.iter().cycle().take(n) {
                query = query.bind(id.to_vec());
            }
            let rows: Vec<(Vec<u8>, Option<f64>, i64)> = query.fetch_all(&self.pool).await?;
            for (id, cost, n_unpriced) in rows {
                let cost = (n_unpriced == 0).then(|| cost.unwrap_or_default());
                costs.insert(id_of(&id)?, cost);
            }
            rest = later;
        }
        Ok(costs)
    }
}
