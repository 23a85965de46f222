//! Reads by the engine directly after a write.

use super::*;
use crate::testing::Store;

async fn targets(store: &Store, project: &ProjectId, stored: &[Observation]) -> Vec<Observation> {
    let keys: Vec<_> = stored.iter().map(|own| (own.trace_id.clone(), own.id.clone())).collect();
    let mut found = store.telemetry.target_observations(project, &keys, true).await.unwrap();
    let place = |own: &Observation| {
        keys.iter().position(|key| *key == (own.trace_id.clone(), own.id.clone()))
    };
    found.sort_by_key(place);
    found
}

/// Writes are cached only while there are readers.
async fn ask(store: &Store, project: &ProjectId) {
    let spans = vec![span(99, 99, None)];
    let write = store.telemetry.write_batch(project, batch(spans.clone()), at(0));
    write.await.unwrap();
    assert_eq!(targets(store, project, &spans).await, spans);
}

#[tokio::test]
async fn the_engine_reads_the_stored_observation_for_any_order_of_parts() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        for round in 0..25 {
            let spans = prop::collection::vec(any_span(), 1..20);
            let spans = without_ties(spans.new_tree(&mut runner).unwrap().current());
            let project = project(&format!("p{round}"));
            ask(&store, &project).await;
            for part in spans.chunks(1 + round % 4) {
                store.telemetry.write_batch(&project, batch(part.to_vec()), at(0)).await.unwrap();
                let stored = all(&store, &project).await;
                let stored: Vec<_> = stored.into_iter().map(|each| each.observation).collect();
                assert_eq!(targets(&store, &project, &stored).await, stored);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_trace_is_not_found_by_the_engine_any_more() {
    on_each_database(|store| async move {
        let project = project("p");
        let spans = vec![span(1, 1, None), span(2, 2, None)];
        ask(&store, &project).await;
        let write = store.telemetry.write_batch(&project, batch(spans.clone()), at(0));
        write.await.unwrap();
        store.telemetry.delete_traces(&project, &[trace_id(1)]).await.unwrap();
        let left = targets(&store, &project, &spans).await;
        assert_eq!(left, spans[1..]);
    })
    .await;
}

#[tokio::test]
async fn another_project_does_not_read_cached_observations() {
    on_each_database(|store| async move {
        let spans = vec![span(1, 1, None)];
        let (own, other) = (project("p"), project("q"));
        ask(&store, &own).await;
        for (project, spans) in [(&other, vec![span(9, 9, None)]), (&own, spans.clone())] {
            let write = store.telemetry.write_batch(project, batch(spans), at(0));
            write.await.unwrap();
        }
        assert!(targets(&store, &other, &spans).await.is_empty());
        assert_eq!(targets(&store, &own, &spans).await, spans);
    })
    .await;
}
