//! Metric queries that need whole observations or traces: metadata, tags, tools, costs by type.

use std::borrow::Cow;

use perpend_domain::filter::{Cell, Condition, Filter, Order, Row, Test, find};
use perpend_domain::ids::ProjectId;
use perpend_domain::metrics::{Accumulator, Metric, MetricQuery, MetricView};
use perpend_domain::time::Timestamp;

use super::Groups;
use crate::experiments::EXPERIMENT_COLUMNS;
use crate::{Error, ObservationCells, Telemetry, TraceCells};
use perpend_db::Scratch;
use perpend_domain::telemetry::{
    ObservationCursor, ObservationQuery, StoredObservation, StoredTrace,
};
use perpend_domain::trace_list::TraceQuery;

/// Rows that are read at a time.
const PAGE: u32 = 4_000;
/// Bytes of contents that are read at a time.
const PAGE_BYTES: usize = 8 << 20;

const SEARCH: &str =
    "metrics of traces cannot be filtered by the column text; use the view of observations";

/// Columns that exist only in the content of an observation.
const IN_CONTENT: [&str; 3] = ["toolNames", "toolDefinitions", "toolCalls"];

fn within(question: &MetricQuery) -> Filter {
    let mut filter = question.filter.clone();
    let column = find(question.view.columns(), question.view.time());
    for (order, at) in [(Order::AtLeast, question.from), (Order::Less, question.to)] {
        filter.conditions.push(Condition { column, test: Test::Time(order, at) });
    }
    filter
}

/// Values of a dimension: several for a list, each of which makes its own group.
fn dimension(row: &dyn Row, stored: &StoredRow<'_>, name: &'static str) -> Vec<Option<String>> {
    let month = |at: Timestamp| vec![Some(at.to_string().chars().take(7).collect())];
    let own = |text: Option<&String>| vec![text.cloned().filter(|text| !text.is_empty())];
    match (name, stored) {
        ("startTimeMonth" | "timestampMonth", _) => month(stored.at()),
        ("traceRelease", StoredRow::Observation(stored)) => {
            own(stored.trace_attributes.release.as_ref())
        }
        ("traceVersion", _) => vec![None],
        ("isRootObservation", StoredRow::Observation(stored)) => {
            vec![Some(stored.observation.is_root().to_string())]
        }
        ("promptVersion", StoredRow::Observation(stored)) => {
            let prompt = stored.observation.prompt.as_ref();
            vec![prompt.and_then(|prompt| prompt.version).map(|v| v.to_string())]
        }
        // The tags of a row are one group value.
        ("tags", _) => match row.cell(name) {
            Cell::List(tags) if !tags.is_empty() => vec![Some(tags.join(","))],
            _ => vec![None],
        },
        ("providedModelName", _) => cell(row.cell("model")),
        _ => cell(row.cell(name)),
    }
}

fn cell(cell: Cell<'_>) -> Vec<Option<String>> {
    match cell {
        Cell::Text(text) => vec![Some(text.into_owned())],
        Cell::List(list) if !list.is_empty() => list.iter().cloned().map(Some).collect(),
        _ => vec![None],
    }
}

/// A stored row.
enum StoredRow<'s> {
    Observation(&'s StoredObservation),
    Trace(&'s StoredTrace),
}

impl StoredRow<'_> {
    fn at(&self) -> Timestamp {
        match self {
            Self::Observation(stored) => stored.observation.start,
            Self::Trace(stored) => stored.trace.timestamp,
        }
    }
}

/// The value of a metric in a row.
enum MetricValue<'r> {
    Number(f64),
    Text(Cow<'r, str>),
    Nothing,
}

