//! Lists: the URL holds the query, and *Back* restores the position.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fantoccini::Locator;
use fantoccini::actions::{InputSource, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::Value;

use crate::data;

const ENTER: &str = "\u{e007}";
/// The visible state of a list: rows, conditions and order.
const SEEN: &str = "JSON.stringify([
    Array.from(document.querySelectorAll('.traces .name'), (a) => new URL(a.href).pathname),
    Array.from(document.querySelectorAll('.terms .chip'), (chip) => chip.textContent.trim()),
    document.querySelector('.filter [name=q]').value,
    document.querySelector('[name=sort]').value])";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    let by_keys = [
        shared.test(TestServer::Demo, "keys_alone_lead_to_the_traces_with_errors", filters_by_keys),
        shared.test(
            TestServer::Demo,
            "keys_alone_lead_to_an_observation_in_its_trace",
            opens_an_observation_by_keys,
        ),
    ];
    by_keys.into_iter().chain(others(shared)).collect()
}

fn others(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "the_printed_address_logs_in_and_leaves_no_token_behind",
            enters,
        ),
        shared.test(
            TestServer::Demo,
            "a_list_is_the_same_when_reloaded_and_in_a_second_window",
            keeps_its_state,
        ),
        shared.test(
            TestServer::Demo,
            "a_filter_is_written_with_what_is_suggested_and_asked_again_from_the_recent_ones",
            takes_suggestions,
        ),
        shared.test(
            TestServer::Demo,
            "latency_cost_and_scores_of_the_overview_come_when_they_are_seen_and_without_script_by_a_link",
            sees_trends,
        ),
        shared.test(
            TestServer::Demo,
            "an_unknown_column_is_marked_and_the_other_conditions_hold",
            marks_what_is_wrong,
        ),
        shared.test(
            TestServer::Demo,
            "the_request_shown_as_api_gives_the_same_ids_in_the_same_order",
            as_api,
        ),
        shared.test(
            TestServer::Shared,
            "back_from_a_trace_leads_to_the_same_row_and_place",
            comes_back,
        ),
        shared.test(
            TestServer::Shared,
            "pages_forth_and_back_lose_and_repeat_nothing_while_traces_arrive",
            goes_on,
        ),
        shared.test(
            TestServer::Demo,
            "chosen_columns_and_the_order_of_a_heading_stand_in_the_address",
            chooses_columns,
        ),
        shared.test(
            TestServer::Demo,
            "a_column_keeps_the_width_that_it_was_given_by_keys_or_by_the_pointer",
            keeps_widths,
        ),
        shared.test(
            TestServer::Demo,
            "a_sentence_in_the_search_leads_to_the_trace_that_says_it_with_the_words_marked",
            finds_a_sentence,
        ),
        shared.test(
            TestServer::Shared,
            "text_of_a_row_can_be_marked_and_a_user_opens_with_a_click",
            marks_text,
        ),
        shared.test(
            TestServer::Shared,
            "words_of_any_script_find_the_trace_that_holds_them",
            finds_any_script,
        ),
        shared.test(
            TestServer::Shared,
            "a_long_input_is_cut_in_the_list_which_stays_small",
            cuts_long_inputs,
        ),
    ]
}

async fn enters(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    ensure!(browser.text("h1").await? == "Overview");
    browser
        .expect(
            "location.search === '' && !location.href.includes('token') && document.cookie === ''",
        )
        .await?;
    let token =
        "performance.getEntriesByType('resource').some(({ name }) => name.includes('token'))";
    browser.expect(&format!("!{token}")).await?;
    visitor.assert_console_empty().await
}

