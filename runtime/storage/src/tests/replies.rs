//! Stored replies of models: isolation, retention and limits.

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use perpend_executions::StoredReply;

use crate::Store;
use crate::testing::on_each_database;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

async fn put(store: &Store, project: &ProjectId, n: u8, time: i64) {
    let reply = StoredReply { method: "tool".to_owned(), body: vec![n; 1_000] };
    let at_key = (&Digest::from_bytes([n; 32]), "connection");
    let stored = store.ledger.store_reply(project, at_key, &reply, at(time));
    stored.await.unwrap();
}

/// The replies of a project.
async fn left(store: &Store, project: &ProjectId) -> Vec<u8> {
    let mut left = Vec::new();
    for n in 0..20 {
        let key = Digest::from_bytes([n; 32]);
        let found = store.ledger.stored_reply(project, &key, at(0));
        if let Some(reply) = found.await.unwrap() {
            assert_eq!(reply.body, vec![n; 1_000]);
            left.push(n);
        }
    }
    left
}

#[tokio::test]
async fn replies_beyond_the_limit_of_a_project_are_deleted_oldest_first() {
    on_each_database(|store| async move {
        let (full, other) = (project("full"), project("other"));
        for n in 0..10 {
            put(&store, &full, n, 100 + i64::from(n)).await;
        }
        put(&store, &other, 3, 1).await;
        // Stored again, it is the newest.
        put(&store, &full, 2, 200).await;
        // 1,200 bytes each: three fit.
        let swept = store.ledger.sweep_replies(at(0), 4_000).await;
        assert_eq!(swept.unwrap(), 7);
        assert_eq!(left(&store, &full).await, [2, 8, 9]);
        assert_eq!(left(&store, &other).await, [3]);
        assert_eq!(store.ledger.sweep_replies(at(0), 4_000).await.unwrap(), 0);
        // Expired replies of all projects are deleted.
        assert_eq!(store.ledger.sweep_replies(at(108), 4_000).await.unwrap(), 2);
        assert_eq!(left(&store, &full).await, [2, 9]);
        store.ledger.delete_replies(&full, "another").await.unwrap();
        assert_eq!(left(&store, &full).await, [2, 9]);
        store.ledger.delete_replies(&full, "connection").await.unwrap();
        assert_eq!(left(&store, &full).await, [0_u8; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_reply_is_read_by_its_project_alone_and_not_past_its_time() {
    on_each_database(|store| async move {
        let (ours, theirs) = (project("ours"), project("theirs"));
        put(&store, &ours, 1, 100).await;
        let key = Digest::from_bytes([1; 32]);
        for (project, since, is_there) in
            [(&ours, 99, true), (&ours, 100, false), (&theirs, 0, false)]
        {
            let found = store.ledger.stored_reply(project, &key, at(since));
            assert_eq!(found.await.unwrap().is_some(), is_there, "{project} {since}");
        }
        // They are deleted with their project.
        store.ledger.empty(&ours).await.unwrap();
        assert_eq!(left(&store, &ours).await, [0_u8; 0]);
    })
    .await;
}
