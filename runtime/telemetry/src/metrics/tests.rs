//! Guarantees of metrics, on each database: all sources return the same result.

use perpend_domain::batch::Batch;
use perpend_domain::filter::{Condition, Filter, OBSERVATIONS, TRACES, Test, find};
use perpend_domain::ids::{ObservationId, ScoreId, TraceId};
use perpend_domain::metrics::{Aggregation, Granularity, Metric, TopGroups};
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::patch::{Patch, PatchSubject, merge};
use perpend_domain::score::{NewScore, ScoreSource, ScoreValue, Subject};
use serde_json::{Value, json};

use super::*;
use crate::testing::Store;
use crate::testing::on_each_database;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn project() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(20_000 * DAY_MS + ms)
}

fn observation(n: i64) -> Observation {
    let id = ObservationId::new(&format!("o{n}")).unwrap();
    let mut patch = Patch::new("e".to_owned(), at(0), false, PatchSubject::Observation(id));
    patch.trace_id = Some(TraceId::new(&format!("t{}", n % 7)).unwrap());
    patch.start = Some(at(n * 17 * 60_000));
    patch.end = (n % 5 != 0).then(|| at(n * 17 * 60_000 + 100 * n));
    patch.kind = match n % 3 {
        0 => ObservationKind::Generation,
        _ => ObservationKind::Span,
    };
    patch.name = Some(format!("step {}", n % 2));
    patch.environment = Some(["prod", "dev"][n as usize % 2].to_owned());
    patch.level = Some([Level::Default, Level::Error][usize::from(n % 11 == 0)]);
    patch.user_id = Some(format!("u{}", n % 4));
    patch.tags = vec!["a".to_owned(), format!("b{}", n % 2)];
    if n % 3 == 0 {
        patch.model = Some(format!("m{}", n % 2));
        patch.usage = [("input", 10 * n), ("output", n), ("total", 11 * n)]
            .map(|(name, tokens)| (name.to_owned(), tokens.unsigned_abs().into()))
            .into();
        patch.cost = [("input", 0.25), ("total", 0.5)]
            .map(|(name, dollars)| (name.to_owned(), dollars))
            .into();
    }
    merge([&patch]).unwrap()
}

fn metric(view: MetricView, aggregation: Aggregation, measure: &str) -> Metric {
    Metric { measure: view.measure(measure).unwrap(), aggregation }
}

fn question(view: MetricView, dimensions: &[&str], metrics: &[(Aggregation, &str)]) -> MetricQuery {
    let metrics = metrics.iter();
    MetricQuery {
        view,
        with_booleans: true,
        dimensions: dimensions.iter().map(|name| view.dimension(name).unwrap()).collect(),
        metrics: metrics.map(|(how, what)| metric(view, *how, what)).collect(),
        filter: Filter::default(),
        from: at(-DAY_MS),
        to: at(10 * DAY_MS),
        granularity: None,
        top: None,
    }
}

/// Adds a condition that every row matches and that no column can test.
fn for_whole_rows(question: &MetricQuery) -> MetricQuery {
    let mut whole = question.clone();
    whole.filter.conditions.push(Condition {
        column: find(question.view.columns(), "metadata"),
        test: Test::MemberIsNotSet("nothing".to_owned()),
    });
    whole
}

/// Adds a metric that sums cannot answer, which is left out of the comparison.
fn for_columns(question: &MetricQuery) -> MetricQuery {
    let mut by_columns = question.clone();
    by_columns.metrics.push(metric(question.view, Aggregation::P50, "latency"));
    by_columns
}

/// Rows of a result with the first metrics.
async fn answer(store: &Store, question: &MetricQuery, n_metrics: usize) -> Vec<Value> {
    let groups = store.telemetry.metrics(&project(), question).await.unwrap();
    let row = |group: MetricGroup| {
        let values = group.values.iter().zip(&question.metrics).take(n_metrics);
        let values: Vec<Value> = values.map(|(value, metric)| value.result(metric, 10)).collect();
        json!([group.at, group.dimensions, values])
    };
    groups.into_iter().map(row).collect()
}

