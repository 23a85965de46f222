//! Traces folded from their observations.

use super::*;
use crate::ids::TraceId;
use crate::observation::{Cost, Observation, ObservationKind, PromptLink};
use crate::patch::{Patch, PatchSubject, merge};
use crate::payload::Payload;
use serde_json::json;

/// An observation with only ids and times, modified by `change`.
fn observation(
    id: &str,
    parent: Option<&str>,
    start: i64,
    change: impl FnOnce(&mut Observation),
) -> Observation {
    let mut observation = Observation {
        trace_id: TraceId::new("t").unwrap(),
        id: ObservationId::new(id).unwrap(),
        parent_id: parent.map(|parent| ObservationId::new(parent).unwrap()),
        kind: ObservationKind::Span,
        name: id.to_owned(),
        start: Timestamp::from_micros(start),
        end: Some(Timestamp::from_micros(start + 10)),
        completion_start: None,
        level: Level::Default,
        status_message: None,
        environment: "default".to_owned(),
        release: None,
        version: None,
        user_id: None,
        session_id: None,
        tags: Vec::new(),
        model: None,
        provider: None,
        model_parameters: Map::new(),
        prompt: None,
        usage: Usage::new(),
        cost: Cost::new(),
        computed_cost: Cost::new(),
        price_id: None,
        aggregate_usage: Usage::new(),
        aggregate_cost: Cost::new(),
        aggregate_model: None,
        aggregate_computed_cost: Cost::new(),
        response_id: None,
        scope_name: "app".to_owned(),
        is_app_root: false,
        as_root: false,
        called_tools: Vec::new(),
        trace: None,
        is_complete_marker: false,
        is_in_parts: false,
        experiment: None,
        attribute_count: 0,
        has_content: false,
        content: Content::default(),
    };
    change(&mut observation);
    observation
}

fn usage(total: u64) -> Usage {
    [("input", total - 10), ("output", 10), ("total", total)]
        .into_iter()
        .map(|(key, n)| (key.to_owned(), n.into()))
        .collect()
}

/// A model call with these tokens.
fn call(id: &str, parent: Option<&str>, scope: &str, total: u64) -> Observation {
    observation(id, parent, 1, |o| {
        o.kind = ObservationKind::Generation;
        o.scope_name = scope.to_owned();
        o.usage = usage(total);
        o.model = Some("openai/gpt-4o-2024-08-06".to_owned());
    })
}

/// The fold, which must not depend on the order.
fn folded(mut set: Vec<Observation>) -> Trace {
    let trace = fold(&set).unwrap();
    set.reverse();
    assert_eq!(Some(&trace), fold(&set).as_ref());
    trace
}

#[test]
fn the_trace_record_takes_precedence_over_the_root() {
    let root = observation("a", None, 100, |o| {
        o.name = "root".to_owned();
        o.environment = "prod".to_owned();
        o.version = Some("7".to_owned());
        o.content.output = Some(Payload::Text("root's".to_owned()));
    });
    let about = || PatchSubject::Trace(root.trace_id.clone());
    let mut patch = Patch::new("e".to_owned(), Timestamp::from_millis(900_000), false, about());
    patch.user_id = Some("ann".to_owned());
    patch.input = Some(Payload::Text("explicit".to_owned()));
    let alone = fold(std::slice::from_ref(&root)).unwrap();
    let record = merge([&patch]).unwrap();
    let trace = fold(&[record.clone(), root.clone()]).unwrap();
    let mut expected = alone;
    expected.user_id = Some("ann".to_owned());
    expected.input = Some(Payload::Text("explicit".to_owned()));
    assert_eq!(trace, expected);

    patch.name = Some("explicit".to_owned());
    patch.start = Some(Timestamp::from_micros(1));
    patch.environment = Some("default".to_owned());
    patch.version = Some("8".to_owned());
    let named = merge([&patch]).unwrap();
    let trace = fold(&[root, named]).unwrap();
    assert_eq!(trace.name.as_deref(), Some("explicit"));
    assert_eq!(trace.timestamp, Timestamp::from_micros(1));
    assert_eq!(trace.environment, "default");
    assert_eq!(trace.version.as_deref(), Some("8"));

    let lonely = fold(&[record]).unwrap();
    assert_eq!((lonely.name, lonely.n_observations), (None, 0));
    assert_eq!(lonely.timestamp, Timestamp::from_millis(900_000));
}

#[test]
fn the_root_is_the_best_ranked_and_provisional_without_its_parent() {
    let orphan = observation("a", Some("gone"), 1, |_| {});
    let as_root = observation("b", Some("gone"), 9, |o| o.as_root = true);
    let app_root = observation("c", Some("a"), 10, |o| o.is_app_root = true);
    let parentless = observation("d", None, 20, |_| {});
    let root = |set: &[&Observation]| {
        let trace = folded(set.iter().map(|o| (*o).clone()).collect());
        (trace.root.unwrap().to_string(), trace.root_is_provisional, trace.timestamp.as_micros())
    };
    assert_eq!(root(&[&orphan]), ("a".to_owned(), true, 1));
    assert_eq!(root(&[&orphan, &as_root]), ("b".to_owned(), false, 1));
    assert_eq!(root(&[&orphan, &as_root, &app_root]), ("c".to_owned(), false, 1));
    assert_eq!(root(&[&orphan, &as_root, &app_root, &parentless]), ("d".to_owned(), false, 20));
    assert_eq!(fold(&[]), None);
}