async fn filters_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    browser.press("gt").await?;
    browser.wait_for("location.pathname.endsWith('/traces')").await?;
    browser.press("/").await?;
    browser.press("level:ERROR").await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.search.includes('q=level%3AERROR')").await?;
    browser
        .expect(
            "document.querySelectorAll('.traces tbody tr').length > 0 \
             && Array.from(document.querySelectorAll('.traces tbody tr')).every((row) => row.querySelector('.tag.bad'))",
        )
        .await?;
    ensure!(browser.text(".terms .chip bdi").await? == "level:ERROR");
    visitor.assert_console_empty().await
}

async fn opens_an_observation_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    browser.press("go").await?;
    browser.wait_for("location.pathname.endsWith('/observations')").await?;
    browser.press("/").await?;
    browser.press("type:TOOL").await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.search.includes('q=type%3ATOOL')").await?;
    let name = browser.text("[data-rows] .name").await?;
    browser.press("j").await?;
    browser
        .expect("document.activeElement === document.querySelector('[data-rows] .name')")
        .await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.search.includes('observation=')").await?;
    browser.wait_for("document.querySelector('#detail h2') !== null").await?;
    ensure!(browser.text("#detail h2").await? == name);
    visitor.assert_console_empty().await
}

async fn takes_suggestions(visitor: &Visitor) -> Result<()> {
    const DOWN: &str = "\u{e015}";
    const ESCAPE: &str = "\u{e00c}";
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let field = "document.querySelector('[data-suggests]')";
    let shows = |text: &str| {
        format!(
            "document.getElementById('suggestions').dataset.of === {field}.value \
             && Array.from(document.querySelectorAll('#suggestions bdi'), (one) => one.textContent)[0] === '{text}'"
        )
    };
    browser.press("/lev").await?;
    browser.wait_for(&shows("level")).await?;
    browser.press(DOWN).await?;
    browser
        .expect(&format!(
            "document.getElementById({field}.getAttribute('aria-activedescendant')).getAttribute('aria-selected') === 'true'"
        ))
        .await?;
    browser.press(ENTER).await?;
    browser
        .expect(&format!("{field}.value === 'level:' && document.activeElement === {field}"))
        .await?;
    browser.press("ERR").await?;
    browser.wait_for(&shows("ERROR")).await?;
    browser.press(DOWN).await?;
    browser.press(ENTER).await?;
    browser.expect(&format!("{field}.value === 'level:ERROR '")).await?;
    browser.press(ESCAPE).await?;
    browser.expect("document.getElementById('suggestions').hidden").await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.search.includes('q=level%3AERROR')").await?;
    visitor.open("/traces").await?;
    browser.press("/").await?;
    browser.press(DOWN).await?;
    browser.wait_for(&shows("level:ERROR")).await?;
    browser.click("#suggestions [role=option]").await?;
    browser
        .expect(&format!("{field}.value === 'level:ERROR' && document.activeElement === {field}"))
        .await?;
    // The rest of a word that the caret is in is replaced with its beginning.
    browser
        .eval(&format!(
            "(() => {{ {field}.value = 'name:x level:ERRROR tags:a'; {field}.setSelectionRange(15, 15); \
             {field}.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
        ))
        .await?;
    browser
        .wait_for(
            "document.querySelector('#suggestions [data-whole]')?.dataset.whole === 'name:x level:ERROR '",
        )
        .await?;
    browser.press(DOWN).await?;
    browser.press(ENTER).await?;
    browser
        .expect(&format!(
            "{field}.value === 'name:x level:ERROR tags:a' && {field}.selectionStart === 19"
        ))
        .await?;
    visitor.assert_console_empty().await
}