async fn assert_same(store: &Store, question: &MetricQuery) {
    let n = question.metrics.len();
    let expected = answer(store, &for_whole_rows(question), n).await;
    assert!(!expected.is_empty());
    assert_eq!(answer(store, question, n).await, expected, "{question:?}");
    assert_eq!(answer(store, &for_columns(question), n).await, expected, "{question:?}");
}

fn score(id: &str, value: ScoreValue, subject: Subject) -> NewScore {
    NewScore {
        id: ScoreId::new(id).unwrap(),
        name: "quality".to_owned(),
        value,
        subject,
        source: ScoreSource::Api,
        timestamp: at(60_000),
        environment: "prod".to_owned(),
        comment: None,
        metadata: Default::default(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
    }
}

/// The record of a trace.
fn record(n: i64) -> Observation {
    let about = PatchSubject::Trace(TraceId::new(&format!("t{n}")).unwrap());
    merge([&Patch::new("e".to_owned(), at(n * HOUR_MS), false, about)]).unwrap()
}

async fn write(store: &Store, observations: Vec<Observation>) {
    let batch = Batch { observations, ..Batch::default() };
    store.telemetry.write_batch(&project(), batch, at(0)).await.unwrap();
}

const SUMS: &[(Aggregation, &str)] = &[
    (Aggregation::Count, "count"),
    (Aggregation::Sum, "totalTokens"),
    (Aggregation::Avg, "inputTokens"),
    (Aggregation::Count, "outputTokens"),
    (Aggregation::Sum, "totalCost"),
    (Aggregation::Avg, "latency"),
];

#[tokio::test]
async fn rollups_columns_and_whole_rows_give_the_same_answer_whatever_was_written_and_deleted() {
    on_each_database(|store| async move {
        write(&store, (1..60).map(observation).collect()).await;
        write(&store, (0..5).map(record).collect()).await;
        // Repetitions, and versions that replace others: another model, another hour, another cost.
        write(&store, (1..20).map(observation).collect()).await;
        let changed = (1..30).step_by(4).map(|n| {
            let mut changed = observation(n);
            changed.end = Some(at(9 * DAY_MS));
            changed.start = at(n * HOUR_MS + 30 * 60_000);
            changed.model = Some("later".to_owned());
            changed.cost.insert("total".to_owned(), 2.0);
            changed
        });
        write(&store, changed.collect()).await;
        let gone = [TraceId::new("t3").unwrap()];
        store.telemetry.delete_traces(&project(), &gone).await.unwrap();
        for dimensions in [&[][..], &["type"], &["providedModelName", "environment"], &["level"]] {
            for granularity in
                [None, Some(Granularity::Hour), Some(Granularity::Day), Some(Granularity::Month)]
            {
                let mut query = question(MetricView::Observations, dimensions, SUMS);
                query.granularity = granularity;
                assert_same(&store, &query).await;
                // From the middle of an hour to the middle of another one.
                (query.from, query.to) = (at(90 * 60_000), at(11 * HOUR_MS + 600_000));
                assert_same(&store, &query).await;
            }
        }
        // The largest groups of the edges need not be those of the whole: none may be left out.
        let mut largest =
            question(MetricView::Observations, &["name", "environment", "level"], SUMS);
        (largest.from, largest.to) = (at(90 * 60_000), at(11 * HOUR_MS + 600_000));
        let all = answer(&store, &for_whole_rows(&largest), SUMS.len()).await;
        largest.top = Some(TopGroups { metric: 0, n: 1 });
        let found = answer(&store, &largest, SUMS.len()).await;
        let most = |rows: &[Value]| rows.iter().filter_map(|row| row[2][0].as_i64()).max();
        let (expected, found) = (most(&all), most(&found));
        assert!(1 < all.len() && expected == found, "{expected:?} {found:?}");
        let mut filtered = question(MetricView::Observations, &["type"], SUMS);
        filtered.filter.conditions.push(Condition {
            column: find(OBSERVATIONS, "model"),
            test: Test::AnyOf(vec!["m0".to_owned(), "later".to_owned()]),
        });
        assert_same(&store, &filtered).await;
    })
    .await;
}

#[tokio::test]
async fn every_dimension_and_measure_of_a_column_means_the_same_on_whole_rows() {
    on_each_database(|store| async move {
        write(&store, (1..40).map(observation).collect()).await;
        let subject =
            Subject::Observation(TraceId::new("t1").unwrap(), ObservationId::new("o1").unwrap());
        let score = score("s", ScoreValue::Numeric(1.0), subject);
        store.telemetry.put_scores(&project(), &[score], at(0)).await.unwrap();
        for name in [
            "name",
            "userId",
            "traceId",
            "release",
            "version",
            "traceName",
            "promptVersion",
            "isRootObservation",
            "startTimeMonth",
            "experimentId",
            "parentObservationId",
        ] {
            let query =
                question(MetricView::Observations, &[name], &[(Aggregation::Count, "count")]);
            assert_same(&store, &query).await;
        }
        let measures = [
            (Aggregation::Max, "latency"),
            (Aggregation::Min, "streamingLatency"),
            (Aggregation::P95, "timeToFirstToken"),
            (Aggregation::P90, "totalTokens"),
            (Aggregation::Avg, "tokensPerSecond"),
            (Aggregation::Histogram, "outputTokens"),
            (Aggregation::Sum, "countScores"),
            (Aggregation::Uniq, "uniqueUserIds"),
            (Aggregation::Uniq, "traceId"),
            (Aggregation::Uniq, "inputTokens"),
        ];
        for (aggregation, measure) in measures {
            let query = question(MetricView::Observations, &["type"], &[(aggregation, measure)]);
            let by_rows = answer(&store, &for_whole_rows(&query), 1).await;
            assert_eq!(answer(&store, &query, 1).await, by_rows, "{aggregation} {measure}");
        }
        for (aggregation, measure) in [
            (Aggregation::Sum, "observationsCount"),
            (Aggregation::Sum, "scoresCount"),
            (Aggregation::P50, "latency"),
            (Aggregation::Max, "totalCost"),
            (Aggregation::Uniq, "uniqueUserIds"),
        ] {
            let query = question(MetricView::Traces, &["environment"], &[(aggregation, measure)]);
            let by_rows = answer(&store, &for_whole_rows(&query), 1).await;
            assert_eq!(answer(&store, &query, 1).await, by_rows, "{aggregation} {measure}");
        }
        assert_eq!(find(TRACES, "metadata").map(|column| column.id), Some("metadata"));
    })
    .await;
}

#[tokio::test]
async fn lists_make_a_group_for_each_member_tags_one_for_all_and_costs_one_for_each_type() {
    on_each_database(|store| async move {
        let mut with_tools = observation(3);
        with_tools.called_tools = vec!["search".to_owned(), "add".to_owned()];
        write(&store, vec![with_tools, observation(6)]).await;
        let count = &[(Aggregation::Count, "count")];
        let groups = |name: &'static str, metrics: &[(Aggregation, &str)]| {
            let query = question(MetricView::Observations, &[name], metrics);
            let store = store.clone();
            async move {
                let rows = answer(&store, &query, 1).await;
                rows.iter().map(|row| json!([row[1][0], row[2][0]])).collect::<Value>()
            }
        };
        assert_eq!(
            groups("calledToolNames", count).await,
            json!([[null, 1], ["add", 1], ["search", 1]])
        );
        assert_eq!(groups("tags", count).await, json!([["a,b0", 1], ["a,b1", 1]]));
        let by_type = groups("costType", &[(Aggregation::Sum, "costByType")]).await;
        assert_eq!(by_type, json!([["input", 0.5], ["total", 1]]));
        let by_type = groups("usageType", &[(Aggregation::Sum, "usageByType")]).await;
        assert_eq!(by_type, json!([["input", 90], ["output", 9], ["total", 99]]));
    })
    .await;
}

