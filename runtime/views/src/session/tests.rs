//! The page of a session.

use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::{GroupKey, ToolObservations};
use perpend_domain::trace::Trace;
use serde_json::{Value, json};

use crate::lists::tests::hostile_group;
use crate::pages_tests::{HOSTILE, checked, hostile_line, shell, trace};
use crate::trace::sample_observations::observation;
use crate::*;

const HOSTILE_ID: &str = "a<b>\"'&";

fn page(turns: Vec<Turn>) -> String {
    checked(&SessionPage {
        shell: shell(),
        line: hostile_group(GroupKey::Session),
        users: Vec::new(),
        scores: Vec::new(),
        outcomes: Vec::new(),
        rules: RuleRange::default(),
        turns,
        n_turns: 30,
        current_turn: 1,
        is_jump: false,
        typed_turn: String::new(),
        fault: None,
        found: None,
        page_links: PageLinks::default(),
    })
}

fn user_message(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant_message(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A turn with this input and `answer` as output.
fn turn(input: Value, answer: &str) -> Trace {
    let mut turn = trace("turn");
    turn.input = Some(Payload::from_value(input));
    turn.output = Some(Payload::Text(answer.to_owned()));
    turn
}

fn inputs(turns: Vec<Trace>) -> Vec<TurnInput> {
    let input = |trace: Trace| TurnInput {
        line: hostile_line(),
        trace,
        tools: Some(ToolObservations::default()),
    };
    turns.into_iter().map(input).collect()
}

/// A tool call with these arguments and this result.
fn tool(id: &str, name: &str, content: [&str; 2]) -> Observation {
    let mut observation = observation(id, None, 10, 25);
    observation.kind = ObservationKind::Tool;
    observation.name = name.to_owned();
    observation.has_content = true;
    let [input, output] = content.map(|text| Some(Payload::Text(text.to_owned())));
    (observation.content.input, observation.content.output) = (input, output);
    observation
}

/// The page of one turn with these tool calls, the first of `n`.
fn with_tools(observations: Vec<Observation>, n: u64) -> String {
    let mut turns = inputs(vec![turn(json!("Book it."), "Done.")]);
    for turn in &mut turns {
        turn.trace.root = Some(ObservationId::new("root").unwrap());
        turn.tools = Some(ToolObservations { observations: observations.clone(), n });
    }
    page(Turn::all(1, None, turns, "/project/p"))
}

#[test]
fn a_turn_shows_new_messages_and_links_to_repeated_ones() {
    let turns = vec![
        turn(json!([user_message("one")]), "yes"),
        turn(json!([user_message("one"), assistant_message("yes"), user_message("two")]), "no"),
    ];
    let html = page(Turn::all(1, None, inputs(turns), "/project/p"));
    assert_eq!(html.matches(">one</pre>").count(), 1, "{html}");
    assert_eq!(html.matches(">two</pre>").count(), 1, "{html}");
    assert!(html.contains("<summary>same 2 messages as turn 1</summary>"), "{html}");
    assert!(html.contains("part=input&as=conversation&n=2\"") && html.contains("href=\"#turn-1\""));
}

#[test]
fn turns_have_bars_and_a_turn_with_errors_is_hatched() {
    let turns = vec![turn(json!("one"), "yes"), turn(json!("two"), "no")];
    let mut turns = inputs(turns);
    turns[0].line.n_errors = 0;
    turns[1].line.latency_us = 4_000;
    let html = page(Turn::all(21, None, turns, "/project/p"));
    let (_, charts) = html.split_once("<details class=\"turn-charts\">").unwrap();
    let (charts, _) = charts.split_once("aria-label=\"Turns\"").unwrap();
    for chart in ["Latency <span", "Cost <span"] {
        assert!(charts.contains(chart), "{charts}");
    }
    let bars = [
        "<a href=\"#turn-21\" tabindex=\"-1\"><title>Turn 21: 1.0 ms</title><rect x=\"0\"",
        "<title>Turn 22 with errors: 4.0 ms</title><rect class=\"partial\"",
        "<a href=\"#turn-22\">Turn 22</a> <span class=\"muted\">with errors</span>",
    ];
    for bar in bars {
        assert!(charts.contains(bar), "{bar}: {charts}");
    }
    // A single turn has no charts.
    let one = page(Turn::all(1, None, inputs(vec![turn(json!("one"), "yes")]), "/p"));
    assert!(!one.contains("turn-charts"), "{one}");
}

#[test]
fn a_turn_with_a_changed_prompt_omits_repeated_messages_after_it() {
    let rules = |at: &str| json!({ "role": "system", "content": at });
    let turns = vec![
        turn(json!([rules("12:01"), user_message("one")]), "yes"),
        turn(
            json!([
                rules("12:02"),
                user_message("one"),
                assistant_message("yes"),
                user_message("two")
            ]),
            "no",
        ),
    ];
    let html = page(Turn::all(1, None, inputs(turns), "/project/p"));
    for text in ["12:01", "12:02", "one", "two"] {
        let place = format!(">{text}</pre>");
        assert_eq!(html.matches(&place).count(), 1, "{text}: {html}");
    }
    assert!(
        html.contains("same 2 messages as turn 1")
            && html.contains("part=input&as=conversation&n=2-3\""),
        "{html}"
    );
}

#[test]
fn a_window_is_compared_with_the_turn_before_it() {
    let before = turn(json!([user_message("one")]), "yes");
    let turns = vec![turn(
        json!({ "messages": [user_message("one"), assistant_message("yes"), user_message(HOSTILE)], "model": "m" }),
        HOSTILE,
    )];
    let html = page(Turn::all(21, Some(&before), inputs(turns.clone()), "/project/p"));
    assert!(!html.contains(">one</pre>"), "{html}");
    assert!(
        html.contains("same 2 messages as turn 20") && html.contains("href=\"?turn=20\""),
        "{html}"
    );
    assert!(html.contains("id=\"turn-21\"") && !html.contains("id=\"turn-20\""));
    let alone = page(Turn::all(21, None, inputs(turns), "/project/p"));
    assert!(alone.contains(">one</pre>") && !alone.contains("class=\"muted same\""));
}

#[test]
fn a_repeated_question_is_shown_each_time() {
    let input = || vec![turn(json!("And then?"), "ok"), turn(json!([user_message("Hm")]), "ok")];
    let turns = [input(), input()].concat();
    let html = page(Turn::all(1, None, inputs(turns), "/project/p"));
    assert_eq!(html.matches("And then?").count(), 2, "{html}");
    assert_eq!(html.matches(">Hm</pre>").count(), 2, "{html}");
    assert!(!html.contains("class=\"muted same\""), "{html}");
}

#[test]
fn tool_calls_of_a_turn_are_collapsed_and_link_to_their_observations() {
    let mut failed = tool("c", "book", ["{\"room\":7}", ""]);
    failed.level = Level::Error;
    failed.status_message = Some("no room left".to_owned());
    let steps = vec![
        tool("root", "the turn itself", ["", ""]),
        tool("a", "search", ["{\"q\":\"rooms\"}", &"free ".repeat(100)]),
        tool("b", "search", ["{\"q\":\"more\"}", "two"]),
        failed,
    ];
    let html = with_tools(steps, 4);
    assert!(
        html.contains("<summary>3 tool calls: <bdi>search, search, book</bdi> <span class=\"tag bad\">1 error</span>"),
        "{html}"
    );
    assert!(!html.contains("the turn itself") && html.contains("no room left"));
    assert!(html.contains("?observation=b\"") && html.contains("25 ms"));
    assert!(html.contains("free free…</bdi>"), "{html}");
    assert!(!with_tools(Vec::new(), 0).contains("tool-steps"));
}

#[test]
fn omitted_tool_calls_are_counted_and_unread_ones_are_reported() {
    let mut large = tool("b", "fetch", ["", ""]);
    large.content = Content::default();
    large.level = Level::Error;
    let many = with_tools(vec![tool("a", "fetch", ["x", "y"]), large], 1_200);
    assert!(many.contains("1,200 tool calls: <bdi>fetch, fetch, …</bdi>"), "{many}");
    assert!(many.contains("1 error in the first 2") && many.contains("1,198 more tool calls"));
    assert!(many.contains("This call is too large to show here"));
    let mut turns = inputs(vec![turn(json!("Hm"), "ok")]);
    for turn in &mut turns {
        turn.line.n_observations = 50_000;
        turn.tools = None;
    }
    let unread = page(Turn::all(1, None, turns, "/project/p"));
    assert!(unread.contains("because the trace has 50,000 observations"), "{unread}");
    let hostile = with_tools(vec![tool(HOSTILE_ID, HOSTILE, [HOSTILE, HOSTILE])], 1);
    assert!(hostile.contains("[U+202E]txt"), "{hostile}");
}
