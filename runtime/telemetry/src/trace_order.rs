//! The order of a list of traces, and reading it from a cursor in either direction.
//!
//! Most lists are one run of rows in the order of an index. A list by a score has two runs: the traces with
//! the score, followed by the others by time.

use perpend_db::{Arg, Sql, query_scalar};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{Cursor, OrderValue};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};

use super::read::BOOKMARKED;
use super::score_lookup::OWN_NUMBERS;
use super::trace_shape::ListShape;
use crate::{Error, Telemetry};

/// A column of the order.
#[derive(Clone, Debug)]
struct OrderKey {
    column: String,
    ascends: bool,
}

impl OrderKey {
    fn new(column: impl Into<String>, ascends: bool) -> Self {
        let column = column.into();
        Self { column, ascends }
    }

    const fn sign(&self, backwards: bool) -> &'static str {
        match self.ascends != backwards {
            true => ">",
            false => "<",
        }
    }
}

/// Rows in one order.
#[derive(Clone, Debug)]
struct OrderedRun {
    /// `FROM ... WHERE ...`
    from: String,
    /// Two, or three if a figure precedes the time. The last one is unique among rows with equal other keys.
    keys: Vec<OrderKey>,
}

impl OrderedRun {
    fn order(&self, backwards: bool) -> String {
        let keys = self.keys.iter().map(|key| {
            let direction = match key.ascends != backwards {
                true => "ASC",
                false => "DESC",
            };
            format!("{} {direction}", key.column)
        });
        format!(" ORDER BY {}", keys.collect::<Vec<_>>().join(", "))
    }

    /// Appends the condition for the rows after the cursor.
    fn beyond(&self, cursor: &Cursor, backwards: bool, sql: &mut Sql) {
        let at = sql.bind(cursor.at.as_micros().into());
        let condition = match (self.keys.as_slice(), cursor.value) {
            ([first, second, third], Some(value)) => {
                let figure = sql.bind(match value {
                    OrderValue::Whole(value) => value.into(),
                    OrderValue::Real(value) => value.into(),
                });
                if first.column == TOKENS {
                    // SQLite does not use an index on an expression for a row comparison.
                    let sign = first.sign(backwards);
                    sql.push(&format!(" AND {TOKENS} {sign}= {figure}"));
                }
                let tie = match cursor.id.parse::<i64>() {
                    Ok(number) if third.column == NUMBER => sql.bind(number.into()),
                    _ => sql.bind_text(&cursor.id),
                };
                format!(
                    " AND ({}, {}, {}) {} ({figure}, {at}, {tie})",
                    first.column,
                    second.column,
                    third.column,
                    first.sign(backwards)
                )
            }
            ([first, second], _) => {
                let tie = sql.bind_text(&cursor.id);
                let [one, two] = [first.sign(backwards), second.sign(backwards)];
                let (first, second) = (&first.column, &second.column);
                format!(" AND {first} {one}= {at} AND ({first} {one} {at} OR {second} {two} {tie})")
            }
            _ => String::new(),
        };
        sql.push(&condition);
    }
}

/// The same expression as in its index.
const TOKENS: &str = "COALESCE(t.total_tokens, 0)";
/// The number of a trace, the tie breaker of equal figures.
const NUMBER: &str = "t.number";

const fn column_of(order: &TraceOrder) -> &'static str {
    match order {
        TraceOrder::Timestamp => "t.started_at",
        TraceOrder::Id => "t.trace_id",
        TraceOrder::Name => "COALESCE(t.name, '')",
        TraceOrder::UserId => "COALESCE(t.user_id, '')",
        TraceOrder::SessionId => "COALESCE(t.session_id, '')",
        TraceOrder::Release => "COALESCE(t.release, '')",
        TraceOrder::Version => "COALESCE(t.version, '')",
        TraceOrder::Public => "t.is_public",
        TraceOrder::Bookmarked => BOOKMARKED,
        TraceOrder::Latency => "t.latency_us",
        TraceOrder::TotalCost => "t.total_cost",
        TraceOrder::TotalTokens => TOKENS,
        TraceOrder::ErrorCount => "t.n_error",
        TraceOrder::Score(_) => "s.number",
    }
}

