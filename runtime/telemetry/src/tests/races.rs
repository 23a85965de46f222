//! Concurrent statements, batches and nodes.

use futures_util::future::join_all;

use super::*;
use crate::read::observation_row;
use crate::row::ObservationRow;
use crate::testing::Store;
use perpend_db::{Engine, in_transaction};

async fn row_of(store: &Store, project: &ProjectId, trace: u32, id: u32) -> ObservationRow {
    async fn find(
        store: &Store,
        tenant: i64,
        trace: u32,
        id: u32,
    ) -> Result<Option<ObservationRow>, Error> {
        let (trace, id) = (trace_id(trace), span_id(id));
        Ok(in_transaction!(&store.pool, |tx| {
            observation_row(&mut tx, tenant, &trace, &id).await?
        }))
    }
    let tenant = store.telemetry.tenant(project).await.unwrap().unwrap();
    find(store, tenant, trace, id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_content_that_moves_while_it_is_read_is_found_where_it_went() {
    on_each_database(|store| async move {
        let p = project("p1");
        let first = span(1, 1, None);
        store.telemetry.write_batch(&p, batch(vec![first.clone()]), at(0)).await.unwrap();
        let row = row_of(&store, &p, 1, 1).await;
        let mut richer = first;
        richer.attribute_count = 99;
        richer.content.output = Some(Payload::Text("the richer one".to_owned()));
        store.telemetry.write_batch(&p, batch(vec![richer.clone()]), at(1)).await.unwrap();
        let own = [(&row.own).into()];
        let found = store.telemetry.contents(&own).await.unwrap();
        assert_eq!(found, [Some(richer.content)]);
        store.telemetry.delete_traces(&p, &[trace_id(1)]).await.unwrap();
        assert_eq!(store.telemetry.contents(&own).await.unwrap(), [None]);
    })
    .await;
}

#[tokio::test]
async fn numbers_of_deleted_contents_are_never_given_again() {
    on_each_database(|store| async move {
        let (one, other) = (project("p1"), project("p2"));
        store.telemetry.write_batch(&one, batch(vec![span(1, 1, None)]), at(0)).await.unwrap();
        let row = row_of(&store, &one, 1, 1).await;
        store.telemetry.delete_traces(&one, &[trace_id(1)]).await.unwrap();
        store.telemetry.write_batch(&other, batch(vec![span(2, 2, None)]), at(1)).await.unwrap();
        let later = row_of(&store, &other, 2, 2).await;
        assert!(row.payload.is_some() && row.payload < later.payload);
        assert!(row.seq < later.seq);
        assert_eq!(store.telemetry.contents(&[(&row.own).into()]).await.unwrap(), [None]);
    })
    .await;
}

#[tokio::test]
async fn a_span_that_has_ended_since_is_not_open_even_before_the_next_fold() {
    on_each_database(|store| async move {
        let p = project("p1");
        let ended = span(1, 1, None);
        let mut open = ended.clone();
        open.end = None;
        let n_open = async |store: &Store| {
            let found = store.telemetry.trace_progress(&p, &[trace_id(1)]).await.unwrap();
            found[0].1.n_open
        };
        store.telemetry.write_batch(&p, batch(vec![open]), at(0)).await.unwrap();
        assert_eq!(n_open(&store).await, 1);
        store.telemetry.write_batch(&p, batch(vec![ended]), at(1)).await.unwrap();
        assert_eq!(n_open(&store).await, 0);
    })
    .await;
}

#[tokio::test]
async fn two_nodes_that_replace_one_observation_keep_the_better_version() {
    for database in TempDatabase::each().await {
        let nodes = [database.open().await, database.open().await];
        let p = project("p1");
        let version = |n: i64| {
            let mut version = span(1, 1, None);
            version.end = Some(at(n));
            version.content.output = Some(Payload::Text(format!("version {n}")));
            version
        };
        let first = batch(vec![version(0)]);
        nodes[0].telemetry.write_batch(&p, first, at(0)).await.unwrap();
        for round in 1..=20 {
            let writes = [2, 1].map(|n| {
                let (node, p) = (nodes[n as usize - 1].clone(), p.clone());
                let version = version(10 * round + n);
                async move { node.telemetry.write_batch(&p, batch(vec![version]), at(round)).await }
            });
            for written in join_all(writes).await {
                written.unwrap();
            }
            let stored = &all(&nodes[0], &p).await[0].observation;
            assert_eq!(*stored, version(10 * round + 2), "on {}", database.url());
        }
        for node in nodes {
            node.close().await;
        }
    }
}

#[tokio::test]
async fn of_batches_that_share_a_commit_only_the_one_at_fault_fails() {
    on_each_database(|store| async move {
        let p = project("p1");
        store.telemetry.write_batch(&p, batch(vec![span(0, 0, None)]), at(0)).await.unwrap();
        match store.pool.engine() {
            Engine::Sqlite { writer, .. } => sqlx::query(
                "CREATE TRIGGER no_such BEFORE INSERT ON observations WHEN NEW.name = 'refused' \
                 BEGIN SELECT RAISE(ABORT, 'refused'); END",
            )
            .execute(writer)
            .await
            .map(drop)
            .unwrap(),
            Engine::Postgres(pool) => sqlx::query(
                "ALTER TABLE observations ADD CONSTRAINT no_such CHECK (name <> 'refused')",
            )
            .execute(pool)
            .await
            .map(drop)
            .unwrap(),
        }
        let writes = (1..=40_u32).map(|n| {
            let (store, p) = (store.clone(), p.clone());
            let mut own = span(n, n, None);
            if n == 17 {
                "refused".clone_into(&mut own.name);
            }
            async move { (n, store.telemetry.write_batch(&p, batch(vec![own]), at(1)).await) }
        });
        for (n, written) in join_all(writes).await {
            match written {
                Ok(()) => assert_ne!(n, 17),
                Err(error) => assert!(n == 17 && matches!(error, Error::Sql(_)), "{n}: {error}"),
            }
        }
        assert_eq!(all(&store, &p).await.len(), 40);
    })
    .await;
}

#[tokio::test]
async fn more_batches_than_may_wait_are_refused_at_once_and_can_be_sent_again() {
    const N: u32 = 400;
    let database = TempDatabase::sqlite();
    let options = Options { wait: std::time::Duration::from_secs(2), ..Options::default() };
    let store = Store::open(database.url(), &options).await.unwrap();
    let p = project("p1");
    store.telemetry.write_batch(&p, batch(vec![span(0, 0, None)]), at(0)).await.unwrap();
    let DatabaseUrl::Sqlite(path) = database.url() else {
        unreachable!("the database is an SQLite file");
    };
    let other =
        sqlx_sqlite::SqlitePool::connect(&format!("sqlite:{}", path.display())).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let write = |n: u32| {
        let (store, p) = (store.clone(), p.clone());
        async move { store.telemetry.write_batch(&p, batch(vec![span(n, n, None)]), at(1)).await }
    };
    let written = join_all((1..=N).map(write)).await;
    let n_overflow = written
        .iter()
        .filter(|result| {
            matches!(result, Err(Error::Unavailable(why)) if why.contains("too many batches"))
        })
        .count();
    assert!(written.iter().all(|result| matches!(result, Err(Error::Unavailable(_)))));
    assert!((100..200).contains(&n_overflow), "{n_overflow}");
    lock.rollback().await.unwrap();
    for n in 1..=N {
        write(n).await.unwrap();
    }
    assert_eq!(all(&store, &p).await.len(), N as usize + 1);
    store.close().await;
}