async fn sees_trends(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("").await?;
    for nth in 0..5 {
        let element = format!("document.querySelectorAll('[data-later]')[{nth}]");
        browser.eval(&format!("{element}.scrollIntoView()")).await?;
        browser.wait_for(&format!("{element}.dataset.later === ''")).await?;
    }
    browser.expect("document.querySelectorAll('.trend .ranked').length === 2").await?;
    let seen = "document.querySelector('main').innerText";
    for what in
        ["Median latency", "p95 latency", "Users", "Slowest trace", "Cost by model", "Scores"]
    {
        browser.expect(&format!("{seen}.includes('{what}')")).await?;
    }
    browser.click(".trend .ranked a").await?;
    browser
        .wait_for(
            "location.pathname.endsWith('/scores') && /^[?]from=-7d&own=0&name=/.test(location.search)",
        )
        .await?;
    browser.allow_scripts(false).await?;
    visitor.open("").await?;
    browser.click("[data-later] a").await?;
    browser.wait_for("document.querySelectorAll('main .ranked').length === 2").await?;
    browser.allow_scripts(true).await?;
    visitor.assert_console_empty().await
}

async fn keeps_its_state(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    browser.fill(".filter [name=q]", "name:\"chat turn\" latency:>0.1").await?;
    let slowest = browser.client.find(Locator::Css("[name=sort]")).await?;
    slowest.select_by_index(1).await?;
    browser.click(".filter button").await?;
    browser.wait_for("location.search.includes('sort=')").await?;
    let seen = browser.eval(SEEN).await?;
    browser.client.refresh().await?;
    ensure!(browser.eval(SEEN).await? == seen);
    let address = browser.client.current_url().await?;
    let first = browser.client.window().await?;
    let second = browser.client.new_window(false).await?;
    browser.client.switch_to_window(second.handle).await?;
    browser.client.goto(address.as_str()).await?;
    let found = browser.eval(SEEN).await?;
    browser.client.close_window().await?;
    browser.client.switch_to_window(first).await?;
    ensure!(found == seen, "{found} instead of {seen}");
    Ok(())
}

async fn marks_what_is_wrong(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces?q=level%3AERROR").await?;
    let rows = "document.querySelectorAll('.traces tbody tr').length";
    let n_rows = browser.eval(rows).await?;
    browser.fill(".filter [name=q]", &format!("latncy:>2 level:ERROR{ENTER}")).await?;
    browser.wait_for("location.search.includes('latncy')").await?;
    let attributes = browser.text("[role=alert]").await?;
    ensure!(attributes.contains("latncy:>2") && attributes.contains("latency"), "{attributes}");
    browser.expect(&format!("{rows} === {n_rows}")).await?;
    browser
        .expect("getComputedStyle(document.querySelector('.terms .bad bdi').parentElement).textDecorationStyle === 'wavy'")
        .await?;
    ensure!(browser.text(".terms .chip.bad bdi").await? == "latncy:>2");
    visitor.assert_console_empty().await
}

async fn as_api(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22chat+turn%22+latency%3A%3E0.1&sort=latency").await?;
    let ids = "Array.from(document.querySelectorAll('.traces .name'), (a) => new URL(a.href).pathname.split('/').at(-1))";
    let ids = browser.eval(ids).await?;
    let shown = browser.eval("document.querySelector('.as-api pre.code').textContent").await?;
    let shown = shown.as_str().context("a command")?;
    // The words of the command that a shell would hand to curl.
    let words = shown.split(" \\\n  ").skip(1);
    let words: Vec<(&str, String)> = words
        .filter_map(|word| word.split_once('\''))
        .map(|(option, word)| (option, word.trim_end_matches('\'').replace(r"'\''", "'")))
        .collect();
    let (_, url) = words.last().context("an address")?;
    let mut url = url::Url::parse(url)?;
    for (option, word) in &words {
        let (name, value) = match option.trim() {
            "--data-urlencode" => word.split_once('=').context("a parameter")?,
            _ => continue,
        };
        url.query_pairs_mut().append_pair(name, value);
    }
    ensure!(url.as_str().starts_with(&server.origin), "{url}");
    let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    let answer = server.get(&path).await?;
    let found: Vec<Value> = answer["data"]
        .as_array()
        .context("traces")?
        .iter()
        .map(|trace| trace["id"].clone())
        .collect();
    ensure!(found.len() > 2 && Value::from(found.clone()) == ids, "{found:?} {ids}");
    Ok(())
}

