//! Changes by users, and live updates.

use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fantoccini::actions::{InputSource, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use libtest_mimic::Trial;
use perpend_browser::{Browser, Server, Shared, TestServer, Visitor};
use serde_json::json;

use crate::data;

const ENTER: &str = "\u{e007}";
const TOAST: &str = "document.getElementById('toast').innerText";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Fresh,
            "the_printed_command_says_why_it_was_refused_then_turns_the_page_and_back_after_logging_out_shows_nothing",
            waits_for_the_first_trace,
        ),
        shared.test(
            TestServer::Shared,
            "a_bookmark_and_a_tag_are_set_in_place_and_undone_by_a_key_and_without_script",
            marks,
        ),
        shared.test(
            TestServer::Shared,
            "a_failed_execution_is_requeued_and_its_score_appears_by_itself",
            requeues,
        ),
        shared.test(
            TestServer::Shared,
            "a_part_of_the_time_axis_is_drawn_over_and_stays_after_a_reload",
            zooms,
        ),
        shared.test(
            TestServer::Shared,
            "labels_of_any_part_of_the_time_axis_differ_and_never_touch_however_narrow_it_is",
            labels_the_axis,
        ),
        shared.test(
            TestServer::Shared,
            "a_session_of_twenty_thousand_turns_opens_small_and_is_walked_with_one_key",
            walks_a_long_session,
        ),
        shared.test(
            TestServer::Shared,
            "turns_are_played_over_the_end_of_a_page_and_with_keys_off_none_does_anything",
            plays,
        ),
    ]
}

