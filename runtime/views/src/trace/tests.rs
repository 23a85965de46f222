//! Timeline, thread and log.

use perpend_domain::evaluation::CompletionReason;
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::outline::{Folds, Outline};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::{ObservationSummary, Progress};
use perpend_domain::time::Timestamp;
use serde_json::json;

use crate::pages_tests::{
    HOSTILE, Shown, checked, hostile_observation, outline, shell, summary, trace, trace_page,
    trace_page_with,
};
use crate::trace::rows::empty_columns;
use crate::trace::sample_observations::observation;
use crate::*;

fn view_params(trace_view: TraceView) -> ViewParams {
    ViewParams { trace_view, ..ViewParams::default() }
}

fn generation(id: &str, start_ms: i64, messages: &[&str], answer: &str) -> Observation {
    let mut observation = observation(id, None, start_ms, 10);
    observation.kind = ObservationKind::Generation;
    let messages = messages.iter().map(|text| json!({ "role": "user", "content": text }));
    observation.content.input = Some(Payload::from_value(messages.collect()));
    observation.content.output = Some(Payload::Text(answer.to_owned()));
    observation
}

fn thread(calls: Vec<Call>, n_before: usize, n_calls: usize) -> ThreadPage {
    thread_with_history(Vec::new(), calls, (n_before, n_calls))
}

/// The thread of these calls, with earlier generations to compare.
fn thread_with_history(
    history: Vec<Observation>,
    calls: Vec<Call>,
    (n_before, n_calls): (usize, usize),
) -> ThreadPage {
    ThreadPage::new(ThreadInput {
        n_unread: 7 * history.len(),
        history,
        shell: shell(),
        trace: trace(HOSTILE),
        at: n_before,
        calls,
        n_before,
        n_calls,
        n_hidden: 3,
        view_params: view_params(TraceView::Thread),
        row_state: RowState::new(Some(HOSTILE), &Folds::default()),
        head: HeadInput { faults: vec![HOSTILE.to_owned()], ..HeadInput::default() },
    })
}

fn call(observation: Observation) -> Call {
    Call {
        is_generation: observation.kind == ObservationKind::Generation,
        observation,
        is_large: false,
        depth: 1,
        enclosing_agent: None,
    }
}

#[test]
fn a_thread_shows_each_message_once_and_links_to_the_call_of_repeated_ones() {
    let mut failed = observation("t", None, 15, 5);
    failed.kind = ObservationKind::Tool;
    failed.level = Level::Error;
    failed.status_message = Some(HOSTILE.to_owned());
    let calls = vec![
        call(generation("a", 0, &["one"], "yes")),
        call(failed),
        call(generation("b", 20, &["one", "two"], HOSTILE)),
    ];
    let html = checked(&thread(calls, 0, 30));
    assert_eq!(html.matches(">one</pre>").count(), 1, "{html}");
    assert_eq!(html.matches(">two</pre>").count(), 1);
    assert!(html.contains("same 1 message as <bdi>observation a</bdi></summary>"), "{html}");
    assert!(html.contains("Calls 1–3 of 30") && html.contains("&v=thread&at=3\""));
    assert!(html.contains("class=\"turn in1\""));
    checked(&thread(Vec::new(), 0, 0));
}

#[test]
fn a_thread_does_not_repeat_messages_from_before_the_window() {
    let history = vec![generation("far", 0, &["rules", "task"], HOSTILE)];
    let calls = vec![
        call(generation("near", 10, &["other"], "done")),
        call(generation("back", 20, &["now", "rules", "more"], "end")),
    ];
    let html = checked(&thread_with_history(history, calls, (1, 30)));
    assert!(!html.contains(">rules</pre>"), "{html}");
    for new in [">now</pre>", ">more</pre>"] {
        assert_eq!(html.matches(new).count(), 1, "{new}: {html}");
    }
    assert!(
        html.contains("same 1 message as <bdi>observation far</bdi></summary>")
            && html.contains("observation=back&part=input&as=conversation&n=2-2\"")
            && html.contains("?observation=far"),
        "{html}"
    );
    assert!(html.contains("Messages of 7 earlier generations were not compared"), "{html}");
}