async fn comes_back(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(60, "way back", "kim")).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22way+back%22").await?;
    browser.press(&"j".repeat(40)).await?;
    let element = "JSON.stringify([scrollY, document.activeElement.href])";
    browser.wait_for("scrollY > 200 && document.activeElement.matches('.name')").await?;
    let was = browser.eval(element).await?;
    browser.press(ENTER).await?;
    browser.wait_for("document.querySelector('[role=treegrid]') !== null").await?;
    browser.client.back().await?;
    browser.wait_for("document.querySelector('.traces') !== null && scrollY > 0").await?;
    browser.wait_for(&format!("{element} === {}", Value::from(was.as_str()))).await?;
    browser.press("j").await?;
    browser
        .expect(&format!(
            "{element} !== {} && document.activeElement.matches('.name')",
            Value::from(was.as_str())
        ))
        .await
}

/// Six pages walked by keys; newer traces arrive on the way.
async fn goes_on(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(130, "going on", "lee")).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22going+on%22&n=25").await?;
    let ids =
        "Array.from(document.querySelectorAll('.traces .name'), (a) => new URL(a.href).pathname)";
    let mut pages = vec![browser.eval(ids).await?];
    let turn = async |key: &str| {
        let was = browser.eval("location.search").await?;
        browser.press(key).await?;
        browser
            .wait_for(&format!(
                "location.search !== {was} && document.querySelector('.traces .name') !== null"
            ))
            .await?;
        browser.eval(ids).await
    };
    for _ in 0..5 {
        pages.push(turn(">").await?);
        server.send(&data::many(1, "going on", "lee")).await?;
    }
    let all: Vec<&Value> = pages.iter().filter_map(Value::as_array).flatten().collect();
    let different: std::collections::HashSet<String> =
        all.iter().map(ToString::to_string).collect();
    ensure!(
        (all.len(), different.len()) == (130, 130),
        "{} rows, {} different",
        all.len(),
        different.len()
    );
    for page in pages.iter().rev().skip(1) {
        let again = turn("<").await?;
        ensure!(again == *page, "{again} instead of {page}");
    }
    let position = browser.text(".head .num").await?;
    ensure!(position.starts_with("6–30 of 135"), "{position}");
    visitor.assert_console_empty().await
}

async fn chooses_columns(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    browser.click(".picker summary").await?;
    browser.fill(".picker input:not([type])", "score.accuracy, metadata.tier").await?;
    browser.click(".picker button").await?;
    browser
        .wait_for("location.search.includes('score.accuracy') && location.search.includes('metadata.tier')")
        .await?;
    let heads = "Array.from(document.querySelectorAll('.traces th'), (th) => th.textContent.trim()).slice(-2).join()";
    browser.expect(&format!("{heads} === 'accuracy,tier'")).await?;
    browser
        .eval("Array.from(document.querySelectorAll('.traces th a')).find((a) => a.textContent === 'Latency').click()")
        .await?;
    browser
        .wait_for("location.search.includes('sort=-latency') && location.search.includes('cols=')")
        .await?;
    browser
        .expect(
            "document.querySelector('th[aria-sort=descending]').textContent.trim() === 'Latency'",
        )
        .await?;
    let first = "new URL(document.querySelector('.traces .name').href).pathname.split('/').at(-1)";
    let first = browser.eval(first).await?;
    let path = "/api/public/traces?limit=50&orderBy=latency.desc";
    let answer = visitor.server.get(path).await?;
    let is_own = |trace: &&Value| {
        let environment = trace["environment"].as_str().unwrap_or_default();
        environment.starts_with("perpend-") || environment == "sdk-experiment"
    };
    let all = answer["data"].as_array().context("traces")?;
    let slowest = all.iter().find(|trace| !is_own(trace)).context("a trace")?;
    ensure!(slowest["id"] == first, "{slowest} {first}");
    // The heading of a score orders by it.
    browser
        .eval("Array.from(document.querySelectorAll('.traces th a')).find((a) => a.textContent === 'accuracy').click()")
        .await?;
    browser.wait_for("location.search.includes('sort=-score.accuracy')").await?;
    visitor.assert_console_empty().await
}

