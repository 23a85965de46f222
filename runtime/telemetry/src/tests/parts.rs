//! Observations and traces that are sent in parts.

use perpend_domain::observation::ExperimentLink;
use perpend_domain::patch::{Patch, PatchSubject};
use perpend_domain::pricing::PriceTable;

use super::*;
use crate::testing::Store;
use perpend_domain::telemetry::EventBatch;

fn update(event: &str, span: &Observation) -> Patch {
    let about = PatchSubject::Observation(span.id.clone());
    let mut patch = Patch::new(event.to_owned(), at(5_000), true, about);
    patch.trace_id = Some(span.trace_id.clone());
    patch
}

async fn send(store: &Store, project: &ProjectId, patches: Vec<Patch>) {
    let batch = EventBatch { patches, ..EventBatch::default() };
    let prices = PriceTable::default();
    store.telemetry.write_events(project, batch, &prices, at(6_000)).await.unwrap();
}

async fn stored(store: &Store, project: &ProjectId, span: &Observation) -> Observation {
    let found = store.telemetry.observation_of(project, &span.trace_id, &span.id);
    found.await.unwrap().unwrap().observation
}

#[tokio::test]
async fn of_parts_of_one_time_the_last_in_the_last_request_holds() {
    on_each_database(|store| async move {
        let p = project("p");
        let whole = span(1, 1, None);
        let patch_of = |event: &str, text: &str| {
            let mut part = update(event, &whole);
            part.output = Some(Payload::Text(text.to_owned()));
            part
        };
        // Their ids have the opposite order.
        let prices = PriceTable::default();
        for (now, texts) in [(1, [("9", "a"), ("8", "b")]), (2, [("7", "c"), ("6", "d")])] {
            let patches = texts.map(|(event, text)| patch_of(event, text)).to_vec();
            let batch = EventBatch { patches, ..EventBatch::default() };
            let written = store.telemetry.write_events(&p, batch, &prices, at(now));
            written.await.unwrap();
        }
        let expected = Some(Payload::Text("d".to_owned()));
        assert_eq!(stored(&store, &p, &whole).await.content.output, expected);
        // Repeating the first part changes nothing.
        send(&store, &p, vec![patch_of("9", "a")]).await;
        assert_eq!(stored(&store, &p, &whole).await.content.output, expected);
    })
    .await;
}

#[tokio::test]
async fn a_part_changes_only_the_fields_that_it_sets() {
    on_each_database(|store| async move {
        let p = project("p");
        let mut whole = span(1, 1, None);
        whole.experiment = Some(Box::new(ExperimentLink {
            id: Some("x".to_owned()),
            ..ExperimentLink::default()
        }));
        whole.content.tool_definitions = Some(json!([{ "name": "tool" }]));
        whole.computed_cost = Cost::new();
        whole.price_id = None;
        let write = store.telemetry.write_batch(&p, batch(vec![whole.clone()]), at(0));
        write.await.unwrap();
        let mut first = update("1", &whole);
        first.status_message = Some("checked".to_owned());
        send(&store, &p, vec![first]).await;
        let mut expected = whole.clone();
        expected.status_message = Some("checked".to_owned());
        expected.attribute_count += 1;
        expected.is_in_parts = true;
        assert_eq!(stored(&store, &p, &whole).await, expected);
        // A second part applies to the same base, and repeating a span does not undo the parts.
        let mut second = update("2", &whole);
        second.output = Some(Payload::Text("better".to_owned()));
        send(&store, &p, vec![second]).await;
        let write = store.telemetry.write_batch(&p, batch(vec![whole.clone()]), at(0));
        write.await.unwrap();
        expected.content.output = Some(Payload::Text("better".to_owned()));
        expected.attribute_count += 1;
        assert_eq!(stored(&store, &p, &whole).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_span_that_arrived_after_parts_is_kept_when_another_part_arrives() {
    on_each_database(|store| async move {
        let p = project("p");
        let whole = span(1, 1, None);
        let mut early = update("1", &whole);
        early.status_message = Some("early".to_owned());
        send(&store, &p, vec![early]).await;
        let write = store.telemetry.write_batch(&p, batch(vec![whole.clone()]), at(0));
        write.await.unwrap();
        let mut late = update("2", &whole);
        late.version = Some("2.0".to_owned());
        send(&store, &p, vec![late]).await;
        let now = stored(&store, &p, &whole).await;
        assert_eq!((&now.name, &now.model), (&whole.name, &whole.model));
        assert_eq!(now.content, whole.content);
        assert_eq!(now.status_message.as_deref(), Some("early"));
        assert_eq!(now.version.as_deref(), Some("2.0"));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_span_is_no_base_any_more() {
    on_each_database(|store| async move {
        let p = project("p");
        let whole = span(1, 1, None);
        let write = store.telemetry.write_batch(&p, batch(vec![whole.clone()]), at(0));
        write.await.unwrap();
        send(&store, &p, vec![update("1", &whole)]).await;
        store.telemetry.delete_traces(&p, &[trace_id(1)]).await.unwrap();
        send(&store, &p, vec![update("2", &whole)]).await;
        let now = stored(&store, &p, &whole).await;
        assert_eq!((now.model, now.content), (None, Content::default()));
    })
    .await;
}

#[tokio::test]
async fn the_record_of_a_trace_is_no_ended_root_and_no_observation() {
    on_each_database(|store| async move {
        let p = project("p");
        let about = PatchSubject::Trace(trace_id(1));
        let record = Patch::new("1".to_owned(), at(0), false, about);
        send(&store, &p, vec![record]).await;
        let progress =
            async || store.telemetry.trace_progress(&p, &[trace_id(1)]).await.unwrap()[0].1;
        let started = progress().await;
        assert!(!started.has_root && started.root_ended_at.is_none(), "{started:?}");
        assert_eq!((started.n_observations, started.n_open), (0, 0));
        let write = store.telemetry.write_batch(&p, batch(vec![span(1, 1, None)]), at(0));
        write.await.unwrap();
        let done = progress().await;
        assert!(done.has_root && done.root_ended_at.is_some(), "{done:?}");
        assert_eq!(done.n_observations, 1);
    })
    .await;
}

#[tokio::test]
async fn no_part_is_lost_however_many_there_are() {
    on_each_database(|store| async move {
        let p = project("p");
        let whole = span(1, 1, None);
        let part = |n: i64| {
            let mut part = update(&format!("{n}"), &whole);
            part.at = at(n);
            part.metadata.insert(format!("k{n}"), json!(n));
            part.name = Some(format!("name {n}"));
            part
        };
        send(&store, &p, (0..999).map(part).collect()).await;
        for n in 999..1_010 {
            send(&store, &p, vec![part(n)]).await;
            let now = stored(&store, &p, &whole).await;
            assert_eq!(now.content.metadata.len() as i64, n + 1);
            assert_eq!(now.name, format!("name {n}"));
        }
        send(&store, &p, (1_010..2_600).map(part).collect()).await;
        let now = stored(&store, &p, &whole).await;
        assert_eq!(now.content.metadata.len(), 2_600);
        // Repeating the newest parts changes nothing.
        send(&store, &p, (2_200..2_600).map(part).collect()).await;
        assert_eq!(stored(&store, &p, &whole).await, now);
    })
    .await;
}