#[test]
fn a_cycle_has_a_root_too() {
    let set = vec![observation("a", Some("b"), 2, |_| {}), observation("b", Some("a"), 1, |_| {})];
    let trace = folded(set);
    assert_eq!((trace.root.unwrap().as_str(), trace.root_is_provisional), ("b", true));
}

#[test]
fn explicit_values_come_from_the_root_and_then_from_the_latest() {
    let set = vec![
        observation("root", None, 0, |o| o.version = Some("v".to_owned())),
        observation("old", Some("root"), 1, |o| {
            o.user_id = Some("old".to_owned());
            o.tags = vec!["b".to_owned()];
            o.trace = Some(Box::new(TraceFacts {
                public: Some(true),
                metadata: json!({ "a": { "x": 1, "y": 1 }, "k": "old" })
                    .as_object()
                    .unwrap()
                    .clone(),
                ..TraceFacts::default()
            }));
        }),
        observation("new", Some("root"), 2, |o| {
            o.user_id = Some("new".to_owned());
            o.tags = vec!["a".to_owned(), "b".to_owned()];
            o.trace = Some(Box::new(TraceFacts {
                name: Some("named".to_owned()),
                metadata: json!({ "a": { "y": 2 } }).as_object().unwrap().clone(),
                ..TraceFacts::default()
            }));
        }),
    ];
    let trace = folded(set);
    assert_eq!(trace.user_id.as_deref(), Some("new"));
    assert_eq!(trace.name.as_deref(), Some("named"));
    assert_eq!(trace.tags, ["a", "b"]);
    assert!(trace.public);
    assert_eq!(Value::Object(trace.metadata), json!({ "a": { "x": 1, "y": 2 }, "k": "old" }));
    assert_eq!((trace.latency_us, trace.n_observations, trace.n_by_level), (12, 3, [0, 3, 0, 0]));
}

#[test]
fn root_content_can_be_added_later_and_twice() {
    let content = Content {
        input: Some(crate::payload::Payload::Text("in".to_owned())),
        metadata: json!({ "own": 1, "scope": { "name": "s" } }).as_object().unwrap().clone(),
        ..Content::default()
    };
    let whole = fold(&[observation("a", None, 0, |o| o.content = content.clone())]).unwrap();
    let mut late = fold(&[observation("a", None, 0, |_| {})]).unwrap();
    late.add_root_content(&content);
    late.add_root_content(&content);
    assert_eq!(late, whole);
    assert!(!whole.metadata.contains_key("own"));
}

#[test]
fn an_aggregate_counts_only_where_nothing_below_does() {
    let agent = observation("agent", None, 0, |o| o.aggregate_usage = usage(300));
    let step = observation("step", Some("agent"), 0, |o| o.aggregate_usage = usage(200));
    let plain = observation("plain", Some("step"), 0, |_| {});
    let total = |set: Vec<Observation>| folded(set).usage.get("total").map(|n| n.to_u64());
    assert_eq!(total(vec![agent.clone(), plain.clone()]), Some(300));
    assert_eq!(total(vec![agent.clone(), step.clone()]), Some(200));
    let model = call("call", Some("plain"), "lib", 100);
    assert_eq!(total(vec![agent, step, plain, model]), Some(100));
}

#[test]
fn tokens_and_money_of_an_aggregate_count_each_on_their_own() {
    let agent = observation("agent", None, 0, |o| {
        o.aggregate_usage = usage(300);
        o.cost.insert("total".to_owned(), 0.5);
    });
    let trace = folded(vec![agent]);
    assert_eq!((trace.usage["total"].to_u64(), trace.total_cost), (300, 0.5));
}

#[test]
fn an_aggregate_in_a_cycle_counts_the_same_in_any_order() {
    let part = |id: &str, parent: &str| {
        observation(id, Some(parent), 0, |o| o.aggregate_usage = usage(50))
    };
    let set = [part("a", "b"), part("b", "a"), part("c", "b"), part("d", "d")];
    for first in 0..set.len() {
        let mut turned = set.to_vec();
        turned.rotate_left(first);
        assert_eq!(folded(turned).usage["total"].to_u64(), 150);
    }
}

