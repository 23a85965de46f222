//! Every column, type and operator of the filter language: a list returns what evaluation in memory returns
//! row by row, for every access path, and pages partition the list.

use std::borrow::Cow;

use perpend_domain::filter::{Cell, Column, ColumnKind, Row};
use perpend_domain::metrics::{Aggregation, METRIC_SCORES, Metric, MetricQuery, MetricView};
use perpend_domain::observation::{ExperimentLink, PromptLink, ToolCall};
use perpend_domain::score::{Score, ScoreDataType};

use super::*;
use crate::cells::{TraceCells, is_about};
use crate::testing::Store;
use perpend_domain::telemetry::{ScoreQuery, StoredTrace};

const TEXTS: [&str; 12] =
    ["", "a", "ab", "xab", "b%", "é_A", "5", "true", "5.5", "null", "prod", "A"];
const KEYS: [&str; 9] =
    ["k", "a.b", "nested", "nested.x", "attributes", "attributes.k", "e=q", "q", "other"];

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(all.to_vec())
}

fn text() -> impl Strategy<Value = String> {
    one_of(&TEXTS).prop_map(str::to_owned)
}

/// JSON in which each character is written as an escape: as JSON, as a text, and within a string of JSON.
fn in_codes(text: &str, n: u8) -> Payload {
    let code = |c: char| format!("\\u{:04x}", u32::from(c));
    let codes: String = text.chars().map(code).collect();
    let json = format!("{{\"q\": \"{codes}\"}}");
    match n % 3 {
        0 => Payload::Json(json),
        1 => Payload::Text(json),
        _ => Payload::from_value(json!({ "arguments": json })),
    }
}

fn metadata() -> impl Strategy<Value = Map<String, Value>> {
    let values = [
        json!("a"),
        json!("5"),
        json!(5),
        json!(5.5),
        json!(true),
        json!(null),
        json!({"x": "ab", "k": 5}),
        json!({"x": {"k": "a"}}),
        json!(["a", "b"]),
        json!(""),
        json!("x".repeat(201)),
    ];
    let keys = ["k", "a.b", "a", "nested", "attributes", "e=q", "q", "scope"];
    let members = prop::collection::btree_map(one_of(&keys), one_of(&values), 0..4);
    members.prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn tags() -> impl Strategy<Value = Vec<String>> {
    let long = "long".repeat(60);
    let all: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).chain([long]).collect();
    prop::collection::btree_set(one_of(&all), 0..3).prop_map(|set| set.into_iter().collect())
}

/// Spans in which every filter column may be set or absent.
fn full_span() -> impl Strategy<Value = Observation> {
    let opt = || prop::option::of(text());
    let texts = (opt(), opt(), opt(), opt(), opt(), opt());
    let numbers = (
        prop::option::of(0..3_u64),
        prop::option::of(0..4_i64),
        prop::option::of(one_of(&[0.0, 0.1, 0.5])),
    );
    (any_span(), texts, numbers, metadata(), metadata(), tags(), any::<u8>()).prop_map(
        |(mut made, texts, (tokens, version, dollars), own, of_trace, tags, n)| {
            let (a, b, c, d, e, f) = texts;
            made.kind = ObservationKind::ALL[n as usize % ObservationKind::ALL.len()];
            made.name = a.clone().unwrap_or_default();
            made.environment = ["default", "prod", "a"][n as usize % 3].to_owned();
            made.version = b.clone();
            made.release = c.clone();
            made.user_id = d;
            made.session_id = e;
            made.status_message = f;
            made.model = b.clone();
            made.price_id = c;
            made.tags = tags;
            made.prompt = a.clone().map(|name| PromptLink { name, version });
            made.usage = BTreeMap::new();
            for (name, factor) in [("input", 5), ("output", 1), ("total", 10)] {
                made.usage.extend(tokens.map(|n| (name.to_owned(), (factor * n).into())));
            }
            made.computed_cost = Cost::new();
            made.cost = dollars.map(|cost| ("total".to_owned(), cost)).into_iter().collect();
            made.cost.extend(dollars.filter(|_| n > 99).map(|cost| ("input".to_owned(), cost)));
            made.completion_start = (n % 3 == 0).then(|| at(900));
            made.called_tools = b.clone().into_iter().collect();
            made.content.metadata = own;
            made.content.output = a.clone().map(Payload::Text);
            if let (Some(text), 1) = (&b, n % 2) {
                made.content.input = Some(in_codes(text, n));
            }
            made.content.tool_definitions = b.map(|name| json!([{ "name": name }]));
            made.content.tool_calls = (0..n % 3)
                .map(|_| ToolCall { id: None, name: "t".to_owned(), arguments: Value::Null })
                .collect();
            made.experiment = (n % 2 == 0).then(|| {
                Box::new(ExperimentLink {
                    id: a.clone(),
                    name: a.clone(),
                    dataset_id: a,
                    ..ExperimentLink::default()
                })
            });
            if let Some(facts) = &mut made.trace {
                facts.metadata = of_trace;
                facts.output.clone_from(&made.content.input);
            }
            made
        },
    )
}

