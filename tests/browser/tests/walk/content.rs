//! Untrusted content is shown as text, and data of other projects are not shown.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http::Method;
use libtest_mimic::Trial;
use perpend_browser::{Server, Shared, TestServer, Visitor};
use serde_json::{Value, json};

use crate::{data, pages};

/// A picture of one pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// A sound of eight samples.
const SOUND: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Shared,
            "a_conversation_with_unknown_keys_a_picture_and_a_sound_stays_one",
            shows_messages,
        ),
        shared.test(
            TestServer::Shared,
            "what_others_wrote_is_inert_text_and_no_request_leaves",
            stays_inert,
        ),
        shared.test(
            TestServer::Shared,
            "a_value_of_three_megabytes_opens_node_by_node_is_searched_and_whole_when_downloaded",
            begins_large_values,
        ),
        shared.test(
            TestServer::Shared,
            "a_thread_repeats_no_message_and_opens_those_that_were_said_before",
            opens_the_same,
        ),
        shared.test(
            TestServer::Shared,
            "a_session_repeats_no_message_folds_its_tool_calls_and_leads_to_a_turn_by_its_text",
            replays,
        ),
        shared.test(
            TestServer::Shared,
            "a_trace_of_another_project_is_as_unknown_as_one_that_is_not_there",
            keeps_projects_apart,
        ),
    ]
}

async fn shows_messages(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let messages = json!([
        { "role": "user", "content": "What is this?", "x_origin": { "screen": "checkout" } },
        { "role": "user", "content": [
            { "type": "text", "text": "A picture and a sound." },
            { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{PICTURE}") } },
            { "type": "input_audio", "input_audio": { "format": "wav", "data": SOUND } },
        ] },
        { "role": "assistant", "content": "A dot, and silence." },
    ]);
    let messages = messages.to_string();
    let attributes = data::input_and_output(&messages, "done");
    server.send(&[data::span(&trace, 1, None, "messages", &attributes)]).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}?observation={}", data::span_id(1))).await?;
    browser
        .expect("document.querySelectorAll('#detail .message').length === 3 && document.querySelector('#detail .further:not([open])') !== null")
        .await?;
    let further = browser.text("#detail .further summary").await?;
    ensure!(further.contains("x_origin"), "{further}");
    browser.eval("document.querySelector('#detail img').scrollIntoView()").await?;
    browser
        .wait_for("document.querySelector('#detail img').naturalWidth === 1 && document.querySelector('#detail img').complete")
        .await?;
    browser
        .wait_for("document.querySelector('#detail .medium .pixels').textContent === '1 × 1 px'")
        .await?;
    browser.eval("document.querySelector('#detail [data-zooms]').click()").await?;
    browser
        .expect("document.getElementById('zoom').open && document.querySelector('#zoom img').src === document.querySelector('#detail img').src")
        .await?;
    browser
        .expect("document.querySelector('#zoom a[download]').href === document.querySelector('#detail [data-zooms]').href")
        .await?;
    browser.click("#zoom [aria-pressed=false]").await?;
    browser
        .expect("document.querySelector('#zoom [aria-pressed=true]') !== null && document.querySelector('#zoom img.whole') !== null")
        .await?;
    browser.click("#zoom button").await?;
    browser.expect("!document.getElementById('zoom').open").await?;
    browser.eval("document.querySelector('#detail audio').load()").await?;
    browser.eval("void (document.querySelector('#detail audio').preload = 'auto')").await?;
    browser.wait_for("document.querySelector('#detail audio').duration > 0").await?;
    // Another form is another address, in which the pane alone changes.
    browser
        .eval("document.querySelector('#detail a[data-form][href*=\"as.input=tree\"]').click()")
        .await?;
    browser
        .wait_for("document.querySelectorAll('#detail .tree > li').length === 3 && location.search.includes('as.input=tree')")
        .await?;
    let text = browser.eval("document.getElementById('detail').textContent").await?;
    let text = text.as_str().context("text")?;
    ensure!(!text.contains(&PICTURE[..24]) && !text.contains(&SOUND[..24]), "{text}");
    visitor.assert_console_empty().await
}

const HOSTILE: &str = "<script>window.wasHere = 1</script><img src=x onerror=\"window.wasHere = 1\">\
    ![pixel](https://pixel.example/p.png) <iframe src=https://frame.example></iframe> \
    <a href=\"javascript:window.wasHere=1\">press</a> file\u{202e}gpj.exe\u{200b}\u{e0041}";