#[tokio::test]
async fn score_metrics_filter_by_type_and_by_columns_of_trace_and_observation() {
    on_each_database(|store| async move {
        write(&store, (1..5).map(observation).collect()).await;
        let (t1, t2) = (TraceId::new("t1").unwrap(), TraceId::new("t2").unwrap());
        let o1 = ObservationId::new("o1").unwrap();
        let scores = [
            score("1", ScoreValue::Numeric(2.0), Subject::Trace(t1.clone())),
            score("2", ScoreValue::Numeric(4.0), Subject::Observation(t1.clone(), o1)),
            score("3", ScoreValue::Boolean(true), Subject::Trace(t2.clone())),
            score("4", ScoreValue::Boolean(false), Subject::Session("s".to_owned())),
            score("5", ScoreValue::Categorical("good".to_owned()), Subject::Trace(t2)),
        ];
        store.telemetry.put_scores(&project(), &scores, at(0)).await.unwrap();
        let rows = |view, name: &'static str, metrics: &[(Aggregation, &str)]| {
            let query = question(view, &[name], metrics);
            let store = store.clone();
            async move {
                let n = query.metrics.len();
                let rows = answer(&store, &query, n).await;
                rows.iter().map(|row| json!([row[1][0], row[2]])).collect::<Value>()
            }
        };
        let avg = &[(Aggregation::Count, "count"), (Aggregation::Avg, "value")];
        assert_eq!(
            rows(MetricView::ScoresNumeric, "dataType", avg).await,
            json!([["BOOLEAN", [2, 0.5]], ["NUMERIC", [2, 3]]])
        );
        assert_eq!(
            rows(MetricView::ScoresBoolean, "booleanValue", avg).await,
            json!([["false", [1, 0]], ["true", [1, 1]]])
        );
        let count = &[(Aggregation::Count, "count")];
        assert_eq!(
            rows(MetricView::ScoresCategorical, "stringValue", count).await,
            json!([["good", [1]]])
        );
        assert_eq!(
            rows(MetricView::ScoresNumeric, "userId", count).await,
            json!([[null, [1]], ["u1", [2]], ["u2", [1]]])
        );
        assert_eq!(
            rows(MetricView::ScoresNumeric, "observationName", count).await,
            json!([[null, [3]], ["step 1", [1]]])
        );
        let p90 = &[(Aggregation::P90, "value")];
        assert_eq!(
            rows(MetricView::ScoresNumeric, "timestampDay", p90).await[0][0],
            json!(at(0).to_string()[..10])
        );
        let other = ProjectId::new("other").unwrap();
        let query = question(MetricView::ScoresNumeric, &["name"], count);
        assert_eq!(store.telemetry.metrics(&other, &query).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn trace_metrics_refuse_columns_of_observations() {
    on_each_database(|store| async move {
        let project = project();
        let batch = Batch { observations: (1..=5).map(observation).collect(), ..Batch::default() };
        let write = store.telemetry.write_batch(&project, batch, at(0));
        write.await.unwrap();
        let raw = json!({
            "type": "string", "column": "text", "operator": "matches", "value": "step",
        });
        let mut query = question(MetricView::Traces, &[], &[(Aggregation::Count, "count")]);
        query.filter = Filter::parse(&[raw], MetricView::Traces.columns()).unwrap();
        let refused = store.telemetry.metrics(&project, &query).await;
        assert!(matches!(refused, Err(Error::Conflict(why)) if why.contains("observations")));
    })
    .await;
}

#[test]
fn groups_with_many_metrics_are_refused_before_they_take_much_memory() {
    let metrics = [(Aggregation::Sum, "latency"); 80];
    let question = question(MetricView::Observations, &["name"], &metrics);
    let mut groups = Groups::default();
    let refused = (0..MAX_GROUPS).find_map(|n| {
        let name = vec![Some(format!("name {n}"))];
        groups.of(&question, None, name).err()
    });
    assert!(matches!(refused, Some(Error::Conflict(TOO_LARGE))));
    assert!(groups.n_bytes <= MAX_GROUP_BYTES + (1 << 20));
    let one = &mut Groups::default();
    for n in 0..MAX_GROUPS {
        let question = MetricQuery { metrics: question.metrics[..1].to_vec(), ..question.clone() };
        one.of(&question, None, vec![Some(format!("name {n}"))]).unwrap();
    }
}