fn scores() -> impl Strategy<Value = Vec<NewScore>> {
    let value = prop_oneof![
        one_of(&[0.0, 0.5, 1.0]).prop_map(ScoreValue::Numeric),
        any::<bool>().prop_map(ScoreValue::Boolean),
        text().prop_map(ScoreValue::Categorical),
    ];
    let one = (value, one_of(&["k", "q", "a.b"]), 0..3_u32, prop::option::of(0..6_u32), metadata());
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let made =
            all.into_iter().enumerate().map(|(n, (value, name, trace, span, metadata))| NewScore {
                id: ScoreId::new(&format!("s{n}")).unwrap(),
                name: name.to_owned(),
                value,
                subject: match span {
                    Some(span) => Subject::Observation(trace_id(trace), span_id(span)),
                    None => Subject::Trace(trace_id(trace)),
                },
                source: ScoreSource::Api,
                timestamp: at(n as i64),
                environment: "default".to_owned(),
                comment: None,
                metadata,
                config_id: None,
                queue_id: None,
                author_user_id: None,
                origin: None,
            });
        made.collect()
    })
}

/// Texts that a column may contain.
fn texts_of(column: &'static Column) -> Vec<String> {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match column.id {
        _ if !column.values.is_empty() => own(column.values),
        "id" => (0..3)
            .map(|n| span_id(n).to_string())
            .chain((0..3).map(|n| trace_id(n).to_string()))
            .collect(),
        "traceId" => (0..4).map(|n| trace_id(n).to_string()).collect(),
        "parentObservationId" => {
            (0..3).map(|n| span_id(n).to_string()).chain([String::new()]).collect()
        }
        "score_names" => own(&["k", "q", "a.b", "other", ""]),
        _ => own(&TEXTS),
    }
}

fn condition(columns: &'static [Column]) -> impl Strategy<Value = Value> {
    let column = prop::sample::select(columns.iter().collect::<Vec<_>>());
    column.prop_flat_map(|column| {
        let texts = prop::collection::vec(one_of(&texts_of(column)), 1..3);
        let kinds: Vec<&str> = column.kind.types().iter().copied().chain(["null"]).collect();
        let number = one_of(&[0.0, 0.1, 0.5, 1.0, 5.0, 10.0, -0.5]);
        let parts = (any::<u8>(), one_of(&KEYS), number, 0..4_i64, any::<bool>());
        (one_of(&kinds), texts, parts).prop_map(move |(kind, texts, parts)| {
            let (n, key, number, second, truth) = parts;
            let orders = ["=", "!=", ">", "<", ">=", "<="];
            let mut text_ops =
                vec!["=", "contains", "does not contain", "starts with", "ends with"];
            if kind == "stringObject" {
                text_ops.extend(["is set", "is not set"]);
            }
            if column.kind == ColumnKind::FullText {
                text_ops.push("matches");
            }
            let (ops, value): (&[&str], Value) = match kind {
                "datetime" => (&orders, json!(at(1_000 * second).to_string())),
                "string" | "stringObject" => (&text_ops, json!(texts[0])),
                "number" | "numberObject" => (&orders, json!(number)),
                "stringOptions" | "categoryOptions" => (&["any of", "none of"], json!(texts)),
                "arrayOptions" => (&["any of", "none of", "all of"], json!(texts)),
                "boolean" | "booleanObject" => (&["=", "<>"], json!(truth)),
                _ => (&["is null", "is not null"], json!("")),
            };
            json!({ "type": kind, "column": column.id, "operator": ops[n as usize % ops.len()],
                    "value": value, "key": key })
        })
    })
}

