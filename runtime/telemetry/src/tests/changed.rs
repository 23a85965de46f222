//! Each change is read once, in pages, also under concurrent changes.

use super::*;
use crate::testing::Store;
use perpend_domain::list::{ChangeCursor, ChangeWindow};

async fn send(store: &Store, observations: Vec<Observation>, millis: i64) {
    let batch = Batch { observations, ..Batch::default() };
    store.telemetry.write_batch(&project("a"), batch, at(millis)).await.unwrap();
}

const fn until(to: Timestamp) -> ChangeWindow {
    ChangeWindow { from: None, to }
}

#[tokio::test]
async fn each_change_is_in_one_window_and_pages_skip_none() {
    on_each_database(|store| async move {
        let ours = project("a");
        let spans = |ids: std::ops::Range<u32>| ids.map(|id| span(id / 3, id, None)).collect();
        send(&store, spans(0..7), 10).await;
        send(&store, spans(7..9), 20).await;
        let mut ids = Vec::new();
        let mut after: Option<ChangeCursor> = None;
        loop {
            let page = (2, true);
            let window = until(at(20));
            let read = store.telemetry.changed_observations(&ours, &window, after.as_ref(), page);
            let (read, _) = read.await.unwrap();
            let Some((last, _)) = read.last() else { break };
            after = Some(last.clone());
            ids.extend(read.into_iter().map(|(_, stored)| stored.observation));
            if ids.len() == 2 {
                // A row that changes during the read is in a later window.
                let mut late = span(2, 6, None);
                late.end = Some(at(9_000));
                send(&store, vec![late], 30).await;
            }
        }
        let read: Vec<&str> = ids.iter().map(|one| one.id.as_str()).collect();
        let expected: Vec<_> = (0..6).map(span_id).collect();
        let expected: Vec<_> = expected.iter().map(ObservationId::as_str).collect();
        assert_eq!(read, expected);
        assert!(ids.iter().all(|one| one.content.input.is_some()));

        let later = ChangeWindow { from: Some(at(20)), to: at(31) };
        let read = store.telemetry.changed_observations(&ours, &later, None, (9, false));
        let (read, _) = read.await.unwrap();
        let read: Vec<_> = read.iter().map(|(_, s)| s.observation.id.clone()).collect();
        assert_eq!(read, [span_id(7), span_id(8), span_id(6)]);

        let traces = async |window: &ChangeWindow, after: Option<&ChangeCursor>| {
            store.telemetry.changed_traces(&ours, window, after, 1).await.unwrap().0
        };
        let first = traces(&until(at(20)), None).await;
        assert_eq!(first[0].1.trace.id, trace_id(0));
        let second = traces(&until(at(20)), Some(&first[0].0)).await;
        assert_eq!(second[0].1.trace.id, trace_id(1));
        assert!(traces(&until(at(20)), Some(&second[0].0)).await.is_empty());
        assert_eq!(traces(&later, None).await[0].1.trace.id, trace_id(2));
        let theirs = store.telemetry.changed_traces(&project("b"), &later, None, 1).await;
        assert!(theirs.unwrap().0.is_empty());
    })
    .await;
}

#[tokio::test]
async fn scores_are_read_by_their_last_change() {
    on_each_database(|store| async move {
        let ours = project("a");
        let score =
            |id: &str, value: f64| score(id, Subject::Session("s".to_owned()), "correct", value);
        let two = [score("a", 0.0), score("b", 0.0)];
        store.telemetry.put_scores(&ours, &two, at(10)).await.unwrap();
        store.telemetry.put_scores(&ours, &[score("a", 1.0)], at(20)).await.unwrap();
        let window = until(at(21));
        let read = async |after: Option<&ChangeCursor>| {
            let read = store.telemetry.changed_scores(&ours, &window, after, 1);
            read.await.unwrap().0.pop().unwrap()
        };
        let (place, first) = read(None).await;
        assert_eq!(first.written.id.as_str(), "b");
        let (place, second) = read(Some(&place)).await;
        assert_eq!(second.written.id.as_str(), "a");
        let rest = store.telemetry.changed_scores(&ours, &window, Some(&place), 1);
        assert!(rest.await.unwrap().0.is_empty());
    })
    .await;
}
