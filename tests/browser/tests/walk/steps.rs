//! The observations of a trace: selection, details, and announcements for assistive technology.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::{Value, json};

use crate::data;

const ENTER: &str = "\u{e007}";
const MARKED: &str = "document.querySelector('.grid [aria-selected=true]')?.dataset.step";
/// The id of the step that the pane shows.
const SHOWN: &str = "document.querySelector('#detail .id').textContent";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "a_word_of_one_output_is_found_from_the_keyboard_and_marked_in_its_step",
            finds_a_word,
        ),
        shared.test(
            TestServer::Demo,
            "after_twenty_quick_keys_on_a_slow_network_the_pane_shows_the_marked_row",
            passes_by_quickly,
        ),
        shared.test(
            TestServer::Demo,
            "a_step_without_a_score_names_each_rule_with_the_reason_that_the_api_gives",
            explains,
        ),
        shared.test(
            TestServer::Demo,
            "a_score_shows_the_fingerprint_that_the_api_knows_it_by",
            shows_fingerprints,
        ),
        shared.test(
            TestServer::Demo,
            "the_tree_tells_roles_levels_and_counts_and_a_selection_is_said_in_short",
            tells_its_structure,
        ),
        shared.test(
            TestServer::Demo,
            "names_of_generations_are_shown_whole_and_their_models_beside_them",
            shows_models,
        ),
        shared.test(
            TestServer::Shared,
            "a_running_trace_shows_what_arrives_and_the_selection_stays",
            follows_a_running_trace,
        ),
        shared.test(
            TestServer::Shared,
            "log_and_thread_of_a_running_trace_show_what_arrives_and_the_head_its_scores",
            follows_in_views_without_rows,
        ),
        shared.test(
            TestServer::Demo,
            "a_row_far_down_that_is_folded_keeps_the_keyboard_and_stays_in_view",
            folds_far_down,
        ),
        shared.test(
            TestServer::Shared,
            "another_view_level_kind_or_part_of_the_time_keeps_the_selected_step_and_the_folds",
            keeps_the_selection,
        ),
        shared.test(
            TestServer::Shared,
            "keys_begin_at_the_selected_row_and_a_hit_on_a_hidden_step_says_so",
            begins_at_the_selected_row,
        ),
        shared.test(
            TestServer::Shared,
            "a_deep_trace_opens_row_by_row_with_one_key_and_the_keyboard_stays_on_its_row",
            opens_a_deep_trace,
        ),
        shared.test(
            TestServer::Shared,
            "rows_fetched_after_earlier_steps_arrived_are_each_there_once_and_the_view_stays",
            scrolls_over_what_arrived,
        ),
    ]
}

async fn open_agent(visitor: &Visitor) -> Result<()> {
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22compare+suppliers%22").await?;
    visitor.browser.click(".traces .name").await?;
    let rows = "document.querySelectorAll('.window > .row').length > 20";
    visitor.browser.wait_for(rows).await
}

/// The highlighted matches of the text search.
const SOUGHT: &str = "Array.from(CSS.highlights.get('sought') ?? [], (range) => range.toString())";
const FOUND: &str = "document.querySelector('[data-place]')?.textContent";

async fn finds_a_word(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open_agent(visitor).await?;
    browser.press("f").await?;
    browser.press("The CHEAPER one is in Faenza").await?;
    browser.press(ENTER).await?;
    browser.wait_for(&format!("/^[0-9]+ hits? in 1 observation$/.test({FOUND})")).await?;
    let focus = "document.activeElement.closest('input') === null";
    browser.wait_for(focus).await?;
    browser.press("n").await?;
    let is_there = format!("{FOUND}?.startsWith('1 of 1 ')");
    browser.wait_for(&is_there).await?;
    browser.wait_for(&format!("{MARKED} === {SHOWN}")).await?;
    let marked = format!("{SOUGHT}[0] === 'The cheaper one is in Faenza'");
    browser.wait_for(&marked).await?;
    browser.expect("/observation=.*&find=The/.test(location.search)").await?;
    // The address alone brings it back, and ends at the one hit.
    browser.eval("(window.isOld = true, location.reload())").await?;
    let again = format!("!window.isOld && {is_there} && {marked}");
    browser.wait_for(&again).await?;
    browser.press("n").await?;
    let is_announced = "document.querySelector('#toast').textContent.includes('No later hit')";
    browser.wait_for(is_announced).await?;
    browser.click("#sought > a").await?;
    browser.wait_for("document.querySelectorAll('.hits mark').length === 1").await?;
    ensure!(browser.text("main [role=status]").await? == "1 observation");
    browser.press("j").await?;
    browser.press(ENTER).await?;
    browser.wait_for(&marked).await?;
    ensure!(browser.text("#detail").await?.contains("Faenza"));
    // The log leads to the step of the hit, and opens it there.
    browser.press("6").await?;
    browser
        .wait_for(&format!(
            "location.search.includes('v=log') && {is_there} && {marked} && document.activeElement.closest('.log > li') !== null"
        ))
        .await?;
    visitor.assert_console_empty().await
}