/// A valid filter.
fn filter(runner: &mut TestRunner, columns: &'static [Column]) -> (Vec<Value>, Filter) {
    loop {
        let raw = prop::collection::vec(condition(columns), 1..4);
        let raw = raw.new_tree(runner).unwrap().current();
        if let Ok(filter) = Filter::parse(&raw, columns) {
            return (raw, filter);
        }
    }
}

/// A trace with its observations, whose texts are searched.
struct SearchedTrace<'a> {
    trace: TraceCells<'a>,
    parts: Vec<ObservationCells<'a>>,
}

impl Row for SearchedTrace<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let texts = |cell| match cell {
            Cell::Texts(texts) => texts,
            other => panic!("{other:?}"),
        };
        match column {
            "text" => {
                let parts = self.parts.iter().map(|part| part.cell("text"));
                let all = std::iter::once(self.trace.cell("text")).chain(parts);
                Cell::Texts(all.flat_map(texts).collect())
            }
            _ => self.trace.cell(column),
        }
    }
}

struct World {
    store: Store,
    project: ProjectId,
    observations: Vec<StoredObservation>,
    traces: Vec<StoredTrace>,
    scores: Vec<Score>,
}

/// Traces with the costs of their parts, summed in the test.
async fn with_costs(store: &Store, project: &ProjectId, query: &TraceQuery) -> Vec<StoredTrace> {
    let mut traces = store.telemetry.traces(project, query).await.unwrap().items;
    for stored in &mut traces {
        let duplicates: Vec<_> = stored.trace.duplicates.iter().map(|(id, _)| id).collect();
        let found = store.telemetry.trace_observations(project, &stored.trace.id, false);
        for found in found.await.unwrap() {
            let o = &found.observation;
            let cost = o.effective_cost().get("input");
            if let (Some(cost), false) = (cost, duplicates.contains(&&o.id)) {
                stored.part_costs[0] = Some(stored.part_costs[0].unwrap_or(0.0) + cost);
            }
        }
    }
    traces
}

impl World {
    async fn new(store: Store, runner: &mut TestRunner) -> Self {
        let project = project("p1");
        let spans = prop::collection::vec(full_span(), 60..61);
        let spans = spans.new_tree(runner).unwrap().current();
        // In parts: stored rows are refolded, replaced and marked again.
        for part in spans.chunks(20) {
            store.telemetry.write_batch(&project, batch(part.to_vec()), at(0)).await.unwrap();
        }
        let made = scores().new_tree(runner).unwrap().current();
        store.telemetry.put_scores(&project, &made, at(0)).await.unwrap();
        let query = TraceQuery { with_content: true, limit: 1_000, ..TraceQuery::default() };
        let found =
            store.telemetry.scores(&project, &ScoreQuery::default(), None, 1_000).await.unwrap();
        Self {
            observations: all(&store, &project).await,
            traces: with_costs(&store, &project, &query).await,
            scores: found.items,
            project,
            store,
        }
    }

    /// Scores on this trace, or on one of its observations.
    fn about(&self, trace: &TraceId, observation: Option<&ObservationId>) -> Vec<Score> {
        let is_own = |score: &&Score| match &score.written.subject {
            Subject::Trace(id) | Subject::Observation(id, _) => {
                id == trace && is_about(score, observation.map(ObservationId::as_str))
            }
            _ => false,
        };
        self.scores.iter().filter(is_own).cloned().collect()
    }