async fn stays_inert(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let picture = "**see** ![pixel](https://pixel.example/q.png)\n\n| a |\n|---|\n| b |";
    let messages = json!([
        { "role": "user", "content": HOSTILE, "name": HOSTILE },
        { "role": "user", "content": picture },
    ]);
    let messages = messages.to_string();
    let mut attributes = data::input_and_output(&messages, HOSTILE).to_vec();
    attributes.extend([
        ("user.id", HOSTILE),
        ("session.id", HOSTILE),
        ("perpend.observation.metadata.key", HOSTILE),
    ]);
    server.send(&[data::span(&trace, 1, None, HOSTILE, &attributes)]).await?;
    visitor.log_in().await?;
    let trace = format!("{}/traces/{trace}", pages::base(visitor).await?);
    let step = format!("{trace}?observation={}", data::span_id(1));
    let find = format!("{trace}/find?q=wasHere");
    for path in [&step, &find, "/traces?q=wasHere", "/traces", "/sessions", "/users"] {
        visitor.open(path).await?;
        browser
            .expect("!('wasHere' in window) && document.querySelectorAll('main script:not([src^=\"/assets/\"]), main iframe, main [onerror], main a[href^=\"javascript:\"]').length === 0")
            .await
            .with_context(|| path.to_owned())?;
        let elsewhere = browser
            .eval("performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => !name.startsWith(location.origin))")
            .await?;
        ensure!(elsewhere == json!([]), "{path}: {elsewhere}");
        visitor.assert_console_empty().await.with_context(|| path.to_owned())?;
    }
    visitor.open(&step).await?;
    let pane = browser.eval("document.getElementById('detail').textContent").await?;
    let pane = pane.as_str().context("text")?;
    for seen in ["<script>window.wasHere = 1</script>", "onerror=", "https://pixel.example/p.png"] {
        ensure!(pane.contains(seen), "{seen} is missing in {pane}");
    }
    browser
        .expect("document.querySelector('#detail .message .md td').textContent === 'b' && document.querySelectorAll('#detail .md img').length === 0")
        .await?;
    // Characters that change the text direction or are invisible are replaced by a visible mark.
    browser
        .expect("!/[\\u200b\\u202e\\u{e0041}]/u.test(document.body.textContent) && document.getElementById('detail').textContent.includes('[U+200B][U+E0041]')")
        .await
}

async fn begins_large_values(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let items: Vec<Value> = (0..40_000)
        .map(|n| json!({ "number": n, "text": "sixty characters of text, which stand here for what a tool says" }))
        .collect();
    let whole = Value::from(items).to_string();
    ensure!(whole.len() > 3_000_000);
    let attributes = data::input_and_output(&whole, "read");
    server.send(&[data::span(&trace, 1, None, "large value", &attributes)]).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}?observation={}", data::span_id(1))).await?;
    browser
        .expect("performance.getEntriesByType('navigation')[0].encodedBodySize < 45_000")
        .await?;
    // A far node is two clicks away: further ones, and one of them.
    browser.click("#detail .tree > .rest a").await?;
    browser.wait_for("document.querySelectorAll('#detail .tree > li').length > 250").await?;
    // The path of a node, as a mapping takes it.
    browser
        .eval("void (navigator.clipboard.writeText = async (text) => { window.copied = text; })")
        .await?;
    browser
        .eval("document.querySelector('#detail .tree > li:nth-child(202) [data-act=path]').click()")
        .await?;
    browser.wait_for("window.copied === '$[201]'").await?;
    // A search covers the whole value, and a hit leads to its node.
    browser.eval("document.querySelector('#detail .finder').open = true").await?;
    browser
        .eval("document.querySelector('#detail .finder input[name=find]').value = '39876'")
        .await?;
    browser.eval("document.querySelector('#detail .finder form').requestSubmit()").await?;
    browser
        .wait_for("document.querySelector('#detail .places .name')?.textContent === \"$[39876]['number']\"")
        .await?;
    let raw = browser
        .eval("fetch(document.querySelector('#detail a.raw[download]').href).then((answer) => answer.text()).then((text) => text.length)")
        .await?;
    ensure!(raw.as_u64() >= Some(whole.len() as u64), "{raw} of {}", whole.len());
    browser.click("#detail .places .name").await?;
    browser
        .wait_for("document.querySelector('.value .node-body')?.textContent.trim() === '39876'")
        .await?;
    visitor.assert_console_empty().await
}

