//! The list of traces: bars over time, facets, and the tags of the trace in the preview.

use std::sync::Arc;

use anyhow::Result;
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};

use crate::data;

const ENTER: &str = "\u{e007}";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "a_bar_above_the_list_leads_to_the_traces_of_its_time_and_nothing_moves_when_bars_come",
            brushes_a_bar,
        ),
        shared.test(
            TestServer::Demo,
            "values_to_filter_by_stand_at_the_left_where_there_is_room_and_folded_above_where_there_is_not",
            places_facets,
        ),
        shared.test(
            TestServer::Shared,
            "a_tag_is_given_to_the_trace_beside_the_list_and_taken_back",
            tags_beside_the_list,
        ),
    ]
}

async fn brushes_a_bar(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let is_there = "document.querySelector('.over-time').dataset.later === ''";
    browser.wait_for(is_there).await?;
    // Layout shifts are known once the change is painted: in the second frame from here.
    let moved = "new Promise((done) => { let moved = 0; \
        const see = (all) => all.forEach((one) => { if (!one.hadRecentInput) moved += one.value; }); \
        const observer = new PerformanceObserver((list) => see(list.getEntries())); \
        observer.observe({ type: 'layout-shift', buffered: true }); \
        const report = () => { see(observer.takeRecords()); done(moved <= 0.02); }; \
        requestAnimationFrame(() => requestAnimationFrame(report)); })";
    browser.expect(moved).await?;
    browser
        .expect("document.querySelector('#rows').getBoundingClientRect().top < innerHeight * 0.7")
        .await?;
    let bar = "Array.from(document.querySelectorAll('.over-time tbody tr')).find((row) => row.cells[1].textContent !== '0')";
    let n =
        browser.eval(&format!("Number({bar}.cells[1].textContent.replaceAll(',', ''))")).await?;
    browser.eval(&format!("{bar}.querySelector('a').click()")).await?;
    browser
        .wait_for(
            "/[?&]from=.*&to=/.test(location.search) && document.querySelector('#rows') !== null",
        )
        .await?;
    let inside = "(() => { const params = new URLSearchParams(location.search); \
        const [from, to] = ['from', 'to'].map((end) => Date.parse(params.get(end))); \
        return Array.from(document.querySelectorAll('#rows .time time'), (time) => Date.parse(time.dateTime)) \
            .every((at) => from <= at && at < to); })()";
    browser.expect(inside).await?;
    browser
        .expect(&format!("document.querySelectorAll('#rows > tr').length === Math.min(50, {n})"))
        .await?;
    browser.wait_for(is_there).await?;
    browser.allow_scripts(false).await?;
    visitor.open("/traces").await?;
    browser.click(".over-time a").await?;
    browser.wait_for("document.querySelector('.over-time svg') !== null").await?;
    browser.allow_scripts(true).await?;
    visitor.assert_console_empty().await
}

async fn places_facets(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    browser.resize(1600, 1000).await?;
    visitor.open("/traces").await?;
    let counted = "document.querySelector('#facets .facets') !== null";
    browser.wait_for(counted).await?;
    let edge = |of: &str, side: &str| {
        format!("document.querySelector('{of}').getBoundingClientRect().{side}")
    };
    browser
        .expect(&format!(
            "{} <= {} && Math.abs({} - {}) < 2",
            edge("#facets", "right"),
            edge("#list", "left"),
            edge("#facets", "top"),
            edge("#list", "top")
        ))
        .await?;
    // A click with Alt excludes the value that a plain click adds.
    let value = "document.querySelector('#facets li:has(.not) > a')";
    browser
        .eval(&format!(
            "void {value}.dispatchEvent(new MouseEvent('click', {{ altKey: true, bubbles: true, cancelable: true }}))"
        ))
        .await?;
    browser.wait_for("/[?&]q=-/.test(location.search)").await?;
    browser.resize(1200, 1000).await?;
    visitor.open("/traces").await?;
    let is_shown = "document.getElementById('facets').checkVisibility()";
    browser.expect(&format!("!{is_shown}")).await?;
    browser.expect(&format!("!({counted})")).await?;
    browser.click("#values > summary").await?;
    browser.wait_for(counted).await?;
    browser
        .expect(&format!("{is_shown} && {} <= {}", edge("#facets", "bottom"), edge("#list", "top")))
        .await?;
    visitor.assert_console_empty().await
}

async fn tags_beside_the_list(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(2, "worth a tag", "kim")).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22worth+a+tag%22&cols=trace,tags").await?;
    browser.eval("void (window.stays = true)").await?;
    browser.press("jp").await?;
    browser.wait_for("document.querySelector('#peek #field-add') !== null").await?;
    browser.click("#tagger > summary").await?;
    browser.fill("#field-add", &format!("golden{ENTER}")).await?;
    let in_both = "document.querySelector('#peek .of-tag bdi')?.textContent === 'golden' \
        && document.querySelector('#rows tr[aria-current] .tag')?.textContent === 'golden'";
    browser.wait_for(in_both).await?;
    browser.fill("#field-add", &format!("  {ENTER}")).await?;
    browser
        .wait_for("document.activeElement.matches('.problems') && document.querySelector('#field-add[aria-invalid]') !== null")
        .await?;
    browser.click("#peek .of-tag .remove").await?;
    browser.wait_for("document.querySelector('#peek .of-tag, #rows .tag') === null").await?;
    browser
        .wait_for("document.getElementById('toast').innerText.includes('golden removed')")
        .await?;
    browser.eval("document.querySelector('#toast .told button').click()").await?;
    browser.wait_for(in_both).await?;
    browser.expect("window.stays").await
}
