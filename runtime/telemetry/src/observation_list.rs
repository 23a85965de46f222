//! Lists of observations, latest start first.
//!
//! Selective conditions are answered by something smaller than the list: an index, the traces that have the
//! value, or the hours whose rollups have it. Conditions on contents and scores are tested in memory, row by
//! row, and contents are parsed only if they may match.

use std::collections::HashMap;

use perpend_domain::filter::{Condition, Filter, Order, Test, TextOp};
use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Content;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use super::cells::{ObservationCells, is_about};
use super::experiments::EXPERIMENT_COLUMNS;
use super::marks::MarkCondition;
use super::read::{LIST, MemoryConditions, observation_column, where_of};
use super::rollup::{HOUR, IS_OBSERVATION};
use super::row::{ObservationRow, READ};
use crate::metrics::rollup_column;
use crate::rows::needle::{Needle, is_on};
use crate::rows::score_names::needed;
use crate::{Error, Telemetry};
use perpend_db::{Arg, Expr, Scratch, Sql};
use perpend_domain::telemetry::{
    ObservationCursor, ObservationPage, ObservationQuery, ScanLimit, StoredObservation,
};

pub(super) const OBSERVATION_ORDER: &str = " ORDER BY o.started_at DESC, t.trace_id, o.id";
pub(super) const REVERSE_ORDER: &str = " ORDER BY o.started_at, t.trace_id DESC, o.id DESC";

/// Matches that are counted if sums do not contain their number and `max_scanned` is set.
const MAX_COUNTED: u64 = 10_000;
/// Up to this number of rows they are sorted instead of searched in the order of time.
const FEW: i64 = 5_000;
/// From this number of skipped rows on, the way to a page is shortened by rollups.
const FAR: u64 = 200;
/// Rows that are read at a time if a part of the filter is tested in memory: at first, and at most.
const SCAN: [usize; 2] = [500, 4_000];
/// Bytes of contents that are tested at a time.
const TESTED_BYTES: usize = 4 << 20;
/// Memory of an observation of a page in addition to its content.
const KEPT_BYTES: usize = 1 << 10;

