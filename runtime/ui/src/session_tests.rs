//! The replay of a session.

use perpend_domain::payload::Payload;
use perpend_domain::telemetry::GroupedBy;
use perpend_domain::trace::Trace;
use serde_json::{Value, json};

use crate::lists_tests::hostile_group;
use crate::pages_tests::{HOSTILE, checked, hostile_line, shell, trace};
use crate::*;

fn page(turns: Vec<Turn>) -> String {
    checked(&SessionPage {
        shell: shell(),
        line: hostile_group(GroupedBy::Session),
        users: Vec::new(),
        scores: Vec::new(),
        verdicts: Vec::new(),
        turns,
        n_turns: 30,
        wanted: 1,
        is_jump: false,
        at: String::new(),
        fault: None,
        ways: Ways::default(),
    })
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn answered(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A turn that was asked this and answered `answer`.
fn turn(asked: Value, answer: &str) -> Trace {
    let mut turn = trace("turn");
    turn.input = Some(Payload::from_value(asked));
    turn.output = Some(Payload::Text(answer.to_owned()));
    turn
}

fn lines(turns: Vec<Trace>) -> Vec<(TraceLine, Trace)> {
    let line = |turn: Trace| (hostile_line(), turn);
    turns.into_iter().map(line).collect()
}

#[test]
fn a_turn_shows_what_is_new_in_it_and_where_the_rest_was_said() {
    let turns = vec![
        turn(json!([said("one")]), "yes"),
        turn(json!([said("one"), answered("yes"), said("two")]), "no"),
    ];
    let html = page(Turn::all(1, None, lines(turns), "/project/p"));
    assert_eq!(html.matches(">one</pre>").count(), 1, "{html}");
    assert_eq!(html.matches(">two</pre>").count(), 1, "{html}");
    assert!(
        html.contains("<summary>same 2 messages as turn 1</summary>"),
        "{html}"
    );
    assert!(html.contains("part=input&as=conversation&n=2\"") && html.contains("href=\"#turn-1\""));
}

#[test]
fn a_window_knows_what_was_said_in_the_turn_before_it() {
    let before = turn(json!([said("one")]), "yes");
    let turns = vec![turn(
        json!({ "messages": [said("one"), answered("yes"), said(HOSTILE)], "model": "m" }),
        HOSTILE,
    )];
    let html = page(Turn::all(
        21,
        Some(&before),
        lines(turns.clone()),
        "/project/p",
    ));
    assert!(!html.contains(">one</pre>"), "{html}");
    assert!(
        html.contains("same 2 messages as turn 20") && html.contains("href=\"?turn=20\""),
        "{html}"
    );
    assert!(html.contains("id=\"turn-21\"") && !html.contains("id=\"turn-20\""));
    let alone = page(Turn::all(21, None, lines(turns), "/project/p"));
    assert!(alone.contains(">one</pre>") && !alone.contains("class=\"muted same\""));
}

#[test]
fn a_question_is_shown_however_often_it_was_asked() {
    let asked = || {
        vec![
            turn(json!("And then?"), "ok"),
            turn(json!([said("Hm")]), "ok"),
        ]
    };
    let turns = [asked(), asked()].concat();
    let html = page(Turn::all(1, None, lines(turns), "/project/p"));
    assert_eq!(html.matches("And then?").count(), 2, "{html}");
    assert_eq!(html.matches(">Hm</pre>").count(), 2, "{html}");
    assert!(!html.contains("class=\"muted same\""), "{html}");
}
