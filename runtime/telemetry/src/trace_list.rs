//! Lists of traces by page.
//!
//! The cost of a page depends on its rows only: the numbers of the traces are read from an index in the order
//! of the list, from the nearer end, and only the traces of the page are read. Conditions that no index
//! decides are tested in memory.

use std::collections::HashMap;

use perpend_domain::filter::Condition;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{BidirectionalPage, ListPosition, NumberedPage};
use perpend_domain::score::Score;
use perpend_domain::text_search::BoundedCount;

use super::block;
use super::cells::{COST_COLUMNS, TraceCells, is_about};
use super::marks::needs_root;
use super::read::{LIST, MemoryConditions};
use super::row::{READ_TRACE, TraceRow};
use super::search::TextSearch;
use super::trace_details::PART_BYTES;
use super::trace_order::{ListRange, OrderedList};
use super::trace_shape::{AccessPath, ListShape};
use crate::{Error, Telemetry};
use perpend_db::{Arg, Scratch, Sql, query_scalar, value_list};
use perpend_domain::telemetry::StoredTrace;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};

/// Traces that are read at a time if a part of the filter is tested in memory.
const SCAN: usize = 500;
/// Trace numbers that are read at a time if the list is read only up to the end of a page.
const BLOCK: u64 = 2_000;
/// The same for the first block: most pages are full by then.
const FIRST_BLOCK: u64 = 250;
/// Additional traces to read if nearly all of them match.
const FEW_MORE: u64 = 10;
/// Traces next to the start of a page whose scores are looked up one by one. Small in tests, to cover both
/// sides.
const NEAR: u64 = if cfg!(test) { 4 } else { 2_000 };
/// Up to this number of traces they are sorted instead of searched in the order of time.
const FEW: u64 = 5_000;
/// From this number of skipped traces on, the way to a page is shortened.
const FAR: u64 = 200;

/// Traces that are read at a time; their own rows and their contents are limited to `PART_BYTES` each.
const PART: usize = 100;
/// Memory of a trace in addition to input and output.
const KEPT_BYTES: usize = 4 << 10;

/// Traces whose observations are searched for a text.
const MAX_SEARCHED: u64 = 100_000;
const SEARCH_TOO_WIDE: &str = "the column text is searched in at most 100,000 traces: add conditions that leave fewer, such as on timestamp";

/// Limits for reading a list for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum of traces that are tested in memory.
    pub max_tested: u64,
    /// Maximum up to which the list is counted. A list that is tested in memory is then not read beyond the
    /// page. Absent: counted to its end.
    pub max_counted: Option<u64>,
}

/// The statements of a list in its order, from its start or from a cursor, as passed to SQLite.
#[cfg(test)]
pub(super) fn ordered(
    project: &ProjectId,
    query: &TraceQuery,
    from: Option<&perpend_domain::list::Cursor>,
) -> Vec<String> {
    let shape = ListShape::new(project, 1, query, false, AccessPath::InTime);
    OrderedList::new(&shape, project, query, false).first_rows(from)
}

/// Result of reading a list.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    /// Numbers of matching traces, in the order of the read.
    pub(super) passing: Vec<i64>,
    n_tested: u64,
    n_left: u64,
    /// The last tested trace.
    last: Option<i64>,
}

/// The traces of a page, and facts about the list.
#[derive(Debug, Default)]
struct FoundPage {
    /// Numbers of the traces, in order.
    numbers: Vec<i64>,
    /// Number of matches; absent if the list was read only up to the page.
    total: Option<BoundedCount>,
    n_tested: u64,
    n_left: u64,
    /// The last tested trace if the search stopped before the page was full, and whether the list was read
    /// backwards.
    stopped: Option<(i64, bool)>,
    has_before: bool,
    has_behind: bool,
    n_before: Option<u64>,
}

impl FoundPage {
    /// Cuts to `limit`; `true` if there were more.
    fn cut(&mut self, limit: u32) -> bool {
        let limit = limit as usize;
        let has_more = limit < self.numbers.len();
        self.numbers.truncate(limit);
        has_more
    }
}