/// The single text to which the column must be equal.
fn one_value<'f>(condition: &'f Condition, id: &str) -> Option<&'f str> {
    match &condition.test {
        _ if !is_on(condition, id) => None,
        Test::Text(TextOp::Equal, value) if !value.is_empty() => Some(value),
        Test::AnyOf(values) => match values.as_slice() {
            [one] if !one.is_empty() => Some(one),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the filter names the traces of the observations.
fn filters_by_trace(filter: &Filter) -> bool {
    filter.conditions.iter().any(|condition| {
        is_on(condition, "traceId")
            && matches!(condition.test, Test::AnyOf(_) | Test::Text(TextOp::Equal, _))
    })
}

fn unled(id: &str) -> Option<Expr> {
    match id {
        "name" => Some(Expr::Text("+o.name")),
        other => observation_column(other),
    }
}

/// `FROM` and `WHERE` of a list of observations. The tenant occurs twice, so that the list by time need not
/// read traces; for named traces only once, or SQLite would read the whole list by time for them.
pub(super) fn observations_from(
    tenant: i64,
    filter: &Filter,
    is_postgres: bool,
) -> (Sql, MemoryConditions) {
    let mut sql = Sql::default();
    let number = sql.bind(tenant.into());
    sql.push(&format!(
        " FROM observations o JOIN traces t ON t.number = o.trace WHERE t.tenant = {number}"
    ));
    if !filters_by_trace(filter) {
        sql.push(&format!(" AND o.tenant = {number}"));
    }
    let rest = where_of(&mut sql, filter, observation_column, is_postgres);
    (sql, rest)
}

/// The hours with rows that match the conditions on rollup columns, in the order of reading, and their counts.
struct RollupHours {
    all: Vec<(i64, u64)>,
    /// Whether the rollups have the column of every condition except those on the start.
    is_whole: bool,
    /// The requested range of start times: inclusive, exclusive.
    range: (i64, i64),
}

impl RollupHours {
    const fn is_cut(&self, hour: i64) -> bool {
        hour < self.range.0 || self.range.1 < hour + HOUR
    }

    fn total(&self) -> u64 {
        self.all.iter().map(|(_, n)| n).sum()
    }

    /// Start of the first hour and end of the last one.
    fn ends(&self) -> Option<(i64, i64)> {
        let hours = || self.all.iter().map(|(hour, _)| *hour);
        Some((hours().min()?, hours().max()? + HOUR))
    }
}

/// The requested range of start times: from, inclusive, and to, exclusive.
pub(super) fn start_range(filter: &Filter) -> (i64, i64) {
    let (mut from, mut to) = (i64::MIN / 2, i64::MAX / 2);
    for condition in filter.conditions.iter().filter(|c| is_on(c, "startTime")) {
        if let Test::Time(order, at) = &condition.test {
            let at = at.as_micros();
            match order {
                Order::AtLeast => from = from.max(at),
                Order::Greater => from = from.max(at + 1),
                Order::Less => to = to.min(at),
                Order::AtMost => to = to.min(at + 1),
                Order::Equal => (from, to) = (from.max(at), to.min(at + 1)),
                Order::NotEqual => {}
            }
        }
    }
    (from, to)
}

/// The statement of a list.
struct ListStatement {
    /// `FROM ... WHERE ...`.
    sql: Sql,
    rest: MemoryConditions,
    hours: Option<RollupHours>,
    /// Whether one index has the rows in order.
    is_by_name: bool,
    /// Whether rows are tested for conditions without an index.
    is_scanned: bool,
}

perpend_db::record! {
    /// The columns of a row that its position and a search need.
    struct NarrowRow {
        seq: i64,
        payload: Option<i64>,
        place: i64,
        started_at: i64,
        trace_id: String,
        id: String,
        name: String,
    }
}

/// A superset of the rows that match the condition; `None` if no smaller set is known.
fn among(
    sql: &mut Sql,
    tenant: &str,
    project: &ProjectId,
    condition: &Condition,
) -> Option<String> {
    const OF_TRACES: &str =
        "SELECT n.seq FROM traces u JOIN observations n ON n.trace = u.number WHERE u.tenant =";
    for (id, column) in [("userId", "user_id"), ("sessionId", "session_id")] {
        if let Some(value) = one_value(condition, id) {
            let value = sql.bind_text(value);
            return Some(format!(
                "SELECT n.seq FROM observations n WHERE n.tenant = {tenant} AND n.{column} = {value} \
                 UNION ALL {OF_TRACES} {tenant} AND u.{column} = {value}"
            ));
        }
    }
    if let Some(value) = one_value(condition, "traceName") {
        let value = sql.bind_text(value);
        return Some(format!("{OF_TRACES} {tenant} AND u.name = {value}"));
    }
    if is_on(condition, "tags") {
        // A trace has the tags of all its observations.
        let mark = MarkCondition::of(condition)?;
        let mark = sql.bind_text(mark.lead()?);
        return Some(format!(
            "SELECT n.seq FROM trace_marks d JOIN observations n ON n.trace = d.trace \
             WHERE d.tenant = {tenant} AND d.mark = {mark}"
        ));
    }
    let names = needed(condition);
    if names.is_empty() {
        return None;
    }
    let project = sql.bind_text(project.as_str());
    let names: Vec<String> = names.iter().map(|name| sql.bind_text(name)).collect();
    let names = names.join(", ");
    Some(format!(
        "SELECT n.seq FROM scores s JOIN traces u ON u.tenant = {tenant} AND u.trace_id = s.trace_id \
         JOIN observations n ON n.trace = u.number AND n.id = s.observation_id \
         WHERE s.project_id = {project} AND s.name IN ({names})"
    ))
}

impl Telemetry {
    /// Observations, newest start first. Content is read only with `with_content`, or if the filter reads it.
    /// A page that was given up holds the matches found so far.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations(
        &self,
        project: &ProjectId,
        query: &ObservationQuery,
    ) -> Result<ObservationPage, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(ObservationPage::default());
        };
        self.folder.of_tenant(tenant).await?;
        let list = self.list(project, tenant, query).await?;
        if list.hours.as_ref().is_some_and(|hours| hours.all.is_empty()) {
            return Ok(ObservationPage::default());
        }
        if list.rest.is_empty() {
            return self.plain_observations(tenant, list, query).await;
        }
        if query.max_scanned.is_none() || !query.with_total {
            return self.scanned_observations(project, list, query).await;
        }
        let uncounted = ObservationQuery { with_total: false, ..query.clone() };
        let mut page = self.scanned_observations(project, list, &uncounted).await?;
        page.n_total = page.items.len() as u64;
        page.is_total_cut = page.has_more;
        Ok(page)
    }

    async fn list(
        &self,
        project: &ProjectId,
        tenant: i64,
        query: &ObservationQuery,
    ) -> Result<ListStatement, Error> {
        let filter = &query.filter;
        let is_postgres = self.pool.is_postgres();
        let is_by_name = filter.conditions.iter().any(|c| one_value(c, "name").is_some());
        let (sql, rest) = observations_from(tenant, filter, is_postgres);
        let mut list = ListStatement { sql, rest, hours: None, is_by_name, is_scanned: false };
        if !filters_by_trace(filter) {
            match self.few(project, tenant, filter).await? {
                Some(few) => {
                    list.sql = few;
                    list.is_by_name = false;
                }
                None => {
                    self.by_hours(&mut list, tenant, query).await?;
                    let is_indexed =
                        list.is_by_name || list.hours.as_ref().is_some_and(|hours| hours.is_whole);
                    list.is_scanned = !is_indexed;
                }
            }
        }
        if query.without_records {
            list.sql.push(&format!(" AND {IS_OBSERVATION}"));
        }
        Ok(list)
    }

    /// The list restricted to few rows; `None` if no condition leaves few.
    async fn few(
        &self,
        project: &ProjectId,
        tenant: i64,
        filter: &Filter,
    ) -> Result<Option<Sql>, Error> {
        let is_postgres = self.pool.is_postgres();
        for condition in &filter.conditions {
            let mut sql = Sql::default();
            let number = sql.bind(tenant.into());
            let place = match one_value(condition, "id") {
                Some(id) => {
                    let id = sql.bind_text(id);
                    super::by_id::with_id(&id, is_postgres)
                }
                None => {
                    let Some(among) = among(&mut sql, &number, project, condition) else {
                        continue;
                    };
                    let count = format!(
                        "SELECT COUNT(*) FROM (SELECT 1 FROM ({among}) a LIMIT {}) b",
                        FEW + 1
                    );
                    if self.count(&count, &sql.args).await? > FEW.unsigned_abs() {
                        continue;
                    }
                    format!("o.seq IN ({among})")
                }
            };
            // The join order is fixed: SQLite would start with all traces.
            sql.push(&format!(
                " FROM observations o CROSS JOIN traces t \
                 WHERE t.number = o.trace AND t.tenant = {number} AND {place}"
            ));
            let column = if is_postgres { observation_column } else { unled };
            where_of(&mut sql, filter, column, is_postgres);
            return Ok(Some(sql));
        }
        Ok(None)
    }

    /// Restricts a list to the hours of the rollups.
    async fn by_hours(
        &self,
        list: &mut ListStatement,
        tenant: i64,
        query: &ObservationQuery,
    ) -> Result<(), Error> {
        // The rollups do not contain records of traces.
        if !query.without_records {
            return Ok(());
        }
        let filter = &query.filter;
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let (mut from, to) = start_range(filter);
        from = from.max(i64::MIN / 2);
        let (mut first, mut last) = (from, to);
        if let Some(after) = &query.after {
            let at = after.start.as_micros();
            match query.is_backwards {
                true => first = first.max(at),
                false => last = last.min(at.saturating_add(1)),
            }
        }
        let [first, last] = [first.saturating_sub(HOUR), last].map(|at| sql.bind(at.into()));
        sql.push(&format!(
            "SELECT r.hour, CAST(SUM(r.n) AS BIGINT) FROM observation_rollups r \
             WHERE r.tenant = {number} AND r.hour > {first} AND r.hour < {last}"
        ));
        let others = filter.conditions.iter().filter(|c| {
            !is_on(c, "startTime")
                || !matches!(&c.test, Test::Time(order, _) if *order != Order::NotEqual)
        });
        let (mut n_known, mut n_unknown) = (0, 0);
        for condition in others {
            match sql.condition(condition, rollup_column, self.pool.is_postgres()) {
                true => n_known += 1,
                false => n_unknown += 1,
            }
        }
        let is_whole = n_unknown == 0;
        let is_counted = is_whole && (query.with_total || query.offset > 0);
        if n_known == 0 && !is_counted {
            return Ok(());
        }
        let direction = if query.is_backwards { "" } else { " DESC" };
        sql.push(&format!(" GROUP BY r.hour HAVING SUM(r.n) > 0 ORDER BY r.hour{direction}"));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let mut hours = RollupHours {
            all: rows.into_iter().map(|(hour, n)| (hour, n.unsigned_abs())).collect(),
            is_whole,
            range: (from, to),
        };
        if is_counted {
            for at in 0..hours.all.len() {
                let hour = hours.all[at].0;
                if hours.is_cut(hour) {
                    let mut cut = within(&list.sql, hour, hour + HOUR);
                    cut.push(&format!(" AND {IS_OBSERVATION}"));
                    let count = format!("SELECT COUNT(*){}", cut.text);
                    hours.all[at].1 = self.count(&count, &cut.args).await?;
                }
            }
        }
        // A more selective index is better, except for values that hardly any row has.
        if list.is_by_name && hours.total() > FEW.unsigned_abs() {
            return Ok(());
        }
        if list.is_by_name && !self.pool.is_postgres() {
            let mut sql = Sql::default();
            let number = sql.bind(tenant.into());
            sql.push(&format!(
                " FROM observations o JOIN traces t ON t.number = o.trace \
                 WHERE t.tenant = {number} AND o.tenant = {number}"
            ));
            where_of(&mut sql, filter, unled, false);
            list.sql = sql;
        }
        list.is_by_name = false;
        list.hours = Some(hours);
        Ok(())
    }

    async fn plain_observations(
        &self,
        tenant: i64,
        mut list: ListStatement,
        query: &ObservationQuery,
    ) -> Result<ObservationPage, Error> {
        let end = match list.is_scanned {
            true => self.scan_end(tenant, query).await?,
            false => None,
        };
        if let Some(end) = &end {
            list.sql = until(&list.sql, end, query.is_backwards);
        }
        let total = self.total(&list, query).await?;
        let limit = query.limit as usize;
        let (mut rows, is_cut) = match list.hours.take() {
            Some(hours) if hours.is_whole || query.offset == 0 => {
                self.rows_by_hour(&list.sql, query, &hours).await?
            }
            _ => self.rows_in_order(&list, query).await?,
        };
        let is_full = is_cut || rows.len() > limit;
        rows.truncate(limit);
        let items = match query.with_content {
            true => self.stored_up_to(&rows, query.max_bytes).await?,
            false => self.stored(&rows, false).await?,
        };
        let is_page_full = is_full || items.len() < rows.len();
        Ok(ObservationPage {
            has_more: is_page_full || end.is_some(),
            items,
            n_total: total.n,
            is_total_cut: total.is_more || end.is_some(),
            scan_limit: end
                .filter(|_| !is_page_full)
                .map(|after| ScanLimit { after, columns: Vec::new() }),
        })
    }

    /// Number of matches, if requested. With `max_scanned`, matches without sums are counted up to [`MAX_COUNTED`].
    async fn total(
        &self,
        list: &ListStatement,
        query: &ObservationQuery,
    ) -> Result<BoundedCount, Error> {
        let exact = |n| BoundedCount { n, is_more: false };
        if !query.with_total {
            return Ok(exact(0));
        }
        if let Some(hours) = list.hours.as_ref().filter(|hours| hours.is_whole) {
            return Ok(exact(hours.total()));
        }
        let (from, args) = (without_traces(&list.sql), &list.sql.args);
        if query.max_scanned.is_none() {
            return Ok(exact(self.count(&format!("SELECT COUNT(*){from}"), args).await?));
        }
        let first = format!("SELECT 1{from} LIMIT {}", MAX_COUNTED + 1);
        let n = self.count(&format!("SELECT COUNT(*) FROM ({first}) n"), args).await?;
        Ok(BoundedCount { n: n.min(MAX_COUNTED), is_more: MAX_COUNTED < n })
    }

    async fn rows_in_order(
        &self,
        list: &ListStatement,
        query: &ObservationQuery,
    ) -> Result<(Vec<ObservationRow>, bool), Error> {
        let mut sql = list.sql.clone();
        let mut skip = query.offset;
        let narrow = without_traces(&list.sql);
        if list.is_by_name && skip >= FAR && !narrow.contains("t.") {
            let start = format!(
                "SELECT o.started_at{narrow} ORDER BY o.started_at DESC LIMIT 1 OFFSET {skip}"
            );
            let found: Vec<(i64,)> = self.pool.select(&start, &sql.args).await?;
            let Some((start,)) = found.first().copied() else {
                return Ok((Vec::new(), false));
            };
            let place = sql.bind(start.into());
            let before = format!("SELECT COUNT(*){narrow} AND o.started_at > {place}");
            skip = skip.saturating_sub(self.count(&before, &sql.args).await?);
            sql.push(&format!(" AND o.started_at <= {place}"));
        }
        let limit = query.limit as usize + 1;
        self.rows_after(&sql, query, limit, skip).await
    }

    /// One hour after the other; hours without rows are left out.
    async fn rows_by_hour(
        &self,
        sql: &Sql,
        query: &ObservationQuery,
        hours: &RollupHours,
    ) -> Result<(Vec<ObservationRow>, bool), Error> {
        let wanted = query.limit as usize + 1;
        let mut skip = query.offset;
        let mut left = hours.all.as_slice();
        while let Some(((_, n), rest)) = left.split_first()
            && *n <= skip
        {
            skip -= n;
            left = rest;
        }
        let mut goal = skip + wanted as u64;
        let mut rows = Vec::new();
        while let Some(((hour, n), rest)) = left.split_first()
            && rows.len() < wanted
        {
            let (mut first, mut last, mut n_seen) = (*hour, *hour + HOUR, *n);
            left = rest;
            while let Some(((hour, n), rest)) = left.split_first()
                && (*hour + HOUR == first || *hour == last)
                && n_seen < goal
            {
                (first, last) = (first.min(*hour), last.max(*hour + HOUR));
                n_seen += n;
                left = rest;
            }
            let run = within(sql, first, last);
            let limit = wanted - rows.len();
            let (some, is_cut) = self.rows_after(&run, query, limit, skip).await?;
            rows.extend(some);
            if is_cut {
                return Ok((rows, true));
            }
            skip = 0;
            // Conditions that the rollups do not have may be selective.
            goal = goal.saturating_mul(4);
        }
        Ok((rows, false))
    }

    /// `true` if there are more rows although there are fewer than `limit`, because they are large.
    async fn rows_after(
        &self,
        from: &Sql,
        query: &ObservationQuery,
        limit: usize,
        offset: u64,
    ) -> Result<(Vec<ObservationRow>, bool), Error> {
        let from_position = after(from, query.after.as_ref(), query.is_backwards);
        let sql = in_order(READ, &from_position, query.is_backwards, (limit, offset));
        let rows = perpend_db::query(sql.text).bind_all(&sql.args);
        rows.fetch_up_to(&self.pool, query.max_bytes).await
    }

    async fn scanned_observations(
        &self,
        project: &ProjectId,
        list: ListStatement,
        query: &ObservationQuery,
    ) -> Result<ObservationPage, Error> {
        let mut from = list.sql;
        if let Some((first, end)) = list.hours.as_ref().and_then(RollupHours::ends) {
            from = within(&from, first, end);
        }
        let conditions = list.rest.conditions().iter();
        let needles: Vec<Needle> = conditions.filter_map(Needle::of).collect();
        let mut filling = PageBuilder::new(query);
        let mut position = query.after.clone();
        let mut n_rows = SCAN[0];
        let mut n_left = query.max_tested;
        loop {
            const NARROW: &str =
                "o.seq, o.payload, o.place, o.started_at, t.trace_id, o.id, o.name";
            let turn = self.pool.scan_turn().await?;
            let mut scratch = Scratch::begin();
            n_rows = n_rows.min(usize::try_from(n_left).unwrap_or(usize::MAX));
            let rest_of_list = after(&from, position.as_ref(), query.is_backwards);
            let sql = in_order(NARROW, &rest_of_list, query.is_backwards, (n_rows, 0));
            let rows: Vec<NarrowRow> = self.pool.select(&sql.text, &sql.args).await?;
            let is_end = rows.len() < n_rows;
            n_left -= rows.len() as u64;
            if let Some(last) = rows.last() {
                position = Some(ObservationCursor {
                    start: Timestamp::from_micros(last.started_at),
                    trace_id: perpend_db::checked("observation", &last.trace_id)?,
                    id: perpend_db::checked("observation", &last.id)?,
                });
            }
            let places: Vec<(Option<i64>, i64)> =
                rows.iter().map(|row| (row.payload, row.place)).collect();
            let can_pass = match needles.is_empty() {
                true => vec![true; rows.len()],
                false => {
                    let may_pass = |at: usize, content: &str| {
                        rows.get(at).is_some_and(|row| {
                            let mut needles = needles.iter();
                            needles.all(|needle| needle.may_be_in(&row.id, &row.name, content))
                        })
                    };
                    self.contents_with(&places, may_pass).await?
                }
            };
            let seqs: Vec<i64> = rows
                .iter()
                .zip(can_pass)
                .filter_map(|(row, can_pass)| can_pass.then_some(row.seq))
                .collect();
            let mut put = |found: TestedObservation| {
                filling.put(found, &mut scratch);
                filling.is_full()
            };
            self.passing(project, &seqs, (&list.rest, query), &mut put).await?;
            drop((scratch, turn));
            if filling.is_full() || is_end {
                break;
            }
            // The matches found so far are useful if a cursor leads on.
            if n_left == 0 || !query.with_total && perpend_db::is_half_over() {
                filling.page.scan_limit =
                    position.map(|after| ScanLimit { after, columns: list.rest.columns() });
                break;
            }
            n_rows = (2 * n_rows).min(SCAN[1]);
        }
        Ok(filling.finish())
    }

    /// Passes on the rows that match the conditions tested in memory, in their order, until `put` returns
    /// that it needs no more.
    async fn passing(
        &self,
        project: &ProjectId,
        seqs: &[i64],
        (rest, query): (&MemoryConditions, &ObservationQuery),
        put: &mut (dyn FnMut(TestedObservation) -> bool + Send),
    ) -> Result<(), Error> {
        let with_content = query.with_content || rest.reads_content();
        for chunk in seqs.chunks(LIST) {
            let sql = format!(
                "SELECT {READ} FROM observations o JOIN traces t ON t.number = o.trace \
                 WHERE o.seq IN ({})",
                perpend_db::value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> = chunk.iter().map(|seq| (*seq).into()).collect();
            let mut rows = self.pool.select::<ObservationRow>(&sql, &args).await?;
            let order: HashMap<i64, usize> =
                chunk.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
            rows.sort_by_key(|row| order.get(&row.seq).copied());
            let mut left = rows.as_slice();
            while !left.is_empty() {
                perpend_db::check_deadline()?;
                let mut scratch = Scratch::begin();
                let part = match with_content {
                    true => self.stored_up_to(left, TESTED_BYTES).await?,
                    false => self.stored(left, false).await?,
                };
                left = left.get(part.len()..).unwrap_or_default();
                for tested in self.tested(project, part, (rest, query)).await? {
                    scratch.keep(tested.n_bytes);
                    if put(tested) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows that match the conditions tested in memory.
    async fn tested(
        &self,
        project: &ProjectId,
        mut stored: Vec<StoredObservation>,
        (rest, query): (&MemoryConditions, &ObservationQuery),
    ) -> Result<Vec<TestedObservation>, Error> {
        if rest.reads(&EXPERIMENT_COLUMNS) {
            self.apply_links(project, &mut stored).await?;
        }
        let scores = if rest.reads_scores() {
            let ids = stored.iter().map(|stored| &stored.observation.trace_id);
            self.scores_for(project, ids.collect()).await?
        } else {
            HashMap::new()
        };
        let mut found = Vec::new();
        for mut stored in stored {
            let o = &stored.observation;
            let all = scores.get(&o.trace_id).map_or(&[][..], Vec::as_slice);
            let own = all.iter().filter(|score| is_about(score, Some(o.id.as_str())));
            let cells =
                ObservationCells { stored: &stored, scores: &own.cloned().collect::<Vec<_>>() };
            if !rest.holds(&cells) {
                continue;
            }
            let mut n_bytes = 0;
            match query.with_content {
                true => n_bytes = crate::block::to_json(&stored.observation.content)?.len(),
                false => stored.observation.content = Content::default(),
            }
            found.push(TestedObservation { stored, n_bytes });
        }
        Ok(found)
    }
}

/// A page of observations that are tested in memory.
struct PageBuilder<'q> {
    query: &'q ObservationQuery,
    page: ObservationPage,
    n_bytes: usize,
    n_matching: u64,
    /// Whether the page ended before an observation whose content was too large.
    is_cut: bool,
}

impl<'q> PageBuilder<'q> {
    fn new(query: &'q ObservationQuery) -> Self {
        Self { query, page: ObservationPage::default(), n_bytes: 0, n_matching: 0, is_cut: false }
    }

    fn last(&self) -> u64 {
        self.query.offset + u64::from(self.query.limit)
    }

    /// Takes the next match and keeps it in memory if it is on the page.
    fn put(&mut self, found: TestedObservation, scratch: &mut Scratch) {
        let is_in_page = self.query.offset <= self.n_matching && self.n_matching < self.last();
        self.n_matching += 1;
        if !is_in_page || self.is_cut {
            return;
        }
        self.n_bytes = self.n_bytes.saturating_add(found.n_bytes);
        self.is_cut = self.query.max_bytes < self.n_bytes && !self.page.items.is_empty();
        if !self.is_cut {
            scratch.keep(found.n_bytes + KEPT_BYTES);
            self.page.items.push(found.stored);
        }
    }

    fn is_full(&self) -> bool {
        !self.query.with_total && (self.is_cut || self.last() < self.n_matching)
    }

    fn finish(self) -> ObservationPage {
        let is_full = self.is_cut || self.last() < self.n_matching;
        ObservationPage {
            has_more: is_full || self.page.scan_limit.is_some(),
            n_total: if self.query.with_total { self.n_matching } else { 0 },
            ..self.page
        }
    }
}

/// A matching observation, and the size of its content if that is requested.
struct TestedObservation {
    stored: StoredObservation,
    n_bytes: usize,
}

/// Restricts the statement to rows that start in a time range.
fn within(sql: &Sql, from: i64, to: i64) -> Sql {
    let mut sql = sql.clone();
    let [from, to] = [from, to].map(|at| sql.bind(at.into()));
    sql.push(&format!(" AND o.started_at >= {from} AND o.started_at < {to}"));
    sql
}

/// The statement without the table of traces, if no condition uses it.
fn without_traces(sql: &Sql) -> String {
    const JOINED: &str =
        " FROM observations o JOIN traces t ON t.number = o.trace WHERE t.tenant = $1 AND";
    match sql.text.strip_prefix(JOINED) {
        Some(rest) if !rest.contains("t.") => format!(" FROM observations o WHERE{rest}"),
        _ => sql.text.clone(),
    }
}

/// Restricts the statement to the rows up to a position, which is included with all rows of the same start.
fn until(sql: &Sql, end: &ObservationCursor, is_backwards: bool) -> Sql {
    let mut sql = sql.clone();
    let start = sql.bind(end.start.as_micros().into());
    let sign = if is_backwards { "<=" } else { ">=" };
    sql.push(&format!(" AND o.started_at {sign} {start}"));
    sql
}

/// Restricts the statement to the rows after a position in the order of reading.
fn after(sql: &Sql, position: Option<&ObservationCursor>, is_backwards: bool) -> Sql {
    let mut sql = sql.clone();
    let Some(position) = position else {
        return sql;
    };
    let start = sql.bind(position.start.as_micros().into());
    let trace = sql.bind_text(position.trace_id.as_str());
    let id = sql.bind_text(position.id.as_str());
    let (earlier, later) = if is_backwards { ('>', '<') } else { ('<', '>') };
    sql.push(&format!(
        " AND o.started_at {earlier}= {start} AND (o.started_at {earlier} {start} \
         OR t.trace_id {later} {trace} OR (t.trace_id = {trace} AND o.id {later} {id}))"
    ));
    sql
}

fn in_order(columns: &str, from: &Sql, is_backwards: bool, (limit, offset): (usize, u64)) -> Sql {
    let order = if is_backwards { REVERSE_ORDER } else { OBSERVATION_ORDER };
    let text = format!("SELECT {columns}{}{order} LIMIT {limit} OFFSET {offset}", from.text);
    Sql { text, args: from.args.clone() }
}
