//! Guarantees of telemetry, on each database.

mod bars;
mod by_id;
mod changed;
mod costs;
mod counts;
mod facets;
mod filters;
mod find;
mod groups;
mod large;
mod logs;
mod long;
mod marking;
mod news;
mod observation_pages;
mod orders;
mod outline;
mod parts;
mod plans;
mod races;
mod reader;
mod recent;
mod searches;
mod tool_observations;
mod writers;

use perpend_domain::list::NumberedPage;
use perpend_domain::telemetry::{
    ObservationCursor, ObservationQuery, StoredObservation, StoredTrace,
};
use perpend_domain::trace_list::TraceQuery;
use std::collections::BTreeMap;

use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::filter::{Filter, OBSERVATIONS, TRACES};
use perpend_domain::fold::fold;
use perpend_domain::ids::{ObservationId, ProjectId, ScoreId, TraceId};
use perpend_domain::observation::{
    Content, Cost, Level, Observation, ObservationKind, TraceFacts, Usage,
};
use perpend_domain::payload::Payload;
use perpend_domain::score::{NewScore, ScoreSource, ScoreValue, Subject};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use super::cells::ObservationCells;
use crate::Error;
use crate::testing::{OpenStore as _, Store, TempDatabase, on_each_database};
use perpend_db::{DatabaseUrl, Options};

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + millis)
}

fn trace_id(n: u32) -> TraceId {
    TraceId::new(&format!("{n:032x}")).unwrap()
}

fn span_id(n: u32) -> ObservationId {
    ObservationId::new(&format!("{n:016x}")).unwrap()
}