fn message(role: &str, text: &str) -> serde_json::Value {
    json!({ "role": role, "content": text })
}

/// A generation with these input messages and this output.
fn generation_of(id: &str, messages: &[serde_json::Value], answer: serde_json::Value) -> Call {
    let mut observation = generation(id, 0, &[], "");
    observation.content.input = Some(Payload::from_value(messages.to_vec().into()));
    observation.content.output = Some(Payload::from_value(answer));
    call(observation)
}

#[test]
fn a_thread_shows_each_message_once_with_changing_prompts_and_unsent_reasoning() {
    let mut history = Vec::new();
    let mut calls = Vec::new();
    for n in 1..=6 {
        history.push(message("user", &format!("Q{n}")));
        let now = message("system", &format!("Now it is 12:00:0{n}"));
        let messages = [vec![now], history.clone()].concat();
        let answer = message("assistant", &format!("ANS{n}"));
        let mut given = answer.clone();
        given["reasoning_content"] = json!(format!("thought {n}"));
        calls.push(generation_of(&format!("call-{n}"), &messages, given));
        history.push(answer);
    }
    let html = checked(&thread(calls, 0, 6));
    for n in 1..=6 {
        for text in ["Q", "ANS", "Now it is 12:00:0", "thought "] {
            let place = format!(">{text}{n}</pre>");
            assert_eq!(html.matches(&place).count(), 1, "{place}: {html}");
        }
    }
    assert_eq!(html.matches("<summary>same ").count(), 5, "{html}");
    assert!(
        html.contains("<summary>same 10 messages as <bdi>observation call-5</bdi></summary>")
            && html.contains("&n=2-11\""),
        "{html}"
    );
}

#[test]
fn a_thread_shows_a_retry_in_one_line_and_repeated_messages_in_place() {
    let talk = ["rules", "Q1"].map(|text| message("user", text));
    let calls = vec![
        generation_of("first", &talk, message("assistant", "A1")),
        generation_of("again", &talk, message("assistant", "A2")),
        generation_of(
            "sub",
            &[message("system", "sub rules"), talk[1].clone(), talk[1].clone()],
            message("assistant", "A3"),
        ),
    ];
    let html = checked(&thread(calls, 0, 3));
    assert!(html.contains("same 2 messages as <bdi>observation first</bdi>"), "{html}");
    let (_, sub) = html.split_once("data-step=\"sub\"").unwrap();
    let places = [">sub rules</pre>", "same 1 message as", ">Q1</pre>", ">A3</pre>"];
    let places = places.map(|text| sub.find(text).unwrap());
    assert!(places.is_sorted(), "{html}");
    assert_eq!(html.matches(">rules</pre>").count(), 1, "{html}");
    assert_eq!(html.matches(">Q1</pre>").count(), 2, "{html}");
}

#[test]
fn a_thread_shows_each_message_of_a_sliding_window_once() {
    let [one, two, three] = ["Q1", "Q2", "Q3"].map(|text| message("user", text));
    let [first, second] = ["A1", "A2"].map(|text| message("assistant", text));
    let rules = message("system", "rules");
    let calls = vec![
        generation_of("a", &[rules.clone(), one, first, two.clone()], second.clone()),
        generation_of("b", &[rules, two, second, three], json!("A3")),
    ];
    let html = checked(&thread(calls, 0, 2));
    for text in ["rules", "Q1", "A1", "Q2", "A2", "Q3", "A3"] {
        let place = format!(">{text}</pre>");
        assert_eq!(html.matches(&place).count(), 1, "{text}: {html}");
    }
    assert!(html.contains("same 3 messages as <bdi>observation a</bdi>"), "{html}");
}