/// The text of the cell is drawn over with the pressed pointer, from its edge to its edge.
async fn marks_text(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(3, "marked text", "robin")).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22marked+text%22").await?;
    let edges = browser
        .eval("(({ left, right, top }) => [left + 4, right - 4, top + 20])(document.querySelector('td.people').getBoundingClientRect())")
        .await?;
    let at = |n: usize| edges[n].as_f64().context("an edge");
    let (left, right, top) = (at(0)?, at(1)?, at(2)?);
    let to = |x: f64| PointerAction::MoveTo { duration: None, x, y: top };
    let button = MOUSE_BUTTON_LEFT;
    let drag = MouseActions::new("mouse".to_owned())
        .then(to(left))
        .then(PointerAction::Down { button })
        .then(to(right))
        .then(PointerAction::Up { button });
    browser.client.perform_actions(drag).await?;
    browser.expect("getSelection().toString().trim() === 'robin'").await?;
    browser.expect("location.pathname.endsWith('/traces')").await?;
    browser.click("td.people a").await?;
    browser.wait_for("location.pathname.endsWith('/users/robin')").await?;
    ensure!(browser.text("h1").await? == "robin");
    Ok(())
}

async fn finds_any_script(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let attributes = data::input_and_output("他说你好，她说 مرحبا بك", "two greetings");
    server.send(&[data::span(&trace, 1, None, "greetings", &attributes)]).await?;
    visitor.log_in().await?;
    for word in ["你好", "مرحبا"] {
        visitor.open("/traces").await?;
        browser.fill(".filter [name=q]", &format!("{word}{ENTER}")).await?;
        // The address changes before the rows are there.
        browser
            .wait_for("location.search.includes('q=') && document.readyState === 'complete'")
            .await?;
        let found = browser
            .eval("Array.from(document.querySelectorAll('.traces .name'), (a) => new URL(a.href).pathname.split('/').at(-1))")
            .await?;
        ensure!(found == serde_json::json!([trace]), "{word}: {found}");
        browser.click(".traces .name").await?;
        browser.wait_for("document.querySelector('.find input') !== null").await?;
        browser.fill(".find input", &format!("{word}{ENTER}")).await?;
        browser
            .wait_for(r"/^\d+ hits? in 1 observation$/.test(document.querySelector('[data-place]')?.textContent)")
            .await?;
        browser.click("#sought > a").await?;
        browser.wait_for("document.querySelector('mark') !== null").await?;
        ensure!(browser.text("mark").await? == word);
    }
    visitor.assert_console_empty().await
}

async fn cuts_long_inputs(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let trace = data::new_trace();
    let long = format!("It begins here. {}", "a long story ".repeat(375_000 / 13));
    let attributes = data::input_and_output(&long, "short");
    server.send(&[data::span(&trace, 1, None, "long input", &attributes)]).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22long+input%22").await?;
    let shown = browser.text(".beginning").await?;
    ensure!(shown.starts_with("It begins here.") && shown.len() < 2_000, "{shown}");
    browser
        .expect("performance.getEntriesByType('navigation')[0].encodedBodySize < 45_000")
        .await?;
    // As much of it as a value shows at first, in the row, and folded again.
    browser.press("j").await?;
    let both = "\u{e008}\u{e007}";
    browser.chord(both).await?;
    browser
        .wait_for("(([whole, cut]) => whole?.innerText.length > 5_000 && cut.hidden)(['.whole', '.beginning'].map((one) => document.querySelector(one)))")
        .await?;
    let shown = browser.text(".whole").await?;
    let end: String = shown.chars().skip(shown.chars().count() - 60).collect();
    ensure!(end.contains(" KB of 366 KB"), "{end}");
    browser.chord(both).await?;
    browser
        .expect("document.querySelector('.whole') === null && !document.querySelector('.beginning').hidden")
        .await?;
    visitor.assert_console_empty().await
}