async fn passes_by_quickly(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open_agent(visitor).await?;
    browser.wait_for("document.querySelector('.grid [tabindex=\"0\"]') !== null").await?;
    browser.slow_down(300).await?;
    let before = browser.eval(MARKED).await?;
    browser.press(&"j".repeat(20)).await?;
    browser.wait_for(&format!("{MARKED} !== {before}")).await?;
    let row = "Number(document.querySelector('.grid [aria-selected=true]').getAttribute('aria-rowindex'))";
    browser.wait_for(&format!("{row} === 22")).await?;
    let settled = format!(
        "{MARKED} === {SHOWN} && !document.getElementById('detail').hasAttribute('aria-busy')"
    );
    browser.wait_for(&settled).await?;
    browser.slow_down(0).await?;
    // No older answer comes behind it, and the address names the same step.
    browser
        .expect(&format!("{settled} && location.search.includes('observation=' + {MARKED})"))
        .await?;
    visitor.assert_console_empty().await
}

/// A step of the support agent that no rule scores.
async fn open_bare(visitor: &Visitor) -> Result<(String, String)> {
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22support+ticket%22").await?;
    visitor.browser.click(".traces .name").await?;
    visitor.browser.wait_for("document.querySelector('.window .row') !== null").await?;
    let bare = "Array.from(document.querySelectorAll('.window .row')).find((row) => !row.querySelector('.tag.score')).dataset.step";
    let ids =
        visitor.browser.eval(&format!("[location.pathname.split('/').at(-1), {bare}]")).await?;
    let id = |n: usize| ids[n].as_str().map(str::to_owned).context("an id");
    Ok((id(0)?, id(1)?))
}

async fn explains(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let (trace, step) = open_bare(visitor).await?;
    visitor.open(&format!("/traces/{trace}?observation={step}")).await?;
    let verdicts = browser
        .eval(
            "Array.from(document.querySelectorAll('#detail .verdict'), (one) => \
             [one.querySelector('h5 bdi').textContent, one.querySelector('p').textContent])",
        )
        .await?;
    let rules = server.get("/api/public/v2/evaluation-rules?limit=100").await?;
    let rules = rules["data"].as_array().context("rules")?;
    let mut explained = Vec::new();
    for rule in rules.iter().filter(|rule| rule["target"] == "observation") {
        let id = rule["id"].as_str().context("an id")?;
        let path =
            format!("/api/v1/evaluation-rules/{id}/explain?traceId={trace}&observationId={step}");
        let answer = server.get(&path).await?;
        explained.push(Value::from(vec![rule["name"].clone(), answer["explanation"].clone()]));
    }
    let mut verdicts = verdicts.as_array().context("verdicts")?.clone();
    let sentence = |one: &Value| one.to_string();
    verdicts.sort_by_key(sentence);
    explained.sort_by_key(sentence);
    ensure!(!verdicts.is_empty() && verdicts == explained, "{verdicts:#?} {explained:#?}");
    visitor.assert_console_empty().await
}

async fn shows_fingerprints(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22support+ticket%22").await?;
    browser.click(".traces .name").await?;
    browser.wait_for("document.querySelector('.window .tag.score') !== null").await?;
    browser.click(".window .tag.score").await?;
    browser.wait_for("document.querySelector('#detail .card-score') !== null").await?;
    let card = "Object.fromEntries(Array.from(document.querySelectorAll('#detail .card-score:first-of-type .facts > div'), \
        (fact) => [fact.querySelector('dt').textContent, fact.querySelector('dd').textContent]))";
    let card = browser.eval(card).await?;
    let execution = card["Execution"].as_str().context("an execution")?;
    let trace = browser.eval("location.pathname.split('/').at(-1)").await?;
    let trace = trace.as_str().context("a trace")?;
    let scores = format!(
        "/api/public/v3/scores?traceId={trace}&source=EVAL&fields=details,subject&limit=100"
    );
    let scores = server.get(&scores).await?;
    let scores = scores["data"].as_array().context("scores")?;
    let of_it = scores.iter().find(|score| score.to_string().contains(execution));
    let of_it = of_it.with_context(|| format!("no score of {execution}"))?;
    // A link to the scores with the same fingerprint follows it.
    let fingerprint = card["Fingerprint"].as_str().context("a fingerprint")?;
    let fingerprint = fingerprint.split('…').next().unwrap_or_default();
    ensure!(fingerprint.len() == 12, "{card}");
    ensure!(of_it.to_string().contains(fingerprint), "{card} {of_it}");
    Ok(())
}

