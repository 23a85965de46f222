//! Without script: links and forms alone lead everywhere.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};

use crate::data;

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "without_script_a_token_pasted_into_the_form_logs_in",
            logs_in,
        ),
        shared.test(
            TestServer::Shared,
            "without_script_a_list_is_filtered_walked_and_opened",
            walks_a_list,
        ),
        shared.test(
            TestServer::Shared,
            "without_script_rows_of_a_trace_come_in_pages_and_fold_and_open",
            reads_a_trace,
        ),
        shared.test(
            TestServer::Demo,
            "without_script_a_text_is_found_in_a_trace_and_turns_are_walked",
            finds_and_walks,
        ),
    ]
}

async fn logs_in(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    browser.allow_scripts(false).await?;
    visitor.open("/traces").await?;
    ensure!(browser.text("h1").await? == "Log in");
    let (_, token) = visitor.server.login_url.split_once("token=").unwrap_or_default();
    browser.fill("[name=token]", "not the token").await?;
    browser.click("form button.primary").await?;
    browser.wait_for("document.querySelector('[role=alert]') !== null").await?;
    browser.fill("[name=token]", token).await?;
    browser.click("form button.primary").await?;
    // It continues to the requested page.
    browser.wait_for("location.pathname.endsWith('/traces')").await?;
    browser.click(".who button").await?;
    browser.wait_for("location.pathname === '/login'").await
}

async fn walks_a_list(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(60, "plain walk", "sam")).await?;
    browser.allow_scripts(false).await?;
    visitor.log_in().await?;
    browser.click(".rail a[data-key=t]").await?;
    browser.wait_for("document.querySelector('.filter [name=q]') !== null").await?;
    browser.fill(".filter [name=q]", "name:\"plain walk\"").await?;
    browser.click(".filter button").await?;
    browser.wait_for("location.search.includes('q=')").await?;
    let names =
        "Array.from(document.querySelectorAll('.traces .name'), (a) => a.textContent.trim())";
    browser
        .expect(&format!("{names}.length === 50 && {names}.every((name) => name === 'plain walk')"))
        .await?;
    browser.click("a[rel=next]").await?;
    browser.wait_for("document.querySelector('a[rel=prev]') !== null").await?;
    browser.expect(&format!("{names}.length === 10")).await?;
    browser.click(".traces .people a").await?;
    browser.wait_for("location.pathname.endsWith('/users/sam')").await?;
    browser.click(".traces .name").await?;
    browser.wait_for("document.querySelector('[role=treegrid]') !== null").await?;
    ensure!(browser.text("h1").await? == "plain walk");
    visitor.assert_console_empty().await
}

/// A root with 450 steps below it, each with a unique name.
async fn send_wide(visitor: &Visitor) -> Result<String> {
    let trace = data::new_trace();
    let mut spans = vec![data::span(&trace, 1, None, "wide", &[])];
    spans.extend((2..452).map(|n| {
        let name = format!("step {n}");
        data::span(&trace, n, Some(1), &name, &data::input_and_output("asked", &name))
    }));
    visitor.server.send(&spans).await?;
    Ok(format!("/traces/{trace}"))
}

async fn reads_a_trace(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    let path = send_wide(visitor).await?;
    browser.allow_scripts(false).await?;
    visitor.log_in().await?;
    visitor.open(&path).await?;
    let rows = "document.querySelectorAll('.window > .row').length";
    browser.expect(&format!("{rows} === 200")).await?;
    browser.click(".later a").await?;
    browser.wait_for("location.search.includes('at=')").await?;
    let second = "document.querySelector('.window > .row .name').textContent";
    browser.expect(&format!("{rows} === 200 && {second} === 'step 201'")).await?;
    browser.click(".window > .row:nth-child(3) .name").await?;
    browser.wait_for("location.search.includes('observation=')").await?;
    let marked = "document.querySelector('[role=row][aria-selected=true] .name').textContent";
    let pane = "document.querySelector('#detail h2').textContent";
    browser.expect(&format!("{marked} === 'step 203' && {pane} === 'step 203'")).await?;
    browser.click(".earlier a").await?;
    browser.wait_for(&format!("{second} !== 'step 201'")).await?;
    visitor.open(&path).await?;
    browser.click(".window a.fold").await?;
    browser.wait_for(&format!("{rows} === 1")).await?;
    // The URL keeps the collapsed rows.
    browser.client.refresh().await?;
    browser.wait_for(&format!("{rows} === 1")).await?;
    browser.click(".window a.fold").await?;
    browser.wait_for(&format!("{rows} === 200")).await?;
    visitor.assert_console_empty().await
}

async fn finds_and_walks(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    browser.allow_scripts(false).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22compare+suppliers%22").await?;
    browser.click(".traces .name").await?;
    browser.wait_for("document.querySelector('.find input') !== null").await?;
    browser.fill(".find input", "supplier 18 delivers").await?;
    browser.click(".find button").await?;
    browser.wait_for("document.querySelector('.hits mark') !== null").await?;
    browser.click(".hits .name").await?;
    browser.wait_for("location.search.includes('observation=')").await?;
    ensure!(browser.text("#detail h2").await? == "take notes");
    browser
        .expect("document.querySelector('.window [aria-selected=true] .name').textContent === 'take notes'")
        .await?;
    browser.click(".rail a[data-key=s]").await?;
    browser.wait_for("document.querySelector('.groups') !== null").await?;
    browser.fill("[name=id]", "chat-noor").await?;
    browser.click(".goto button").await?;
    let turns = "Array.from(document.querySelectorAll('.turn'), (turn) => turn.id)";
    browser.wait_for(&format!("{turns}.length === 20")).await?;
    browser.click("a[rel=next]").await?;
    browser.wait_for(&format!("{turns}.length === 10 && {turns}.at(-1) === 'turn-30'")).await?;
    browser.fill("[name=turn]", "5").await?;
    browser.click(".goto button").await?;
    browser.wait_for(&format!("{turns}[0] === 'turn-5'")).await?;
    visitor.assert_console_empty().await
}
