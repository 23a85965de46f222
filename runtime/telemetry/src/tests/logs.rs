//! Log records that belong to spans, in any order of arrival.

use super::*;

pub(super) fn log(trace: u32, id: u32, event: &str, content: &str) -> SpanLog {
    SpanLog {
        trace_id: trace_id(trace),
        observation_id: span_id(id),
        time: at(1),
        event: event.to_owned(),
        attributes: json!({"content": content}).as_object().unwrap().clone(),
    }
}

#[tokio::test]
async fn log_records_reach_a_span_of_the_same_commit_though_earlier_batches_of_it_had_none() {
    on_each_database(|store| async move {
        let p = project("p1");
        store.telemetry.write_batch(&p, batch(vec![span(9, 9, None)]), at(0)).await.unwrap();
        let logs = vec![log(1, 1, "gen_ai.user.message", "hi")];
        let mut bare = span(1, 1, None);
        bare.content = Content::default();
        bare.has_content = false;
        let only_logs = Batch { logs: logs.clone(), ..Batch::default() };
        // All three are queued before the first is taken from the queue.
        let (another, records, own) = futures_util::future::join3(
            store.telemetry.write_batch(&p, batch(vec![span(2, 1, None)]), at(1)),
            store.telemetry.write_batch(&p, only_logs, at(1)),
            store.telemetry.write_batch(&p, batch(vec![bare.clone()]), at(1)),
        )
        .await;
        another.and(records).and(own).unwrap();
        let mut expected = bare;
        perpend_domain::join::join_logs(&mut expected, &logs);
        let all = all(&store, &p).await;
        assert!(all.iter().any(|stored| stored.observation == expected));
    })
    .await;
}

#[tokio::test]
async fn log_records_reach_their_span_whichever_side_comes_first() {
    on_each_database(|store| async move {
        let logs = vec![log(1, 1, "gen_ai.user.message", "hi"), log(1, 1, "gen_ai.choice", "ho")];
        let mut bare = span(1, 1, None);
        bare.content = Content::default();
        bare.has_content = false;
        let only_logs = |logs: Vec<SpanLog>| Batch { logs, ..Batch::default() };
        let (first, second, third) = (project("p1"), project("p2"), project("p3"));
        store.telemetry.write_batch(&first, only_logs(logs.clone()), at(0)).await.unwrap();
        store.telemetry.write_batch(&first, batch(vec![bare.clone()]), at(1)).await.unwrap();
        store.telemetry.write_batch(&second, batch(vec![bare.clone()]), at(0)).await.unwrap();
        store.telemetry.write_batch(&second, only_logs(logs.clone()), at(1)).await.unwrap();
        let both =
            Batch { observations: vec![bare.clone()], logs: logs.clone(), ..Batch::default() };
        store.telemetry.write_batch(&third, both, at(0)).await.unwrap();
        let mut expected = bare.clone();
        perpend_domain::join::join_logs(&mut expected, &logs);
        for p in [&first, &second, &third] {
            assert_eq!(all(&store, p).await[0].observation, expected);
        }
        // The span again, without its logs: nothing changes.
        let before = all(&store, &first).await;
        store.telemetry.write_batch(&first, batch(vec![bare]), at(9)).await.unwrap();
        assert_eq!(all(&store, &first).await, before);
    })
    .await;
}