/// The problems of the structure of the tree, for a message.
const STRUCTURE: &str = "(() => {
    const grid = document.querySelector('[role=treegrid]');
    const wrong = [];
    const columns = grid.querySelectorAll('.axis [role=columnheader]').length;
    const rows = Array.from(grid.querySelectorAll('[role=row]'));
    rows.forEach((row, at) => {
        const index = Number(row.getAttribute('aria-rowindex'));
        if (at < 2 ? index !== at + 1 : index <= Number(rows[at - 1].getAttribute('aria-rowindex'))) wrong.push(`row ${at} has index ${index}`);
        if (at > 0 && !(Number(row.getAttribute('aria-level')) > 0)) wrong.push(`row ${index} has no level`);
        if (at > 0 && row.querySelectorAll('[role=gridcell]').length !== columns) wrong.push(`row ${index} has other cells than ${columns}`);
    });
    const last = Number(rows.at(-1).getAttribute('aria-rowindex'));
    if (Number(grid.getAttribute('aria-rowcount')) < last) wrong.push(`the last row is ${last} of ${grid.getAttribute('aria-rowcount')}`);
    if (grid.querySelectorAll('[role=row][tabindex=\"0\"]').length !== 1) wrong.push('Tab does not stop once');
    if (grid.querySelectorAll('[aria-selected=true]').length !== 1) wrong.push('not one row is selected');
    if (document.querySelectorAll('main [aria-live], main [role=status], main [role=alert]').length !== 1) wrong.push('not one region speaks');
    return wrong;
})()";

async fn tells_its_structure(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open_agent(visitor).await?;
    let wrong = browser.eval(STRUCTURE).await?;
    ensure!(wrong == json!([]), "{wrong:#}");
    let levels = browser
        .eval("Array.from(document.querySelectorAll('.grid [aria-level]'), (row) => Number(row.getAttribute('aria-level'))).slice(0, 4)")
        .await?;
    ensure!(levels == json!([1, 2, 3, 4]) || levels == json!([1, 2, 3, 3]), "{levels}");
    browser.press("jjj").await?;
    browser.wait_for(&format!("{MARKED} === {SHOWN}")).await?;
    let row = "document.querySelector('.grid [aria-selected=true] .name').textContent";
    browser
        .wait_for(&format!(
            "((said, row) => said.endsWith(row) && said.length < row.length + 20)(document.getElementById('said').textContent.trim(), {row})"
        ))
        .await?;
    // The last row has the announced number of rows.
    browser.press("\u{e010}").await?;
    let count = "document.querySelector('.grid').getAttribute('aria-rowcount')";
    let index = "document.activeElement.getAttribute('aria-rowindex')";
    browser.wait_for(&format!("{index} === {count}")).await?;
    browser.press("k").await?;
    browser.wait_for(&format!("{MARKED} === {SHOWN}")).await?;
    let has_focus =
        "document.activeElement === document.querySelector('.grid [aria-selected=true]')";
    browser.expect(has_focus).await
}

async fn shows_models(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22support+ticket%22").await?;
    browser.click(".traces .name").await?;
    browser.wait_for("document.querySelector('.window .model') !== null").await?;
    let cut = "Array.from(document.querySelectorAll('.window .row:has(.model)')).filter((row) => {
        const [name, model] = ['.name', '.model'].map((part) => row.querySelector(part));
        return name.scrollWidth > name.clientWidth || model.clientWidth < 20;
    }).map((row) => row.textContent)";
    for width in [1440, 1280] {
        browser.resize(width, 900).await?;
        browser.paint().await?;
        let cut = browser.eval(cut).await?;
        ensure!(cut == json!([]), "{width} px: {cut}");
    }
    // Rows have one height, whatever is in them.
    let heights = "new Set(Array.from(document.querySelectorAll('.grid .row'), (row) => Math.round(row.getBoundingClientRect().height))).size";
    ensure!(browser.eval(heights).await? == 1);
    visitor.assert_console_empty().await
}