/// Three calls that send their history along, the last one behind another prompt, and a tool call.
fn talk(trace: &str) -> Result<Vec<Value>> {
    let question = json!([{ "role": "system", "content": "Be kind." }, { "role": "user", "content": "Hello?" }]);
    let answer = json!({ "role": "assistant", "content": "Hello.", "tool_calls": [
        { "id": "c1", "type": "function", "function": { "name": "clock", "arguments": "{}" } },
    ] });
    let mut again = question.as_array().context("a list")?.clone();
    again.extend([
        answer.clone(),
        json!({ "role": "tool", "tool_call_id": "c1", "content": "It is noon." }),
        json!({ "role": "user", "content": "And now?" }),
    ]);
    let mut later = again.clone();
    if let Some(prompt) = later.first_mut() {
        *prompt = json!({ "role": "system", "content": "Be brief." });
    }
    later.extend([
        json!({ "role": "assistant", "content": "Now." }),
        json!({ "role": "user", "content": "And then?" }),
    ]);
    let (again, later) = (Value::from(again), Value::from(later));
    let kind = ("perpend.observation.type", "generation");
    let mut spans = vec![data::span(trace, 1, None, "talk", &[])];
    let [arguments, result] = data::input_and_output("{}", "It is noon.");
    let kind_of_tool = ("perpend.observation.type", "tool");
    let ran = [kind_of_tool, arguments, result];
    spans.push(data::span(trace, 3, Some(1), "clock", &ran));
    for (n, input, output) in [
        (2, &question, answer.to_string()),
        (4, &again, "Now.".to_owned()),
        (5, &later, "Later.".to_owned()),
    ] {
        let input = input.to_string();
        let [question, answered] = data::input_and_output(&input, &output);
        spans.push(data::span(trace, n, Some(1), "answer", &[kind, question, answered]));
    }
    Ok(spans)
}

async fn opens_the_same(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    server.send(&talk(&trace)?).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}?v=thread")).await?;
    browser.expect("document.querySelectorAll('.thread .message').length === 8").await?;
    browser.click(".thread .same summary").await?;
    browser.wait_for("document.querySelectorAll('.thread .same .message').length === 3").await?;
    let same = browser.text(".thread .same summary").await?;
    ensure!(same.contains("same 3 messages"), "{same}");
    let all = browser.text(".thread").await?;
    ensure!(all.matches("It is noon.").count() == 1, "{all}");
    browser
        .expect(
            "document.querySelector('.thread .call .labelled').textContent.includes('It is noon.')",
        )
        .await?;
    let last = ".thread > .turn:last-child .same";
    let same = browser.text(&format!("{last} summary")).await?;
    ensure!(same.contains("same 5 messages"), "{same}");
    browser.click(&format!("{last} summary")).await?;
    // The result of the tool is shown at its call.
    browser.wait_for(&format!("document.querySelectorAll('{last} .message').length === 4")).await?;
    let opened = browser.text(last).await?;
    ensure!(opened.contains("Hello?") && !opened.contains("Be kind."), "{opened}");
    browser.click(".thread .call h6 > a").await?;
    browser
        .wait_for(
            "document.querySelector('.grid [aria-selected=true] .name')?.textContent === 'clock'",
        )
        .await?;
    visitor.assert_console_empty().await
}

/// Turns that carry their whole history, the last but one with tool calls.
fn turns(n: u64) -> Vec<Value> {
    let mut history = Vec::new();
    let mut spans = Vec::new();
    for number in 1..=n {
        let trace = data::new_trace();
        history.push(json!({ "role": "user", "content": format!("question {number}?") }));
        let input = Value::from(history.clone()).to_string();
        let answer = format!("answer {number}");
        history.push(json!({ "role": "assistant", "content": answer }));
        let [question, answered] = data::input_and_output(&input, &answer);
        let attributes = [("session.id", "replayed"), question, answered];
        spans.push(data::span(&trace, 1, None, "turn", &attributes));
        if number + 1 != n {
            continue;
        }
        for (id, name, result) in [(2, "search", "two rooms"), (3, "book", "booked")] {
            let [arguments, result] = data::input_and_output("{}", result);
            let kind = ("perpend.observation.type", "tool");
            let attributes = [kind, arguments, result];
            spans.push(data::span(&trace, id, Some(1), name, &attributes));
        }
    }
    spans
}

