//! Reading a trace in parts.

use super::*;
use crate::TraceReader;
use crate::testing::Store;

async fn rest(store: &Store, reader: &mut TraceReader) -> Vec<Vec<StoredObservation>> {
    let mut parts = Vec::new();
    while !reader.is_done() {
        parts.push(store.telemetry.next_observations(reader).await.unwrap());
    }
    assert!(store.telemetry.next_observations(reader).await.unwrap().is_empty());
    parts
}

fn with_output(id: u32, output: String) -> Observation {
    let mut own = span(1, id, None);
    own.content.output = Some(Payload::Text(output));
    own
}

#[tokio::test]
async fn all_parts_together_are_the_whole_trace_in_its_order() {
    on_each_database(|store| async move {
        let p = project("p1");
        // The orders of arrival, of ids and of starts differ.
        for batch_no in 0..3_u32 {
            let ids = (0..250_u32).map(|at| 1 + (at * 3 + batch_no) * 7919 % 750);
            let spans = ids.map(|id| {
                let mut own = with_output(id, format!("output {id}"));
                own.start = at(i64::from(id % 50));
                own
            });
            let batch = batch(spans.collect());
            store.telemetry.write_batch(&p, batch, at(1)).await.unwrap();
        }
        let trace = trace_id(1);
        let whole = store.telemetry.trace_observations(&p, &trace, true);
        let whole = whole.await.unwrap();
        assert_eq!(whole.len(), 750);
        let reader = store.telemetry.read_trace(&p, &trace_id(1)).await.unwrap();
        let parts = rest(&store, &mut reader.unwrap()).await;
        assert!(parts.len() > 1);
        assert_eq!(parts.concat(), whole);
        let others = store.telemetry.read_trace(&project("p2"), &trace_id(1)).await;
        assert!(others.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn large_contents_are_returned_one_at_a_time() {
    on_each_database(|store| async move {
        let p = project("p1");
        let large = 3 << 20;
        let sizes = [10, large, large, 10, 10, large, 10];
        let spans = (1..).zip(sizes).map(|(id, n)| with_output(id, "x".repeat(n)));
        let batch = batch(spans.collect());
        store.telemetry.write_batch(&p, batch, at(1)).await.unwrap();
        let reader = store.telemetry.read_trace(&p, &trace_id(1)).await.unwrap();
        let parts = rest(&store, &mut reader.unwrap()).await;
        let is_large = |one: &&StoredObservation| {
            let output = one.observation.content.output.as_ref();
            output.is_some_and(|output| *output == Payload::Text("x".repeat(large)))
        };
        let n_large: Vec<usize> =
            parts.iter().map(|part| part.iter().filter(is_large).count()).collect();
        assert_eq!(n_large.iter().sum::<usize>(), 3);
        assert!(n_large.iter().all(|n| *n <= 1), "{n_large:?}");
        assert_eq!(parts.concat().len(), sizes.len());
    })
    .await;
}

#[tokio::test]
async fn concurrent_changes_neither_repeat_nor_skip_observations() {
    on_each_database(|store| async move {
        let p = project("p1");
        let spans = (1..=600).map(|id| with_output(id, "before".to_owned()));
        let batch_of = |spans: Vec<Observation>| batch(spans);
        let first = batch_of(spans.collect());
        store.telemetry.write_batch(&p, first, at(1)).await.unwrap();
        let mut reader = store.telemetry.read_trace(&p, &trace_id(1)).await.unwrap().unwrap();
        let head = store.telemetry.next_observations(&mut reader).await.unwrap();
        // The first one moves to the end, the last one to the front, and a new one arrives.
        let mut moved = [with_output(1, "after".to_owned()), with_output(600, "after".to_owned())];
        (moved[0].start, moved[1].start) = (at(5_000), at(0));
        let later = batch_of([&moved[..], &[with_output(601, "new".to_owned())]].concat());
        store.telemetry.write_batch(&p, later, at(2)).await.unwrap();
        let tail = rest(&store, &mut reader).await.concat();
        let all: Vec<StoredObservation> = [head, tail].concat();
        let ids: Vec<ObservationId> = all.iter().map(|one| one.observation.id.clone()).collect();
        assert_eq!(ids, (1..=600).map(span_id).collect::<Vec<_>>());

        let mut reader = store.telemetry.read_trace(&p, &trace_id(1)).await.unwrap().unwrap();
        store.telemetry.next_observations(&mut reader).await.unwrap();
        store.telemetry.delete_traces(&p, &[trace_id(1)]).await.unwrap();
        assert!(rest(&store, &mut reader).await.concat().is_empty());
    })
    .await;
}