async fn follows_a_running_trace(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let event = async |id: &str, kind: &str, mut body: Value| {
        body["id"] = data::span_id(1).into();
        body["traceId"] = trace.as_str().into();
        let at = "2026-02-02T02:40:01.000Z";
        let event = json!({ "id": id, "type": kind, "timestamp": at, "body": body });
        let batch = json!({ "batch": [event] });
        server.post("/api/public/ingestion", &batch).await
    };
    let root = json!({ "name": "agent", "startTime": "2026-02-02T02:40:00.001Z" });
    event("followed-1", "span-create", root).await?;
    let span = |n, name: &str| data::span(&trace, n, Some(1), name, &[]);
    server.send(&[span(5, "answer")]).await?;
    visitor.log_in().await?;
    let selected = data::span_id(5);
    visitor.open(&format!("/traces/{trace}?observation={selected}")).await?;
    let n_rows = "document.querySelectorAll('.window > .row').length";
    browser.wait_for(&format!("{n_rows} === 2")).await?;
    browser.click(".window [aria-selected=true] .name").await?;
    let on = "document.querySelector('.window [aria-selected=true]')";
    browser.wait_for(&format!("{on} === document.activeElement")).await?;
    let before = browser.eval(&format!("{on}.marked = location.search")).await?;
    // One before the selected step, one behind it.
    server.send(&[span(2, "plan"), span(9, "check")]).await?;
    browser.wait_for(&format!("{n_rows} === 4")).await?;
    let names =
        "Array.from(document.querySelectorAll('.window .name'), (name) => name.textContent).join()";
    ensure!(browser.eval(names).await? == "agent,plan,answer,check");
    browser
        .expect(&format!(
            "{on} === document.activeElement && {on}.dataset.step === '{selected}' && {on}.marked === {before} && location.search === {before}"
        ))
        .await?;
    browser
        .wait_for(
            "document.querySelector('.figures').textContent.includes('1 observation not ended')",
        )
        .await?;
    // The keyboard continues from there.
    browser.press("j").await?;
    browser.wait_for(&format!("{on}.dataset.step === '{}'", data::span_id(9))).await?;
    let end = json!({ "endTime": "2026-02-02T02:40:00.100Z" });
    event("followed-2", "span-update", end).await?;
    let has_ended = "/settling|complete/.test(document.querySelector('.figures').textContent)";
    browser.wait_for(has_ended).await?;
    visitor.assert_console_empty().await
}

async fn folds_far_down(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open_agent(visitor).await?;
    let on = "document.activeElement";
    browser.press("j\u{e010}").await?;
    browser
        .wait_for(&format!(
            "{on}.getAttribute('aria-rowindex') === document.querySelector('.grid').getAttribute('aria-rowcount')"
        ))
        .await?;
    // To the row around it, which is then folded.
    browser.press("\u{e012}").await?;
    let is = |open: &str| format!("{on}.getAttribute('aria-expanded') === '{open}'");
    browser.wait_for(&is("true")).await?;
    let step = browser.eval(&format!("{on}.dataset.step")).await?;
    browser.press("\u{e012}").await?;
    let in_view = "((row, grid) => grid.top < row.top && row.bottom <= grid.bottom + 1)(\
        document.activeElement.getBoundingClientRect(), document.querySelector('.grid').getBoundingClientRect())";
    let is_kept = format!("{on}.dataset.step === {step} && {in_view}");
    browser.wait_for(&format!("{} && {is_kept}", is("false"))).await?;
    browser.expect(&is_kept).await?;
    visitor.assert_console_empty().await
}

async fn follows_in_views_without_rows(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    visitor.log_in().await?;
    let kind = [("perpend.observation.type", "generation")];
    for view in ["log", "thread"] {
        let trace = data::new_trace();
        let span = |n, name: &str| data::span(&trace, n, Some(1), name, &kind);
        server.send(&[span(5, "answer")]).await?;
        visitor.open(&format!("/traces/{trace}?v={view}")).await?;
        let names = "Array.from(document.querySelectorAll('[data-rows] .name'), (name) => name.textContent).join()";
        browser.wait_for(&format!("{names} === 'answer'")).await?;
        // Rows that belong after all others are appended; for earlier ones there is a link.
        server.send(&[span(9, "check")]).await?;
        browser.wait_for(&format!("{names} === 'answer,check'")).await?;
        server.send(&[span(2, "plan")]).await?;
        let is_led =
            "document.querySelector('#arrived:not([hidden])')?.textContent.startsWith('1 new')";
        browser.wait_for(is_led).await?;
        ensure!(browser.eval(names).await? == "answer,check", "{view}");
        browser.click("#arrived a").await?;
        browser.wait_for(&format!("{names} === 'plan,answer,check'")).await?;
        let score = json!({ "traceId": trace.as_str(), "name": "came late", "value": 0.5 });
        server.post("/api/public/scores", &score).await?;
        let is_shown = "document.querySelector('#marks').textContent.includes('came late')";
        browser.wait_for(is_shown).await?;
    }
    visitor.assert_console_empty().await
}