    async fn compare_observations(&self, raw: &[Value], filter: &Filter) {
        let telemetry = &self.store.telemetry;
        type Key = (TraceId, ObservationId);
        let key = |stored: &StoredObservation| -> Key {
            (stored.observation.trace_id.clone(), stored.observation.id.clone())
        };
        let matching = self.observations.iter().filter(|stored| {
            let o = &stored.observation;
            let scores = self.about(&o.trace_id, Some(&o.id));
            filter.matches(&ObservationCells { stored, scores: &scores })
        });
        let expected: Vec<Key> = matching.map(key).collect();
        for without_records in [false, true] {
            let query = ObservationQuery {
                filter: filter.clone(),
                limit: 1_000,
                with_total: true,
                without_records,
                ..ObservationQuery::default()
            };
            let page = telemetry.observations(&self.project, &query).await.unwrap();
            assert_eq!(page.items.iter().map(key).collect::<Vec<_>>(), expected, "{raw:?}");
            assert_eq!(page.n_total, expected.len() as u64, "{raw:?}");
            let part = ObservationQuery { limit: 2, offset: 1, ..query.clone() };
            let part = telemetry.observations(&self.project, &part).await.unwrap();
            let wanted: Vec<Key> = expected.iter().skip(1).take(2).cloned().collect();
            assert_eq!(part.items.iter().map(key).collect::<Vec<_>>(), wanted, "{raw:?}");
            assert_eq!(part.has_more, expected.len() > 3, "{raw:?}");
            let Some(second) = page.items.get(1) else {
                continue;
            };
            let after = ObservationCursor {
                start: second.observation.start,
                trace_id: second.observation.trace_id.clone(),
                id: second.observation.id.clone(),
            };
            let part = ObservationQuery { after: Some(after), with_total: false, ..query };
            let part = telemetry.observations(&self.project, &part).await.unwrap();
            assert_eq!(part.items.iter().map(key).collect::<Vec<_>>(), expected[2..], "{raw:?}");
        }
    }

    async fn compare_traces(&self, raw: &[Value], filter: &Filter) {
        let matching = self.traces.iter().filter(|stored| {
            let scores = self.about(&stored.trace.id, None);
            let parts = self
                .observations
                .iter()
                .filter(|part| part.observation.trace_id == stored.trace.id);
            filter.matches(&SearchedTrace {
                trace: TraceCells { stored, scores: &scores },
                parts: parts.map(|stored| ObservationCells { stored, scores: &[] }).collect(),
            })
        });
        let expected: Vec<&TraceId> = matching.map(|stored| &stored.trace.id).collect();
        for (page, limit) in [(1, 1_000), (1, 2), (2, 2)] {
            let query = TraceQuery { filter: filter.clone(), page, limit, ..TraceQuery::default() };
            let found = self.store.telemetry.traces(&self.project, &query).await.unwrap();
            let ids: Vec<&TraceId> = found.items.iter().map(|stored| &stored.trace.id).collect();
            let skip = (page as usize - 1) * limit as usize;
            let wanted: Vec<&TraceId> =
                expected.iter().copied().skip(skip).take(limit as usize).collect();
            assert_eq!(ids, wanted, "{raw:?}");
            assert_eq!(found.n_total, expected.len() as u64, "{raw:?}");
        }
    }
}

#[tokio::test]
async fn every_filter_of_observations_means_the_same_in_memory_and_in_lists() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        let world = World::new(store, &mut runner).await;
        for _ in 0..700 {
            let (raw, filter) = filter(&mut runner, OBSERVATIONS);
            world.compare_observations(&raw, &filter).await;
        }
    })
    .await;
}

#[tokio::test]
async fn every_filter_of_traces_means_the_same_in_memory_and_in_lists() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        for _ in 0..4 {
            let world = World::new(store.clone(), &mut runner).await;
            for _ in 0..200 {
                let (raw, filter) = filter(&mut runner, TRACES);
                world.compare_traces(&raw, &filter).await;
            }
        }
    })
    .await;
}

/// A score with its subject, as a row for filters of metrics.
struct ScoreCells<'a> {
    score: &'a Score,
    trace: Option<&'a StoredTrace>,
    observation: Option<&'a StoredObservation>,
}