#[test]
fn a_thread_shows_equal_questions_and_answers_of_different_agents() {
    let of = |id: &str| {
        let messages = [message("system", id), message("user", "Are you there?")];
        generation_of(id, &messages, message("assistant", "OK"))
    };
    let html = checked(&thread(vec![of("one"), of("other")], 0, 2));
    for text in ["Are you there?", "OK"] {
        let place = format!(">{text}</pre>");
        assert_eq!(html.matches(&place).count(), 2, "{text}: {html}");
    }
    assert!(!html.contains("<summary>same "), "{html}");
}

/// A tool call as an observation.
fn tool(id: &str, start_ms: i64, name: &str, content: [&str; 2]) -> Call {
    let mut observation = observation(id, None, start_ms, 5);
    observation.kind = ObservationKind::Tool;
    observation.name = name.to_owned();
    let [arguments, result] = content.map(|text| Some(Payload::Text(text.to_owned())));
    (observation.content.input, observation.content.output) = (arguments, result);
    call(observation)
}

/// An assistant message with tool calls, given by id and name.
fn tool_call_message(tools: &[(&str, &str)]) -> serde_json::Value {
    let calls = tools.iter().map(|(id, name)| {
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } })
    });
    json!({ "role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>() })
}

/// A generation that calls these tools, and the next one with the results.
fn around_tools(tools: &[(&str, &str)], results: &[(&str, &str)]) -> [Call; 2] {
    let mut first = generation("a", 0, &["one"], "");
    first.content.output = Some(Payload::from_value(tool_call_message(tools)));
    let mut second = generation("b", 50, &[], "done");
    let mut messages = vec![json!({ "role": "user", "content": "one" }), tool_call_message(tools)];
    messages.extend(
        results
            .iter()
            .map(|(id, text)| json!({ "role": "tool", "tool_call_id": id, "content": text })),
    );
    second.content.input = Some(Payload::from_value(messages.into()));
    [call(first), call(second)]
}

#[test]
fn a_tool_observation_is_shown_at_its_call_and_no_result_is_repeated() {
    let [first, second] = around_tools(
        &[("c1", "search"), ("c2", "search")],
        &[("c1", "result one"), ("c2", "result two")],
    );
    let mut failed = tool("u", 20, "search", ["{}", "result two"]);
    failed.observation.level = Level::Error;
    failed.observation.status_message = Some("timed out".to_owned());
    let calls = vec![first, tool("t", 12, "search", ["{}", "result one"]), failed, second];
    let html = checked(&thread(calls, 0, 4));
    for result in ["result one", "result two", "timed out"] {
        assert_eq!(html.matches(result).count(), 1, "{result}: {html}");
    }
    assert_eq!(html.matches("<article class=\"turn").count(), 2, "{html}");
    assert_eq!(html.matches(">Open observation</a>").count(), 2, "{html}");
    let [t, u] = ["t", "u"].map(|id| html.find(&format!("?observation={id}")).unwrap());
    assert!(t < u, "calls and observations with one name are paired in order: {html}");
    assert!(html.contains("Calls 1–4 of 4"), "merged calls are counted: {html}");
}

#[test]
fn tool_observations_are_matched_by_the_id_of_the_call() {
    let [first, _] = around_tools(&[("c1", "search"), ("c2", "search")], &[]);
    let with_id = |mut call: Call, id: &str| {
        let attributes = json!({ "gen_ai.tool.call.id": id });
        let metadata = &mut call.observation.content.metadata;
        metadata.insert("attributes".to_owned(), attributes);
        call
    };
    let calls = vec![
        first,
        with_id(tool("t", 12, "search", ["{}", "result two"]), "c2"),
        with_id(tool("u", 20, "search", ["{}", "result one"]), "c1"),
    ];
    let html = checked(&thread(calls, 0, 3));
    let [one, two] = ["result one", "result two"].map(|text| html.find(text).unwrap());
    assert!(one < two, "{html}");
    assert_eq!(html.matches("<article class=\"turn").count(), 1, "{html}");
}

#[test]
fn a_tool_observation_without_a_call_is_shown_in_order_with_its_result() {
    let calls = vec![
        call(generation("a", 0, &["one"], "I will search.")),
        tool("t", 12, "search", ["{\"q\":\"rooms\"}", "two rooms"]),
        call(generation("b", 30, &["two"], "done")),
    ];
    let html = checked(&thread(calls, 0, 3));
    assert_eq!(html.matches("<article class=\"turn").count(), 3, "{html}");
    let places = ["I will search.", "two rooms", ">done<"].map(|text| html.find(text).unwrap());
    assert!(places.is_sorted(), "{html}");
    assert!(html.contains("rooms") && !html.contains(">Open observation</a>"));
}

#[test]
fn a_tool_observation_with_a_call_before_the_window_has_its_result() {
    let [first, second] = around_tools(&[("c1", "search")], &[("c1", "result one")]);
    let calls = vec![first, tool("t", 12, "search", ["{}", "result one"]), second];
    let html = checked(&thread(calls, 1, 3));
    assert_eq!(html.matches("result one").count(), 1, "{html}");
    assert_eq!(html.matches("<article class=\"turn").count(), 2, "{html}");
    assert!(html.contains("same 2 messages as"), "{html}");
}

#[test]
fn calls_in_another_agent_have_its_heading_and_hostile_tools_are_inert() {
    let within = EnclosingAgent {
        id: "a<b>\"'&".to_owned(),
        kind: ObservationKind::Agent,
        name: HOSTILE.to_owned(),
    };
    let inside = |mut call: Call| {
        call.enclosing_agent = Some(within.clone());
        call
    };
    let [first, second] = around_tools(&[(HOSTILE, HOSTILE)], &[(HOSTILE, HOSTILE)]);
    let mut failed = tool("t", 12, HOSTILE, [HOSTILE, HOSTILE]);
    failed.observation.level = Level::Error;
    failed.observation.status_message = Some(HOSTILE.to_owned());
    let calls = vec![first, inside(failed), inside(second)];
    let html = checked(&thread(calls, 0, 3));
    assert_eq!(html.matches("<h2 class=\"within in1\">").count(), 1, "{html}");
    assert!(html.contains("?observation=a%3Cb%3E%22%27%26"), "{html}");
}

#[test]
fn a_call_that_is_too_large_has_a_notice() {
    let long = "x".repeat(3 << 20);
    let html = checked(&thread(vec![call(generation("a", 0, &[&long], "yes"))], 0, 1));
    assert!(html.contains("This call is too large") && html.len() < 100_000);
}

#[test]
fn a_log_shows_excerpts_and_links_to_other_pages() {
    let sample = |id, ms| observation(id, None, ms, 7);
    let begins = || [Some(Text::from(HOSTILE)), None];
    let mut hostile = hostile_observation();
    hostile.start = sample("b", 40).start;
    let view = LogPage::new(LogInput {
        shell: shell(),
        trace: trace(HOSTILE),
        start: sample("a", 0).start,
        observations: vec![(sample("a", 0), begins()), (hostile, begins())],
        at: 100,
        n_observations: 300,
        n_hidden: 12,
        view_params: ViewParams { min: Some(Level::Default), ..view_params(TraceView::Log) },
        row_state: RowState::new(None, &Folds::default()),
        head: HeadInput::default(),
    });
    let html = checked(&view);
    assert!(html.contains("Observations 101–102 of 300") && html.contains("+40 ms"));
    assert!(html.contains("12 observations below this level not shown"));
    assert!(html.contains("?trace&v=log&min=DEFAULT&at=102"), "{html}");
    assert!(html.contains("?trace&v=log&min=DEFAULT&at=0"));
}

#[test]
fn a_timeline_marks_the_critical_path_and_keeps_its_axis_range() {
    let observations = [
        observation("root", None, 0, 1_000),
        observation("waited-for", Some("root"), 100, 800),
        observation("beside", Some("root"), 100, 300),
    ];
    let outline = outline(&observations);
    let shown = Shown {
        selected: Some(observations[1].clone()),
        view_params: ViewParams { zoom: Some((250.0, 500.5)), ..view_params(TraceView::Time) },
        ..Shown::default()
    };
    let html = checked(&trace_page(&outline, shown));
    assert_eq!(html.matches("span critical\"").count(), 2, "{html}");
    assert!(html.contains("<b>Gaps</b> 200 ms idle in 2 gaps: "), "{html}");
    // An observation that is on the path for its whole duration has no note.
    assert_eq!(html.matches(" on the path</span>").count(), 1, "{html}");
    assert!(html.contains("200 ms on the path"), "{html}");
    assert!(html.contains("data-ms=\"250\" value=\"250 ms\""), "{html}");
    assert!(html.contains("t0=900&t1=1000\" data-keeps>100 ms from 900 ms</a>."), "{html}");
    // The gaps are outside the axis range.
    assert_eq!(html.matches("class=\"gap\"").count(), 0);
    // Self time is shown for rows with children.
    assert_eq!(html.matches("title=\"Self time 200 ms\"").count(), 1);
    assert!(html.contains("1.00 s on 2 observations"), "{html}");
    assert!(
        html.contains("<span class=\"first\">250 ms</span>")
            && html.contains("<span class=\"last\">500.5 ms</span>")
    );
    assert!(
        html.contains("?observation=waited-for&v=time\"") && html.contains("&v=time&t0=100&t1=900")
    );
    assert!(html.contains("name=\"observation\" value=\"waited-for\""));
    // Each row has its time range, for the zoom link.
    assert!(html.contains("data-part=\"100 900\"") && html.contains("data-part=\"0 1000\""));
    assert!(html.contains("t0=100&t1=900\" data-keeps data-of-step>Zoom to"), "{html}");
    // Observations outside the range have no bar.
    assert_eq!(html.matches("width=\"0\"").count(), 0);
    let outside = Shown {
        view_params: ViewParams { zoom: Some((950.0, 990.0)), ..view_params(TraceView::Time) },
        ..Shown::default()
    };
    let html = checked(&trace_page(&outline, outside));
    assert_eq!(html.matches("width=\"0\"").count(), 2, "{html}");
    assert!(html.contains("data-of-step hidden>Zoom to"), "{html}");
    let band = "<rect class=\"gap\" x=\"0\" width=\"1000\" height=\"10\"/>";
    assert_eq!(html.matches(band).count(), 1, "{html}");
}

#[test]
fn axis_labels_of_a_range_name_their_offset() {
    let outline = outline(&[observation("root", None, 0, 3 * 3_600_000)]);
    let page = |zoom: (f64, f64)| {
        let shown = Shown {
            view_params: ViewParams { zoom: Some(zoom), ..view_params(TraceView::Time) },
            ..Shown::default()
        };
        checked(&trace_page(&outline, shown))
    };
    let html = page((9_000_000.0, 9_001_000.0));
    for part in [
        "The time axis starts 2 h 30 min after the start of the trace.",
        "aria-label=\"Time, from 2 h 30 min\"",
        "<span class=\"first\">0 s</span>",
        "<span class=\"last\">1 s</span>",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    let html = page((0.0, 1_000.0));
    assert!(!html.contains("time axis starts") && html.contains("aria-label=\"Time\""));
}

#[test]
fn links_and_forms_that_keep_the_selection_have_a_data_attribute() {
    let observations = [observation("root", None, 0, 10), observation("step", Some("root"), 1, 8)];
    let outline = outline(&observations);
    let head = || HeadInput {
        kinds: vec![(ObservationKind::Span, 1), (ObservationKind::Tool, 1)],
        ..HeadInput::default()
    };
    let html = checked(&trace_page_with(&outline, Shown::default(), head()));
    for link in [
        "?trace&v=time\" data-keeps data-aspect",
        "?trace&min=ERROR\" data-keeps>",
        "?trace\" data-keeps=\"folds\"><bdi>",
    ] {
        assert!(html.contains(link), "{link} in {html}");
    }
    let form = "<form class=\"goto\" method=\"get\" data-keeps>";
    assert_eq!(html.matches(form).count(), 2, "{html}");
    // Only rows of the timeline have a time range.
    assert!(!html.contains("data-part"), "{html}");
    let on_timeline = Shown { view_params: view_params(TraceView::Time), ..Shown::default() };
    let html = checked(&trace_page_with(&outline, on_timeline, head()));
    assert_eq!(html.matches(form).count(), 3, "{html}");
}

#[test]
fn observations_below_the_minimum_level_are_counted() {
    let mut failed = observation("failed", Some("inner"), 3, 1);
    failed.level = Level::Error;
    let observations = [
        observation("root", None, 0, 10),
        observation("inner", Some("root"), 1, 8),
        failed,
        observation("fine", Some("root"), 2, 1),
    ];
    let outline = outline(&observations);
    let mut shown = Shown {
        view_params: ViewParams { min: Some(Level::Error), ..ViewParams::default() },
        ..Shown::default()
    };
    shown.folds.min = Some(Level::Error);
    let html = checked(&trace_page(&outline, shown));
    assert!(html.contains("1 observation below this level not shown"), "{html}");
    assert!(html.contains("?observation=failed&min=ERROR") && !html.contains("?observation=fine"));
}

#[test]
fn observations_of_other_kinds_are_counted_and_kinds_are_selected_in_a_form() {
    let mut tool = observation("tool", Some("root"), 1, 1);
    tool.kind = ObservationKind::Tool;
    let observations =
        [observation("root", None, 0, 10), tool, observation("beside", Some("root"), 2, 1)];
    let outline = outline(&observations);
    let view = |kinds: &[ObservationKind]| {
        let mut shown = Shown {
            view_params: ViewParams { kinds: kinds.to_vec(), ..ViewParams::default() },
            ..Shown::default()
        };
        shown.folds.kinds = kinds.to_vec();
        let head = HeadInput {
            kinds: vec![(ObservationKind::Span, 2), (ObservationKind::Tool, 1)],
            ..HeadInput::default()
        };
        checked(&trace_page_with(&outline, shown, head))
    };
    let html = view(&[ObservationKind::Tool]);
    assert!(html.contains("1 observation of other kinds not shown"), "{html}");
    assert!(html.contains("?observation=tool&kinds=TOOL") && !html.contains("?observation=beside"));
    assert!(html.contains("<a href=\"?trace\" data-keeps>Show all</a>"));
    assert!(html.contains("value=\"TOOL\" checked") && html.contains("value=\"SPAN\">"));
    let both = view(&[ObservationKind::Tool, ObservationKind::Span]);
    assert!(both.contains("kinds=TOOL%2CSPAN") && !both.contains("of other kinds"));
}

#[test]
fn a_page_of_a_trace_has_the_version_of_its_data() {
    let outline = outline(&[observation("a", None, 0, 1)]);
    let html = checked(&trace_page(&outline, Shown::default()));
    assert!(!html.contains("data-version") && !html.contains("follow.js"));
    let at = Timestamp::from_millis;
    let state = |now_ms| TraceState {
        progress: Progress {
            first_seen: at(0),
            last_seen: at(0),
            has_root: true,
            root_ended_at: None,
            n_open: 1,
            has_marker: false,
            n_observations: 1,
        },
        complete: (at(3_600_000), CompletionReason::MaxWait),
        now: at(now_ms),
    };
    let view = |now_ms| {
        let head = HeadInput {
            state: Some(state(now_ms)),
            version: "17-0-0".to_owned(),
            ..HeadInput::default()
        };
        checked(&trace_page_with(&outline, Shown::default(), head))
    };
    let open = view(5_000);
    assert!(open.contains("data-version=\"17-0-0\"") && open.contains("-follow.js\""));
    assert!(open.contains("1 observation not ended"), "{open}");
    // A complete trace can still receive scores.
    assert!(view(4_000_000).contains("data-version"));
}

#[test]
fn a_column_without_values_is_hidden() {
    let bare = |tokens, cost| {
        let observation = observation("a", None, 0, 1);
        let summary = |(tokens, cost)| ObservationSummary { tokens, cost, ..summary(&observation) };
        Outline::new(vec![summary((None, None)), summary((tokens, cost))])
    };
    for (tokens, cost, classes) in [
        (None, None, " no-tok no-cost"),
        (Some(0), Some(0.5), " no-tok"),
        // A cost of zero and an unknown cost are both shown.
        (Some(0), Some(0.0), " no-tok"),
        (Some(1), None, ""),
        (Some(1), Some(0.5), ""),
    ] {
        assert_eq!(empty_columns(&bare(tokens, cost), "", ""), classes);
    }
    // The trace has a row of its own.
    assert_eq!(empty_columns(&bare(None, None), "1,000", ""), " no-cost");
    assert_eq!(empty_columns(&bare(None, None), "", "$1.00"), " no-tok");
}

fn value_page(
    payload: Payload,
    path: &str,
    params: ValueParams,
    find: Option<&str>,
) -> Option<String> {
    let view = ValueView::new(ValueInput {
        base: "/project/p".to_owned(),
        trace: ("t".to_owned(), Some(Text::from(HOSTILE))),
        observation: Some(("o".to_owned(), Text::from(HOSTILE))),
        part: "input".to_owned(),
        payload,
        path: path.parse().unwrap(),
        params,
        find: find.map(ToOwned::to_owned),
    });
    let view = view?;
    checked(&view);
    Some(checked(&ValuePage { shell: shell(), view, notices: vec![Text::from(HOSTILE)] }))
}

#[test]
fn the_page_of_a_value_is_inert_and_bounded_in_every_form() {
    let member =
        json!({ HOSTILE: [HOSTILE, { HOSTILE: json!({ HOSTILE: HOSTILE }).to_string() }] });
    let chat = json!([{ "role": HOSTILE, "content": HOSTILE }]);
    let many: Vec<_> = (0..5_000).map(|n| json!({ HOSTILE: n, "text": HOSTILE })).collect();
    let values = [
        Payload::Text(HOSTILE.to_owned()),
        Payload::Text(String::new()),
        Payload::Text(format!("# {HOSTILE}\n\n|{HOSTILE}|\n|-|\n|x|\n").repeat(5_000)),
        Payload::from_value(json!({})),
        Payload::from_value(json!(7)),
        Payload::from_value(member),
        Payload::from_value(chat),
        Payload::from_value(json!(many)),
        Payload::Json(format!("{}{}", "{\"a\":[".repeat(5_000), "]}".repeat(5_000))),
    ];
    let forms = ["conversation", "text", "tree", "raw"].map(Form::from_name);
    for value in values {
        for form in [None].into_iter().chain(forms) {
            for from in [0, 1, 100, usize::MAX] {
                let params = ValueParams { form, from, ..ValueParams::default() };
                let html = value_page(value.clone(), "$", params, None).unwrap();
                assert!(html.len() < 2 << 20, "{}", html.len());
            }
        }
        value_page(value, "$", ValueParams::default(), Some(HOSTILE)).unwrap();
    }
}

#[test]
fn the_page_of_a_node_has_its_path_with_links() {
    let value = || Payload::from_value(json!({ "a": [{ "it's": "text *here*" }] }));
    let html = value_page(value(), "$['a'][0]['it\\'s']", ValueParams::default(), None).unwrap();
    assert!(html.contains("<p>text <em>here</em></p>"), "{html}");
    let up = "value?trace=t&observation=o&part=input&path=%24%5B%27a%27%5D%5B0%5D&as=tree";
    assert!(html.contains(up), "{html}");
    assert!(html.contains("download=1\" download"), "{html}");
    assert!(value_page(value(), "$['b']", ValueParams::default(), None).is_none());
    assert!(value_page(value(), "$['b']", ValueParams::default(), Some("x")).is_none());
    let found = value_page(value(), "$", ValueParams::default(), Some("HERE")).unwrap();
    assert!(found.contains("1 match") && found.contains("<mark>here</mark>"), "{found}");
    let none = value_page(value(), "$", ValueParams::default(), Some("nowhere")).unwrap();
    assert!(none.contains("0 matches"), "{none}");
}
