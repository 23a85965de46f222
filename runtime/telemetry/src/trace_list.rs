//! Lists of traces by page.
//!
//! A page costs what its rows cost: the numbers of the traces come out of an index that stands in the
//! order of the list, from its nearer end, and only the traces of the page are read. What no index can
//! tell is tested in memory.

use perpend_domain::list::Numbered;
use std::collections::HashMap;

use perpend_domain::filter::{Condition, Filter, Test, TextOp};
use perpend_domain::ids::{ObservationId, ProjectId};
use perpend_domain::score::Score;

use super::cells::{COST_COLUMNS, SCORE_COLUMNS, TraceCells, is_about};
use super::read::{LIST, Rest, trace_column};
use super::refresh;
use super::row::{READ, READ_TRACE, TraceRow};
use super::search::Search;
use super::trace_marks::{Marked, asks_root, push_prefilter};
use crate::{Error, Telemetry};
use perpend_domain::telemetry::{StoredTrace, TestedTraces, TraceOrder, TraceQuery};
use perpend_sql::{Arg, Expr, Sql, query_scalar, value_list};

/// Columns with an index of their own in the order of time, the one that leaves least first.
const LEADS: [&str; 7] = [
    "id",
    "sessionId",
    "userId",
    "name",
    "release",
    "version",
    "environment",
];
/// A mark leaves less than a name does, as a rule.
const MARKS_BEFORE: usize = 3;
/// Traces looked at in one go where a part of the filter is tested in memory.
const SCAN: usize = 500;
/// So few are sorted rather than looked for in the order of time.
const FEW: u64 = 5_000;
/// From so many traces on, the way to a page is cut short.
const FAR: u64 = 200;

const fn order_column(order: TraceOrder) -> &'static str {
    match order {
        TraceOrder::Timestamp => "t.started_at",
        TraceOrder::Id => "t.trace_id",
        TraceOrder::Name => "COALESCE(t.name, '')",
        TraceOrder::UserId => "COALESCE(t.user_id, '')",
        TraceOrder::SessionId => "COALESCE(t.session_id, '')",
        TraceOrder::Release => "COALESCE(t.release, '')",
        TraceOrder::Version => "COALESCE(t.version, '')",
        TraceOrder::Public => "t.is_public",
        TraceOrder::Latency => "t.latency_us",
        TraceOrder::TotalCost => "t.total_cost",
        // As in the index.
        TraceOrder::TotalTokens => "COALESCE(t.total_tokens, 0)",
        TraceOrder::ErrorCount => "t.n_error",
    }
}

/// Traces whose steps are looked through for a text.
const MAX_SEARCHED: u64 = 100_000;
const SEARCH_TOO_WIDE: &str = "the column text is searched in at most 100,000 traces: add conditions that leave fewer, such as on timestamp";

/// A column out of the reach of its index: SQLite has no statistics and might choose it.
fn unled(id: &str) -> Option<Expr> {
    Some(match id {
        "name" => Expr::NullableText("+t.name"),
        "environment" => Expr::Text("+t.environment"),
        "userId" => Expr::NullableText("+t.user_id"),
        "sessionId" => Expr::NullableText("+t.session_id"),
        "version" => Expr::NullableText("+t.version"),
        "release" => Expr::NullableText("+t.release"),
        other => return trace_column(other),
    })
}

/// Whether the test leaves the rows of one value.
fn is_one_value(test: &Test) -> bool {
    match test {
        Test::Text(TextOp::Equal, value) => !value.is_empty(),
        Test::AnyOf(values) => matches!(values.as_slice(), [one] if !one.is_empty()),
        _ => false,
    }
}

/// The condition that leaves least, as far as one can tell without looking: its rank and its place.
fn lead(filter: &Filter) -> Option<(usize, usize)> {
    let rank = |condition: &Condition| {
        if let Some(marked) = Marked::of(condition) {
            return marked.lead().map(|_| MARKS_BEFORE);
        }
        let column = condition.column?;
        let place = LEADS.iter().position(|id| column.id == *id)?;
        let is_behind = usize::from(place >= MARKS_BEFORE);
        is_one_value(&condition.test).then_some(place + is_behind)
    };
    let conditions = filter.conditions.iter().enumerate();
    conditions
        .filter_map(|(at, condition)| Some((rank(condition)?, at)))
        .min()
}