impl Row for ScoreCells<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        let score = &self.score.written;
        let trace = self.trace.map(|stored| &stored.trace);
        let observation = self.observation.map(|stored| &stored.observation);
        let (trace_id, observation_id) = match &score.subject {
            Subject::Trace(id) => (Some(id.as_str()), None),
            Subject::Observation(id, observation) => {
                (Some(id.as_str()), Some(observation.as_str()))
            }
            _ => (None, None),
        };
        let prompt = observation.and_then(|o| o.prompt.as_ref());
        match column {
            "id" => Cell::text(Some(score.id.as_str())),
            "name" => Cell::text(Some(&score.name)),
            "source" => Cell::text(Some(score.source.as_str())),
            "dataType" => Cell::text(Some(score.value.data_type().as_str())),
            "environment" => Cell::text(Some(&score.environment)),
            "timestamp" => Cell::Time(score.timestamp),
            "value" => match &score.value {
                ScoreValue::Numeric(number) => Cell::Number(*number),
                ScoreValue::Boolean(truth) => Cell::Number(f64::from(u8::from(*truth))),
                _ => Cell::Null,
            },
            "booleanValue" => match &score.value {
                ScoreValue::Boolean(truth) => Cell::Bool(*truth),
                _ => Cell::Null,
            },
            "stringValue" => match &score.value {
                ScoreValue::Categorical(category) => Cell::text(Some(category)),
                _ => Cell::Null,
            },
            "traceId" => Cell::text(trace_id),
            "observationId" => Cell::text(observation_id),
            "sessionId" => Cell::text(trace.and_then(|trace| trace.session_id.as_deref())),
            "userId" => Cell::text(trace.and_then(|trace| trace.user_id.as_deref())),
            "traceName" => Cell::text(trace.and_then(|trace| trace.name.as_deref())),
            "traceRelease" => Cell::text(trace.and_then(|trace| trace.release.as_deref())),
            "traceVersion" => Cell::text(trace.and_then(|trace| trace.version.as_deref())),
            "observationName" => Cell::text(observation.map(|o| o.name.as_str())),
            "observationModelName" => Cell::text(observation.and_then(|o| o.model.as_deref())),
            "observationPromptName" => Cell::text(prompt.map(|prompt| prompt.name.as_str())),
            "observationPromptVersion" => match prompt.and_then(|prompt| prompt.version) {
                Some(version) => Cell::Number(version as f64),
                None => Cell::Null,
            },
            "tags" => trace.map_or(Cell::Null, |trace| Cell::List(Cow::Borrowed(&trace.tags))),
            "metadata" => Cell::Object(Cow::Borrowed(&score.metadata)),
            _ => Cell::Null,
        }
    }
}

#[tokio::test]
async fn every_filter_of_scores_means_the_same_in_memory_and_in_metrics() {
    const VIEWS: [(MetricView, ScoreDataType); 3] = [
        (MetricView::ScoresNumeric, ScoreDataType::Numeric),
        (MetricView::ScoresBoolean, ScoreDataType::Boolean),
        (MetricView::ScoresCategorical, ScoreDataType::Categorical),
    ];
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        let world = World::new(store, &mut runner).await;
        for round in 0..900 {
            let (raw, filter) = filter(&mut runner, METRIC_SCORES);
            let (view, data_type) = VIEWS[round % VIEWS.len()];
            if view != MetricView::ScoresBoolean && filter.reads(&["booleanValue"]) {
                continue;
            }
            let holds = |score: &&Score| {
                let (trace_id, observation_id) = match &score.written.subject {
                    Subject::Trace(id) => (id, None),
                    Subject::Observation(id, observation) => (id, Some(observation)),
                    _ => return false,
                };
                let trace = world.traces.iter().find(|stored| stored.trace.id == *trace_id);
                let observation = world.observations.iter().find(|stored| {
                    let o = &stored.observation;
                    o.trace_id == *trace_id && Some(&o.id) == observation_id
                });
                score.written.value.data_type() == data_type
                    && filter.matches(&ScoreCells { score, trace, observation })
            };
            let expected = world.scores.iter().filter(holds).count();
            let question = MetricQuery {
                view,
                with_booleans: false,
                dimensions: Vec::new(),
                metrics: vec![Metric {
                    measure: view.measure("count").unwrap(),
                    aggregation: Aggregation::Count,
                }],
                filter: filter.clone(),
                from: at(-1_000_000),
                to: at(1_000_000),
                granularity: None,
                top: None,
            };
            match world.store.telemetry.metrics(&world.project, &question).await {
                Ok(groups) => {
                    let found = groups
                        .first()
                        .map_or(json!(0), |group| group.values[0].result(&question.metrics[0], 1));
                    assert_eq!(found, json!(expected), "{raw:?}");
                }
                // Unsupported queries are refused and never answered wrongly.
                Err(Error::Conflict(_)) => {}
                Err(error) => panic!("{raw:?}: {error}"),
            }
        }
    })
    .await;
}

