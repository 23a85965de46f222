//! The replay of a session and the thread of a trace over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, trace_id};
use serde_json::{Value, json};

use crate::pages::Visitor;

/// A span of this trace that begins `at` milliseconds after the first one, with string attributes.
fn span(
    (trace, id, parent): (u64, u64, Option<u64>),
    name: &str,
    at: u64,
    attributes: &[(&str, &str)],
) -> Value {
    let attribute =
        |(key, value): &(&str, &str)| json!({ "key": key, "value": { "stringValue": value } });
    let nanos = |at: u64| format!("{}", 1_770_000_000_000_000_000_u64 + at * 1_000_000);
    json!({
        "traceId": trace_id(trace), "spanId": Trace::span_id(id),
        "parentSpanId": parent.map(Trace::span_id).unwrap_or_default(), "name": name,
        "startTimeUnixNano": nanos(at), "endTimeUnixNano": nanos(at + 1),
        "attributes": attributes.iter().map(attribute).collect::<Vec<_>>(),
    })
}

async fn send(app: &TestApp, spans: Vec<Value>) {
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
}

#[tokio::test]
async fn a_turn_with_its_whole_history_shows_only_new_messages() {
    const TURNS: u64 = 23;
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let mut history = Vec::new();
    let mut spans = Vec::new();
    for n in 1..=TURNS {
        history.push(json!({ "role": "user", "content": format!("question {n}") }));
        let input = Value::from(history.clone()).to_string();
        let output = format!("answer {n}");
        history.push(json!({ "role": "assistant", "content": output }));
        let attributes = [
            ("session.id", "grows"),
            ("perpend.observation.input", input.as_str()),
            ("perpend.observation.output", output.as_str()),
        ];
        spans.push(span((n, 1, None), "turn", 1_000 * n, &attributes));
    }
    send(&app, spans).await;
    let first = visitor.page("/sessions/grows").await;
    for n in 1..=20 {
        assert_eq!(first.matches(&format!(">question {n}</pre>")).count(), 1, "{n}: {first}");
    }
    assert!(
        first.contains("same 12 messages as turn 6") && first.contains("href=\"#turn-6\""),
        "{first}"
    );
    // The window from turn 4 on: the turn before it was read to be compared.
    let later = visitor.page("/sessions/grows?turn=4").await;
    assert!(
        later.contains("same 6 messages as turn 3") && later.contains("href=\"?turn=3\""),
        "{later}"
    );
    assert!(!later.contains(">question 3</pre>") && later.contains(">question 4</pre>"));
    // Walked to from behind, a window ends with the turn before: none is shown twice.
    let before = visitor.page("/sessions/grows?turn=3&end=1").await;
    assert!(before.contains("Turns 1–3 of 23") && before.contains("?turn=4\""), "{before}");
    // Links and forms keep the time and the environments of the lists.
    let focus = "from=-7d&env=default";
    let kept = visitor.page(&format!("/sessions/grows?turn=4&{focus}&find=question+5")).await;
    assert!(!later.contains("whole session") && kept.contains("The whole session is shown"));
    let links = kept.replace("&#38;", "&");
    for link in [
        format!("\"?turn=3&{focus}\""),
        format!("?turn=3&find=question%205&{focus}&end=1\""),
        format!("\"?turn=5&find=question%205&{focus}\""),
    ] {
        assert!(links.contains(&link), "{link}: {links}");
    }
    let forms = kept.split("<form class=\"goto\"").skip(1);
    let hidden = "<input type=\"hidden\" name=\"env\" value=\"default\">";
    let forms: Vec<bool> =
        forms.map(|form| form.split("</form>").next().unwrap().contains(hidden)).collect();
    assert_eq!(forms, [true, true], "{kept}");
    let those = format!("/value?trace={}&part=input&as=conversation&n=12", trace_id(7));
    let those = visitor.page(&those).await;
    assert_eq!(those.matches("<article class=\"message").count(), 12);
    assert!(those.contains("answer 6") && !those.contains("question 7"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_turn_collapses_its_tool_calls_with_input_and_output() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let session = ("session.id", "books");
    let tool = |(trace, id): (u64, u64), name: &str, contents: [&str; 2]| {
        let attributes = [
            ("perpend.observation.type", "tool"),
            ("perpend.observation.input", contents[0]),
            ("perpend.observation.output", contents[1]),
        ];
        span((trace, id, Some(1)), name, 1_000 * trace + id, &attributes)
    };
    let mut failed = tool((1, 4), "book", ["{\"room\":7}", ""]);
    failed["status"] = json!({ "code": 2, "message": "no room is left" });
    let mut spans = vec![
        span((1, 1, None), "turn", 1_000, &[session]),
        tool((1, 2), "search", ["{\"query\":\"rooms\"}", "two rooms"]),
        tool((1, 3), "search", ["{\"query\":\"more rooms\"}", "none"]),
        failed,
        span((2, 1, None), "turn", 2_000, &[session]),
        span((3, 1, None), "turn", 3_000, &[session]),
    ];
    spans.extend((2..=26).map(|id| tool((2, id), "fetch", ["a", "b"])));
    send(&app, spans).await;
    let page = visitor.page("/sessions/books").await;
    assert!(
        page.contains(
            "3 tool calls: <bdi>search, search, book</bdi> <span class=\"tag bad\">1 error"
        ),
        "{page}"
    );
    assert!(page.contains("two rooms") && page.contains("no room is left"));
    let step = format!("/traces/{}?observation={}", trace_id(1), Trace::span_id(3));
    assert!(page.contains(&format!("{step}\"")), "{page}");
    assert!(visitor.page(&step).await.contains("more rooms"));
    assert!(
        page.contains("25 tool calls: <bdi>fetch, fetch, fetch, fetch, fetch, fetch, …</bdi>"),
        "{page}"
    );
    assert!(page.contains("5 more tool calls"));
    assert_eq!(page.matches("class=\"tool-step\"").count(), 3 + 20);
    assert_eq!(page.matches("class=\"part tool-steps\"").count(), 2);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn tool_calls_are_not_looked_for_in_a_trace_with_very_many_steps() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let session = ("session.id", "wide");
    let kind = ("perpend.observation.type", "tool");
    let mut spans = vec![span((1, 1, None), "turn", 1_000, &[session])];
    spans.extend((2..=5_001).map(|id| span((1, id, Some(1)), "fetch", 1_001, &[kind])));
    spans.push(span((2, 1, None), "turn", 2_000, &[session]));
    spans.push(span((2, 2, Some(1)), "book", 2_001, &[kind]));
    for part in spans.chunks(1_000) {
        send(&app, part.to_vec()).await;
    }
    let page = visitor.page("/sessions/wide").await;
    assert!(page.contains("because the trace has 5,001 observations"), "{page}");
    assert!(page.contains("1 tool call: <bdi>book</bdi>") && !page.contains("<bdi>fetch"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn turns_are_found_by_a_text_in_any_case_and_jumped_to() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let mut spans = Vec::new();
    for n in 1..=60 {
        let message = match n {
            7 | 58 => format!("Where is my Refund {n}?"),
            _ => "And then?".to_owned(),
        };
        let attributes =
            [("session.id", "a \"long\" one"), ("perpend.observation.input", message.as_str())];
        spans.push(span((n, 1, None), "turn", 1_000 * n, &attributes));
    }
    let note = [("perpend.observation.output", "a refund of $5")];
    spans.push(span((30, 2, Some(1)), "note", 30_001, &note));
    // Of another session.
    let other = [("session.id", "other"), ("perpend.observation.input", "refund")];
    spans.push(span((100, 1, None), "turn", 1, &other));
    send(&app, spans).await;
    let path = format!("/sessions/{}", perpend_views::encode("a \"long\" one"));
    let found = visitor.page(&format!("{path}?find=REFUND")).await;
    let (_, list) = found.split_once("aria-label=\"Turns that contain").unwrap();
    let list = list.split("</section>").next().unwrap();
    assert!(list.contains("3 turns:"), "{list}");
    let turns = list.split("href=\"?turn=").skip(1);
    let turns: Vec<&str> = turns.filter_map(|turn| turn.split('"').next()).collect();
    let hits = ["7", "30", "58"].map(|turn| format!("{turn}&#38;find=REFUND"));
    assert_eq!(turns, hits, "{list}");
    assert!(list.contains("<mark>Refund</mark>") && list.contains("in an observation"));
    // The list of hits stays when one of them is opened.
    let there = visitor.page(&format!("{path}?turn=58&find=REFUND")).await;
    assert!(there.contains("aria-label=\"Turns that contain"), "{there}");
    assert!(there.contains("Refund 58?") && there.contains("Turns 58–60 of 60"));
    let all = list.split("<a href=\"").nth(1).unwrap();
    let all = all.split('"').next().unwrap().replace("&#38;", "&");
    let all = visitor.client.get(&all).await.unwrap().text();
    assert!(all.contains("1–3 of 3"), "{all}");
    let many = visitor.page(&format!("{path}?find=then")).await;
    assert!(many.contains("More than 20 turns, showing the first:"));
    let none = visitor.page(&format!("{path}?find=nowhere")).await;
    assert!(none.contains("No turns contain this text."), "{none}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_thread_has_tool_calls_and_other_agents_of_a_trace_that_was_instrumented_by_hand() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let step = |(id, parent): (u64, u64), kind: &str, name: &str, contents: [&str; 2]| {
        let attributes = [
            ("perpend.observation.type", kind),
            ("perpend.observation.input", contents[0]),
            ("perpend.observation.output", contents[1]),
        ];
        span((1, id, Some(parent)), name, id, &attributes)
    };
    let agent = [("perpend.observation.type", "agent")];
    let question = json!({ "role": "user", "content": "Is there a room?" });
    let tool_request = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "c1", "type": "function", "function": { "name": "search", "arguments": "{\"q\":\"room\"}" } },
    ] });
    let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "two rooms" });
    let first = json!([question]).to_string();
    let second = json!([question, tool_request, result]).to_string();
    let mut failed = step((7, 6), "tool", "book", ["{\"room\":7}", ""]);
    failed["status"] = json!({ "code": 2, "message": "no room is left" });
    let spans = vec![
        span((1, 1, None), "desk", 1, &agent),
        step((2, 1), "generation", "answer", [&first, &tool_request.to_string()]),
        step((3, 2), "tool", "search", ["{\"q\":\"room\"}", "two rooms"]),
        step((4, 1), "generation", "answer", [&second, "There are two."]),
        span((1, 5, Some(1)), "booker", 5, &agent),
        step((6, 5), "generation", "decide", ["Book one.", "I book it."]),
        failed,
    ];
    send(&app, spans).await;
    let thread = visitor.page(&format!("/traces/{}?v=thread", trace_id(1))).await;
    assert!(thread.contains("Calls 1–5 of 5"), "{thread}");
    assert_eq!(thread.matches("two rooms").count(), 1, "{thread}");
    assert_eq!(thread.matches(">Open observation</a>").count(), 1, "{thread}");
    assert!(thread.contains(&format!("?observation={}", Trace::span_id(3))));
    assert_eq!(thread.matches("no room is left").count(), 1, "{thread}");
    let (before, inside) = thread.split_once("<h2 class=\"within in1\">").unwrap();
    assert!(before.contains("There are two.") && inside.contains("I book it."));
    assert!(inside.contains("<bdi>booker</bdi>") && inside.matches("turn in1").count() == 2);
    app.stop().await.unwrap();
}

