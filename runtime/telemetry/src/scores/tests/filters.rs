//! Results of conditions, and the indexes they use.

use super::*;
use crate::testing::{OpenStore as _, TempDatabase};

#[tokio::test]
async fn conditions_on_metadata_are_equal_in_sql_and_in_memory() {
    on_each_database(|store| async move {
        let telemetry = &store.telemetry;
        let home = project("home");
        let metadata = [
            json!({}),
            json!({"k": "Alpha beta"}),
            json!({"k": "alpha"}),
            json!({"k": ""}),
            json!({"k": null}),
            json!({"k": 12.50}),
            json!({"k": 1e20}),
            json!({"k": true}),
            json!({"k": {"b": ["x", 1], "a": "ü\"%_"}}),
            json!({"k": ["alpha", "beta"]}),
            json!({"a \"key\".[0]": "alpha beta", "other": "beta"}),
            json!({"k": "100%_ü beta"}),
            json!({"k": {"a.b": "alpha", "a": {"b": "beta"}}, "k.a": {"b": 1}}),
            json!({"k.b": "beta", "k": {"b": "alpha"}}),
            json!({"k": ["alpha"], "k.0": null}),
        ];
        let metadata = metadata.map(|value| value.as_object().unwrap().clone());
        let scores: Vec<_> = (0_u8..)
            .zip(&metadata)
            .map(|(n, metadata)| NewScore {
                metadata: metadata.clone(),
                ..score(&char::from(b'a' + n).to_string(), ScoreValue::Numeric(1.0))
            })
            .collect();
        telemetry.put_scores(&home, &scores, at(1)).await.unwrap();

        let ops = [
            TextOp::Equal,
            TextOp::Contains,
            TextOp::DoesNotContain,
            TextOp::StartsWith,
            TextOp::EndsWith,
            TextOp::MatchesAnyCase,
        ];
        let values = ["", "alpha", "ALPHA", "beta", "1", "true", "null", "%_", "ü", "x\"", "}"];
        for key in ["k", "a \"key\".[0]", "absent", "k.b", "k.a.b", "k.0", "k.a", ".", "k..b"] {
            let mut tests = vec![
                (MemberTest::IsSet, Test::MemberIsSet(key.to_owned())),
                (MemberTest::IsNotSet, Test::MemberIsNotSet(key.to_owned())),
            ];
            for (op, value) in ops.iter().flat_map(|op| values.map(|value| (*op, value))) {
                tests.push((
                    MemberTest::Text(op, value.to_owned()),
                    Test::MemberText(key.to_owned(), op, value.to_owned()),
                ));
            }
            for (in_sql, in_memory) in tests {
                let mut expected: Vec<_> = scores
                    .iter()
                    .filter(|score| in_memory.holds(&Cell::Object(Cow::Borrowed(&score.metadata))))
                    .map(|score| score.id.to_string())
                    .collect();
                expected.reverse();
                let filtered = query(|q| q.metadata = vec![(key.to_owned(), in_sql.clone())]);
                assert_eq!(found(&store, &home, filtered).await, expected, "{key} {in_sql:?}");
            }
        }
    })
    .await;
}

const TENANT: &str = "INSERT INTO tenants (number, project_id) VALUES ($1, $2)";
/// The columns of a trace that these conditions read, with the simplest values for the others.
const TRACE: &str = "
    INSERT INTO traces
        (tenant, trace_id, user_id, detail, revision, stale, first_seen, last_seen, n_open,
         has_marker, started_at, environment, is_public, level, n_observations, n_debug, n_default,
         n_warning, n_error, latency_us, total_cost)
    VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0, 0, 0, 'default', 0, 'DEFAULT', 1, 0, 1, 0, 0, 0, 0)";

#[tokio::test]
async fn scores_are_found_by_user_and_tags_of_their_trace() {
    on_each_database(|store| async move {
        let home = project("home");
        store.telemetry.put_scores(&home, &six(), at(9)).await.unwrap();
        let insert = async || -> Result<(), Error> {
            in_transaction!(&store.pool, |tx| {
                for (number, name) in [(7_i64, "home"), (8, "foreign")] {
                    perpend_db::query(TENANT).bind(number).bind(name).execute(&mut tx).await?;
                }
                let traces = [
                    (7_i64, "t1", "ann", r#"{"tags":["x","y"]}"#),
                    (7, "t2", "bob", r#"{"tags":["x"]}"#),
                    (7, "t3", "bob", "{}"),
                    (8, "t1", "eve", r#"{"tags":["z"]}"#),
                ];
                for (tenant, trace, user, detail) in traces {
                    perpend_db::query(TRACE)
                        .bind(tenant)
                        .bind(trace)
                        .bind(user)
                        .bind(detail)
                        .execute(&mut tx)
                        .await?;
                }
            });
            Ok(())
        };
        insert().await.unwrap();
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let cases = [
            (query(|q| q.trace_user_ids = list(&["ann"])), "abc"),
            (query(|q| q.trace_user_ids = list(&["bob", "ann"])), "abcd"),
            (query(|q| q.trace_user_ids = list(&["eve"])), ""),
            (query(|q| q.trace_tags = list(&["x"])), "abcd"),
            (query(|q| q.trace_tags = list(&["x", "y"])), "abc"),
            (query(|q| q.trace_tags = list(&["z"])), ""),
        ];
        for (query, expected) in cases {
            let found = found(&store, &home, query.clone()).await;
            assert_eq!(found.concat(), expected, "{query:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn scores_of_a_trace_are_found_by_the_trace_and_lists_by_their_time() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let perpend_db::Engine::Sqlite { reader, .. } = store.pool.engine() else {
        unreachable!("the database is an SQLite file");
    };
    let of_trace = ScoreQuery {
        trace_ids: vec!["t1".parse().unwrap(), "t2".parse().unwrap()],
        ..ScoreQuery::default()
    };
    let after = perpend_domain::list::Cursor::new(Timestamp::from_millis(1), "s1".to_owned());
    let project: ProjectId = "p1".parse().unwrap();
    for (query, index) in [(of_trace, "scores_by_trace"), (ScoreQuery::default(), "scores_newest")]
    {
        for after in [None, Some(&after)] {
            let statement = crate::scores::read::list(&store.pool, &query, &project, after);
            let sql = format!("EXPLAIN QUERY PLAN {} LIMIT 50", statement.sql);
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(reader).await.unwrap();
            assert!(plan[0].3.contains(index), "{plan:?}");
        }
    }
    store.close().await;
}