/// A numeric score of the API with defaults for the other fields.
fn score(id: &str, subject: Subject, name: &str, number: f64) -> NewScore {
    NewScore {
        id: ScoreId::new(id).unwrap(),
        name: name.to_owned(),
        value: ScoreValue::Numeric(number),
        subject,
        source: ScoreSource::Api,
        timestamp: at(0),
        environment: "default".to_owned(),
        comment: None,
        metadata: Map::new(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
    }
}

fn span(trace: u32, id: u32, parent: Option<u32>) -> Observation {
    Observation {
        trace_id: trace_id(trace),
        id: span_id(id),
        parent_id: parent.map(span_id),
        kind: ObservationKind::Generation,
        name: format!("step {id}"),
        start: at(i64::from(id)),
        end: Some(at(i64::from(id) + 500)),
        completion_start: Some(at(i64::from(id) + 100)),
        level: Level::Default,
        status_message: None,
        environment: "default".to_owned(),
        release: None,
        version: Some("1.0".to_owned()),
        user_id: None,
        session_id: None,
        tags: Vec::new(),
        model: Some("gpt-4o-mini".to_owned()),
        provider: Some("openai".to_owned()),
        model_parameters: Map::new(),
        prompt: None,
        usage: Usage::from([("input".to_owned(), 10.into()), ("total".to_owned(), 10.into())]),
        cost: Cost::new(),
        computed_cost: Cost::from([("total".to_owned(), 0.1 + 0.2)]),
        price_id: Some("p1".to_owned()),
        aggregate_usage: Usage::new(),
        aggregate_cost: Cost::new(),
        aggregate_model: None,
        aggregate_computed_cost: Cost::new(),
        response_id: None,
        scope_name: "tests".to_owned(),
        is_app_root: false,
        as_root: false,
        called_tools: Vec::new(),
        trace: None,
        is_complete_marker: false,
        is_in_parts: false,
        experiment: None,
        attribute_count: 5,
        has_content: true,
        content: Content {
            input: Some(Payload::Text(format!("question {id}"))),
            output: Some(Payload::Json(format!("{{\"answer\":{id}}}"))),
            metadata: json!({"attributes": {"k": id}, "topic": "weather"})
                .as_object()
                .unwrap()
                .clone(),
            ..Content::default()
        },
    }
}

fn batch(observations: Vec<Observation>) -> Batch {
    Batch { observations, ..Batch::default() }
}

async fn all(store: &Store, project: &ProjectId) -> Vec<StoredObservation> {
    let query =
        ObservationQuery { limit: 10_000, with_content: true, ..ObservationQuery::default() };
    store.telemetry.observations(project, &query).await.unwrap().items
}

#[tokio::test]
async fn written_observations_are_read_and_listed_at_once() {
    on_each_database(|store| async move {
        let p = project("p1");
        let spans = vec![span(1, 1, None), span(1, 2, Some(1)), span(2, 3, None)];
        store.telemetry.write_batch(&p, batch(spans.clone()), at(0)).await.unwrap();
        let page = store.telemetry.traces(&p, &TraceQuery::default()).await.unwrap();
        assert_eq!(page.n_total, 2);
        let stored = store.telemetry.trace(&p, &trace_id(1), true).await.unwrap().unwrap();
        assert_eq!(Some(stored.trace), fold(&spans[..2]));
        let one =
            store.telemetry.observation_of(&p, &trace_id(1), &span_id(2)).await.unwrap().unwrap();
        assert_eq!(one.observation, spans[1]);
        assert_eq!(one.trace_attributes.name.as_deref(), Some("step 1"));
        // Invisible to another project.
        assert_eq!(store.telemetry.trace(&project("p2"), &trace_id(1), true).await.unwrap(), None);
        assert!(all(&store, &project("p2")).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_identical_repeat_changes_nothing() {
    on_each_database(|store| async move {
        let p = project("p1");
        let spans = vec![span(1, 1, None), span(1, 2, Some(1))];
        store.telemetry.write_batch(&p, batch(spans.clone()), at(0)).await.unwrap();
        let before =
            (all(&store, &p).await, store.telemetry.trace(&p, &trace_id(1), true).await.unwrap());
        let n_touched = store.telemetry.touched(100).await.unwrap().len();
        let mut more = spans.clone();
        more.push(span(1, 3, Some(1)));
        store.telemetry.write_batch(&p, batch(spans), at(9)).await.unwrap();
        let after =
            (all(&store, &p).await, store.telemetry.trace(&p, &trace_id(1), true).await.unwrap());
        assert_eq!(before, after);
        assert_eq!(store.telemetry.touched(100).await.unwrap().len(), n_touched);
        // Only the new part of a partial repetition is touched.
        store.telemetry.write_batch(&p, batch(more), at(10)).await.unwrap();
        let touched = store.telemetry.touched(100).await.unwrap();
        assert_eq!(touched.last().unwrap().observations, [(trace_id(1), span_id(3))]);
        let stored = all(&store, &p).await;
        assert_eq!(stored.len(), 3);
        assert_eq!(stored[1].observation.content.input, Some(Payload::Text("question 2".into())));
        assert_eq!(stored[1].updated_at, at(0));
    })
    .await;
}

#[tokio::test]
async fn of_two_versions_the_later_end_stays_then_the_richer() {
    on_each_database(|store| async move {
        let p = project("p1");
        let short = span(1, 1, None);
        let mut long = short.clone();
        long.end = Some(at(9_000));
        long.content.output = Some(Payload::Text("longer".to_owned()));
        for order in [[&short, &long], [&long, &short]] {
            for version in order {
                store.telemetry.write_batch(&p, batch(vec![version.clone()]), at(5)).await.unwrap();
            }
            assert_eq!(all(&store, &p).await[0].observation, long);
        }
        let mut rich = long.clone();
        rich.attribute_count = 9;
        rich.content.output = Some(Payload::Text("rich".to_owned()));
        store.telemetry.write_batch(&p, batch(vec![rich.clone()]), at(6)).await.unwrap();
        store.telemetry.write_batch(&p, batch(vec![long]), at(7)).await.unwrap();
        let stored = all(&store, &p).await;
        assert_eq!((&stored[0].observation, stored[0].updated_at), (&rich, at(6)));
    })
    .await;
}

#[tokio::test]
async fn scores_and_media_are_written_with_their_batch() {
    on_each_database(|store| async move {
        let p = project("p1");
        let relevant = score("s1", Subject::Trace(trace_id(1)), "relevance", 0.5);
        let media = Media {
            id: "m1".to_owned(),
            sha256: [7; 32],
            content_type: "image/png".to_owned(),
            bytes: vec![1, 2, 3],
            trace_id: trace_id(1),
            observation_id: span_id(1),
            field: "input",
        };
        let whole = Batch {
            observations: vec![span(1, 1, None)],
            scores: vec![relevant],
            media: vec![media],
            logs: Vec::new(),
        };
        store.telemetry.write_batch(&p, whole.clone(), at(0)).await.unwrap();
        store.telemetry.write_batch(&p, whole, at(1)).await.unwrap();
        let scores = store.telemetry.scores_of_traces(&p, &[trace_id(1)]).await.unwrap();
        assert_eq!(scores.len(), 1);
        let stored = store.telemetry.media(&p, "m1").await.unwrap().unwrap();
        assert_eq!((stored.bytes, stored.created_at), (vec![1, 2, 3], at(0)));
        // Scores are usable in filters.
        let raw = json!({"type": "numberObject", "column": "scores_avg", "key": "relevance",
            "operator": ">", "value": 0.4});
        let query =
            TraceQuery { filter: Filter::parse(&[raw], TRACES).unwrap(), ..TraceQuery::default() };
        assert_eq!(store.telemetry.traces(&p, &query).await.unwrap().n_total, 1);
        store.telemetry.delete_traces(&p, &[trace_id(1), trace_id(9)]).await.unwrap();
        assert_eq!(store.telemetry.trace(&p, &trace_id(1), true).await.unwrap(), None);
        assert!(all(&store, &p).await.is_empty());
        assert!(store.telemetry.scores_of_traces(&p, &[trace_id(1)]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn pages_by_cursor_neither_repeat_nor_leave_out() {
    on_each_database(|store| async move {
        let p = project("p1");
        let mut spans: Vec<Observation> = (0..25).map(|n| span(n % 3, n, None)).collect();
        for span in &mut spans {
            span.start = at(span.start.as_millis() % 4);
        }
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let mut seen = Vec::new();
        let mut query = ObservationQuery { limit: 4, ..ObservationQuery::default() };
        loop {
            let page = store.telemetry.observations(&p, &query).await.unwrap();
            seen.extend(page.items.iter().map(|stored| stored.observation.id.clone()));
            if !page.has_more {
                break;
            }
            let last = &page.items.last().unwrap().observation;
            query.after = Some(ObservationCursor {
                start: last.start,
                trace_id: last.trace_id.clone(),
                id: last.id.clone(),
            });
        }
        assert_eq!(seen.len(), 25);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 25);
    })
    .await;
}

#[tokio::test]
async fn many_requests_at_once_are_all_kept() {
    on_each_database(|store| async move {
        let p = project("p1");
        let writes = (0..60_u32).map(|n| {
            let (store, p) = (store.clone(), p.clone());
            async move {
                let spans = (0..4).map(|k| span(n % 7, 4 * n + k, None)).collect();
                store.telemetry.write_batch(&p, batch(spans), at(0)).await
            }
        });
        for result in futures_util::future::join_all(writes).await {
            result.unwrap();
        }
        assert_eq!(all(&store, &p).await.len(), 240);
        let page = store.telemetry.traces(&p, &TraceQuery::default()).await.unwrap();
        let n: u32 = page.items.iter().map(|stored| stored.trace.n_observations).sum();
        assert_eq!((page.n_total, n), (7, 240));
    })
    .await;
}

#[tokio::test]
async fn a_database_locked_by_another_process_refuses_and_loses_nothing() {
    let database = TempDatabase::sqlite();
    let options = Options { wait: std::time::Duration::from_secs(2), ..Options::default() };
    let store = Store::open(database.url(), &options).await.unwrap();
    let p = project("p1");
    store.telemetry.write_batch(&p, batch(vec![span(1, 1, None)]), at(0)).await.unwrap();
    let DatabaseUrl::Sqlite(path) = database.url() else {
        unreachable!("the database is an SQLite file");
    };
    let other =
        sqlx_sqlite::SqlitePool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let refused = store.telemetry.write_batch(&p, batch(vec![span(1, 2, None)]), at(1)).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    lock.rollback().await.unwrap();
    store.telemetry.write_batch(&p, batch(vec![span(1, 2, None)]), at(2)).await.unwrap();
    assert_eq!(all(&store, &p).await.len(), 2);
    store.close().await;
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let p = project("p1");
    store.telemetry.write_batch(&p, batch(vec![span(1, 1, None)]), at(0)).await.unwrap();
    let perpend_db::Engine::Sqlite { writer, .. } = store.pool.engine() else {
        unreachable!("the database is an SQLite file");
    };
    // Equivalent to a full disk: the database may not grow, and reports the same code.
    sqlx::query("PRAGMA max_page_count = 1").execute(writer).await.unwrap();
    let many = |n: u32| batch((0..500).map(|k| span(n, k, None)).collect());
    let refused = store.telemetry.write_batch(&p, many(2), at(1)).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(all(&store, &p).await.len(), 1);
    sqlx::query("PRAGMA max_page_count = 1000000").execute(writer).await.unwrap();
    store.telemetry.write_batch(&p, many(2), at(2)).await.unwrap();
    assert_eq!(all(&store, &p).await.len(), 501);
    store.close().await;
}

#[tokio::test]
async fn a_corrupt_file_is_an_error_and_no_panic() {
    let database = TempDatabase::sqlite();
    let DatabaseUrl::Sqlite(path) = database.url() else {
        unreachable!("the database is an SQLite file");
    };
    std::fs::write(path, vec![0x5a; 8_192]).unwrap();
    let refused = Store::open(database.url(), &Options::default()).await;
    assert!(matches!(refused, Err(Error::Sql(_))), "{refused:?}");
}

/// Versions of few spans in few traces, so that they collide.
fn any_span() -> impl Strategy<Value = Observation> {
    let parent = prop::option::of(0..6_u32);
    (0..3_u32, 0..6_u32, parent, 0..3_i64, 0..3_u32, any::<bool>()).prop_map(
        |(trace, id, parent, end, richness, is_explicit)| {
            let mut made = span(trace, id, parent.filter(|parent| *parent != id));
            made.end = (end > 0).then(|| at(1_000 * end));
            made.attribute_count = richness;
            // Of equal rank two versions are equal: the order of arrival does not depend on the set.
            made.content.input = Some(Payload::Text(format!("{end} {richness} {parent:?}")));
            made.level = [Level::Debug, Level::Warning, Level::Error][richness as usize % 3];
            made.user_id = (id == 4).then(|| "u".to_owned());
            made.trace = is_explicit.then(|| {
                Box::new(TraceFacts {
                    name: Some(format!("explicit {id}")),
                    ..TraceFacts::default()
                })
            });
            made
        },
    )
}

/// Only the first of each (trace, id, rank).
fn without_ties(spans: Vec<Observation>) -> Vec<Observation> {
    let mut seen = std::collections::HashSet::new();
    let key = |o: &Observation| (o.trace_id.clone(), o.id.clone(), o.end, o.attribute_count);
    spans.into_iter().filter(|span| seen.insert(key(span))).collect()
}

#[tokio::test]
async fn order_splitting_and_repetition_do_not_matter() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        for round in 0..25 {
            let spans = prop::collection::vec(any_span(), 1..20);
            let spans = without_ties(spans.new_tree(&mut runner).unwrap().current());
            let shuffled = Just(spans.clone()).prop_shuffle();
            let mut shuffled = shuffled.new_tree(&mut runner).unwrap().current();
            shuffled.extend_from_within(..shuffled.len() / 2);
            let (one, many) = (project(&format!("a{round}")), project(&format!("b{round}")));
            store.telemetry.write_batch(&one, batch(spans.clone()), at(0)).await.unwrap();
            for part in shuffled.chunks(1 + round % 3) {
                store.telemetry.write_batch(&many, batch(part.to_vec()), at(0)).await.unwrap();
            }
            let plain = |stored: Vec<StoredObservation>| -> Vec<_> {
                stored.into_iter().map(|s| (s.observation, s.trace_attributes)).collect()
            };
            assert_eq!(plain(all(&store, &one).await), plain(all(&store, &many).await));
            let query = TraceQuery {
                with_content: true,
                with_observation_ids: true,
                ..TraceQuery::default()
            };
            let traces = [&one, &many].map(|p| store.telemetry.traces(p, &query));
            let [a, b] = futures_util::future::join_all(traces).await.try_into().unwrap();
            let facts = |page: Result<NumberedPage<StoredTrace>, Error>| -> Vec<_> {
                let items = page.unwrap().items.into_iter();
                items.map(|t| (t.trace, t.observation_ids, t.activity.n_open)).collect()
            };
            assert_eq!(facts(a), facts(b));
        }
    })
    .await;
}

fn any_condition() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just(""), Just("a"), Just("ab"), Just("b%"), Just("é_A")];
    let texts = prop::collection::vec(text.clone(), 1..3);
    let column = prop_oneof![
        Just("name"),
        Just("version"),
        Just("release"),
        Just("userId"),
        Just("sessionId"),
        Just("statusMessage"),
        Just("model"),
        Just("traceName"),
        Just("parentObservationId"),
        Just("promptName"),
        Just("input"),
    ];
    let text_op = prop_oneof![
        Just("="),
        Just("contains"),
        Just("does not contain"),
        Just("starts with"),
        Just("ends with"),
    ];
    let order = prop_oneof![Just("="), Just(">"), Just("<"), Just(">="), Just("<=")];
    let number_column = prop_oneof![
        Just("latency"),
        Just("timeToFirstToken"),
        Just("inputTokens"),
        Just("outputTokens"),
        Just("totalTokens"),
        Just("totalCost"),
        Just("promptVersion"),
        Just("toolCalls"),
    ];
    let number = prop_oneof![Just(0.0), Just(0.1), Just(0.5), Just(1.0), Just(10.0)];
    let any_column = prop_oneof![column.clone(), number_column.clone(), Just("endTime")];
    prop_oneof![
        (column.clone(), text_op, text.clone()).prop_map(|(column, operator, value)| json!(
            {"type": "string", "column": column, "operator": operator, "value": value})),
        (column, any::<bool>(), texts).prop_map(|(column, any, value)| json!(
            {"type": "stringOptions", "column": column,
             "operator": if any { "any of" } else { "none of" }, "value": value})),
        (number_column, order.clone(), number).prop_map(|(column, operator, value)| json!(
            {"type": "number", "column": column, "operator": operator, "value": value})),
        (any_column, any::<bool>()).prop_map(|(column, is_null)| json!(
            {"type": "null", "column": column, "value": "",
             "operator": if is_null { "is null" } else { "is not null" }})),
        (any::<bool>(), any::<bool>()).prop_map(|(equal, value)| json!(
            {"type": "boolean", "column": "isRootObservation", "value": value,
             "operator": if equal { "=" } else { "<>" }})),
        (order, 0..4_i64).prop_map(|(operator, value)| json!(
            {"type": "datetime", "column": "endTime", "operator": operator,
             "value": at(1_000 * value).to_string()})),
    ]
}

fn odd_span() -> impl Strategy<Value = Observation> {
    let text = || {
        prop::option::of(
            prop_oneof![Just(""), Just("a"), Just("ab"), Just("xab"), Just("é_A"), Just("b%")]
                .prop_map(str::to_owned),
        )
    };
    let texts = (text(), text(), text(), text(), text());
    (any_span(), texts, prop::option::of(0..3_u64), any::<bool>()).prop_map(
        |(mut made, (version, release, user, session, status), tokens, has_first_token)| {
            made.name = release.clone().unwrap_or_default();
            made.version = version;
            made.release = release;
            made.user_id = user.clone();
            made.session_id = session;
            made.status_message = status;
            made.model = user;
            made.usage = BTreeMap::new();
            made.usage.extend(tokens.map(|n| ("input".to_owned(), (5 * n).into())));
            made.completion_start = has_first_token.then(|| at(900));
            made
        },
    )
}

#[tokio::test]
async fn a_filter_means_the_same_in_memory_and_in_sql() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        let p = project("p1");
        let spans = prop::collection::vec(odd_span(), 60..61);
        let spans = spans.new_tree(&mut runner).unwrap().current();
        store.telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let stored = all(&store, &p).await;
        for _ in 0..400 {
            let raw = prop::collection::vec(any_condition(), 1..3);
            let raw = raw.new_tree(&mut runner).unwrap().current();
            let filter = Filter::parse(&raw, OBSERVATIONS).unwrap();
            let expected: Vec<_> = stored
                .iter()
                .filter(|stored| filter.matches(&ObservationCells { stored, scores: &[] }))
                .map(|stored| (&stored.observation.trace_id, &stored.observation.id))
                .collect();
            let query = ObservationQuery {
                filter: filter.clone(),
                limit: 1_000,
                with_total: true,
                ..ObservationQuery::default()
            };
            let page = store.telemetry.observations(&p, &query).await.unwrap();
            let found: Vec<_> = page
                .items
                .iter()
                .map(|stored| (&stored.observation.trace_id, &stored.observation.id))
                .collect();
            assert_eq!(found, expected, "{raw:?}");
            assert_eq!(page.n_total, expected.len() as u64);
        }
    })
    .await;
}
