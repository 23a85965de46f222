//! Merging of patches.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn patch(event: &str, at: i64, is_update: bool) -> Patch {
    let about = PatchSubject::Observation(ObservationId::new("o").unwrap());
    Patch::new(event.to_owned(), Timestamp::from_millis(at), is_update, about)
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn later_fields_win_absent_fields_change_nothing_and_the_first_write_sets_the_position() {
    let mut create = patch("1", 10, false);
    create.name = Some("first".to_owned());
    create.trace_id = Some(TraceId::new("t").unwrap());
    create.start = Some(Timestamp::from_millis(100));
    create.environment = Some("prod".to_owned());
    create.input = Some(Payload::Text("in".to_owned()));
    create.usage.insert("input".to_owned(), 3.into());
    create.usage.insert("output".to_owned(), 4.into());
    create.tags = vec!["b".to_owned()];
    create.metadata = object(json!({ "a": { "x": 1, "y": 1 }, "k": 1 }));
    // Made before the create, and still an update.
    let mut update = patch("0", 5, true);
    update.name = Some("second".to_owned());
    update.trace_id = Some(TraceId::new("elsewhere").unwrap());
    update.start = Some(Timestamp::from_millis(200));
    update.environment = Some("dev".to_owned());
    update.end = Some(Timestamp::from_millis(50));
    update.usage.insert("total".to_owned(), 9.into());
    update.tags = vec!["a".to_owned(), "b".to_owned()];
    update.metadata = object(json!({ "a": { "y": 2 } }));
    let merged = merge([&update, &create]).unwrap();
    assert_eq!(merged.trace_id.as_str(), "t");
    assert_eq!(merged.name, "second");
    assert_eq!(merged.environment, "prod");
    assert_eq!(merged.start, Timestamp::from_millis(100));
    assert_eq!(merged.end, Some(merged.start), "an end before the start");
    assert_eq!(merged.content.input, Some(Payload::Text("in".to_owned())));
    assert_eq!(merged.usage, update.usage);
    assert_eq!(merged.tags, ["a", "b"]);
    let metadata = json!({ "a": { "x": 1, "y": 2 }, "k": 1 });
    assert_eq!(Value::Object(merged.content.metadata), metadata);
}

#[test]
fn the_last_tag_operation_wins_and_a_bookmark_is_set_and_cleared() {
    let trace = TraceId::new("t").unwrap();
    let mark = |event: &str, at: i64, marks: &TraceMarks| {
        Patch::marking(&trace, marks, event.to_owned(), Timestamp::from_millis(at)).unwrap()
    };
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    let sent = Patch { tags: tags(&["a", "b"]), ..patch("0", 9, false) };
    let sent = Patch { about: PatchSubject::Trace(trace.clone()), ..sent };
    let removed = TraceMarks {
        bookmarked: Some(true),
        remove_tags: tags(&["a", "c"]),
        ..TraceMarks::default()
    };
    let removed = mark("1", 1, &removed);
    let merged = merge([&removed, &sent]).unwrap();
    let facts = merged.trace.unwrap();
    assert_eq!((merged.tags, facts.removed_tags), (tags(&["b"]), tags(&["a", "c"])));
    assert_eq!(facts.bookmarked, Some(true));
    let added =
        TraceMarks { bookmarked: Some(false), add_tags: tags(&["a"]), ..TraceMarks::default() };
    let added = mark("2", 2, &added);
    let merged = merge([&added, &removed, &sent]).unwrap();
    let facts = merged.trace.unwrap();
    assert_eq!((merged.tags, facts.removed_tags), (tags(&["a", "b"]), tags(&["c"])));
    assert_eq!(facts.bookmarked, Some(false));
    let stored = serde_json::to_value(&sent).unwrap();
    assert!(stored.get("bookmarked").is_none() && stored.get("removed_tags").is_none());
}

#[test]
fn accumulated_content_is_bounded_and_truncation_is_recorded() {
    let parts = (0..50).map(|n| {
        let mut part = patch(&n.to_string(), n, true);
        part.tags = (0..100).map(|tag| format!("{n:02}-{tag}")).collect();
        part.metadata = object(json!({ format!("k{n}"): "x".repeat(100_000) }));
        part
    });
    let mut parts: Vec<Patch> = parts.collect();
    let check = |parts: &[Patch]| {
        let merged = merge(parts).unwrap();
        assert_eq!(merged.tags.len(), MAX_TAGS);
        assert_eq!(merged.tags[0], "00-0");
        let metadata = merged.content.metadata;
        assert!(metadata["truncated"]["tags"].is_number());
        assert!(metadata["truncated"]["metadata"].is_number());
        let n_bytes = serde_json::to_string(&metadata).unwrap().len();
        assert!(n_bytes <= crate::accumulated::MAX_METADATA_BYTES + 100);
    };
    check(&parts);
    assert_eq!(merge(&parts).unwrap().content.metadata["truncated"]["tags"], 5_000);
    condense(&mut parts, 2);
    assert_eq!(parts.len(), 1);
    let n_bytes = serde_json::to_string(&parts).unwrap().len();
    assert!(n_bytes < 2 << 20, "{n_bytes}");
    check(&parts);
}