/// The list of traces in its order.
pub(super) struct OrderedList {
    runs: Vec<OrderedRun>,
    args: Vec<Arg<'static>>,
    number: &'static str,
}

/// Selects the rows of a list to read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListRange<'p> {
    /// Start of the read; without it the first row, or the last row backwards.
    pub(super) from: Option<&'p Cursor>,
    pub(super) backwards: bool,
    /// Number of rows to skip.
    pub(super) skip: u64,
    /// Maximum number of rows; `None` for all.
    pub(super) limit: Option<u64>,
}

impl OrderedList {
    /// `sorted`: whether no index has the order.
    pub(super) fn new(
        shape: &ListShape,
        project: &ProjectId,
        query: &TraceQuery,
        sorted: bool,
    ) -> Self {
        let ascends = query.ascending;
        if let TraceOrder::Score(name) = &query.order {
            return Self::by_score(shape, project, name, ascends);
        }
        let column = match query.order {
            TraceOrder::Timestamp if sorted => format!("+{}", shape.start),
            TraceOrder::Timestamp => shape.start.to_owned(),
            ref other => column_of(other).to_owned(),
        };
        let keys = match query.order.is_figure() {
            // One index serves both directions and both ends of the list.
            true => vec![
                OrderKey::new(column, ascends),
                OrderKey::new("t.started_at", ascends),
                OrderKey::new(NUMBER, ascends),
            ],
            // Most rows have an equal value.
            false if query.order == TraceOrder::Bookmarked => vec![
                OrderKey::new(column, ascends),
                OrderKey::new(shape.start, ascends),
                OrderKey::new("t.trace_id", true),
            ],
            false => vec![OrderKey::new(column, ascends), OrderKey::new("t.trace_id", true)],
        };
        Self {
            runs: vec![OrderedRun { from: shape.from_traces.clone(), keys }],
            args: shape.args.clone(),
            number: shape.number,
        }
    }

    fn by_score(shape: &ListShape, project: &ProjectId, name: &str, ascends: bool) -> Self {
        let mut sql = Sql { text: String::new(), args: shape.args.clone() };
        let (project, name) = (sql.bind_text(project.as_str()), sql.bind_text(name));
        let (traces, conditions) = (&shape.from_traces, &shape.conditions);
        let sign = if ascends { "<" } else { ">" };
        // The index from a trace to its scores is for the subqueries; a computed name makes the other index
        // unusable for them.
        let scored = format!(
            " FROM scores s CROSS JOIN traces t WHERE s.project_id = {project} AND s.name = {name} AND {OWN_NUMBERS} \
             AND t.trace_id = s.trace_id AND {conditions} AND NOT EXISTS (SELECT 1 FROM scores b \
             WHERE b.project_id = {project} AND b.trace_id = s.trace_id AND (b.name || '') = {name} \
             AND b.observation_id IS NULL AND b.number IS NOT NULL \
             AND (b.number, b.timestamp, b.id) {sign} (s.number, s.timestamp, s.id))"
        );
        let others = format!(
            "{traces} AND NOT EXISTS (SELECT 1 FROM scores s WHERE s.project_id = {project} \
             AND s.trace_id = t.trace_id AND (s.name || '') = {name} AND {OWN_NUMBERS})"
        );
        let by_number = ["s.number", "s.timestamp", "s.trace_id"];
        Self {
            runs: vec![
                OrderedRun {
                    from: scored,
                    keys: by_number.map(|column| OrderKey::new(column, ascends)).to_vec(),
                },
                OrderedRun {
                    from: others,
                    keys: vec![
                        OrderKey::new(shape.start, false),
                        OrderKey::new("t.trace_id", true),
                    ],
                },
            ],
            args: sql.args,
            number: NUMBER,
        }
    }