/// Runs the command in a shell; returns its output.
fn run(command: &str) -> Result<String> {
    let done = Command::new("bash").args(["-c", command]).output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

async fn waits_for_the_first_trace(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    visitor.log_in().await?;
    let is_waiting = "document.querySelector('[data-wait]') !== null";
    browser.wait_for(is_waiting).await?;
    browser.click(".tabs details:nth-child(2) > summary").await?;
    browser
        .expect("document.querySelectorAll('.tabs details[open]').length === 1 && document.querySelector('.tabs details[open] pre').innerText.includes('pip install langfuse')")
        .await?;
    browser
        .expect("Array.from(document.querySelectorAll('pre.code')).every((pre) => pre.scrollWidth <= pre.clientWidth)")
        .await?;
    let command = browser
        .eval("Array.from(document.querySelectorAll('pre.code'), (pre) => pre.textContent).find((text) => text.startsWith('curl'))")
        .await?;
    let command = command.as_str().context("a command")?;
    ensure!(command.contains(Server::KEYS.0) && command.contains(&server.origin));
    run(command)?;
    let shows_refusal = "document.getElementById('waits').textContent.includes('last rejected request: 401 wrong secret')";
    browser.wait_for(shows_refusal).await?;
    browser.eval("void (window.stays = true)").await?;
    run(&command.replace("secret key", Server::KEYS.1))?;
    browser.wait_for(&format!("!({is_waiting})")).await?;
    browser.expect("window.stays === true").await?;
    ensure!(browser.text(".cards").await?.contains("Traces"));
    visitor.assert_console_empty().await?;
    visitor.open("/traces").await?;
    ensure!(browser.text("main").await?.contains("hello"));
    browser.click(".who button").await?;
    browser.wait_for("location.pathname === '/login'").await?;
    browser.client.back().await?;
    browser
        .wait_for("location.pathname === '/login' && !document.body.innerText.includes('hello')")
        .await
}

/// Why a tag was refused stays on the page of this trace, whatever arrives.
async fn refuses_a_blank_tag(visitor: &Visitor, older: &str) -> Result<()> {
    let Visitor { server, browser } = visitor;
    browser.fill("#field-add", &format!("  {ENTER}")).await?;
    let is_refused = "document.activeElement.matches('.problems') && document.querySelector('#field-add[aria-invalid]') !== null";
    browser.wait_for(is_refused).await?;
    // Live updates do not remove it.
    let later = data::span(older, 2, Some(1), "what came later", &[]);
    server.send(&[later]).await?;
    browser
        .wait_for("document.querySelector('[role=treegrid]').innerText.includes('what came later')")
        .await?;
    browser.expect(is_refused).await
}

async fn marks(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let spans = data::many(2, "worth keeping", "kim");
    server.send(&spans).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22worth+keeping%22").await?;
    let pressed = |parent: &str, is: bool| {
        format!(
            "document.querySelector('{parent} [data-mark]').getAttribute('aria-pressed') === '{is}'"
        )
    };
    browser.eval("void (window.stays = true)").await?;
    browser.press("jjb").await?;
    let second = "#rows tr:nth-child(2)";
    browser.wait_for(&pressed(second, true)).await?;
    browser.expect(&pressed("#rows tr:nth-child(1)", false)).await?;
    browser.wait_for(&format!("{TOAST}.includes('Bookmark set.')")).await?;
    let hidden = format!("document.querySelectorAll('{second} [data-text][hidden]').length");
    browser.expect(&format!("{hidden} === 0")).await?;
    browser.press("z").await?;
    browser.wait_for(&pressed(second, false)).await?;
    browser
        .expect("window.stays && document.activeElement.closest('tr') === document.querySelector('#rows tr:nth-child(2)')")
        .await?;
    browser.click(&format!("{second} .name")).await?;
    browser.wait_for("document.getElementById('marks') !== null").await?;
    browser.press("b").await?;
    browser.wait_for(&pressed("#marks", true)).await?;
    // Live updates are shown while a button has the focus, and it keeps the focus.
    let mark = "document.querySelector('#marks [data-mark]')";
    browser.eval(&format!("{mark}.focus()")).await?;
    let score = json!({ "traceId": spans[0]["traceId"], "name": "kept well", "value": 1 });
    server.post("/api/public/scores", &score).await?;
    browser
        .wait_for(&format!(
            "document.querySelector('.trace-head').parentElement.innerText.includes('kept well') && document.activeElement === {mark}"
        ))
        .await?;
    browser.click("#tagger > summary").await?;
    browser.fill("#field-add", &format!("golden <1>{ENTER}")).await?;
    browser.wait_for("document.querySelector('.of-tag bdi')?.textContent === 'golden <1>'").await?;
    // Keys in a field are text.
    browser.press("z").await?;
    browser
        .expect("document.querySelector('.of-tag') !== null && document.getElementById('field-add').value === 'z'")
        .await?;
    let older = spans[0]["traceId"].as_str().context("an id")?;
    refuses_a_blank_tag(visitor, older).await?;
    browser.allow_scripts(false).await?;
    let path = format!("/traces/{older}");
    visitor.open(&path).await?;
    browser.click(".remove").await?;
    browser
        .wait_for(
            "document.querySelector('main > #told')?.innerText.includes('golden <1> removed')",
        )
        .await?;
    browser.expect("document.querySelector('.of-tag') === null").await?;
    browser.click("#told button").await?;
    browser.wait_for("document.querySelector('.of-tag') !== null").await?;
    browser.allow_scripts(true).await
}

async fn requeues(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let evaluator = json!({
        "type": "plugin", "name": "requeued length", "plugin": "perpend/text", "evaluator": "length",
        "config": { "max": 1000 },
    });
    let evaluator = server.post("/api/public/v2/evaluators", &evaluator).await?;
    let filter =
        json!([{ "type": "string", "column": "name", "operator": "=", "value": "without output" }]);
    let rule = json!({
        "name": "requeued", "enabled": true, "settleMs": 0, "filter": filter,
        "evaluatorAssignments": [{ "evaluatorId": evaluator["id"] }],
    });
    server.post("/api/public/v2/evaluation-rules", &rule).await?;
    let trace = data::new_trace();
    let bare = data::span(&trace, 1, None, "without output", &[]);
    server.send(&[bare]).await?;
    perpend_it::wait_for(&server.client, "/api/v1/failed-executions", |answer| {
        perpend_it::count(answer) == 1
    })
    .await?;
    visitor.log_in().await?;
    let step = format!("/traces/{trace}?observation={}", data::span_id(1));
    visitor.open(&step).await?;
    let pane = browser.text("#pane-scores").await?;
    ensure!(
        pane.contains("failed") && pane.contains("Attempts") && pane.contains("Class"),
        "{pane}"
    );
    // Meanwhile the output came.
    let whole = data::span(&trace, 1, None, "without output", &data::input_and_output("a", "b"));
    server.send(&[whole]).await?;
    browser.eval("void (window.stays = true)").await?;
    browser.click("#pane-scores form button").await?;
    browser.wait_for(&format!("{TOAST}.includes('Requeued')")).await?;
    browser
        .wait_for("window.stays && document.querySelector('#pane-scores .card-score') !== null")
        .await?;
    // Scores of the same fingerprint are one click away.
    let fingerprint = browser
        .eval("Array.from(document.querySelectorAll('#pane-scores code'), (code) => code.title).find((text) => /^[0-9a-f]{64}$/.test(text))")
        .await?;
    browser
        .eval("Array.from(document.querySelectorAll('#pane-scores a')).find((a) => a.textContent === 'Scores with this fingerprint').click()")
        .await?;
    browser.wait_for("location.pathname.endsWith('/scores')").await?;
    browser
        .expect(&format!(
            "new URLSearchParams(location.search).get('fingerprint') === {fingerprint} \
             && document.querySelectorAll('tbody tr').length === 1"
        ))
        .await?;
    visitor.assert_console_empty().await
}

/// Draws over a part of the axis with the pressed pointer, from one share of it to another.
async fn draw(browser: &Browser, shares: [f64; 2]) -> Result<()> {
    let axis = browser
        .eval("(({ left, width, top }) => [left, width, top + 8])(document.querySelector('.ticks').getBoundingClientRect())")
        .await?;
    let at = |n: usize| axis[n].as_f64().context("an edge");
    let (left, width, y) = (at(0)?, at(1)?, at(2)?);
    let [from, to] =
        shares.map(|share| PointerAction::MoveTo { duration: None, x: left + share * width, y });
    let button = MOUSE_BUTTON_LEFT;
    let drag = MouseActions::new("mouse".to_owned())
        .then(from)
        .then(PointerAction::Down { button })
        .then(to)
        .then(PointerAction::Up { button });
    Ok(browser.client.perform_actions(drag).await?)
}

async fn zooms(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let mut spans = vec![data::span(&trace, 1, None, "four seconds", &[])];
    for n in 2..6 {
        spans.push(data::span(&trace, n, Some(1), &format!("second {n}"), &[]));
    }
    let started: u64 = spans[0]["startTimeUnixNano"].as_str().context("a time")?.parse()?;
    let second = 1_000_000_000;
    spans[0]["endTimeUnixNano"] = (started + 4 * second).to_string().into();
    for (n, span) in (0..).zip(&mut spans[1..]) {
        span["startTimeUnixNano"] = (started + n * second).to_string().into();
        span["endTimeUnixNano"] = (started + (n + 1) * second - 1_000_000).to_string().into();
    }
    server.send(&spans).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}")).await?;
    browser.press("2").await?;
    browser.wait_for("location.search.includes('v=time')").await?;
    draw(browser, [0.25, 0.5]).await?;
    browser.wait_for("location.search.includes('t0=')").await?;
    let zoom = browser.eval("location.search").await?;
    let is_right = "(() => {
        const [t0, t1] = ['t0', 't1'].map((name) => Number(new URLSearchParams(location.search).get(name)));
        const ticks = Array.from(document.querySelectorAll('.ticks span'), (tick) => tick.getBoundingClientRect());
        const apart = ticks.every((tick, n) => n === 0 || ticks[n - 1].right <= tick.left);
        const bars = Array.from(document.querySelectorAll('.window .bar rect'), (bar) => [bar.x.baseVal.value, bar.width.baseVal.value]);
        const cut = bars.length > 0 && bars.every(([x, width]) => x >= 0 && width >= 0 && x + width <= 1000.5);
        const critical = document.querySelector('.window .critical') !== null;
        return Math.abs(t0 - 1000) < 60 && Math.abs(t1 - 2000) < 60 && ticks.length >= 3 && ticks.length <= 9 && apart && cut && critical;
    })()";
    browser.wait_for(is_right).await?;
    browser.client.refresh().await?;
    browser.wait_for(&format!("location.search === {zoom} && {is_right}")).await?;
    visitor.assert_console_empty().await?;
    // A part that cannot be loaded shows a message, and is loaded on retry.
    let blocked = async |urls: &[&str]| {
        browser.protocol("Network.enable", json!({})).await?;
        let urls = json!({ "urls": urls });
        browser.protocol("Network.setBlockedURLs", urls).await
    };
    blocked(&["*/detail*"]).await?;
    browser.press("jj").await?;
    browser.wait_for("document.querySelector('#detail > .failed[role=alert]') !== null").await?;
    browser.expect("document.querySelectorAll('.window > .row').length === 5").await?;
    blocked(&[]).await?;
    browser.click("#detail .failed button").await?;
    browser
        .wait_for("document.querySelector('#detail .id').textContent === document.querySelector('.grid [aria-selected=true]').dataset.step")
        .await
}

