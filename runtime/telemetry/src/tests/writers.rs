//! Several writers and several nodes on one database.

use futures_util::future::{BoxFuture, join_all};
use perpend_domain::patch::{Patch, PatchSubject};
use perpend_domain::pricing::PriceTable;

use super::logs::log;
use super::*;
use crate::rollup::{HOUR, IS_OBSERVATION};
use crate::testing::Store;
use perpend_db::{in_transaction, query_scalar};
use perpend_domain::telemetry::EventBatch;

/// Groups of observations whose sums differ from a recount, and the number of counted observations.
async fn wrong_sums(store: &Store) -> (i64, i64) {
    let groups = format!(
        "SELECT SUM(n) AS n, SUM(l) AS l, SUM(c) AS c, SUM(t) AS t
           FROM (SELECT tenant, hour, environment, kind, model, level, n, sum_latency AS l,
                        sum_total_cost AS c, sum_total_tokens AS t
                   FROM observation_rollups
                  UNION ALL
                 SELECT tenant, started_at - (started_at % {HOUR} + {HOUR}) % {HOUR}, environment, kind,
                        COALESCE(model, ''), level, -1, -(ended_at - started_at) / 1000.0,
                        -COALESCE(total_cost, 0), -COALESCE(total_tokens, 0)
                   FROM observations o WHERE {IS_OBSERVATION}) x
          GROUP BY tenant, hour, environment, kind, model, level"
    );
    let wrong = format!(
        "SELECT COUNT(*) FROM ({groups}) g
          WHERE n <> 0 OR ABS(l) > 0.001 OR ABS(c) > 0.000001 OR ABS(t) > 0.001"
    );
    let counted = "SELECT COALESCE(CAST(SUM(n) AS BIGINT), 0) FROM observation_rollups";
    {
        let wrong: i64 = query_scalar(wrong).fetch_one(&store.pool).await.unwrap();
        let counted: i64 = query_scalar(counted).fetch_one(&store.pool).await.unwrap();
        (wrong, counted)
    }
}

/// Spans of all models and two hours, forwards or backwards.
fn spans(first: u32, backwards: bool) -> Vec<Observation> {
    let mut spans: Vec<Observation> = (0..12)
        .map(|n| {
            // The traces of all writers, so that they collide there too.
            let mut own = span(n % 5, first * 100 + n, None);
            own.model = Some(format!("model {}", n % 4));
            if n % 2 == 0 {
                own.start = at(-3_600_000);
            }
            own
        })
        .collect();
    if backwards {
        spans.reverse();
    }
    spans
}

/// Parts of the same objects for all writers, each in its own order.
fn parts(writer: u32, backwards: bool) -> Vec<Patch> {
    let mut parts: Vec<Patch> = (0..12_u32)
        .map(|n| {
            let id = ObservationId::new(&format!("shared {n}")).unwrap();
            let name = format!("{writer} {n}");
            let mut part = Patch::new(name, at(0), false, PatchSubject::Observation(id));
            part.trace_id = Some(trace_id(n % 7));
            part.start = Some(at(0));
            part.end = Some(at(i64::from(writer)));
            part.model = Some(format!("model {}", (writer + n) % 4));
            part
        })
        .collect();
    if backwards {
        parts.reverse();
    }
    parts
}