#[test]
fn of_events_with_equal_time_the_later_arrival_wins() {
    let named = |event: &str, arrival: (i64, u32)| {
        let mut patch = patch(event, 5, true);
        patch.name = Some(event.to_owned());
        patch.arrival = arrival;
        patch
    };
    let (first, second, third) = (named("c", (1, 0)), named("b", (1, 1)), named("a", (2, 0)));
    for order in [[&first, &second, &third], [&third, &first, &second]] {
        assert_eq!(merge(order).unwrap().name, "a");
    }
    assert_eq!(merge([&second, &first]).unwrap().name, "b");
}

#[test]
fn complete_and_accumulated_values_are_merged() {
    let mut parts: Vec<Patch> = (0..4)
        .map(|n| {
            let mut part = patch(&n.to_string(), n, false);
            part.metadata = object(json!({ format!("k{n}"): n }));
            part
        })
        .collect();
    let mut base = merge([&patch("x", 0, false)]).unwrap();
    base.content.metadata = object(json!({ "whole": true }));
    assert_eq!(condense(&mut parts, 2).len(), 4);
    let merged = merge_onto(Some(&base), &parts).unwrap();
    let expected = json!({ "whole": true, "k0": 0, "k1": 1, "k2": 2, "k3": 3 });
    assert_eq!(Value::Object(merged.content.metadata), expected);
}

#[test]
fn an_observation_without_a_trace_makes_one_and_a_trace_is_a_record() {
    let alone = merge([&patch("1", 1, false)]).unwrap();
    assert_eq!((alone.trace_id.as_str(), alone.parent_id), ("o", None));
    let mut trace = patch("1", 7, false);
    trace.about = PatchSubject::Trace(TraceId::new("t").unwrap());
    trace.metadata = object(json!({ "k": 1 }));
    trace.public = Some(true);
    let record = merge([&trace]).unwrap();
    assert!(record.is_trace_record() && record.is_root());
    assert_eq!((record.id.as_str(), record.trace_id.as_str()), ("t-t", "t"));
    assert_eq!(record.end, Some(Timestamp::from_millis(7)));
    let facts = record.trace.unwrap();
    assert_eq!((facts.public, facts.metadata["k"].clone()), (Some(true), json!(1)));
    assert_eq!(merge(&[] as &[Patch]), None);
}

fn any_patch() -> impl Strategy<Value = Patch> {
    let words = prop::option::of("[ab]");
    let numbers = prop::option::of(0_i64..4);
    (
        ("[0-9]", 0_i64..3, any::<bool>(), any::<bool>()),
        (words.clone(), words.clone(), words.clone(), words),
        (numbers.clone(), numbers.clone(), numbers),
        (prop::collection::vec("[ab]", 0..2), prop::collection::vec("[ab]", 0..2)),
    )
        .prop_map(|(head, words, numbers, (tags, removed))| {
            let mut patch = patch(&head.0, head.1, head.2);
            patch.kind = match head.3 {
                true => ObservationKind::Generation,
                false => ObservationKind::Event,
            };
            patch.name = words.0;
            patch.trace_id = words.1.map(|id| TraceId::new(&id).unwrap());
            patch.parent_id = words.2.map(|id| ObservationId::new(&id).unwrap());
            patch.output = words.3.map(Payload::Text);
            patch.start = numbers.0.map(Timestamp::from_micros);
            patch.end = numbers.1.map(Timestamp::from_millis);
            if let Some(n) = numbers.2 {
                patch.usage.insert("total".to_owned(), n.unsigned_abs().into());
                patch.metadata.insert(format!("k{n}"), json!({ "n": n }));
            }
            patch.removed_tags = removed;
            patch.removed_tags.retain(|tag| !tags.contains(tag));
            patch.tags = tags;
            patch
        })
}

proptest! {
    /// Events are identified by their ids: those that differ have different ones.
    #[test]
    fn parts_in_any_order_and_repeated_make_the_same_observation(
        patches in prop::collection::vec(any_patch(), 1..6),
        seed in any::<u64>(),
    ) {
        let mut patches = patches;
        for (n, patch) in patches.iter_mut().enumerate() {
            patch.event_id = format!("{}-{n}", patch.event_id);
        }
        let expected = merge(&patches);
        let stored = serde_json::to_string(&patches).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Vec<Patch>>(&stored).unwrap(), &patches);
        for max in 2..patches.len() {
            let mut fewer = patches.clone();
            let gone = condense(&mut fewer, max);
            prop_assert_eq!(fewer.len(), (max / 2).max(1));
            prop_assert_eq!(gone.len() + fewer.len(), patches.len() + 1);
            let mut same = merge(&fewer);
            if let (Some(same), Some(expected)) = (&mut same, &expected) {
                same.attribute_count = expected.attribute_count;
            }
            prop_assert_eq!(&same, &expected);
        }
        let mut turned = patches.clone();
        turned.extend(patches.iter().take(2).cloned());
        let n = turned.len() as u64;
        turned.rotate_left((seed % n) as usize);
        turned.reverse();
        prop_assert_eq!(merge(&turned), expected);
    }
}