/// The numbers of messages that a thread leaves out, one for each line.
fn left_out(thread: &str) -> Vec<usize> {
    let lines = thread.split("<summary>same ").skip(1);
    let number = |line: &str| line.split(' ').next()?.parse().ok();
    lines.map(|line| number(line).unwrap()).collect()
}

#[tokio::test]
async fn the_windows_of_a_thread_show_each_message_once() {
    const SUBS: u64 = 22;
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let call = |id: u64, name: &str, input: &[Value], answer: &str| {
        let input = Value::from(input.to_vec()).to_string();
        let attributes = [
            ("perpend.observation.type", "generation"),
            ("perpend.observation.input", input.as_str()),
            ("perpend.observation.output", answer),
        ];
        span((1, id, Some(1)), name, id, &attributes)
    };
    let mut history = vec![message("system", "the rules"), message("user", "the task")];
    let mut spans =
        vec![span((1, 1, None), "team", 1, &[]), call(2, "supervise", &history, "the plan")];
    history.push(message("assistant", "the plan"));
    let mut all: Vec<String> =
        ["the rules", "the task", "the plan", "work well", "go on"].map(ToOwned::to_owned).into();
    all.push("the end".to_owned());
    for n in 1..=SUBS {
        let (job, done) = (format!("job {n}"), format!("done {n}"));
        let input = [message("system", "work well"), message("user", &job)];
        spans.push(call(n + 2, "work", &input, &done));
        history.push(message("assistant", &done));
        all.extend([job, done]);
    }
    history.push(message("user", "go on"));
    spans.push(call(SUBS + 3, "supervise", &history, "the end"));
    send(&app, spans).await;
    let path = format!("/traces/{}?v=thread", trace_id(1));
    let windows = [visitor.page(&path).await, visitor.page(&format!("{path}&at=20")).await];
    assert!(windows[1].contains("Calls 21–24 of 24"), "{}", windows[1]);
    for text in &all {
        let element = format!(">{text}</pre>");
        let n: usize = windows.iter().map(|page| page.matches(&element).count()).sum();
        assert_eq!(n, 1, "{text}");
    }
    // All messages of all inputs and outputs are shown or counted.
    let n_shown = windows.each_ref().map(|page| page.matches("<article class=\"message").count());
    let n_left_out = windows.each_ref().map(|page| left_out(page).iter().sum::<usize>());
    let n: usize = n_shown.into_iter().chain(n_left_out).sum();
    let n_subs = usize::try_from(SUBS).unwrap();
    assert_eq!(n, 2 + 1 + 3 * n_subs + history.len() + 1);
    let same = format!("same {} messages as <bdi>supervise</bdi>", history.len() - 1);
    assert!(windows[1].contains(&same), "{}", windows[1]);
    assert!(!windows[1].contains("were not compared"));
    let those = format!(
        "/value?trace={}&observation={}&part=input&as=conversation&n=",
        trace_id(1),
        Trace::span_id(SUBS + 3)
    );
    let opened = visitor.page(&format!("{those}25")).await;
    assert_eq!(opened.matches("<article class=\"message").count(), 25);
    let opened = visitor.page(&format!("{those}2-2,26-26")).await;
    assert_eq!(opened.matches("<article class=\"message").count(), 2);
    assert!(opened.contains(">the task</pre>") && opened.contains(">go on</pre>"));
    app.stop().await.unwrap();
}