/// Six hundred traces of one span, many of which start at the same time.
async fn many(store: &Store, project: &ProjectId) {
    for first in (0..600).step_by(150) {
        let spans = (first..first + 150).map(|n| {
            let mut made = span(n, n, None);
            made.start = at(i64::from(n * 7_919 % 13) * 3_600_000);
            made.end = Some(made.start.plus_millis(5));
            made.name = "step".to_owned();
            made.user_id = Some("u".to_owned());
            made.tags = vec!["t".to_owned()];
            made.environment = ["prod", "dev"][n as usize % 2].to_owned();
            made
        });
        store.telemetry.write_batch(project, batch(spans.collect()), at(0)).await.unwrap();
    }
}

#[tokio::test]
async fn pages_of_a_list_are_its_parts_however_deep_they_are() {
    on_each_database(|store| async move {
        let project = project("p1");
        many(&store, &project).await;
        let filters = [
            json!([]),
            json!([{"type": "string", "column": "userId", "operator": "=", "value": "u"}]),
            json!([{"type": "string", "column": "name", "operator": "=", "value": "step"}]),
            json!([{"type": "arrayOptions", "column": "tags", "operator": "any of", "value": ["t"]}]),
            json!([{"type": "stringOptions", "column": "environment", "operator": "any of", "value": ["prod"]}]),
            json!([{"type": "stringOptions", "column": "environment", "operator": "any of",
                    "value": ["prod", "dev"]}]),
        ];
        for raw in &filters {
            let raw = raw.as_array().unwrap();
            for ascending in [false, true] {
                let filter = Filter::parse(raw, TRACES).unwrap();
                let whole = TraceQuery { filter, ascending, limit: 1_000, ..TraceQuery::default() };
                let mut expected = store.telemetry.traces(&project, &whole).await.unwrap().items;
                expected.sort_by(|a, b| {
                    let times = (a.trace.timestamp, b.trace.timestamp);
                    let by_time = if ascending { times.0.cmp(&times.1) } else { times.1.cmp(&times.0) };
                    by_time.then_with(|| a.trace.id.cmp(&b.trace.id))
                });
                let mut found = Vec::new();
                for page in 1..=13 {
                    let query = TraceQuery { page, limit: 50, ..whole.clone() };
                    found.extend(store.telemetry.traces(&project, &query).await.unwrap().items);
                }
                assert_eq!(found, expected, "{raw:?} {ascending}");
            }
            let filter = Filter::parse(raw, OBSERVATIONS).unwrap();
            let whole = ObservationQuery {
                filter,
                limit: 1_000,
                without_records: true,
                with_total: true,
                ..ObservationQuery::default()
            };
            let expected = store.telemetry.observations(&project, &whole).await.unwrap();
            assert_eq!(expected.n_total, expected.items.len() as u64);
            let mut found = Vec::new();
            for page in 0..13 {
                let query = ObservationQuery { offset: 50 * page, limit: 50, ..whole.clone() };
                found.extend(store.telemetry.observations(&project, &query).await.unwrap().items);
            }
            assert_eq!(found, expected.items, "{raw:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn marks_of_a_trace_go_with_it() {
    on_each_database(|store| async move {
        let project = project("p1");
        many(&store, &project).await;
        let hostile = {
            let mut made = span(1_000, 1, None);
            made.tags = vec!["nul\0".to_owned(), "\u{fffd}".to_owned()];
            made.trace = Some(Box::new(TraceFacts {
                metadata: json!({"nul\0": "\0", "deep": {"a": [1]}}).as_object().unwrap().clone(),
                ..TraceFacts::default()
            }));
            made
        };
        store.telemetry.write_batch(&project, batch(vec![hostile]), at(0)).await.unwrap();
        let raw = json!([{"type": "arrayOptions", "column": "tags", "operator": "any of", "value": ["t"]}]);
        let query = TraceQuery {
            filter: Filter::parse(raw.as_array().unwrap(), TRACES).unwrap(),
            ..TraceQuery::default()
        };
        assert_eq!(store.telemetry.traces(&project, &query).await.unwrap().n_total, 600);
        let gone: Vec<TraceId> = (0..500).map(trace_id).collect();
        store.telemetry.delete_traces(&project, &gone).await.unwrap();
        assert_eq!(store.telemetry.traces(&project, &query).await.unwrap().n_total, 100);
    })
    .await;
}