async fn keeps_the_selection(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let kind = [("perpend.observation.type", "tool")];
    let spans = [
        data::span(&trace, 1, None, "agent", &[]),
        data::span(&trace, 2, Some(1), "plan", &[]),
        data::span(&trace, 3, Some(2), "inner", &[]),
        data::span(&trace, 4, Some(1), "look up", &kind),
        data::span(&trace, 5, Some(1), "answer", &[]),
    ];
    server.send(&spans).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}")).await?;
    let selected = data::span_id(4);
    let folded = data::span_id(2);
    let is_kept = format!(
        "{MARKED} === '{selected}' && {SHOWN} === '{selected}' \
         && new URLSearchParams(location.search).get('observation') === '{selected}' \
         && new URLSearchParams(location.search).get('fold') === '{folded}' \
         && document.querySelectorAll('.window > .row').length === 4"
    );
    // The row is folded, and the last but one selected, by keys alone.
    browser.press("jj").await?;
    let on = |step: &str| format!("document.activeElement.dataset.step === '{step}'");
    browser.wait_for(&on(&folded)).await?;
    browser.press("\u{e012}").await?;
    browser.wait_for("document.querySelectorAll('.window > .row').length === 4").await?;
    browser.press("j").await?;
    browser.wait_for(&is_kept).await?;
    let kept_there = async |here: &str| {
        let arrived = format!("!window.isOld && {here} && {is_kept}");
        browser.wait_for(&arrived).await?;
        browser.eval("void (window.isOld = true)").await
    };
    browser.eval("void (window.isOld = true)").await?;
    browser.press("2").await?;
    kept_there("location.search.includes('v=time')").await?;
    // The link to its time leads to the selected observation.
    let to_step = "document.querySelector('[data-of-step]')";
    browser.press("j").await?;
    browser.wait_for(&format!("{MARKED} === '{}'", data::span_id(5))).await?;
    browser
        .expect(&format!("!{to_step}.hidden && /t0=4&t1=4[.]9$/.test({to_step}.search)"))
        .await?;
    browser.press("k").await?;
    browser.wait_for(&is_kept).await?;
    browser.eval("document.querySelector('.time-part form').requestSubmit()").await?;
    kept_there("location.search.includes('t0=')").await?;
    browser
        .eval("Array.from(document.querySelectorAll('.levels a')).find((link) => link.textContent === 'Without debug').click()")
        .await?;
    kept_there("location.search.includes('min=DEFAULT')").await?;
    browser.press("1").await?;
    kept_there("!location.search.includes('v=time')").await?;
    browser
        .eval("document.querySelectorAll('.kinds input[type=checkbox]').forEach((box) => { box.checked = true; })")
        .await?;
    browser.eval("document.querySelector('.kinds form').requestSubmit()").await?;
    kept_there("location.search.includes('kinds=')").await?;
    browser.press("k").await?;
    browser.wait_for(&format!("{MARKED} === '{folded}' && {SHOWN} === '{folded}'")).await?;
    visitor.assert_console_empty().await
}

async fn begins_at_the_selected_row(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let spans = [
        data::span(&trace, 1, None, "agent", &[]),
        data::span(&trace, 2, Some(1), "plan", &[]),
        data::span(&trace, 3, Some(2), "inner", &[]),
        data::span(&trace, 4, Some(1), "look up", &[]),
    ];
    server.send(&spans).await?;
    visitor.log_in().await?;
    let (folded, sought) = (data::span_id(2), data::span_id(4));
    visitor.open(&format!("/traces/{trace}?observation={folded}")).await?;
    let n_rows = "document.querySelectorAll('.window > .row').length";
    browser
        .wait_for(&format!("{n_rows} === 4 && document.activeElement === document.body"))
        .await?;
    browser.press("\u{e012}").await?;
    browser.wait_for(&format!("{n_rows} === 3")).await?;
    // A hit on a step that is not rendered is reported with a link to it.
    visitor.open(&format!("/traces/{trace}?min=ERROR&find=look+up")).await?;
    browser.wait_for(&format!("/^[0-9]+ hits? in 1 observation$/.test({FOUND})")).await?;
    browser.press("n").await?;
    browser.wait_for("document.querySelector('#sought .unseen a') !== null").await?;
    browser.click("#sought .unseen a").await?;
    browser
        .wait_for(&format!(
            "!location.search.includes('min=') && {MARKED} === '{sought}' && {FOUND}?.startsWith('1 of 1 ')"
        ))
        .await?;
    visitor.assert_console_empty().await
}

