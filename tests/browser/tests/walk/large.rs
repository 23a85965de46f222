//! A trace of 50,000 observations: the page stays small whatever is looked at.

use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Server, Shared, TestServer, Visitor};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::data;

static TRACE: LazyLock<String> = LazyLock::new(data::new_trace);
/// The number of rounds below the root, and of similar steps in each; each round also has one step with a unique name.
const ROUNDS: u64 = 500;
const STEPS: u64 = 98;
const N: u64 = 1 + ROUNDS * (STEPS + 2);
/// Spans in a request.
const PART: usize = 5_000;

/// The most that scripts may hold.
const HEAP: f64 = 60.0 * 1024.0 * 1024.0;

const N_ROWS: &str = "document.querySelectorAll('.grid [role=row]').length";
const SIZE: &str = "performance.getEntriesByType('navigation')[0].encodedBodySize";
/// Whether the selected row is within the part of the grid that is seen, and in the window.
const IN_VIEW: &str = "(() => {
    const row = document.querySelector('.window [aria-selected=true]')?.getBoundingClientRect();
    const grid = document.querySelector('.grid').getBoundingClientRect();
    const head = document.querySelector('.grid .names').getBoundingClientRect();
    return row !== undefined && row.top >= head.bottom - 1 && row.bottom <= grid.bottom + 1 && row.bottom <= innerHeight + 1 && row.top >= 0;
})()";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Shared,
            "a_trace_of_fifty_thousand_observations_opens_with_few_rows_and_bytes",
            opens_small,
        ),
        shared.test(
            TestServer::Shared,
            "its_end_and_its_middle_are_reached_and_the_page_stays_small_on_the_way",
            walks,
        ),
        shared.test(
            TestServer::Shared,
            "a_link_to_its_last_observation_opens_with_it_selected_and_in_view",
            opens_at_the_end,
        ),
        shared.test(
            TestServer::Shared,
            "its_log_goes_on_at_its_end_and_opens_steps_in_place",
            goes_on,
        ),
        shared.test(
            TestServer::Shared,
            "equal_neighbours_are_one_row_that_opens_in_place",
            opens_a_run,
        ),
    ]
}

async fn goes_on(visitor: &Visitor) -> Result<()> {
    SENT.get_or_try_init(|| send(&visitor.server)).await?;
    visitor.log_in().await?;
    visitor.open(&format!("/traces/{}?v=log", *TRACE)).await?;
    let browser = &visitor.browser;
    for n in [200, 300] {
        browser.eval("scrollTo(0, document.body.scrollHeight)").await?;
        browser.wait_for(&format!("document.querySelectorAll('.log > li').length >= {n}")).await?;
    }
    browser
        .expect(
            "/^Observations 1–[0-9,]+ of 50,001$/.test(document.querySelector('main .shown').textContent)",
        )
        .await?;
    browser
        .eval("[0, 150, 299].forEach((at) => { document.querySelectorAll('.log details.in-place')[at].open = true; })")
        .await?;
    browser
        .wait_for("document.querySelectorAll('.detail-in-place .detail-head').length === 3")
        .await?;
    // The target of a link is among them.
    browser
        .expect("(({ length }, ids) => length === ids.size)(document.querySelectorAll('[id]'), new Set(Array.from(document.querySelectorAll('[id]'), (one) => one.id)))")
        .await?;
    visitor.assert_console_empty().await
}

static SENT: OnceCell<()> = OnceCell::const_new();

/// Opens it, sent by whichever test comes first, with what follows the path of its page.
async fn open(visitor: &Visitor, rest: &str) -> Result<()> {
    SENT.get_or_try_init(|| send(&visitor.server)).await?;
    visitor.log_in().await?;
    let path = format!("/traces/{}{rest}", *TRACE);
    visitor.open(&path).await?;
    visitor.browser.wait_for(&format!("{N_ROWS} > 20")).await?;
    check_small(visitor).await
}

async fn send(server: &Server) -> Result<()> {
    let trace = TRACE.as_str();
    let mut spans = vec![data::span(trace, 1, None, "fifty thousand", &[])];
    let kind = [("perpend.observation.type", "embedding")];
    for round in 0..ROUNDS {
        let first = 2 + round * (STEPS + 2);
        spans.push(data::span(trace, first, Some(1), &format!("round {round}"), &[]));
        let steps = first + 1..=first + STEPS;
        spans.extend(steps.map(|n| data::span(trace, n, Some(first), "embed chunk", &kind)));
        let last = first + STEPS + 1;
        let words = format!("what round {round} gave");
        spans.push(data::span(
            trace,
            last,
            Some(first),
            "summary",
            &data::input_and_output("", &words),
        ));
    }
    ensure!(spans.len() as u64 == N);
    // From its end: a trace is shown whole whatever came first.
    for part in spans.rchunks(PART) {
        server.send(part).await?;
    }
    Ok(())
}

async fn check_small(visitor: &Visitor) -> Result<()> {
    let n_rows = visitor.browser.eval(N_ROWS).await?;
    ensure!(n_rows.as_u64() <= Some(600), "{n_rows} rows");
    let bytes = visitor.browser.eval(SIZE).await?;
    ensure!(bytes.as_u64() <= Some(60 << 10), "{bytes} bytes");
    Ok(())
}