fn measured<'r>(
    row: &'r dyn Row,
    stored: &StoredRow<'_>,
    name: &'static str,
    n_scores: usize,
) -> MetricValue<'r> {
    let number = |column: &'static str, factor: f64| match row.cell(column) {
        Cell::Number(value) => MetricValue::Number(value * factor),
        _ => MetricValue::Nothing,
    };
    let text = |column: &'static str| match row.cell(column) {
        Cell::Text(text) => MetricValue::Text(text),
        _ => MetricValue::Nothing,
    };
    let rate = |tokens: &'static str| match (row.cell(tokens), row.cell("latency")) {
        (Cell::Number(n), Cell::Number(latency)) if latency > 0.0 => {
            MetricValue::Number(n / latency)
        }
        _ => MetricValue::Nothing,
    };
    match (name, stored) {
        ("count", _) => MetricValue::Number(1.0),
        ("countScores" | "scoresCount", _) => MetricValue::Number(n_scores as f64),
        ("uniqueUserIds", _) => text("userId"),
        ("uniqueSessionIds", _) => text("sessionId"),
        ("traceId", _) => text("traceId"),
        ("latency" | "timeToFirstToken", _) => number(name, 1_000.0),
        ("streamingLatency", StoredRow::Observation(stored)) => {
            let o = &stored.observation;
            match (o.end, o.completion_start) {
                (Some(end), Some(first)) => {
                    MetricValue::Number(end.micros_since(first) as f64 / 1_000.0)
                }
                _ => MetricValue::Nothing,
            }
        }
        ("tokensPerSecond", _) => rate("totalTokens"),
        ("outputTokensPerSecond", _) => rate("outputTokens"),
        ("observationsCount", _) => number("observationCount", 1.0),
        ("toolDefinitions", StoredRow::Observation(stored)) => {
            let tools = stored.observation.content.tool_definitions.as_ref();
            let n = tools.and_then(serde_json::Value::as_array).map_or(0, Vec::len);
            MetricValue::Number(n as f64)
        }
        _ => number(name, 1.0),
    }
}

/// Types of cost or usage with their amounts; one entry without a name if the query does not group by type.
fn types(question: &MetricQuery, stored: &StoredRow<'_>) -> Vec<(Option<String>, f64)> {
    let asks = |name: &str| question.dimensions.iter().any(|one| one.name == name);
    let StoredRow::Observation(stored) = stored else {
        return vec![(None, 0.0)];
    };
    let o = &stored.observation;
    let typed = |(name, amount): (&String, f64)| (Some(name.clone()), amount);
    if asks("costType") {
        let cost = o.effective_cost().iter();
        cost.map(|(name, amount)| typed((name, *amount))).collect()
    } else if asks("usageType") {
        let usage = o.usage.iter();
        usage.map(|(name, n)| typed((name, n.to_f64()))).collect()
    } else {
        vec![(None, 0.0)]
    }
}

/// Adds one row to all its groups.
fn add(
    question: &MetricQuery,
    groups: &mut Groups,
    row: &dyn Row,
    stored: &StoredRow<'_>,
    n_scores: usize,
) -> Result<(), Error> {
    let single = question.metrics.iter();
    let n_single = single.filter(|metric| metric.aggregation.needs_values());
    let n_single = n_single.count();
    for (kind, amount) in types(question, stored) {
        let mut keys: Vec<Vec<Option<String>>> = vec![Vec::new()];
        for one in &question.dimensions {
            let values = match one.name {
                "costType" | "usageType" => vec![kind.clone()],
                name => dimension(row, stored, name),
            };
            keys = keys
                .into_iter()
                .flat_map(|key| {
                    values.iter().map(move |value| {
                        let mut key = key.clone();
                        key.push(value.clone());
                        key
                    })
                })
                .collect();
        }
        for key in keys {
            groups.count_values(n_single)?;
            let values = groups.of(question, Some(stored.at()), key)?;
            let mut n_bytes = 0;
            for (value, metric) in values.iter_mut().zip(&question.metrics) {
                let seen = match metric.measure.name {
                    "costByType" | "usageByType" if kind.is_some() => MetricValue::Number(amount),
                    name => measured(row, stored, name, n_scores),
                };
                n_bytes += put(value, metric, &seen);
            }
            groups.hold(n_bytes)?;
        }
    }
    Ok(())
}

/// Adds a value; returns its bytes in memory.
fn put(value: &mut Accumulator, metric: &Metric, seen: &MetricValue<'_>) -> usize {
    /// Overhead of a text in a set.
    const TEXT_BYTES: usize = 48;
    let n_before = value.n_different();
    match seen {
        MetricValue::Number(number) => value.add(metric.aggregation, *number),
        MetricValue::Text(text) => value.add_text(metric.aggregation, text),
        MetricValue::Nothing => {}
    }
    let is_new = n_before < value.n_different();
    match seen {
        MetricValue::Text(text) if is_new => text.len() + TEXT_BYTES,
        _ if is_new => TEXT_BYTES,
        _ => 0,
    }
}