/// How the rows of a list are found.
pub(super) struct Shape {
    /// `FROM ... WHERE ...`, without the traces where an index beside them tells all.
    pub(super) from: String,
    /// The same with the traces as `t`.
    pub(super) from_traces: String,
    pub(super) args: Vec<Arg<'static>>,
    rest: Rest,
    /// The number of a trace.
    number: &'static str,
    /// Its start.
    pub(super) start: &'static str,
    has_lead: bool,
}

impl Shape {
    /// `in_time`: by no index but those in the order of time.
    pub(super) fn new(
        project: &ProjectId,
        tenant: i64,
        query: &TraceQuery,
        is_postgres: bool,
        in_time: bool,
    ) -> Self {
        let filter: &Filter = &query.filter;
        let lead = lead(filter);
        let lead_at = lead.map(|(_, at)| at);
        let mark = match lead {
            Some((MARKS_BEFORE, at)) => Marked::of(&filter.conditions[at]),
            _ => None,
        };
        let lead_mark = mark.as_ref().and_then(Marked::lead);
        let (start, number) = match lead_mark {
            Some(_) => ("d.started_at", "d.trace"),
            None => ("t.started_at", "t.number"),
        };
        let mut sql = Sql::default();
        let of_tenant = sql.bind(tenant.into());
        let hides = !is_postgres && (lead.is_some() || in_time);
        let mut rest = Vec::new();
        let mut reads_trace = false;
        for (at, condition) in filter.conditions.iter().enumerate() {
            let is_lead = Some(at) == lead_at;
            if let Some(marked) = Marked::of(condition) {
                if !is_lead || marked.marks.len() > 1 {
                    marked.push(&mut sql, &of_tenant, (start, number));
                }
                continue;
            }
            let is_time = condition
                .column
                .is_some_and(|column| column.id == "timestamp");
            reads_trace |= !is_time;
            let column = |id: &str| match id {
                "timestamp" => Some(Expr::Time(start)),
                id if hides && !is_lead => unled(id),
                id => trace_column(id),
            };
            if !sql.condition(condition, column, is_postgres) {
                push_prefilter(&mut sql, condition, is_postgres);
                push_scored(&mut sql, condition, project);
                rest.push(condition.clone());
            }
        }
        let conditions = std::mem::take(&mut sql.text);
        let from = match lead_mark {
            Some(mark) => {
                let mark = sql.bind_text(mark);
                let here = format!("WHERE d.tenant = {of_tenant} AND d.mark = {mark}");
                (
                    format!(" FROM trace_marks d {here}"),
                    format!(" FROM trace_marks d JOIN traces t ON t.number = d.trace {here}"),
                )
            }
            None => {
                let from = format!(" FROM traces t WHERE t.tenant = {of_tenant}");
                (from.clone(), from)
            }
        };
        let from_traces = from.1 + &conditions;
        Self {
            from: match reads_trace {
                true => from_traces.clone(),
                false => from.0 + &conditions,
            },
            from_traces,
            args: sql.args,
            rest: Rest::new(rest),
            number,
            start,
            has_lead: lead.is_some(),
        }
    }

    /// Whether nothing is left to be tested in memory.
    pub(super) fn is_told_by_columns(&self) -> bool {
        self.rest.is_empty()
    }

    /// What follows `ORDER BY`. `sorted`: not in the order of an index.
    fn order(&self, query: &TraceQuery, is_reversed: bool, sorted: bool) -> String {
        let [direction, of_ids] = match (query.ascending != is_reversed, is_reversed) {
            (true, false) => ["ASC", "ASC"],
            (true, true) => ["ASC", "DESC"],
            (false, false) => ["DESC", "ASC"],
            (false, true) => ["DESC", "DESC"],
        };
        let column = match query.order {
            TraceOrder::Timestamp if sorted => format!("+{}", self.start),
            TraceOrder::Timestamp => self.start.to_owned(),
            other => order_column(other).to_owned(),
        };
        if query.order.is_figure() {
            // One index serves both directions, and both ends of the list.
            return format!("{column} {direction}, t.started_at {direction}, t.number {direction}");
        }
        format!("{column} {direction}, t.trace_id {of_ids}")
    }
}

/// The statement of a list in its order, as SQLite gets it.
#[cfg(test)]
pub(super) fn ordered(project: &ProjectId, tenant: i64, query: &TraceQuery) -> String {
    let shape = Shape::new(project, tenant, query, false, true);
    let order = shape.order(query, false, false);
    let (number, from) = (shape.number, shape.from_traces);
    format!("SELECT {number}{from} ORDER BY {order} LIMIT 50")
}