#[tokio::test]
async fn writers_that_meet_in_the_same_traces_and_hours_all_succeed_and_their_sums_are_right() {
    for database in TempDatabase::each().await {
        eprintln!("on {}", database.url());
        let nodes = [database.open().await, database.open().await, database.open().await];
        let p = project("p1");
        for round in 0..3_u32 {
            let writes = (0..24_u32).map(|n| -> BoxFuture<'_, Result<(), Error>> {
                let (node, p) = (&nodes[(n % 3) as usize], &p);
                let (writer, backwards) = (round * 24 + n, n % 2 == 1);
                match n % 4 {
                    3 => Box::pin(async move {
                        let batch = EventBatch {
                            patches: parts(writer, backwards),
                            ..EventBatch::default()
                        };
                        let prices = PriceTable::default();
                        node.telemetry.write_events(p, batch, &prices, at(1)).await
                    }),
                    _ => {
                        let batch = batch(spans(writer, backwards));
                        Box::pin(node.telemetry.write_batch(p, batch, at(1)))
                    }
                }
            });
            for written in join_all(writes).await {
                written.unwrap();
            }
            let n_spans = i64::from((round + 1) * 18 * 12);
            let expected = (0, n_spans + 12);
            assert_eq!(wrong_sums(&nodes[0]).await, expected, "{}", database.url());
        }
        let (one, other) = ([trace_id(1), trace_id(2)], [trace_id(2), trace_id(1)]);
        let deleted = tokio::join!(
            nodes[0].telemetry.delete_traces(&p, &one),
            nodes[1].telemetry.delete_traces(&p, &other),
            nodes[2].telemetry.write_batch(&p, batch(spans(1_000, true)), at(2)),
        );
        deleted.0.unwrap();
        deleted.1.unwrap();
        match deleted.2 {
            // A trace that is being deleted refuses rows that would be deleted with it.
            Ok(()) | Err(Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        assert_eq!(wrong_sums(&nodes[0]).await.0, 0, "{}", database.url());
        for node in nodes {
            node.close().await;
        }
    }
}

#[tokio::test]
async fn a_span_and_its_log_records_that_two_nodes_write_at_once_find_each_other() {
    for database in TempDatabase::each().await {
        let nodes = [database.open().await, database.open().await];
        let p = project("p1");
        nodes[0].telemetry.make_tenant(&p).await.unwrap();
        let logs = |n: u32| vec![log(n, n, "gen_ai.user.message", "hi")];
        let bare = |n: u32| {
            let mut bare = span(n, n, None);
            bare.content = Content::default();
            bare.has_content = false;
            bare
        };
        for n in 1..=40_u32 {
            let only_logs = Batch { logs: logs(n), ..Batch::default() };
            let (spans, records) = tokio::join!(
                nodes[0].telemetry.write_batch(&p, batch(vec![bare(n)]), at(1)),
                nodes[1].telemetry.write_batch(&p, only_logs, at(1)),
            );
            spans.and(records).unwrap();
        }
        let stored = all(&nodes[0], &p).await;
        let found = |own: &Observation| stored.iter().any(|stored| stored.observation == *own);
        for n in 1..=40_u32 {
            let mut expected = bare(n);
            perpend_domain::join::join_logs(&mut expected, &logs(n));
            assert!(found(&expected), "{n} on {}", database.url());
        }
        for node in nodes {
            node.close().await;
        }
    }
}

#[tokio::test]
async fn a_request_of_many_things_holds_the_database_for_some_of_them_at_a_time() {
    on_each_database(|store| async move {
        let p = project("p");
        let patches = |n: u32| {
            let id = ObservationId::new(&format!("o{n}")).unwrap();
            let mut part = Patch::new(format!("e{n}"), at(0), false, PatchSubject::Observation(id));
            part.trace_id = Some(trace_id(n % 3));
            part.input = Some(Payload::Text("x".repeat(20_000)));
            part
        };
        let prices = PriceTable::default();
        let score =
            |n: u32| score(&format!("s{n}"), Subject::Trace(trace_id(1)), "quality", f64::from(n));
        let batch = EventBatch {
            patches: (0..350).map(patches).collect(),
            scores: (0..1_200).map(score).collect(),
            ..EventBatch::default()
        };
        for _ in 0..2 {
            let written = store.telemetry.write_events(&p, batch.clone(), &prices, at(1));
            written.await.unwrap();
            assert_eq!(all(&store, &p).await.len(), 350);
            let scores = store.telemetry.scores_of_traces(&p, &[trace_id(1)]).await.unwrap();
            assert_eq!(scores.len(), 1_200);
        }
        assert_eq!(wrong_sums(&store).await, (0, 350));
        // One change row for the engine per transaction.
        let n_transactions: i64 =
            query_scalar("SELECT COUNT(*) FROM touched").fetch_one(&store.pool).await.unwrap();
        assert!((4..20).contains(&n_transactions), "{n_transactions}");
    })
    .await;
}

#[tokio::test]
async fn parts_that_are_large_together_become_one_and_lose_nothing() {
    on_each_database(|store| async move {
        let p = project("p");
        let about = PatchSubject::Observation(ObservationId::new("o").unwrap());
        let prices = PriceTable::default();
        for n in 0..12_u32 {
            let mut part = Patch::new(format!("e{n}"), at(i64::from(n)), 0 < n, about.clone());
            part.trace_id = Some(trace_id(1));
            part.output = Some(Payload::Text(format!("{n}").repeat(600_000)));
            part.metadata.insert(format!("k{n}"), json!(n));
            let batch = EventBatch { patches: vec![part], ..EventBatch::default() };
            store.telemetry.write_events(&p, batch, &prices, at(9)).await.unwrap();
        }
        let found = &all(&store, &p).await[0].observation;
        assert_eq!(found.content.output, Some(Payload::Text("11".repeat(600_000))));
        assert_eq!(found.content.metadata.len(), 12);
        let n_parts: i64 =
            query_scalar("SELECT COUNT(*) FROM events").fetch_one(&store.pool).await.unwrap();
        assert!(n_parts < 10, "{n_parts}");
    })
    .await;
}

#[tokio::test]
async fn locks_of_a_transaction_stay_few_however_many_things_it_is_about() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let store = database.open().await;
    let p = project("p");
    let tenant = store.telemetry.make_tenant(&p).await.unwrap();
    let things: Vec<PatchSubject> = (0..2_000)
        .map(|n| PatchSubject::Observation(ObservationId::new(&format!("o{n}")).unwrap()))
        .collect();
    let things: Vec<_> = things.iter().map(|about| (about, Vec::new())).collect();
    let count = async || -> Result<i64, Error> {
        Ok(in_transaction!(&store.pool, |tx| {
            crate::events::lock(&mut tx, tenant.number, &things).await?;
            tx.integer(
                "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
                &[],
            )
            .await?
        }))
    };
    let n_locks = count().await.unwrap();
    assert!((200..=256).contains(&n_locks), "{n_locks}");
    store.close().await;
}

#[tokio::test]
async fn a_checkpoint_moves_what_was_committed_into_the_file_of_the_database() {
    let database = TempDatabase::sqlite();
    let DatabaseUrl::Sqlite(path) = database.url() else {
        unreachable!("the database is an SQLite file");
    };
    let store = database.open().await;
    store
        .telemetry
        .write_batch(&project("p1"), batch(vec![span(1, 1, None)]), at(0))
        .await
        .unwrap();
    store.pool.checkpoint().await.unwrap();
    // Read as a file without a writer: without its log.
    let file = sqlx_sqlite::SqliteConnectOptions::new().filename(path).immutable(true);
    let file = sqlx_sqlite::SqlitePool::connect_with(file).await.unwrap();
    let n_stored: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM observations").fetch_one(&file).await.unwrap();
    assert_eq!(n_stored, 1);
}