async fn labels_the_axis(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let mut span = data::span(&trace, 1, None, "three hours", &[]);
    let started: u64 = span["startTimeUnixNano"].as_str().context("a time")?.parse()?;
    span["endTimeUnixNano"] = (started + 3 * 3_600 * 1_000_000_000).to_string().into();
    server.send(&[span]).await?;
    visitor.log_in().await?;
    let is_right = "(() => {
        const ticks = Array.from(document.querySelectorAll('.ticks span'))
            .filter((tick) => getComputedStyle(tick).visibility === 'visible');
        const places = ticks.map((tick) => {
            const range = document.createRange();
            range.selectNodeContents(tick);
            return range.getBoundingClientRect();
        });
        const apart = places.every((place, n) => n === 0 || places[n - 1].right < place.left);
        const differ = new Set(ticks.map((tick) => tick.textContent)).size === ticks.length;
        return ticks.length >= 3 && ticks.length <= 9 && apart && differ;
    })()";
    let parts = [
        (0.0, 10_800_000.0),
        (9_000_000.0, 9_001_000.0),
        (9_000_000.0, 9_000_079.9),
        (5_000_000.0, 5_130_000.0),
        (900.0, 950.0),
        (10_799_999.0, 1e300),
    ];
    for (from, to) in parts {
        visitor.open(&format!("/traces/{trace}?v=time&t0={from}&t1={to}")).await?;
        for width in [1_600, 1_280, 1_000, 800, 640] {
            browser.resize(width, 900).await?;
            browser.paint().await?;
            browser
                .expect(is_right)
                .await
                .with_context(|| format!("{from} to {to}, {width} px"))?;
        }
    }
    let beyond = format!("/traces/{trace}?v=time&t0=1e300&t1=1e308");
    visitor.open(&beyond).await?;
    browser
        .expect("document.querySelector('main .notice').textContent.includes('after the end of the trace')")
        .await?;
    browser.wait_for(is_right).await
}