/// Appends what every trace meets that has the score a condition asks for.
fn push_scored(sql: &mut Sql, condition: &Condition, project: &ProjectId) {
    let needs_score = match &condition.test {
        Test::MemberNumber(..) | Test::MemberIs(..) => true,
        Test::CategoryAnyOf(_, values) => values.iter().all(|value| !value.is_empty()),
        _ => false,
    };
    let is_score = condition
        .column
        .is_some_and(|column| SCORE_COLUMNS.contains(&column.id));
    if let (true, true, Some(name)) = (needs_score, is_score, condition.test.key()) {
        let (project, name) = (sql.bind_text(project.as_str()), sql.bind_text(name));
        sql.push(&format!(
            " AND t.trace_id IN (SELECT s.trace_id FROM scores s \
             WHERE s.project_id = {project} AND s.name = {name})"
        ));
    }
}

impl Telemetry {
    /// A page of traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
    ) -> Result<Numbered<StoredTrace>, Error> {
        // Only a search opens the content of every step.
        let is_search = |condition: &Condition| Search::of(condition).is_some();
        let max = match query.filter.conditions.iter().any(is_search) {
            true => MAX_SEARCHED,
            false => u64::MAX,
        };
        let tested = self.traces_tested(project, query, max).await?;
        match tested.n_left {
            0 => Ok(tested.found),
            _ => Err(Error::Conflict(SEARCH_TOO_WIDE)),
        }
    }

    /// A page of traces, where only so many of those that no index can tell are tested.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_tested(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        max_tested: u64,
    ) -> Result<TestedTraces, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(TestedTraces {
                found: Numbered::empty(),
                n_left: 0,
            });
        };
        let mut n_left = 0;
        refresh::of_tenant(&self.pool, tenant).await?;
        let limit = u64::from(query.limit);
        let skip = u64::from(query.page.max(1) - 1) * limit;
        let shape = Shape::new(project, tenant, query, self.pool.is_postgres(), false);
        let (numbers, n_total) = if shape.rest.is_empty() {
            let count = format!("SELECT COUNT(*){}", shape.from);
            let n_total = self.count(&count, &shape.args).await?;
            let in_time = Shape::new(project, tenant, query, self.pool.is_postgres(), true);
            let shape = match shape.has_lead || n_total <= FEW {
                true => shape,
                false => in_time,
            };
            (self.page_of(&shape, query, skip, n_total).await?, n_total)
        } else {
            let max = usize::try_from(max_tested).unwrap_or(usize::MAX);
            let (matching, left) = self.scan_traces(project, query, &shape, max).await?;
            n_left = left;
            let n_total = matching.len() as u64;
            let page = matching.into_iter().skip(skip as usize);
            (page.take(limit as usize).collect(), n_total)
        };
        let mut found = self.numbered_traces(&numbers).await?;
        if query.with_content {
            self.add_roots(&mut found).await?;
        }
        if query.with_observation_ids {
            self.add_ids(&mut found).await?;
        }
        Ok(TestedTraces {
            found: Numbered {
                items: found.into_iter().map(|(_, stored)| stored).collect(),
                n_total,
            },
            n_left,
        })
    }

    /// Numbers of the traces of one page, read from the nearer end of the list.
    async fn page_of(
        &self,
        shape: &Shape,
        query: &TraceQuery,
        skip: u64,
        n_total: u64,
    ) -> Result<Vec<i64>, Error> {
        let take = n_total.saturating_sub(skip).min(u64::from(query.limit));
        if take == 0 {
            return Ok(Vec::new());
        }
        let behind = n_total - skip - take;
        let is_reversed = behind < skip;
        let is_sorted = !self.pool.is_postgres() && !shape.has_lead && n_total <= FEW;
        let mut sql = Sql {
            text: format!("SELECT {}{}", shape.number, shape.from_traces),
            args: shape.args.clone(),
        };
        let mut skip = skip.min(behind);
        if query.order == TraceOrder::Timestamp && skip >= FAR {
            let ascends = query.ascending != is_reversed;
            let Some((start, n_before)) = self.start_at(shape, ascends, skip).await? else {
                return Ok(Vec::new());
            };
            let start = sql.bind(start.into());
            let sign = if ascends { ">=" } else { "<=" };
            sql.push(&format!(" AND {} {sign} {start}", shape.start));
            skip = skip.saturating_sub(n_before);
        }
        let order = shape.order(query, is_reversed, is_sorted);
        sql.push(&format!(" ORDER BY {order} LIMIT {take} OFFSET {skip}"));
        let mut numbers = self.trace_numbers(&sql.text, &sql.args).await?;
        if is_reversed {
            numbers.reverse();
        }
        Ok(numbers)
    }

    /// The start of the trace at a place in the order of time, and how many traces stand before all that
    /// begin then. Both come out of the index, however far the place is.
    async fn start_at(
        &self,
        shape: &Shape,
        ascends: bool,
        skip: u64,
    ) -> Result<Option<(i64, u64)>, Error> {
        let (column, from) = (shape.start, &shape.from);
        let (direction, sign) = if ascends { ("ASC", "<") } else { ("DESC", ">") };
        let at =
            format!("SELECT {column}{from} ORDER BY {column} {direction} LIMIT 1 OFFSET {skip}");
        let found = self.trace_numbers(&at, &shape.args).await?;
        let Some(start) = found.first().copied() else {
            return Ok(None);
        };
        let mut before = Sql {
            text: format!("SELECT COUNT(*){from}"),
            args: shape.args.clone(),
        };
        let place = before.bind(start.into());
        before.push(&format!(" AND {column} {sign} {place}"));
        let n_before = self.count(&before.text, &before.args).await?;
        Ok(Some((start, n_before)))
    }

    async fn trace_numbers(&self, sql: &str, args: &[Arg<'static>]) -> Result<Vec<i64>, Error> {
        query_scalar(sql.to_owned())
            .bind_all(args)
            .fetch_all(&self.pool)
            .await
    }

    /// Numbers of the traces that pass what is tested in memory, in order, and how many were not tested.
    /// Only numbers are held, and they are read at once: a filter over a large project costs time in step
    /// with its size, and little memory.
    async fn scan_traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        shape: &Shape,
        max: usize,
    ) -> Result<(Vec<i64>, u64), Error> {
        let order = shape.order(query, false, false);
        let select = format!(
            "SELECT {}{} ORDER BY {order}",
            shape.number, shape.from_traces
        );
        let mut numbers = self.trace_numbers(&select, &shape.args).await?;
        let n_left = numbers.len().saturating_sub(max) as u64;
        numbers.truncate(max);
        let mut searches = Vec::new();
        let mut others = Vec::new();
        for condition in shape.rest.conditions() {
            match Search::of(condition) {
                Some(search) => searches.push(search),
                None => others.push(condition.clone()),
            }
        }
        let rest = Rest::new(others);
        let reads_root = rest.conditions().iter().any(asks_root);
        let mut matching = Vec::new();
        for chunk in numbers.chunks(SCAN) {
            let mut traces = self.numbered_traces(chunk).await?;
            if reads_root {
                self.add_roots(&mut traces).await?;
            }
            if rest.reads(COST_COLUMNS) {
                self.add_part_costs(&mut traces).await?;
            }
            let scores = if rest.reads_scores() {
                let ids = traces.iter().map(|(_, stored)| &stored.trace.id).collect();
                self.scores_for(project, ids).await?
            } else {
                HashMap::new()
            };
            let mut passing = Vec::new();
            for (number, stored) in &traces {
                let all = scores.get(&stored.trace.id).map_or(&[][..], Vec::as_slice);
                let own = all.iter().filter(|score| is_about(score, None));
                let own: Vec<Score> = own.cloned().collect();
                let cells = TraceCells {
                    stored,
                    scores: &own,
                };
                if rest.holds(&cells) {
                    passing.push((*number, stored));
                }
            }
            if !searches.is_empty() {
                // Last, because it looks at contents.
                let found = self.searched(&passing, &searches).await?;
                passing.retain(|(number, _)| found.contains(number));
            }
            matching.extend(passing.iter().map(|(number, _)| *number));
        }
        Ok((matching, n_left))
    }

    /// Those of these traces that still stand, in the order of the numbers.
    async fn numbered_traces(&self, numbers: &[i64]) -> Result<Vec<(i64, StoredTrace)>, Error> {
        let mut found = HashMap::new();
        for chunk in numbers.chunks(LIST) {
            let sql = format!(
                "SELECT {READ_TRACE} FROM traces t WHERE t.number IN ({})",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> = chunk.iter().map(|number| (*number).into()).collect();
            for row in self.pool.select::<TraceRow>(&sql, &args).await? {
                found.insert(row.number, row.stored()?);
            }
        }
        Ok(numbers
            .iter()
            .filter_map(|number| Some((*number, found.remove(number)?)))
            .collect())
    }

    /// One trace, completed with the content of its root when asked for.
    pub(super) async fn one_trace(
        &self,
        row: TraceRow,
        with_content: bool,
    ) -> Result<StoredTrace, Error> {
        let mut found = [(row.number, row.stored()?)];
        if with_content {
            self.add_roots(&mut found).await?;
        }
        let [(_, stored)] = found;
        Ok(stored)
    }

    /// Completes traces with the content of their roots.
    pub(super) async fn add_roots(&self, traces: &mut [(i64, StoredTrace)]) -> Result<(), Error> {
        for chunk in traces.chunks_mut(LIST) {
            let mut args: Vec<Arg<'static>> = Vec::new();
            let mut places = Vec::new();
            for (number, stored) in chunk.iter() {
                if let Some(root) = &stored.trace.root {
                    args.push((*number).into());
                    args.push(Arg::Text(Some(root.as_str().to_owned().into())));
                    let n = args.len();
                    places.push(format!("(CAST(${} AS BIGINT), CAST(${n} AS TEXT))", n - 1));
                }
            }
            if places.is_empty() {
                continue;
            }
            let sql = format!(
                "WITH roots (trace, id) AS (VALUES {}) SELECT {READ} FROM roots r \
                 JOIN traces t ON t.number = r.trace JOIN observations o ON o.trace = r.trace AND o.id = r.id",
                places.join(", ")
            );
            let rows = self.pool.select(&sql, &args).await?;
            let roots = self.stored(&rows, true).await?;
            let by_trace: HashMap<i64, _> = rows.iter().map(|row| row.trace).zip(roots).collect();
            for (number, stored) in chunk {
                if let Some(root) = by_trace.get(number) {
                    stored.trace.add_root_content(&root.observation.content);
                }
            }
        }
        Ok(())
    }

    /// Completes traces with what their input and their output cost. As in the whole cost, a call that two
    /// instrumentations told counts once.
    async fn add_part_costs(&self, traces: &mut [(i64, StoredTrace)]) -> Result<(), Error> {
        for chunk in traces.chunks_mut(LIST) {
            let sql = format!(
                "SELECT o.trace, o.id, o.input_cost, o.output_cost FROM observations o \
                 WHERE o.trace IN ({}) AND (o.input_cost IS NOT NULL OR o.output_cost IS NOT NULL) \
                 ORDER BY o.trace, o.id",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> =
                chunk.iter().map(|(number, _)| (*number).into()).collect();
            type Costs = (i64, String, Option<f64>, Option<f64>);
            let rows: Vec<Costs> = self.pool.select(&sql, &args).await?;
            let mut by_number: HashMap<i64, &mut StoredTrace> = chunk
                .iter_mut()
                .map(|(number, stored)| (*number, stored))
                .collect();
            for (number, id, input, output) in rows {
                let Some(stored) = by_number.get_mut(&number) else {
                    continue;
                };
                let duplicates = &stored.trace.duplicates;
                if duplicates.iter().any(|(twice, _)| twice.as_str() == id) {
                    continue;
                }
                for (sum, cost) in stored.part_costs.iter_mut().zip([input, output]) {
                    if let Some(cost) = cost {
                        *sum = Some(sum.unwrap_or(0.0) + cost);
                    }
                }
            }
        }
        Ok(())
    }

    /// Completes traces with the ids of their observations, by start.
    async fn add_ids(&self, traces: &mut [(i64, StoredTrace)]) -> Result<(), Error> {
        for chunk in traces.chunks_mut(LIST) {
            let sql = format!(
                "SELECT o.trace, o.id FROM observations o WHERE o.trace IN ({}) \
                 ORDER BY o.trace, o.started_at, o.id",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> =
                chunk.iter().map(|(number, _)| (*number).into()).collect();
            let rows: Vec<(i64, String)> = self.pool.select(&sql, &args).await?;
            let mut by_trace: HashMap<i64, Vec<ObservationId>> = HashMap::new();
            for (number, id) in rows {
                let id = perpend_sql::checked("observation", &id)?;
                by_trace.entry(number).or_default().push(id);
            }
            for (number, stored) in chunk {
                stored.observation_ids = by_trace.remove(number).unwrap_or_default();
            }
        }
        Ok(())
    }
}