/// Traces of a page that are read in parts: memory is bounded by one part, however large the contents are.
#[derive(Debug)]
pub struct TracesReader {
    /// Numbers of the remaining traces, in the order of the list.
    left: Vec<i64>,
    with_content: bool,
    max_content: usize,
    with_observation_ids: bool,
}

impl TracesReader {
    fn new(numbers: Vec<i64>, query: &TraceQuery) -> Self {
        Self {
            left: numbers,
            with_content: query.with_content,
            max_content: query.max_content,
            with_observation_ids: query.with_observation_ids,
        }
    }

    /// Whether all parts were read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }
}

/// Only a text search reads the content of every observation.
fn max_tested(query: &TraceQuery) -> u64 {
    let is_search = |condition: &Condition| TextSearch::of(condition).is_some();
    match query.filter.conditions.iter().any(is_search) {
        true => MAX_SEARCHED,
        false => u64::MAX,
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
    ) -> Result<NumberedPage<StoredTrace>, Error> {
        let tested = self.search_traces(project, query, max_tested(query)).await?;
        match tested.n_left {
            0 => Ok(NumberedPage {
                items: tested.items,
                n_total: tested.total.unwrap_or_default().n,
            }),
            _ => Err(Error::Conflict(SEARCH_TOO_WIDE)),
        }
    }

    /// A page of traces to be read in parts, and the number of traces on all pages.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn find_page(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
    ) -> Result<(TracesReader, u64), Error> {
        let bounds = Bounds { max_tested: max_tested(query), max_counted: None };
        let first = ListPosition::default();
        let found = self.find_traces(project, query, &first, bounds).await?;
        if 0 < found.n_left {
            return Err(Error::Conflict(SEARCH_TOO_WIDE));
        }
        let n_total = found.total.unwrap_or_default().n;
        Ok((TracesReader::new(found.numbers, query), n_total))
    }

    /// The next traces of a page; traces that were deleted in the meantime are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_traces(&self, reader: &mut TracesReader) -> Result<Vec<StoredTrace>, Error> {
        let n = self.part_len(&reader.left).await?;
        let mut scratch = Scratch::begin();
        let mut traces = self.numbered_traces(&reader.left[..n]).await?;
        let mut next = reader.left.get(n).copied();
        if reader.with_content {
            let n_full = self.add_roots_up_to(&mut traces, PART_BYTES).await?;
            next = traces.get(n_full).map(|(number, _)| *number).or(next);
            traces.truncate(n_full);
        }
        if reader.with_observation_ids {
            self.add_ids(&mut traces).await?;
        }
        let n_read = reader.left.iter().position(|number| Some(*number) == next);
        reader.left.drain(..n_read.unwrap_or(reader.left.len()));
        let max = reader.max_content;
        let whole = |(_, mut stored): (i64, StoredTrace)| {
            let trace = &mut stored.trace;
            let contents = [&mut trace.input, &mut trace.output].into_iter().flatten();
            for content in contents {
                content.cut(max);
                scratch.keep(content.as_str().len());
            }
            scratch.keep(KEPT_BYTES + block::to_json(&trace.metadata)?.len());
            Ok(stored)
        };
        traces.into_iter().map(whole).collect()
    }

    /// Number of traces of a part by the size of their rows; at least one.
    async fn part_len(&self, numbers: &[i64]) -> Result<usize, Error> {
        let some = &numbers[..numbers.len().min(PART)];
        if some.is_empty() {
            return Ok(0);
        }
        let sql = format!(
            "SELECT number, CAST(LENGTH(detail) AS BIGINT) FROM traces WHERE number IN ({})",
            value_list(some.len(), 1)
        );
        let args: Vec<Arg<'static>> = some.iter().map(|number| (*number).into()).collect();
        let sizes: Vec<(i64, i64)> = self.pool.select(&sql, &args).await?;
        let sizes: HashMap<i64, i64> = sizes.into_iter().collect();
        let mut left = PART_BYTES as i64;
        let fits = |number: &&i64| {
            left -= sizes.get(number).copied().unwrap_or_default();
            0 <= left
        };
        Ok(some.iter().take_while(fits).count().max(1))
    }

    /// A page of traces, with a limit of traces that are tested in memory.
    pub(super) async fn search_traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        max_tested: u64,
    ) -> Result<BidirectionalPage<StoredTrace>, Error> {
        let bounds = Bounds { max_tested, max_counted: None };
        let found = self.find_traces(project, query, &ListPosition::default(), bounds).await?;
        self.filled(query, found, BidirectionalPage::default()).await
    }

    /// The same at a position, instead of by page number, and with the cursors of the neighbouring pages. The page
    /// number applies only without a position. A page that would start before the list is the first page.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_from(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        position: &ListPosition,
        bounds: Bounds,
    ) -> Result<BidirectionalPage<StoredTrace>, Error> {
        let found = self.find_traces(project, query, position, bounds).await?;
        let mut page = self.cursors_of(project, query, (&found, position)).await?;
        // A backward search that stopped before a match leads forward to its start.
        if let (true, true, Some(cursor)) =
            (found.numbers.is_empty(), position.is_backwards, &position.cursor)
        {
            page.older = Some(cursor.clone());
        }
        self.filled(query, found, page).await
    }

    async fn find_traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        position: &ListPosition,
        bounds: Bounds,
    ) -> Result<FoundPage, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(FoundPage::default());
        };
        self.folder.of_tenant(tenant).await?;
        let is_postgres = self.pool.is_postgres();
        let find = async |query: &TraceQuery, position: &ListPosition| {
            let shape = ListShape::new(project, tenant, query, is_postgres, AccessPath::Any);
            match shape.rest.is_empty() {
                true => {
                    let max = bounds.max_counted;
                    self.page_of((project, tenant), query, position, (shape, max)).await
                }
                false => self.scan_traces((project, tenant), query, position, &shape, bounds).await,
            }
        };
        let found = find(query, position).await?;
        let is_short = found.stopped.is_none() && !found.has_before;
        if position.is_backwards && position.cursor.is_some() && is_short {
            let first = TraceQuery { page: 1, ..query.clone() };
            return find(&first, &ListPosition::default()).await;
        }
        Ok(found)
    }

    async fn filled(
        &self,
        query: &TraceQuery,
        found: FoundPage,
        page: BidirectionalPage<StoredTrace>,
    ) -> Result<BidirectionalPage<StoredTrace>, Error> {
        let mut reader = TracesReader::new(found.numbers, query);
        let mut items = Vec::new();
        while !reader.is_done() {
            items.extend(self.next_traces(&mut reader).await?);
        }
        Ok(BidirectionalPage {
            items,
            total: found.total,
            n_tested: Some(found.n_tested),
            n_left: found.n_left,
            n_before: found.n_before,
            ..page
        })
    }

    /// A page without items, with its cursors.
    async fn cursors_of(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
        (found, position): (&FoundPage, &ListPosition),
    ) -> Result<BidirectionalPage<StoredTrace>, Error> {
        let of = async |number: Option<&i64>| match number {
            Some(number) => self.cursor_of(project, query, *number).await,
            None => Ok(None),
        };
        let first = found.numbers.first().filter(|_| found.has_before);
        let last = found.numbers.last().filter(|_| found.has_behind);
        let stopped = of(found.stopped.as_ref().map(|(number, _)| number)).await?;
        // The first page is read forwards, also if it replaces a shorter page before a cursor.
        let is_forwards = found.stopped.is_some_and(|(_, is_backwards)| !is_backwards);
        let (stopped, next) = match is_forwards && position.is_backwards {
            true => (None, stopped),
            false => (stopped, None),
        };
        Ok(BidirectionalPage {
            newer: of(first).await?,
            older: of(last).await?.or(next),
            stopped,
            ..BidirectionalPage::default()
        })
    }

    /// A page that columns alone decide. `max`: limit up to which the list is counted.
    async fn page_of(
        &self,
        (project, tenant): (&ProjectId, i64),
        query: &TraceQuery,
        position: &ListPosition,
        (shape, max): (ListShape, Option<u64>),
    ) -> Result<FoundPage, Error> {
        let is_postgres = self.pool.is_postgres();
        // A distant page is read from the nearer end, which requires the length of the list.
        let end = u64::from(query.page.max(1)) * u64::from(query.limit);
        let max = max.filter(|max| end <= *max);
        let total = match shape.summed() {
            Some(sql) => {
                BoundedCount { n: self.count(&sql.text, &sql.args).await?, is_more: false }
            }
            None => self.counted(&shape.rows(), max).await?,
        };
        let is_few = !total.is_more && total.n <= FEW;
        let is_sorted = !is_postgres && !shape.has_lead && is_few;
        let is_by_figure = query.order != TraceOrder::Timestamp;
        let shape = match (shape.has_lead, is_few) {
            (_, true) => shape,
            (true, false) if shape.is_led_by_mark && is_by_figure => {
                ListShape::new(project, tenant, query, is_postgres, AccessPath::InOrder)
            }
            (true, false) => shape,
            (false, false) => {
                ListShape::new(project, tenant, query, is_postgres, AccessPath::InTime)
            }
        };
        let list = OrderedList::new(&shape, project, query, is_sorted);
        let limit = u64::from(query.limit);
        let mut found = FoundPage { total: Some(total), ..FoundPage::default() };
        if !position.is_later() {
            let skip = u64::from(query.page.max(1) - 1) * limit;
            let n_total = if total.is_more { u64::MAX } else { total.n };
            found.numbers = self.page_at(&shape, list, query, skip, n_total).await?;
            found.has_before = 0 < skip;
            found.has_behind = skip + (found.numbers.len() as u64) < n_total;
            found.n_before = Some(skip);
            return Ok(found);
        }
        let part = ListRange {
            from: position.cursor.as_ref(),
            backwards: position.is_backwards,
            skip: 0,
            // The surplus row shows that there are more.
            limit: Some(limit + 1),
        };
        found.numbers = self.numbers_of(&list, part).await?;
        let has_more = found.cut(query.limit);
        (found.has_before, found.has_behind) = match position.is_backwards {
            true => (has_more, position.cursor.is_some()),
            false => (true, has_more),
        };
        if position.is_backwards {
            found.numbers.reverse();
        }
        let first = match found.numbers.first() {
            Some(number) => self.cursor_of(project, query, *number).await?,
            None => None,
        };
        let before = match &first {
            Some(first) => self.n_beyond(&list, (Some(first), true), max).await?,
            None => total,
        };
        found.n_before = (!before.is_more).then_some(before.n);
        Ok(found)
    }

    /// Numbers of the traces of one page, read from the nearer end of the list.
    async fn page_at(
        &self,
        shape: &ListShape,
        list: OrderedList,
        query: &TraceQuery,
        skip: u64,
        n_total: u64,
    ) -> Result<Vec<i64>, Error> {
        let take = n_total.saturating_sub(skip).min(u64::from(query.limit));
        if take == 0 {
            return Ok(Vec::new());
        }
        let behind = n_total - skip - take;
        let backwards = behind < skip && list.is_one_run();
        let mut skip = if backwards { behind } else { skip };
        let mut list = list;
        if query.order == TraceOrder::Timestamp && skip >= FAR {
            let ascends = query.ascending != backwards;
            let Some((start, n_before)) = self.start_at(shape, ascends, skip).await? else {
                return Ok(Vec::new());
            };
            let sign = if ascends { ">=" } else { "<=" };
            list = list.narrowed(|sql| {
                let start = sql.bind(start.into());
                sql.push(&format!(" AND {} {sign} {start}", shape.start));
            });
            skip = skip.saturating_sub(n_before);
        }
        let part = ListRange { from: None, backwards, skip, limit: Some(take) };
        let mut numbers = self.numbers_of(&list, part).await?;
        if backwards {
            numbers.reverse();
        }
        Ok(numbers)
    }

    /// The start of the trace at a position in the order of time, and the number of traces before all that
    /// start then. Both are read from the index, whatever the position.
    async fn start_at(
        &self,
        shape: &ListShape,
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
        let mut before = shape.rows();
        let place = before.bind(start.into());
        before.push(&format!(" AND {column} {sign} {place}"));
        let n_before = self.counted(&before, None).await?.n;
        Ok(Some((start, n_before)))
    }

    async fn trace_numbers(&self, sql: &str, args: &[Arg<'static>]) -> Result<Vec<i64>, Error> {
        query_scalar(sql.to_owned()).bind_all(args).fetch_all(&self.pool).await
    }

    /// A page of the traces that match conditions tested in memory. Only numbers are held. If the list need
    /// not be counted it is read block by block up to the end of the page; otherwise completely, in time
    /// proportional to its length.
    async fn scan_traces(
        &self,
        (project, tenant): (&ProjectId, i64),
        query: &TraceQuery,
        position: &ListPosition,
        shape: &ListShape,
        bounds: Bounds,
    ) -> Result<FoundPage, Error> {
        let list = OrderedList::new(shape, project, query, false);
        let limit = query.limit as usize;
        let skip = match position.is_later() {
            false => (query.page.max(1) as usize - 1) * limit,
            true => 0,
        };
        let is_bounded = position.is_later() || bounds.max_counted.is_some();
        let wanted = is_bounded.then_some(skip + limit + 1);
        let near = match wanted {
            Some(wanted) if shape.collects_scores && query.order == TraceOrder::Timestamp => {
                self.scan_near((project, tenant), query, position, wanted).await?
            }
            _ => None,
        };
        let scanned = match near {
            Some(scanned) => scanned,
            None => {
                self.scan(project, (&list, shape), position, (bounds.max_tested, wanted)).await?
            }
        };
        let mut passing = scanned.passing;
        let mut found = FoundPage {
            n_tested: scanned.n_tested,
            n_left: scanned.n_left,
            ..FoundPage::default()
        };
        let last = scanned.last.filter(|_| 0 < scanned.n_left);
        if !position.is_later() {
            if wanted.is_none_or(|wanted| passing.len() < wanted) {
                found.total =
                    Some(BoundedCount { n: passing.len() as u64, is_more: 0 < found.n_left });
            }
            found.has_before = 0 < skip;
            found.has_behind = skip + limit < passing.len();
            found.stopped = last.filter(|_| !found.has_behind).map(|last| (last, false));
            found.n_before = Some(skip as u64);
            found.numbers = passing.into_iter().skip(skip).take(limit).collect();
            return Ok(found);
        }
        let has_more = limit < passing.len();
        found.stopped = last.filter(|_| !has_more).map(|last| (last, position.is_backwards));
        passing.truncate(limit);
        (found.has_before, found.has_behind) = (true, has_more);
        if position.is_backwards {
            passing.reverse();
            (found.has_before, found.has_behind) = (has_more, position.cursor.is_some());
        }
        found.numbers = passing;
        Ok(found)
    }

    /// At least the first `wanted` matches, if they are among the traces next to the start: so the scores of
    /// few traces are read, and not all scores with the name.
    async fn scan_near(
        &self,
        (project, tenant): (&ProjectId, i64),
        query: &TraceQuery,
        position: &ListPosition,
        wanted: usize,
    ) -> Result<Option<ScanResult>, Error> {
        let (cursor, backwards) = (position.cursor.as_ref(), position.is_backwards);
        let (direction, beyond, within) = match query.ascending != backwards {
            true => ("ASC", ">=", "<="),
            false => ("DESC", "<=", ">="),
        };
        let mut sql = Sql::default();
        let tenant_at = sql.bind(tenant.into());
        sql.push(&format!("SELECT t.started_at FROM traces t WHERE t.tenant = {tenant_at}"));
        if let Some(cursor) = cursor {
            let at = sql.bind(cursor.at.as_micros().into());
            sql.push(&format!(" AND t.started_at {beyond} {at}"));
        }
        sql.push(&format!(" ORDER BY t.started_at {direction} LIMIT 1 OFFSET {NEAR}"));
        let last = self.trace_numbers(&sql.text, &sql.args).await?;
        let last = last.first().copied();
        let shape = ListShape::new(project, tenant, query, false, AccessPath::OneByOne);
        let list = OrderedList::new(&shape, project, query, false);
        let list = match last {
            Some(last) => list.narrowed(|sql| {
                let last = sql.bind(last.into());
                sql.push(&format!(" AND {} {within} {last}", shape.start));
            }),
            None => list,
        };
        let max = (u64::MAX, Some(wanted));
        let scanned = self.scan(project, (&list, &shape), position, max).await?;
        let is_enough = last.is_none() || wanted <= scanned.passing.len();
        Ok(is_enough.then_some(scanned))
    }

    /// The matching traces: all of them, or at least the first `wanted`, from the first `max` of the list or
    /// after a cursor.
    pub(super) async fn scan(
        &self,
        project: &ProjectId,
        (list, shape): (&OrderedList, &ListShape),
        position: &ListPosition,
        (max, wanted): (u64, Option<usize>),
    ) -> Result<ScanResult, Error> {
        let (cursor, backwards) = (position.cursor.as_ref(), position.is_backwards);
        let mut scanned = ScanResult::default();
        let mut n_read = 0;
        loop {
            let left = max - n_read;
            let block = match n_read {
                // Nearly every trace with such a score matches.
                0 if shape.way == AccessPath::OneByOne => FEW_MORE + wanted.unwrap_or(0) as u64,
                0 => FIRST_BLOCK,
                _ => BLOCK,
            };
            let part = ListRange {
                from: cursor,
                backwards,
                skip: n_read,
                limit: wanted.map(|_| left.min(block)),
            };
            let numbers = self.numbers_of(list, part).await?;
            let n = numbers.len() as u64;
            n_read += n.min(left);
            let max = usize::try_from(left).unwrap_or(usize::MAX);
            scanned.n_tested = n_read;
            scanned.last = numbers.iter().take(max).next_back().copied();
            let missing = wanted.map(|wanted| wanted - scanned.passing.len());
            let (some, n_left) =
                self.passing_traces(project, shape, numbers, (max, missing)).await?;
            scanned.passing.extend(some);
            let is_full = wanted.is_some_and(|wanted| wanted <= scanned.passing.len());
            let is_end = wanted.is_none() || n < left.min(block);
            if is_full || is_end {
                scanned.n_left = n_left;
                return Ok(scanned);
            }
            if max as u64 == n {
                let beyond = self.n_beyond(list, (cursor, backwards), None).await?;
                scanned.n_left = beyond.n.saturating_sub(n_read);
                return Ok(scanned);
            }
        }
    }

    /// Those of the traces with these numbers that match the conditions tested in memory, in order, and the
    /// number of untested traces: the test stops at a limit of traces or of matches.
    async fn passing_traces(
        &self,
        project: &ProjectId,
        shape: &ListShape,
        mut numbers: Vec<i64>,
        (max, wanted): (usize, Option<usize>),
    ) -> Result<(Vec<i64>, u64), Error> {
        let n_left = numbers.len().saturating_sub(max) as u64;
        numbers.truncate(max);
        let mut searches = Vec::new();
        let mut others = Vec::new();
        for condition in shape.rest.conditions() {
            match TextSearch::of(condition) {
                Some(search) => searches.push(search),
                None => others.push(condition.clone()),
            }
        }
        let rest = MemoryConditions::new(others);
        let reads_root = rest.conditions().iter().any(needs_root);
        let mut matching = Vec::new();
        for chunk in numbers.chunks(SCAN) {
            let _turn = self.pool.scan_turn().await?;
            // Only numbers of these traces are kept.
            let _scratch = Scratch::begin();
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
                let cells = TraceCells { stored, scores: &own };
                if rest.holds(&cells) {
                    passing.push((*number, stored));
                }
            }
            if !searches.is_empty() {
                // Last, because it reads contents.
                let found = self.searched(&passing, &searches).await?;
                passing.retain(|(number, _)| found.contains(number));
            }
            matching.extend(passing.iter().map(|(number, _)| *number));
            if wanted.is_some_and(|wanted| wanted <= matching.len()) {
                return Ok((matching, 0));
            }
        }
        Ok((matching, n_left))
    }

    /// The existing ones of these traces, in the order of the numbers.
    pub(super) async fn numbered_traces(
        &self,
        numbers: &[i64],
    ) -> Result<Vec<(i64, StoredTrace)>, Error> {
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
        Ok(numbers.iter().filter_map(|number| Some((*number, found.remove(number)?))).collect())
    }

    /// One trace, with the content of its root if requested.
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
}