impl Telemetry {
    /// Adds the rows of a query one at a time.
    pub(super) async fn add_rows(
        &self,
        project: &ProjectId,
        question: &MetricQuery,
        groups: &mut Groups,
    ) -> Result<(), Error> {
        match question.view {
            MetricView::Observations => self.add_observations(project, question, groups).await,
            MetricView::Traces => self.add_traces(project, question, groups).await,
            _ => Err(Error::Conflict(
                "metrics of scores cannot be grouped by tags; use the view of observations or traces",
            )),
        }
    }

    async fn add_observations(
        &self,
        project: &ProjectId,
        question: &MetricQuery,
        groups: &mut Groups,
    ) -> Result<(), Error> {
        let asks = |name: &&str| {
            question.dimensions.iter().any(|one| one.name == *name)
                || question.metrics.iter().any(|one| one.measure.name == *name)
        };
        let counts_scores = asks(&"countScores");
        let reads_runs = EXPERIMENT_COLUMNS.iter().any(asks);
        let mut query = ObservationQuery {
            filter: within(question),
            limit: PAGE,
            with_content: IN_CONTENT.iter().any(asks),
            without_records: true,
            max_tested: super::MAX_ROWS as u64,
            max_bytes: PAGE_BYTES,
            ..ObservationQuery::default()
        };
        loop {
            perpend_db::check_deadline()?;
            // Only sums of the rows are kept.
            let mut scratch = Scratch::begin();
            let n_before = groups.n_charged();
            let mut page = self.observations(project, &query).await?;
            groups.count_rows(page.items.len())?;
            if reads_runs {
                self.apply_links(project, &mut page.items).await?;
            }
            // In the second half of its time limit a search stops early. Here it continues until the
            // deadline.
            if page.scan_limit.is_some() && !perpend_db::is_half_over() {
                return Err(Error::Conflict(super::TOO_MANY_ROWS));
            }
            let scores = match counts_scores {
                true => {
                    let ids = page.items.iter().map(|stored| &stored.observation.trace_id);
                    self.scores_for(project, ids.collect()).await?
                }
                false => Default::default(),
            };
            for stored in &page.items {
                let o = &stored.observation;
                let all = scores.get(&o.trace_id).map_or(&[][..], Vec::as_slice);
                let own = all.iter().filter(|score| crate::is_about(score, Some(o.id.as_str())));
                let n_scores = own.count();
                let row = ObservationCells { stored, scores: &[] };
                add(question, groups, &row, &StoredRow::Observation(stored), n_scores)?;
            }
            scratch.keep(groups.n_charged() - n_before);
            if !page.has_more {
                return Ok(());
            }
            let last = page.items.last().map(|stored| ObservationCursor {
                start: stored.observation.start,
                trace_id: stored.observation.trace_id.clone(),
                id: stored.observation.id.clone(),
            });
            query.after = page.scan_limit.map(|given_up| given_up.after).or(last);
        }
    }

    async fn add_traces(
        &self,
        project: &ProjectId,
        question: &MetricQuery,
        groups: &mut Groups,
    ) -> Result<(), Error> {
        let counts_scores =
            question.metrics.iter().any(|metric| metric.measure.name == "scoresCount");
        let is_search =
            |condition: &Condition| condition.column.is_some_and(|own| own.id == "text");
        if question.filter.conditions.iter().any(is_search) {
            return Err(Error::Conflict(SEARCH));
        }
        let mut query = TraceQuery {
            filter: within(question),
            ascending: true,
            limit: PAGE,
            ..TraceQuery::default()
        };
        loop {
            perpend_db::check_deadline()?;
            let mut scratch = Scratch::begin();
            let n_before = groups.n_charged();
            let page = self.traces(project, &query).await?;
            groups.count_rows(page.items.len())?;
            let scores = match counts_scores {
                true => {
                    let ids = page.items.iter().map(|stored| &stored.trace.id);
                    self.scores_for(project, ids.collect()).await?
                }
                false => Default::default(),
            };
            for stored in &page.items {
                let n_scores = scores.get(&stored.trace.id).map_or(0, Vec::len);
                let row = TraceCells { stored, scores: &[] };
                add(question, groups, &row, &StoredRow::Trace(stored), n_scores)?;
            }
            scratch.keep(groups.n_charged() - n_before);
            if page.n_total <= u64::from(query.page) * u64::from(PAGE) {
                return Ok(());
            }
            query.page += 1;
        }
    }
}
