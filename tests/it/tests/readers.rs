//! Reads of plug-ins other than iterating over a trace: outlines, searches, ranges, sessions, and media for models.

use std::sync::Arc;

use perpend_domain::plugin::{Digest, EvaluationCall, Grants};
use perpend_it::Trace;
use perpend_worker_protocol::host_call::{
    CompletionRequest, MediaKind, Message, MessagePart, ModelError, ObservationPart, Role,
    TraceError,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::json;

use crate::broker::BrokerSetup;

fn granted() -> Grants {
    Grants::ALL
}

async fn asks(setup: &BrokerSetup, call: &Arc<EvaluationCall>, what: HostRequest) -> HostReply {
    setup.asks(call, &Arc::default(), what).await
}

fn outline(trace: &str, parent: Option<String>, cursor: Option<String>) -> HostRequest {
    HostRequest::Outline { trace_id: trace.to_owned(), parent_id: parent, cursor, limit: 2 }
}

#[tokio::test]
async fn an_outline_comes_page_by_page_in_tree_order_with_sizes() {
    let setup = BrokerSetup::new().await;
    let trace = Trace::new(1, "root").generation("a", "said").generation("b", "said more");
    setup.app.ingest(&trace).await.unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), granted(), &trace.id));
    let HostReply::Outline(Ok(first)) = asks(&setup, &call, outline(&trace.id, None, None)).await
    else {
        unreachable!()
    };
    let shown: Vec<_> = first
        .entries
        .iter()
        .map(|entry| (entry.id.clone(), entry.depth, entry.n_children, entry.output_size))
        .collect();
    let id = Trace::span_id;
    assert_eq!(shown, [(id(1), 0, 2, 0), (id(2), 1, 0, 4)]);
    let next = outline(&trace.id, None, first.next_cursor);
    let HostReply::Outline(Ok(last)) = asks(&setup, &call, next).await else { unreachable!() };
    assert_eq!((last.entries.len(), last.next_cursor), (1, None));
    assert_eq!((last.entries[0].id.clone(), last.entries[0].output_size), (id(3), 9));
    let below = outline(&trace.id, Some(id(1)), None);
    let HostReply::Outline(Ok(below)) = asks(&setup, &call, below).await else { unreachable!() };
    assert_eq!((below.entries.len(), below.entries[0].depth), (2, 0));
    for wrong in [
        outline(&trace.id, Some("nobody".to_owned()), None),
        outline(&trace.id, None, Some("nothing".to_owned())),
    ] {
        let reply = asks(&setup, &call, wrong).await;
        assert!(matches!(reply, HostReply::Outline(Err(TraceError::NotFound(_)))), "{reply:?}");
    }
    setup.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_text_is_found_in_any_case_and_a_range_begins_where_it_was_found() {
    let setup = BrokerSetup::new().await;
    let long = format!("{} Zürich {}", "é".repeat(500), "x".repeat(500));
    let trace = Trace::new(1, "root").generation("long", &long);
    setup.app.ingest(&trace).await.unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), granted(), &trace.id));
    let search =
        HostRequest::Search { trace_id: trace.id.clone(), text: "ZÜRICH".to_owned(), limit: 10 };
    let HostReply::Search(Ok(hits)) = asks(&setup, &call, search).await else { unreachable!() };
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!((hits[0].part, hits[0].offset), (ObservationPart::Output, 1_001));
    assert!(hits[0].excerpt.contains("Zürich") && hits[0].excerpt.len() < 220);
    let range = |offset, length| HostRequest::ReadRange {
        trace_id: trace.id.clone(),
        observation_id: hits[0].observation_id.clone(),
        part: ObservationPart::Output,
        offset,
        length,
    };
    for (offset, length, wanted, begins) in
        [(1_001, 7, "Zürich", 1_001), (1, 4, "éé", 0), (5_000, 10, "", long.len() as u64)]
    {
        let HostReply::ReadRange(Ok(Some(slice))) =
            asks(&setup, &call, range(offset, length)).await
        else {
            unreachable!()
        };
        assert_eq!((slice.text.as_str(), slice.offset), (wanted, begins));
        assert_eq!((slice.total, slice.is_json), (long.len() as u64, false));
    }
    setup.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_opens_its_own_traces_and_no_others() {
    let setup = BrokerSetup::new().await;
    let of = |number, session| Trace::new(number, "root").attribute("session.id", session);
    let (one, two, other) = (of(1, "s"), of(2, "s"), of(3, "other"));
    for trace in [&one, &two, &other] {
        setup.app.ingest(trace).await.unwrap();
    }
    let mut call = setup.call(Digest::of(b""), granted(), &one.id);
    let item = Arc::make_mut(&mut call.item);
    item.trace = None;
    item.session = Some("s".to_owned());
    let call = Arc::new(call);
    let info = HostRequest::GetSession { session_id: "s".to_owned() };
    let HostReply::GetSession(Ok(info)) = asks(&setup, &call, info).await else { unreachable!() };
    assert_eq!(info.n_traces, 2);
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let list = HostRequest::ListTraces { session_id: "s".to_owned(), cursor, limit: 1 };
        let HostReply::ListTraces(Ok(page)) = asks(&setup, &call, list).await else {
            unreachable!()
        };
        seen.extend(page.traces.into_iter().map(|trace| trace.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    seen.sort();
    assert_eq!(seen, [one.id.clone(), two.id.clone()]);
    let get = |trace: &Trace| HostRequest::GetTrace { trace_id: trace.id.clone() };
    let reply = asks(&setup, &call, get(&two)).await;
    assert!(matches!(reply, HostReply::GetTrace(Ok(_))), "{reply:?}");
    let reply = asks(&setup, &call, get(&other)).await;
    assert!(matches!(reply, HostReply::GetTrace(Err(TraceError::NotGranted(_)))), "{reply:?}");
    for wrong in [
        HostRequest::GetSession { session_id: "other".to_owned() },
        HostRequest::GetRun { run_id: "r".to_owned() },
    ] {
        let reply = format!("{:?}", asks(&setup, &call, wrong).await);
        assert!(reply.contains("NotGranted"), "{reply}");
    }
    setup.app.stop().await.unwrap();
}

fn look_at(id: &str) -> HostRequest {
    let part = MessagePart::Media(MediaKind::Image, id.to_owned());
    HostRequest::Complete(vec![CompletionRequest::new(vec![Message {
        role: Role::User,
        parts: vec![MessagePart::Text("?".to_owned()), part],
    }])])
}

#[tokio::test]
async fn a_medium_goes_to_a_model_when_the_trace_of_the_item_has_it() {
    let setup = BrokerSetup::new().await;
    let image = json!([{ "type": "image_url", "image_url": { "url":
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" } }]);
    let with = Trace::new(1, "root").generation("sees", &image.to_string());
    let without = Trace::new(2, "root").generation("blind", "said");
    setup.app.ingest(&with).await.unwrap();
    setup.app.ingest(&without).await.unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), granted(), &with.id));
    let read = HostRequest::Read {
        trace_id: with.id.clone(),
        observation_id: Trace::span_id(2),
        part: ObservationPart::Output,
    };
    let HostReply::Read(Ok(Some(output))) = asks(&setup, &call, read).await else { unreachable!() };
    let id = output.as_str().split("|id=").nth(1).unwrap();
    let id = id.split('|').next().unwrap().to_owned();
    let reply = asks(&setup, &call, look_at(&id)).await;
    assert!(matches!(&reply, HostReply::Complete(all) if all[0].is_ok()), "{reply:?}");
    let elsewhere = Arc::new(setup.call(Digest::of(b""), granted(), &without.id));
    for (call, id) in [(&elsewhere, id.as_str()), (&call, "no-such-medium")] {
        let reply = asks(&setup, call, look_at(id)).await;
        let HostReply::Complete(answers) = reply else { unreachable!() };
        let Err(ModelError::InvalidRequest(why)) = &answers[0] else { unreachable!("{answers:?}") };
        assert!(why.contains(id), "{why}");
    }
    setup.app.stop().await.unwrap();
}