async fn replays(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&turns(25)).await?;
    visitor.log_in().await?;
    visitor.open("/sessions/replayed?turn=6").await?;
    browser.expect("document.querySelectorAll('.turn').length === 20").await?;
    let bytes = "performance.getEntriesByType('navigation')[0].encodedBodySize";
    browser.expect(&format!("{bytes} <= 45 * 1024")).await?;
    let same = browser.text(".turn .same summary").await?;
    ensure!(same == "same 10 messages as turn 5", "{same}");
    let last = browser.text("#turn-25").await?;
    ensure!(last.contains("question 25?") && !last.contains("question 24?"), "{last}");
    browser.click(".turn .same summary").await?;
    browser.wait_for("document.querySelectorAll('.turn .same .message').length === 10").await?;
    let tools = "#turn-24 .tool-steps";
    let folded = browser.text(&format!("{tools} summary")).await?;
    ensure!(folded == "2 tool calls: search, book", "{folded}");
    browser.click(&format!("{tools} summary")).await?;
    let open = browser.text(tools).await?;
    ensure!(open.contains("two rooms") && open.contains("booked"), "{open}");
    browser.click(&format!("{tools} .tool-step a")).await?;
    browser
        .wait_for(
            "document.querySelector('.grid [aria-selected=true] .name')?.textContent === 'search'",
        )
        .await?;

    visitor.open("/sessions/replayed").await?;
    browser.fill("[name=find]", "QUESTION 7?").await?;
    browser.click(".turns-head form[role=search] button").await?;
    browser
        .wait_for("document.querySelector('.found-turns mark')?.textContent === 'question 7?'")
        .await?;
    browser.click(".found-turns .place a").await?;
    browser.wait_for("document.activeElement.closest('.turn')?.id === 'turn-7'").await?;
    visitor.assert_console_empty().await
}

/// Text and status of a page, without the parts that depend on the single request.
async fn answer(visitor: &Visitor, path: &str) -> Result<Value> {
    let script =
        format!("fetch('{path}').then(async (answer) => [answer.status, await answer.text()])");
    visitor.browser.eval(&script).await
}

async fn keeps_projects_apart(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let (public, secret) = Server::ORGANIZATION_KEYS;
    let organizer = server.client.clone().with_keys(public, secret);
    let post = async |path: &str, body: Value| -> Result<Value> {
        let answer = organizer.json(Method::POST, path, &body).await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        Ok(answer.json())
    };
    let project = post("/api/public/projects", json!({ "name": "Other", "retention": 0 })).await?;
    let project = project["id"].as_str().context("a project")?;
    let keys = format!("/api/public/projects/{project}/apiKeys");
    let keys = post(&keys, json!({ "note": "walk" })).await?;
    let (public, secret) = (keys["publicKey"].as_str(), keys["secretKey"].as_str());
    let other =
        server.client.clone().with_keys(public.context("a key")?, secret.context("a secret")?);
    let trace = data::new_trace();
    let span = data::span(&trace, 1, None, "of another project", &[]);
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let sent = other.json(Method::POST, perpend_it::OTLP, &body).await?;
    ensure!(sent.status == 200, "{}", sent.text());

    visitor.log_in().await?;
    let there = format!("/project/{project}/traces/{trace}");
    visitor.open(&there).await?;
    ensure!(browser.text("h1").await? == "Not found");
    browser.expect("document.querySelector('.rail a') !== null").await?;
    browser.console().await?;
    let answers = [
        answer(visitor, &there).await?,
        answer(visitor, &format!("/project/{project}/traces/{}", data::new_trace())).await?,
        answer(visitor, &format!("/project/nobody-has-this/traces/{trace}")).await?,
    ];
    ensure!(
        answers[0][0] == 404 && answers.iter().all(|answer| *answer == answers[0]),
        "{answers:#?}"
    );
    // The same of the viewer's own project, and without one.
    visitor.open("/traces").await?;
    let own = browser.eval("location.pathname").await?;
    let own = own.as_str().context("a path")?;
    let unknown = answer(visitor, &format!("{own}/{trace}")).await?;
    ensure!(unknown == answers[0], "{unknown:#?} {:#?}", answers[0]);
    Ok(())
}