async fn heap(visitor: &Visitor) -> Result<f64> {
    let browser = &visitor.browser;
    browser.protocol("Performance.enable", json!({})).await?;
    let metrics = browser.protocol("Performance.getMetrics", json!({})).await?;
    let metrics = metrics["metrics"].as_array().context("metrics")?;
    let used = |metric: &&Value| metric["name"] == "JSHeapUsedSize";
    let used = metrics.iter().find(used).context("no size of the heap")?;
    used["value"].as_f64().context("a number")
}

async fn opens_small(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open(visitor, "").await?;
    browser.picture("fifty-thousand").await?;
    // A map shows the whole, and each figure counts all of it.
    browser.expect("document.querySelector('#map path') !== null").await?;
    ensure!(browser.text(".figures").await?.contains("50,001"));
    // Prefetched rows are as few: from the first step on.
    browser.eval("void (document.querySelector('.grid').scrollTop = 40)").await?;
    browser.wait_for(&format!("{N_ROWS} > 300")).await?;
    check_small(visitor).await?;
    visitor.assert_console_empty().await
}

const COUNT: &str = "Number(document.querySelector('.grid').getAttribute('aria-rowcount'))";

async fn opens_a_run(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open(visitor, "").await?;
    let run = "document.querySelector('.window .row.run')";
    browser.expect(&format!("{run}.textContent.includes('98')")).await?;
    // Its name is visible whatever text follows it.
    browser
        .expect(&format!(
            "(({{ scrollWidth, clientWidth }}) => scrollWidth <= clientWidth)({run}.querySelector('.name'))"
        ))
        .await?;
    // So is the summary of its members, on a narrow screen too.
    for width in [1440, 1280] {
        browser.resize(width, 900).await?;
        browser.paint().await?;
        browser
            .expect(&format!(
                "(({{ scrollWidth, clientWidth, textContent }}) => /p50 .* p95 /.test(textContent) && scrollWidth <= clientWidth)({run}.querySelector('.note'))"
            ))
            .await?;
    }
    let n_lines = browser.eval(COUNT).await?;
    browser.eval(&format!("{run}.scrollIntoView({{ block: 'center' }}), {run}.click()")).await?;
    browser.wait_for(&format!("{COUNT} === {n_lines} + {STEPS}")).await?;
    check_small(visitor).await?;
    visitor.assert_console_empty().await
}

async fn walks(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    open(visitor, "").await?;
    // End leads to the last row, wherever the keyboard was.
    let focused = "Number(document.activeElement.getAttribute('aria-rowindex'))";
    browser.press("j\u{e010}").await?;
    browser.wait_for(&format!("{focused} === {COUNT}")).await?;
    check_small(visitor).await?;

    // The map leads to the middle.
    browser.click("#map svg").await?;
    let middle = format!(
        "(() => {{ const grid = document.querySelector('.grid').getBoundingClientRect(); \
         const row = document.elementFromPoint(grid.left + grid.width / 2, grid.top + grid.height / 2).closest('.row'); \
         return Math.abs(Number(row?.getAttribute('aria-rowindex')) - {COUNT} / 2) < 60; }})()"
    );
    browser.wait_for(&middle).await?;
    check_small(visitor).await?;

    // From top to bottom in strides: rows come, and go again.
    for stride in 0..=20 {
        let to = format!(
            "(({{ scrollHeight }}) => scrollHeight * {stride} / 20)(document.querySelector('.grid'))"
        );
        browser.eval(&format!("void (document.querySelector('.grid').scrollTop = {to})")).await?;
        let covered = "(() => { const grid = document.querySelector('.grid').getBoundingClientRect(); \
            const row = document.elementFromPoint(grid.left + grid.width / 2, grid.top + grid.height / 2); \
            return row.closest('.window > .row') !== null; })()";
        browser.wait_for(covered).await?;
        check_small(visitor).await?;
    }
    let used = heap(visitor).await?;
    ensure!(used < HEAP, "{used} bytes of script heap");
    visitor.assert_console_empty().await
}

async fn opens_at_the_end(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    let last = data::span_id(N);
    open(visitor, &format!("?observation={last}")).await?;
    browser.wait_for(IN_VIEW).await?;
    let selected = "document.querySelector('.window [aria-selected=true]')";
    // The way to it is open: the trace, the root and its round are above it.
    browser
        .expect(&format!(
            "{selected}.dataset.step === '{last}' && {selected}.getAttribute('aria-level') === '4'"
        ))
        .await?;
    ensure!(browser.text("#detail h2").await? == "summary");
    ensure!(browser.text("#detail").await?.contains("what round 499 gave"));
    // It stays there when the panel gets its height, and so does what keys select, in a window of any size.
    let settled = "document.querySelector('.grid [aria-selected=true]').dataset.step === document.querySelector('#detail .id').textContent \
        && !document.getElementById('detail').hasAttribute('aria-busy')";
    let focused = IN_VIEW.replace(
        "document.querySelector('.window [aria-selected=true]')",
        "document.activeElement.closest('.window .row.run')",
    );
    for (width, height) in [(1400, 900), (1400, 1300), (1920, 1080)] {
        browser.resize(width, height).await?;
        for view in ["", "&v=time"] {
            let path = format!("/traces/{}?observation={last}{view}", *TRACE);
            visitor.open(&path).await?;
            browser.wait_for(&format!("{settled} && {IN_VIEW}")).await?;
            // The row before it is a group: it receives the focus, and the selection does not change.
            browser.press("k").await?;
            browser.wait_for(&focused).await?;
        }
    }
    visitor.assert_console_empty().await
}