async fn opens_a_deep_trace(visitor: &Visitor) -> Result<()> {
    const DEPTH: u64 = 240;
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let above = |n: u64| (1 < n).then(|| n - 1);
    let spans = (1..=DEPTH).map(|n| data::span(&trace, n, above(n), &format!("level {n}"), &[]));
    server.send(&spans.collect::<Vec<_>>()).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}")).await?;
    let focus = "document.activeElement?.closest('.window > .row')";
    browser.press("jjj").await?;
    for n in 3..70 {
        let step = data::span_id(n);
        let on = format!("{focus}?.dataset.step === '{step}'");
        browser
            .wait_for(&format!("{on} && {focus}.getAttribute('aria-expanded') === 'false'"))
            .await?;
        // To the right: open, and then to the row below.
        browser.press("\u{e014}").await?;
        browser
            .wait_for(&format!("{on} && {focus}.getAttribute('aria-expanded') === 'true'"))
            .await?;
        browser.press("\u{e014}").await?;
    }
    browser.expect("new URLSearchParams(location.search).getAll('open').length === 1").await?;
    let n_rows = "document.querySelectorAll('.window > .row').length";
    ensure!(browser.eval(n_rows).await? == 70);
    ensure!(browser.text("#toast").await?.is_empty());
    visitor.assert_console_empty().await
}

async fn scrolls_over_what_arrived(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let span = |n: u64| data::span(&trace, n, (1 < n).then_some(1), &format!("step {n}"), &[]);
    let first: Vec<Value> = [1].into_iter().chain(1_001..=1_400).map(span).collect();
    server.send(&first).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{trace}")).await?;
    let n_rows = "document.querySelectorAll('.window > .row').length";
    browser.wait_for(&format!("{n_rows} === 200")).await?;
    // The page does not follow by itself.
    browser.press("l").await?;
    browser.wait_for("document.documentElement.dataset.live === 'off'").await?;
    server.send(&(2..=301).map(span).collect::<Vec<_>>()).await?;
    let row = "document.querySelector('.of-trace').getBoundingClientRect().height";
    let scroll = |to: String| format!("void (document.querySelector('.grid').scrollTop = {to})");
    browser.eval(&scroll(format!("150 * {row}"))).await?;
    let count = "document.querySelector('.grid').getAttribute('aria-rowcount')";
    browser.wait_for(&format!("{count} === '703'")).await?;
    // The row on top is the one that was there.
    let on_top = "Number.parseInt(Array.from(document.querySelectorAll('.window > .row')).find((row) => \
         row.getBoundingClientRect().bottom > document.querySelector('.grid .names').getBoundingClientRect().bottom + 2).dataset.step, 16)";
    browser.wait_for(&format!("Math.abs({on_top} - 1150) <= 1")).await?;
    let is_right = "Array.from(document.querySelectorAll('.window > .row')).every((row, nth, rows) => {
        const line = Number(row.getAttribute('aria-rowindex')) - 3;
        const step = Number.parseInt(row.dataset.step, 16);
        const isNext = nth === 0 || line === Number(rows[nth - 1].getAttribute('aria-rowindex')) - 2;
        return isNext && step === (line <= 300 ? line + 1 : line + 700);
    })";
    browser.expect(is_right).await?;
    let covered = "(() => { const grid = document.querySelector('.grid').getBoundingClientRect(); \
        const row = document.elementFromPoint(grid.left + grid.width / 2, grid.top + grid.height / 2); \
        return row.closest('.window > .row') !== null; })()";
    for line in [0, 250, 330, 680] {
        browser.eval(&scroll(format!("{line} * {row}"))).await?;
        browser.wait_for(&format!("({covered}) && ({is_right})")).await?;
    }
    browser.press("l").await?;
    browser.wait_for("document.documentElement.dataset.live === 'on'").await?;
    visitor.assert_console_empty().await
}