#[test]
fn one_call_seen_by_two_libraries_counts_once() {
    let outer = call("outer", None, "one", 100);
    let mut inner = call("inner", Some("outer"), "two", 100);
    inner.model = Some("gpt-4o".to_owned());
    inner.has_content = true;
    let trace = folded(vec![outer.clone(), inner.clone()]);
    assert_eq!(trace.usage["total"].to_u64(), 100);
    assert_eq!(trace.duplicates, [(outer.id.clone(), inner.id.clone())]);

    let mut same_library = inner.clone();
    same_library.scope_name = "one".to_owned();
    assert_eq!(folded(vec![outer.clone(), same_library]).usage["total"].to_u64(), 200);

    let with_response = |o: &Observation, id: &str| {
        let mut o = o.clone();
        o.response_id = Some(id.to_owned());
        o
    };
    let differing = vec![with_response(&outer, "1"), with_response(&inner, "2")];
    assert_eq!(folded(differing).usage["total"].to_u64(), 200);
    let mut elsewhere = with_response(&inner, "1");
    elsewhere.usage = usage(40);
    elsewhere.parent_id = None;
    assert_eq!(folded(vec![with_response(&outer, "1"), elsewhere]).usage["total"].to_u64(), 40);
}

#[test]
fn money_is_added_in_decimal() {
    let priced = |id: &str, total: f64| {
        observation(id, None, 0, |o| {
            o.cost.insert("total".to_owned(), total);
        })
    };
    let trace = folded(vec![priced("a", 0.1), priced("b", 0.2), priced("c", 0.3)]);
    assert_eq!(trace.total_cost, 0.6);
}

#[test]
fn observations_with_and_without_a_price_are_counted_unless_they_need_none() {
    let priced = |id: &str, total: f64| {
        let mut call = call(id, None, "app", 100);
        call.cost.insert("total".to_owned(), total);
        call
    };
    let unpriced = call("u", None, "app", 100);
    let plain = observation("p", None, 0, |_| {});
    let counts = |set: &[&Observation]| {
        let trace = folded(set.iter().map(|o| (*o).clone()).collect());
        (trace.total_cost, trace.n_priced, trace.n_unpriced)
    };
    assert_eq!(counts(&[&plain]), (0.0, 0, 0));
    assert_eq!(counts(&[&plain, &priced("a", 0.0)]), (0.0, 1, 0));
    assert_eq!(counts(&[&plain, &unpriced]), (0.0, 0, 1));
    let mixed = [&priced("a", 0.5), &priced("b", 0.25), &unpriced, &plain];
    assert_eq!(counts(&mixed), (0.75, 2, 1));
    // A call without tokens should have a cost as well.
    let failed = observation("f", None, 0, |o| o.kind = ObservationKind::Embedding);
    assert_eq!(counts(&[&failed]), (0.0, 0, 1));
}

#[test]
fn an_agent_that_names_a_model_lacks_no_price_where_calls_are_below_it() {
    let agent = observation("agent", None, 0, |o| {
        o.kind = ObservationKind::Agent;
        o.model = Some("gpt-4o".to_owned());
    });
    let unpriced = |set: Vec<Observation>| folded(set).n_unpriced;
    assert_eq!(unpriced(vec![agent.clone()]), 1);
    let mut below = call("call", Some("agent"), "app", 100);
    assert_eq!(unpriced(vec![agent.clone(), below.clone()]), 1);
    below.cost.insert("total".to_owned(), 0.5);
    assert_eq!(unpriced(vec![agent, below]), 0);
}

#[test]
fn of_two_versions_the_later_end_then_the_richer_one_stays() {
    let stored = observation("a", None, 0, |o| o.attribute_count = 2);
    let longer = observation("a", None, 1, |_| {});
    let poorer = observation("a", None, 0, |o| o.attribute_count = 1);
    let other = observation("a", None, 0, |o| {
        o.attribute_count = 2;
        o.name = "other".to_owned();
    });
    assert!(!replaces(&stored, &stored));
    assert!(replaces(&stored, &longer) && !replaces(&longer, &stored));
    assert!(!replaces(&stored, &poorer) && replaces(&poorer, &stored));
    assert!(replaces(&stored, &other));
}

#[test]
fn observation_kinds_and_models_of_a_trace_are_unique_and_sorted() {
    let step = |id: &str, kind, model: &str, prompt: &str| {
        observation(id, None, 0, |o| {
            o.kind = kind;
            o.model = (model != "-").then(|| model.to_owned());
            o.prompt =
                (prompt != "-").then(|| PromptLink { name: prompt.to_owned(), version: None });
        })
    };
    let observations = vec![
        step("a", ObservationKind::Tool, "-", "-"),
        step("b", ObservationKind::Generation, "small", "greet"),
        step("c", ObservationKind::Generation, "large", "greet"),
        step("d", ObservationKind::Generation, "small", ""),
        step("e", ObservationKind::Generation, "", "-"),
    ];
    let found = folded(observations).observation_names;
    let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&t| t.to_owned()).collect() };
    assert_eq!(found.kinds, texts(&["GENERATION", "TOOL"]));
    assert_eq!(found.models, texts(&["large", "small"]));
    assert_eq!(found.prompts, texts(&["greet"]));
    let many = (0..MAX_OBSERVATION_NAMES + 1)
        .map(|n| step(&n.to_string(), ObservationKind::Generation, &format!("m{n:04}"), "-"));
    let found = folded(many.collect()).observation_names.models;
    assert_eq!(found.len(), MAX_OBSERVATION_NAMES);
    assert_eq!(found.last().map(String::as_str), Some("m0099"));
}
