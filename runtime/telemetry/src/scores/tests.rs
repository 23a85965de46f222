//! Guarantees of stored scores, on each database.

mod analyzed;
mod filters;
mod parts;

use std::borrow::Cow;
use std::collections::BTreeMap;

use perpend_domain::evaluation::Target;
use perpend_domain::filter::{Cell, Order, Test, TextOp};
use perpend_domain::ids::{
    EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, ProjectId, RuleId, ScoreId,
    TraceId,
};
use perpend_domain::plugin::Digest;
use perpend_domain::score::{
    NewScore, Score, ScoreDataType, ScoreOrigin, ScoreSource, ScoreValue, Subject,
};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;
use sqlx::{AssertSqlSafe, Row as _};

use super::{VersionScores, delete_surplus, put};
use crate::Error;
use crate::testing::{Store, on_each_database};
use perpend_db::{Engine, in_transaction};
use perpend_domain::list::Paging;
use perpend_domain::telemetry::{MemberTest, ScoreQuery, ScoreValues};

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn trace(id: &str) -> TraceId {
    TraceId::new(id).unwrap()
}

fn id(id: &str) -> ScoreId {
    ScoreId::new(id).unwrap()
}

fn score(id: &str, value: ScoreValue) -> NewScore {
    NewScore {
        id: ScoreId::new(id).unwrap(),
        name: "correct".to_owned(),
        value,
        subject: Subject::Trace(trace("t1")),
        source: ScoreSource::Api,
        timestamp: at(0),
        environment: "default".to_owned(),
        comment: None,
        metadata: serde_json::Map::new(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
    }
}

fn origin(execution: &str) -> ScoreOrigin {
    ScoreOrigin {
        execution_id: ExecutionId::new(execution).unwrap(),
        evaluator_id: EvaluatorId::new("evaluator").unwrap(),
        evaluator_version_id: EvaluatorVersionId::new("version").unwrap(),
        rule_id: RuleId::new("rule").unwrap(),
        fingerprint: Digest::of(b"all that made it"),
        inclusion_probability: 0.1,
        score_name: "given".to_owned(),
    }
}

fn full(name: &str, value: ScoreValue, subject: Subject) -> NewScore {
    NewScore {
        subject,
        source: ScoreSource::Eval,
        environment: "production".to_owned(),
        comment: Some("because".to_owned()),
        metadata: json!({"z": [1.5, null], "a": "ü"}).as_object().unwrap().clone(),
        config_id: Some("config".to_owned()),
        queue_id: Some("queue".to_owned()),
        author_user_id: Some("author".to_owned()),
        origin: Some(origin("execution")),
        ..score(name, value)
    }
}

fn ids(scores: &[Score]) -> Vec<&str> {
    scores.iter().map(|s| s.written.id.as_str()).collect()
}

/// Ids of the scores that match a query, newest first.
async fn found(store: &Store, project: &ProjectId, query: ScoreQuery) -> Vec<String> {
    let page = store.telemetry.scores(project, &query, None, 100).await.unwrap();
    let numbered =
        store.telemetry.scores_page(project, &query, Paging { page: 1, limit: 100 }).await.unwrap();
    assert_eq!(numbered.items, page.items, "both lists agree");
    assert_eq!(numbered.n_total, page.items.len() as u64);
    ids(&page.items).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_score_of_every_type_and_target_reads_back_as_written() {
    on_each_database(|store| async move {
        let home = project("home");
        let observation = ObservationId::new("o1").unwrap();
        let written = [
            full("1", ScoreValue::Numeric(-0.1 + 0.3), Subject::Trace(trace("t1"))),
            full("2", ScoreValue::Boolean(false), Subject::Observation(trace("t1"), observation)),
            full("3", ScoreValue::Categorical("good".into()), Subject::Session("s".into())),
            full("4", ScoreValue::Text("a text".into()), Subject::Experiment("e".into())),
            score("5", ScoreValue::Correction(String::new())),
        ];
        store.telemetry.put_scores(&home, &written, at(1)).await.unwrap();
        for new in written {
            let stored = store.telemetry.score(&home, &new.id).await.unwrap().unwrap();
            assert_eq!((stored.created_at, stored.updated_at), (at(1), at(1)));
            assert_eq!(stored.written, new);
        }
    })
    .await;
}

#[tokio::test]
async fn writing_a_score_again_replaces_its_value_and_keeps_its_subject() {
    on_each_database(|store| async move {
        let home = project("home");
        let first = score("s", ScoreValue::Numeric(0.5));
        store.telemetry.put_scores(&home, std::slice::from_ref(&first), at(1)).await.unwrap();
        // Writing the same score again changes nothing.
        store.telemetry.put_scores(&home, std::slice::from_ref(&first), at(2)).await.unwrap();
        let stored = store.telemetry.score(&home, &id("s")).await.unwrap().unwrap();
        assert_eq!((stored.created_at, stored.updated_at), (at(1), at(1)));

        let second = NewScore {
            timestamp: at(99),
            ..full("s", ScoreValue::Text("now a text".into()), Subject::Session("x".into()))
        };
        store.telemetry.put_scores(&home, std::slice::from_ref(&second), at(3)).await.unwrap();
        let stored = store.telemetry.score(&home, &id("s")).await.unwrap().unwrap();
        assert_eq!((stored.created_at, stored.updated_at), (at(1), at(3)));
        let expected = NewScore {
            subject: first.subject,
            environment: first.environment,
            timestamp: first.timestamp,
            ..second
        };
        assert_eq!(stored.written, expected);
    })
    .await;
}

/// The contract of `put_scores` as a model.
fn put_in_model(model: &mut BTreeMap<ScoreId, Score>, scores: &[NewScore], now: Timestamp) {
    let before = model.clone();
    for new in scores {
        let existing = model.get(&new.id).cloned().unwrap_or_else(|| Score {
            written: new.clone(),
            created_at: now,
            updated_at: now,
        });
        let written = NewScore {
            subject: existing.written.subject.clone(),
            environment: existing.written.environment.clone(),
            timestamp: existing.written.timestamp,
            ..new.clone()
        };
        let score = Score { written, updated_at: now, ..existing };
        model.insert(new.id.clone(), score);
    }
    for (id, score) in &mut *model {
        if let Some(before) = before.get(id)
            && before.written == score.written
        {
            score.updated_at = before.updated_at;
        }
    }
}

fn any_score() -> impl Strategy<Value = NewScore> {
    let value = prop_oneof![
        (-3..3_i8).prop_map(|n| ScoreValue::Numeric(f64::from(n))),
        any::<bool>().prop_map(ScoreValue::Boolean),
        "[ab]".prop_map(ScoreValue::Categorical),
    ];
    let subject = prop_oneof![
        "[tu]".prop_map(|t| Subject::Trace(trace(&t))),
        "[sx]".prop_map(Subject::Session),
    ];
    let origin = prop_oneof![Just(None), Just(Some(origin("x")))];
    (0..90_u8, value, subject, 0..4_i64, proptest::option::of("[cd]"), origin).prop_map(
        |(n, value, subject, seconds, comment, origin)| NewScore {
            subject,
            timestamp: at(seconds),
            comment,
            origin,
            ..score(&format!("{n:02}"), value)
        },
    )
}

#[tokio::test]
async fn any_sequence_of_writes_with_repetitions_matches_the_model() {
    on_each_database(|store| async move {
        let calls = proptest::collection::vec(proptest::collection::vec(any_score(), 0..150), 1..5);
        let mut runner = TestRunner::default();
        for case in 0..24 {
            let calls = calls.new_tree(&mut runner).unwrap().current();
            let home = project(&format!("case {case}"));
            let mut model = BTreeMap::new();
            for (n, scores) in (0..).zip(&calls) {
                store.telemetry.put_scores(&home, scores, at(n)).await.unwrap();
                put_in_model(&mut model, scores, at(n));
            }
            let mut stored = Vec::new();
            let mut after = None;
            loop {
                let query = ScoreQuery::default();
                let page = store.telemetry.scores(&home, &query, after.as_ref(), 17).await.unwrap();
                stored.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let mut expected: Vec<Score> = model.into_values().collect();
            expected
                .sort_by_key(|s| std::cmp::Reverse((s.written.timestamp, s.written.id.clone())));
            assert_eq!(stored, expected, "{calls:#?}");
        }
    })
    .await;
}

#[tokio::test]
async fn writers_of_the_same_scores_in_opposite_order_do_not_block_each_other() {
    on_each_database(|store| async move {
        let home = project("home");
        let forward: Vec<_> =
            (0..80).map(|n| score(&format!("s{n:02}"), ScoreValue::Numeric(1.0))).collect();
        let backward: Vec<_> = forward
            .iter()
            .rev()
            .map(|s| NewScore { value: ScoreValue::Numeric(2.0), ..s.clone() })
            .collect();
        let writes = (0..8).map(|n| {
            let scores = if n % 2 == 0 { &forward } else { &backward };
            store.telemetry.put_scores(&home, scores, at(n))
        });
        for written in futures_util::future::join_all(writes).await {
            written.unwrap();
        }
        let page = store
            .telemetry
            .scores_page(&home, &ScoreQuery::default(), Paging { page: 1, limit: 100 })
            .await
            .unwrap();
        assert_eq!(page.n_total, 80);
        // Whole calls are serialised: the last one wins for all scores.
        let last = &page.items[0].written.value;
        assert!(page.items.iter().all(|s| s.written.value == *last));
    })
    .await;
}

#[tokio::test]
async fn text_that_one_database_cannot_keep_is_stored_the_same_way_in_both() {
    on_each_database(|store| async move {
        let home = project("home");
        let hostile = NewScore {
            name: "na\0me".to_owned(),
            comment: Some("\0".to_owned()),
            metadata: json!({"k\0": ["a\0b", 1]}).as_object().unwrap().clone(),
            ..score("s", ScoreValue::Categorical("x\0".into()))
        };
        store.telemetry.put_scores(&home, std::slice::from_ref(&hostile), at(1)).await.unwrap();
        let stored = store.telemetry.score(&home, &id("s")).await.unwrap().unwrap().written;
        assert_eq!(stored.name, "na\u{fffd}me");
        assert_eq!(stored.comment.as_deref(), Some("\u{fffd}"));
        assert_eq!(stored.value, ScoreValue::Categorical("x\u{fffd}".into()));
        assert_eq!(stored.metadata["k\u{fffd}"], json!(["a\u{fffd}b", 1]));
        let query = ScoreQuery { names: vec!["na\0me".to_owned()], ..ScoreQuery::default() };
        assert_eq!(found(&store, &home, query).await, ["s"]);
    })
    .await;
}

/// Six scores that differ in every property that a query can test, newest first: a, b, c, d, e, f.
fn six() -> [NewScore; 6] {
    let about_step = Subject::Observation(trace("t2"), ObservationId::new("o").unwrap());
    let mut six = [
        score("a", ScoreValue::Numeric(0.2)),
        score("b", ScoreValue::Numeric(0.8)),
        score("c", ScoreValue::Boolean(true)),
        full("d", ScoreValue::Numeric(1.0), about_step),
        score("e", ScoreValue::Categorical("warm".into())),
        score("f", ScoreValue::Categorical("cold".into())),
    ];
    for (score, seconds) in six.iter_mut().zip([6, 5, 4, 3, 2, 1]) {
        score.timestamp = at(seconds);
    }
    six[4].name = "tone".to_owned();
    six[4].subject = Subject::Session("s".into());
    six[5].subject = Subject::Experiment("x".into());
    six
}

fn query(ask: impl FnOnce(&mut ScoreQuery)) -> ScoreQuery {
    let mut query = ScoreQuery::default();
    ask(&mut query);
    query
}

#[tokio::test]
async fn each_condition_of_a_query_returns_its_matches() {
    on_each_database(|store| async move {
        let home = project("home");
        store.telemetry.put_scores(&home, &six(), at(9)).await.unwrap();
        let text = |text: &str| vec![text.to_owned()];
        let observation = ObservationId::new("o").unwrap();
        let execution = origin("execution").execution_id;
        let cases = [
            (query(|_| {}), "abcdef"),
            (query(|q| q.ids = vec![id("f"), id("a")]), "af"),
            (query(|q| q.names = text("tone")), "e"),
            (query(|q| q.sources = vec![ScoreSource::Eval]), "d"),
            (query(|q| q.data_types = vec![ScoreDataType::Boolean]), "c"),
            (query(|q| q.environments = text("production")), "d"),
            (query(|q| q.config_ids = text("config")), "d"),
            (query(|q| q.queue_ids = text("queue")), "d"),
            (query(|q| q.author_user_ids = text("author")), "d"),
            (query(|q| q.trace_ids = vec![trace("t1")]), "abc"),
            (query(|q| q.trace_ids = vec![trace("t2"), trace("t3")]), "d"),
            (query(|q| q.observation_ids = vec![observation]), "d"),
            (query(|q| q.session_ids = text("s")), "e"),
            (query(|q| q.experiment_ids = text("x")), "f"),
            (query(|q| q.execution_ids = vec![execution]), "d"),
            (query(|q| q.from = Some(at(4))), "abc"),
            (query(|q| q.to = Some(at(4))), "def"),
        ];
        for (query, expected) in cases {
            let found = found(&store, &home, query.clone()).await;
            assert_eq!(found.concat(), expected, "{query:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn conditions_on_values_compare_within_a_type_and_all_must_hold() {
    on_each_database(|store| async move {
        let home = project("home");
        store.telemetry.put_scores(&home, &six(), at(9)).await.unwrap();
        let cold = ScoreValues::Categorical(vec!["cold".to_owned()]);
        let cases = [
            (query(|q| q.values = ScoreValues::Numeric(vec![0.2, 1.0])), "ad"),
            (query(|q| q.values = ScoreValues::Boolean(vec![true])), "c"),
            (query(|q| q.values = cold), "f"),
            (query(|q| q.number = vec![(Order::AtLeast, 0.8), (Order::Less, 1.0)]), "b"),
            (query(|q| q.number = vec![(Order::NotEqual, 1.0)]), "ab"),
            (
                query(|q| {
                    q.names = vec!["tone".to_owned()];
                    q.from = Some(at(3));
                }),
                "",
            ),
        ];
        for (query, expected) in cases {
            let found = found(&store, &home, query.clone()).await;
            assert_eq!(found.concat(), expected, "{query:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_scores_of_many_traces_are_read_at_once() {
    on_each_database(|store| async move {
        let home = project("home");
        store.telemetry.put_scores(&home, &six(), at(9)).await.unwrap();
        let mut traces: Vec<_> = (0..300).map(|n| trace(&format!("other {n}"))).collect();
        traces.extend([trace("t1"), trace("t2")]);
        let both = store.telemetry.scores_of_traces(&home, &traces).await.unwrap();
        assert_eq!(ids(&both), ["a", "b", "c", "d"]);
        assert!(store.telemetry.scores_of_traces(&home, &[]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_numbered_page_past_the_end_is_empty_and_has_the_total() {
    on_each_database(|store| async move {
        let home = project("home");
        let five: Vec<_> = (0..5)
            .map(|n| NewScore {
                timestamp: at(n),
                ..score(&n.to_string(), ScoreValue::Boolean(true))
            })
            .collect();
        store.telemetry.put_scores(&home, &five, at(9)).await.unwrap();
        let query = ScoreQuery::default();
        for (page, expected) in [(1, vec!["4", "3"]), (3, vec!["0"]), (4, vec![])] {
            let page = store
                .telemetry
                .scores_page(&home, &query, Paging { page, limit: 2 })
                .await
                .unwrap();
            assert_eq!((ids(&page.items), page.n_total), (expected, 5));
        }
    })
    .await;
}

#[tokio::test]
async fn a_cursor_neither_repeats_nor_loses_among_equal_times_while_others_write() {
    on_each_database(|store| async move {
        let home = project("home");
        let there: Vec<_> =
            (0..60).map(|n| score(&format!("there {n:02}"), ScoreValue::Numeric(0.0))).collect();
        store.telemetry.put_scores(&home, &there, at(1)).await.unwrap();
        let read = async {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let query = ScoreQuery::default();
                let page = store.telemetry.scores(&home, &query, after.as_ref(), 7).await.unwrap();
                seen.extend(page.items.into_iter().map(|s| s.written.id));
                after = page.next;
                if after.is_none() {
                    return seen;
                }
            }
        };
        let write = async {
            for n in 0..40 {
                let late = score(&format!("{} late", n * 7919 % 40), ScoreValue::Numeric(0.0));
                store.telemetry.put_scores(&home, &[late], at(2)).await.unwrap();
            }
        };
        let (seen, ()) = futures_util::future::join(read, write).await;
        let mut once = seen.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), seen.len(), "nothing twice");
        assert!(there.iter().all(|s| seen.contains(&s.id)), "all that was there");
    })
    .await;
}

#[tokio::test]
async fn an_attempt_with_fewer_scores_leaves_none_of_the_former() {
    on_each_database(|store| async move {
        let home = project("home");
        let of = |id: &str, execution: &str| NewScore {
            origin: Some(origin(execution)),
            source: ScoreSource::Eval,
            ..score(id, ScoreValue::Numeric(1.0))
        };
        let first = [of("1", "x"), of("2", "x"), of("3", "x"), of("4", "other")];
        store.telemetry.put_scores(&home, &first, at(1)).await.unwrap();
        store.telemetry.put_scores(&project("foreign"), &first, at(1)).await.unwrap();
        let execution = ExecutionId::new("x").unwrap();
        let rewrite = async || -> Result<(), Error> {
            in_transaction!(&store.pool, |tx| {
                let (target, keep) = (Target::Trace(trace("t1")), [id("2")]);
                delete_surplus(&mut tx, (&home, &target), &execution, &keep).await?;
                put(&mut tx, &home, &[of("2", "x")], at(2)).await?;
            });
            Ok(())
        };
        rewrite().await.unwrap();
        rewrite().await.unwrap();
        assert_eq!(found(&store, &home, ScoreQuery::default()).await, ["4", "2"]);
        assert_eq!(found(&store, &project("foreign"), ScoreQuery::default()).await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn scores_of_another_project_are_not_found_even_under_the_same_id() {
    on_each_database(|store| async move {
        let (home, foreign) = (project("home"), project("foreign"));
        let mine = score("s", ScoreValue::Numeric(1.0));
        store.telemetry.put_scores(&home, std::slice::from_ref(&mine), at(1)).await.unwrap();
        assert_eq!(store.telemetry.score(&foreign, &mine.id).await.unwrap(), None);
        assert!(found(&store, &foreign, ScoreQuery::default()).await.is_empty());
        assert!(
            store.telemetry.scores_of_traces(&foreign, &[trace("t1")]).await.unwrap().is_empty()
        );
        let refused = store.telemetry.delete_score(&foreign, &mine.id).await;
        assert!(matches!(refused, Err(Error::NotFound)), "{refused:?}");

        let theirs = score("s", ScoreValue::Boolean(false));
        store.telemetry.put_scores(&foreign, std::slice::from_ref(&theirs), at(2)).await.unwrap();
        store.telemetry.delete_score(&foreign, &theirs.id).await.unwrap();
        let kept = store.telemetry.score(&home, &mine.id).await.unwrap().unwrap();
        assert_eq!(kept.written, mine);
    })
    .await;
}

#[tokio::test]
async fn the_newest_scores_are_read_in_the_order_of_their_index() {
    on_each_database(|store| async move {
        let home = project("home");
        let many: Vec<_> = (0..3_000)
            .map(|n| NewScore {
                timestamp: at(n),
                subject: Subject::Trace(trace(&n.to_string())),
                ..score(&format!("{n}"), ScoreValue::Boolean(true))
            })
            .collect();
        store.telemetry.put_scores(&home, &many, at(0)).await.unwrap();
        let sql = "SELECT * FROM scores s WHERE s.project_id = 'home' AND s.name IN ('correct')
                      AND (s.timestamp, s.id) < (1760002000000000, '5')
                    ORDER BY s.timestamp DESC, s.id DESC LIMIT 51";
        let plan: Vec<String> = match store.pool.engine() {
            Engine::Sqlite { writer, .. } => {
                let explain = format!("EXPLAIN QUERY PLAN {sql}");
                let rows = sqlx::query(AssertSqlSafe(explain)).fetch_all(writer).await.unwrap();
                rows.iter().map(|row| row.get("detail")).collect()
            }
            Engine::Postgres(pool) => {
                sqlx::raw_sql("ANALYZE scores").execute(pool).await.unwrap();
                let explain = format!("EXPLAIN {sql}");
                let rows = sqlx::query(AssertSqlSafe(explain)).fetch_all(pool).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        };
        let plan = plan.join("\n");
        let has_index = plan.contains("scores_newest") || plan.contains("scores_by_name");
        assert!(has_index, "{plan}");
        assert!(!plan.contains("Sort") && !plan.contains("TEMP B-TREE"), "{plan}");
    })
    .await;
}

#[tokio::test]
async fn a_score_from_before_evaluators_named_scores_shows_its_name_as_the_given_one() {
    on_each_database(|store| async move {
        let home = project("home");
        let subject = Subject::Trace(trace("t1"));
        let written = full("1", ScoreValue::Boolean(true), subject);
        store.telemetry.put_scores(&home, &[written], at(1)).await.unwrap();
        store.pool.change("UPDATE scores SET given_name = NULL", &[]).await.unwrap();
        let read = store.telemetry.score(&home, &id("1")).await.unwrap().unwrap().written;
        let origin = read.origin.unwrap();
        assert_eq!((read.name.as_str(), origin.score_name.as_str()), ("correct", "correct"));
    })
    .await;
}

#[tokio::test]
async fn the_scores_of_versions_are_summed_by_name_from_a_time_up_to_a_limit() {
    on_each_database(|store| async move {
        let home = project("home");
        let made = |id: &str, version: &str, seconds, value| {
            let version = EvaluatorVersionId::new(version).unwrap();
            let origin = ScoreOrigin { evaluator_version_id: version, ..origin(id) };
            NewScore { timestamp: at(seconds), origin: Some(origin), ..score(id, value) }
        };
        let category = ScoreValue::Categorical("good".to_owned());
        let written = [
            made("a", "v1", 0, ScoreValue::Numeric(0.5)),
            made("b", "v1", 5, ScoreValue::Numeric(0.25)),
            made("c", "v1", 6, ScoreValue::Boolean(true)),
            made("d", "v2", 7, category),
        ];
        store.telemetry.put_scores(&home, &written, at(8)).await.unwrap();
        let versions = ["v1", "none", "v2"].map(|id| EvaluatorVersionId::new(id).unwrap());
        let found = store.telemetry.version_scores(&home, &versions, None, 10).await.unwrap();
        let sums =
            |n, total, data_type| VersionScores { name: "correct".to_owned(), data_type, n, total };
        let of_first =
            vec![sums(2, 0.75, ScoreDataType::Numeric), sums(1, 1.0, ScoreDataType::Boolean)];
        let of_second = vec![sums(1, 0.0, ScoreDataType::Categorical)];
        assert_eq!(found, [of_first, Vec::new(), of_second]);
        for (since, limit, counts) in [(Some(at(5)), 10, [2, 0, 1]), (None, 1, [1, 0, 1])] {
            let found = store.telemetry.version_scores(&home, &versions, since, limit).await;
            let found = found.unwrap();
            let found = found.iter().map(|scores| scores.iter().map(|each| each.n).sum::<u64>());
            assert_eq!(found.collect::<Vec<_>>(), counts);
        }
        let by_day = store.telemetry.version_scores_by_day(&home, &versions, at(0), 10).await;
        let by_day = by_day.unwrap();
        let counts = by_day.iter().map(|days| days.values().sum::<u64>());
        assert_eq!(counts.collect::<Vec<_>>(), [3, 0, 1]);
        let other = project("other");
        let none = store.telemetry.version_scores(&other, &versions, None, 10).await.unwrap();
        assert_eq!(none, vec![Vec::new(); 3]);
    })
    .await;
}
