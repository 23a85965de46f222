//! Lookups by an id alone.

use perpend_domain::telemetry::GroupKey;

use super::*;
use crate::by_id::{ObservationMatches, beginning_sql, observations_by_id_sql};
use perpend_db::query;

#[tokio::test]
async fn an_observation_is_found_in_whichever_trace_of_the_project_it_is() {
    on_each_database(|store| async move {
        let (p, other) = (project("p"), project("other"));
        let telemetry = &store.telemetry;
        let spans = vec![span(1, 7, None), span(2, 7, None), span(3, 8, None)];
        telemetry.write_batch(&p, batch(spans), at(0)).await.unwrap();
        let foreign = batch(vec![span(4, 7, None)]);
        telemetry.write_batch(&other, foreign, at(0)).await.unwrap();
        let find =
            async |below| telemetry.observations_by_id(&p, &span_id(7), below, 9).await.unwrap();
        let traces = |found: ObservationMatches| {
            assert_eq!(found.below, None);
            found.found.into_iter().map(|(trace, _)| trace).collect::<Vec<_>>()
        };
        let mut all = traces(find(None).await);
        all.sort();
        assert_eq!(all, [trace_id(1), trace_id(2)]);
        assert_eq!(traces(find(Some(1)).await), []);
        // More traces than are searched at a time.
        let far = find(Some(1 << 40)).await;
        assert_eq!((far.found, far.below), (Vec::new(), Some((1 << 40) - 200_000)));
    })
    .await;
}

#[tokio::test]
async fn sessions_and_users_are_found_by_how_their_ids_begin() {
    on_each_database(|store| async move {
        let p = project("p");
        let names = ["chat", "chat-1", "chat-2", "Chat", "cha", "chb", "ü"];
        let spans = (0u32..).zip(names).flat_map(|(n, name)| {
            [0, 50].map(|more| {
                let mut root = span(n + more + 1, 1, None);
                root.session_id = Some(name.to_owned());
                root.user_id = (n % 2 == 0).then(|| name.to_owned());
                root
            })
        });
        let spans = batch(spans.collect());
        store.telemetry.write_batch(&p, spans, at(0)).await.unwrap();
        let find = async |by, start: &str, limit| {
            store.telemetry.groups_with_prefix(&p, by, start, limit).await.unwrap()
        };
        let chats = find(GroupKey::Session, "chat", 9).await;
        assert_eq!(chats[0], "chat");
        assert_eq!(chats, ["chat", "chat-1", "chat-2"]);
        assert_eq!(find(GroupKey::Session, "chat", 2).await.len(), 2);
        assert_eq!(find(GroupKey::User, "chat", 9).await, ["chat", "chat-2"]);
        assert_eq!(find(GroupKey::Session, "ü", 9).await, ["ü"]);
        assert_eq!(find(GroupKey::Session, "", 9).await, [""; 0]);
        assert_eq!(find(GroupKey::Session, "z", 9).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn ids_with_a_prefix_are_read_from_the_index_of_their_column() {
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    for (by, index) in
        [(GroupKey::Session, "traces_by_session"), (GroupKey::User, "traces_by_user")]
    {
        let sql = format!("EXPLAIN QUERY PLAN {}", beginning_sql(by, false));
        let steps: Vec<(i64, i64, i64, String)> = query(sql).fetch_all(&store.pool).await.unwrap();
        assert!(steps.len() == 1 && steps[0].3.contains(index), "{steps:?}");
    }
    let sql = format!("EXPLAIN QUERY PLAN {}", observations_by_id_sql(false));
    let steps: Vec<(i64, i64, i64, String)> = query(sql).fetch_all(&store.pool).await.unwrap();
    assert!(steps[0].3.contains("SEARCH o USING INTEGER PRIMARY KEY"), "{steps:?}");
    store.close().await;
}