    /// The run of the cursor.
    fn run_of(&self, cursor: &Cursor) -> usize {
        match cursor.value {
            Some(_) => 0,
            None => self.runs.len() - 1,
        }
    }

    pub(super) fn is_one_run(&self) -> bool {
        self.runs.len() == 1
    }

    /// The statement that reads the list from its start.
    #[cfg(test)]
    pub(super) fn first_rows(&self, from: Option<&Cursor>) -> Vec<String> {
        let statement = |run: &OrderedRun| {
            let mut sql = self.select(run);
            if let Some(cursor) = from {
                run.beyond(cursor, false, &mut sql);
            }
            format!("{}{} LIMIT 50", sql.text, run.order(false))
        };
        self.runs.iter().map(statement).collect()
    }

    fn select(&self, run: &OrderedRun) -> Sql {
        Sql { text: format!("SELECT {}{}", self.number, run.from), args: self.args.clone() }
    }

    /// `FROM ... WHERE ...` of the rows of a run.
    fn rows(&self, run: &OrderedRun) -> Sql {
        Sql { text: run.from.clone(), args: self.args.clone() }
    }

    /// The list with one more condition.
    pub(super) fn narrowed(mut self, condition: impl FnOnce(&mut Sql)) -> Self {
        let mut sql = Sql { text: String::new(), args: std::mem::take(&mut self.args) };
        condition(&mut sql);
        self.args = sql.args;
        for run in &mut self.runs {
            run.from.push_str(&sql.text);
        }
        self
    }
}

impl Telemetry {
    /// The numbers of a part of a list, in the order of the read.
    pub(super) async fn numbers_of(
        &self,
        list: &OrderedList,
        part: ListRange<'_>,
    ) -> Result<Vec<i64>, Error> {
        let n_runs = list.runs.len();
        let first = match (part.from, part.backwards) {
            (Some(cursor), _) => list.run_of(cursor),
            (None, false) => 0,
            (None, true) => n_runs - 1,
        };
        let ways: Vec<usize> = match part.backwards {
            false => (first..n_runs).collect(),
            true => (0..=first).rev().collect(),
        };
        let mut numbers: Vec<i64> = Vec::new();
        let mut skip = part.skip;
        for (nth, at) in ways.iter().enumerate() {
            let run = &list.runs[*at];
            let mut sql = list.select(run);
            if let Some(cursor) = part.from.filter(|_| nth == 0) {
                run.beyond(cursor, part.backwards, &mut sql);
            }
            sql.push(&run.order(part.backwards));
            if let Some(limit) = part.limit {
                let left = limit - numbers.len() as u64;
                sql.push(&format!(" LIMIT {left} OFFSET {skip}"));
            }
            let found: Vec<i64> =
                query_scalar(sql.text).bind_all(&sql.args).fetch_all(&self.pool).await?;
            let is_last = nth + 1 == ways.len();
            if found.is_empty() && 0 < skip && !is_last {
                // All rows of the run were skipped.
                let rows = list.rows(run);
                skip -= self.counted(&rows, None).await?.n.min(skip);
            } else {
                skip = 0;
            }
            numbers.extend(found);
            if part.limit.is_some_and(|limit| limit <= numbers.len() as u64) {
                break;
            }
        }
        Ok(numbers)
    }

    /// Number of rows after the cursor, or of all rows, counted up to `max`.
    pub(super) async fn n_beyond(
        &self,
        list: &OrderedList,
        (cursor, backwards): (Option<&Cursor>, bool),
        max: Option<u64>,
    ) -> Result<BoundedCount, Error> {
        let at = cursor.map(|cursor| list.run_of(cursor));
        let runs = match (at, backwards) {
            (None, _) => 0..list.runs.len(),
            (Some(at), true) => 0..at + 1,
            (Some(at), false) => at..list.runs.len(),
        };
        let mut all = BoundedCount::default();
        for nth in runs {
            let mut rows = list.rows(&list.runs[nth]);
            if let Some(cursor) = cursor.filter(|_| Some(nth) == at) {
                list.runs[nth].beyond(cursor, backwards, &mut rows);
            }
            let some = self.counted(&rows, max).await?;
            all.n += some.n;
            all.is_more |= some.is_more;
        }
        Ok(all)
    }