async fn plays(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let mut turns = data::many(45, "turn", "sam");
    for turn in &mut turns {
        let session = json!({ "key": "session.id", "value": { "stringValue": "played" } });
        turn["attributes"].as_array_mut().context("a list")?.push(session);
    }
    server.send(&turns).await?;
    visitor.log_in().await?;
    visitor.open("/sessions/played?turn=20").await?;
    let on = |turn: u64| format!("document.activeElement.closest('.turn')?.id === 'turn-{turn}'");
    browser.wait_for(&on(20)).await?;
    browser.press("j").await?;
    browser.wait_for(&on(21)).await?;
    browser.press(&"j".repeat(19)).await?;
    browser.wait_for(&format!("location.search === '?turn=40' && {}", on(40))).await?;
    browser.press("k").await?;
    browser.wait_for(&on(39)).await?;

    visitor.open("/preferences").await?;
    browser.click("[name=keys][value=off]").await?;
    browser.click("main [type=submit]").await?;
    browser.wait_for("location.search === '?saved=1'").await?;
    for path in ["/traces", "/sessions/played", "/sessions"] {
        visitor.open(path).await?;
        let before = browser.eval("location.href").await?;
        browser.press("jkpbzynof/2?>gt").await?;
        browser
            .expect(&format!(
                "location.href === {before} && document.activeElement === document.body && !document.querySelector('dialog[open]')"
            ))
            .await?;
        browser.press("\u{e004}").await?;
        browser.expect("document.activeElement.matches('.skip')").await?;
    }
    browser
        .eval("void dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))")
        .await?;
    browser.wait_for("document.getElementById('palette').open").await?;
    browser.press("users").await?;
    browser.wait_for("document.getElementById('hits-said').textContent === '1 found'").await?;
    browser
        .expect("Array.from(document.getElementById('hits').children).every((one) => one.matches('[role=group]'))")
        .await?;
    browser.press("\u{e015}").await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.pathname.endsWith('/users')").await?;
    visitor.assert_console_empty().await
}

async fn walks_a_long_session(visitor: &Visitor) -> Result<()> {
    const TURNS: u64 = 20_000;
    let Visitor { server, browser } = visitor;
    let mut spans = data::many(TURNS, "turn", "ada");
    for (number, span) in (1..).zip(&mut spans) {
        let text = format!("question of turn {number}");
        span["attributes"] = json!([
            { "key": "session.id", "value": { "stringValue": "long walk" } },
            { "key": "perpend.observation.input", "value": { "stringValue": text } },
        ]);
    }
    for part in spans.chunks(5_000) {
        server.send(part).await?;
    }
    visitor.log_in().await?;
    visitor.open("/sessions/long%20walk").await?;
    let turns = "Array.from(document.querySelectorAll('.turn'), (turn) => turn.id)";
    browser.expect(&format!("{turns}.length === 20 && {turns}[0] === 'turn-1'")).await?;
    let bytes = "performance.getEntriesByType('navigation')[0].encodedBodySize";
    browser.expect(&format!("{bytes} <= 45 * 1024")).await?;
    browser.fill("[name=turn]", "19000").await?;
    browser.click(".turns-head .goto button").await?;
    browser.wait_for(&format!("{turns}.length === 20 && {turns}[0] === 'turn-19000'")).await?;
    let turn = browser.text(".turn").await?;
    ensure!(turn.contains("question of turn 19000"), "{turn}");
    let on = "document.activeElement.closest('.turn')?.id";
    browser.press(&"j".repeat(19)).await?;
    browser.wait_for(&format!("{on} === 'turn-19019'")).await?;
    browser.press("j").await?;
    browser.wait_for(&format!("{turns}[0] === 'turn-19020' && {on} === 'turn-19020'")).await?;
    browser.press("jj").await?;
    browser.expect(&format!("{on} === 'turn-19022'")).await?;
    visitor.assert_console_empty().await
}