async fn keeps_widths(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let grips = "document.querySelectorAll('.traces .grip')";
    browser.wait_for(&format!("{grips}.length > 5")).await?;
    // One of them is reached by Tab; arrows lead from it to the others.
    let stops = format!("Array.from({grips}).filter((grip) => grip.tabIndex === 0).length");
    browser.expect(&format!("{stops} === 1")).await?;
    let of = |name: &str, what: &str| {
        format!("document.querySelector('.grip[aria-label=\"Width of {name}\"]'){what}")
    };
    let width = |name: &str| of(name, ".parentElement.offsetWidth");
    browser.eval(&format!("{grips}[0].focus()")).await?;
    browser.press("\u{e015}").await?;
    let second = format!("document.activeElement === {grips}[1]");
    browser.expect(&second).await?;
    browser.eval(&of("Latency", ".focus()")).await?;
    let usual = browser.eval(&width("Latency")).await?.as_f64().context("a width")?;
    browser.press("\u{e014}\u{e014}").await?;
    let wider = browser.eval(&width("Latency")).await?.as_f64().context("a width")?;
    ensure!(usual + 24.0 < wider, "{usual} px, then {wider} px");
    // By the pointer, and in the next page.
    let element = of("Trace", ".getBoundingClientRect().toJSON()");
    let element = browser.eval(&element).await?;
    let [x, y] = ["x", "y"].map(|side| element[side].as_f64().unwrap_or_default() + 3.0);
    let to = |x: f64| PointerAction::MoveTo { duration: None, x, y };
    let drag = MouseActions::new("mouse".to_owned())
        .then(to(x))
        .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
        .then(to(x + 60.0))
        .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
    let before = browser.eval(&width("Trace")).await?.as_f64().context("a width")?;
    browser.client.perform_actions(drag).await?;
    let dragged = browser.eval(&width("Trace")).await?.as_f64().context("a width")?;
    ensure!((50.0..70.0).contains(&(dragged - before)), "{before} px, then {dragged} px");
    visitor.open("/traces").await?;
    let is_kept = format!("{} === {wider} && {} === {dragged}", width("Latency"), width("Trace"));
    browser.wait_for(&format!("{grips}.length > 5 && {is_kept}")).await?;
    // Taken back.
    browser.eval(&of("Latency", ".focus()")).await?;
    browser.press("\u{e017}").await?;
    browser.eval(&of("Trace", ".focus()")).await?;
    browser.press("\u{e017}").await?;
    browser.expect(&format!("{} !== {wider}", width("Latency"))).await?;
    visitor.assert_console_empty().await
}

async fn finds_a_sentence(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    browser.fill(".seek [name=q]", "your refund of 49.90 for order 4712").await?;
    browser.press(ENTER).await?;
    browser.wait_for("location.pathname.endsWith('/traces')").await?;
    let marked = "Array.from(document.querySelectorAll('.traces mark')).filter((mark) => mark.checkVisibility()).map((mark) => mark.textContent).join()";
    browser.wait_for(&format!("{marked} === 'Your refund of 49.90 for order 4712'")).await?;
    // Its scores lead to where they are explained.
    let chip = "document.querySelector('.traces a.chip[href*=\"#score-\"]')";
    let name = browser.eval(&format!("{chip}.querySelector('bdi').textContent")).await?;
    browser.click(".traces a.chip[href*=\"#score-\"]").await?;
    browser
        .wait_for(&format!(
            "document.querySelector('.card-score:target h4')?.textContent.includes({name})"
        ))
        .await?;
    visitor.assert_console_empty().await
}