    /// Number of rows, counted up to `max`. `rows`: `FROM ... WHERE ...`.
    pub(super) async fn counted(
        &self,
        rows: &Sql,
        max: Option<u64>,
    ) -> Result<BoundedCount, Error> {
        let from = &rows.text;
        let sql = match max {
            None => format!("SELECT COUNT(*){from}"),
            Some(max) => format!("SELECT COUNT(*) FROM (SELECT 1{from} LIMIT {}) c", max + 1),
        };
        let n = self.count(&sql, &rows.args).await?;
        let most = max.unwrap_or(u64::MAX);
        Ok(BoundedCount { n: n.min(most), is_more: most < n })
    }

    /// The cursor of a trace in the order of a list; `None` for an order without cursors, and for a deleted
    /// trace.
    pub(super) async fn cursor_of(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        number: i64,
    ) -> Result<Option<Cursor>, Error> {
        let column = column_of(&query.order);
        let of_figure =
            format!("SELECT {column}, t.started_at, t.number FROM traces t WHERE t.number = $1");
        let cursor = |value, at, id: String| Cursor {
            value: Some(value),
            ..Cursor::new(Timestamp::from_micros(at), id)
        };
        match &query.order {
            TraceOrder::Timestamp => self.cursor_in_time(number).await,
            TraceOrder::Latency | TraceOrder::TotalTokens | TraceOrder::ErrorCount => {
                let rows: Vec<(i64, i64, i64)> =
                    self.pool.select(&of_figure, &[number.into()]).await?;
                let first = rows.first();
                Ok(first.map(|(whole, at, tie)| {
                    cursor(OrderValue::Whole(*whole), *at, tie.to_string())
                }))
            }
            TraceOrder::TotalCost => {
                let rows: Vec<(f64, i64, i64)> =
                    self.pool.select(&of_figure, &[number.into()]).await?;
                let first = rows.first();
                Ok(first
                    .map(|(real, at, tie)| cursor(OrderValue::Real(*real), *at, tie.to_string())))
            }
            TraceOrder::Score(name) => {
                let direction = if query.ascending { "ASC" } else { "DESC" };
                let mut sql = Sql::default();
                let (number_at, project) =
                    (sql.bind(number.into()), sql.bind_text(project.as_str()));
                let name = sql.bind_text(name);
                sql.push(&format!(
                    "SELECT s.number, s.timestamp, s.trace_id FROM traces t CROSS JOIN scores s \
                     WHERE t.number = {number_at} AND s.project_id = {project} AND s.trace_id = t.trace_id \
                     AND (s.name || '') = {name} AND {OWN_NUMBERS} \
                     ORDER BY s.number {direction}, s.timestamp {direction}, s.id {direction} LIMIT 1"
                ));
                let rows: Vec<(f64, i64, String)> = self.pool.select(&sql.text, &sql.args).await?;
                match rows.into_iter().next() {
                    Some((real, at, tie)) => Ok(Some(cursor(OrderValue::Real(real), at, tie))),
                    None => self.cursor_in_time(number).await,
                }
            }
            _ => Ok(None),
        }
    }

    async fn cursor_in_time(&self, number: i64) -> Result<Option<Cursor>, Error> {
        const AT: &str = "SELECT started_at, trace_id FROM traces WHERE number = $1";
        let rows: Vec<(i64, String)> = self.pool.select(AT, &[number.into()]).await?;
        let first = rows.into_iter().next();
        Ok(first.map(|(at, id)| Cursor::new(Timestamp::from_micros(at), id)))
    }
}
