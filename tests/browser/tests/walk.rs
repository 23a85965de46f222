//! A visitor's way: from the printed address to a score and what is behind it.

use anyhow::{Context, Result, ensure};
use assay_browser::{Browser, Server};
use serde_json::Value;

/// Fails when the console has anything to say: a script error, a refusal of the security policy, a
/// file that did not load.
async fn assert_quiet(browser: &Browser) -> Result<()> {
    let said = browser.console().await?;
    ensure!(said.is_empty(), "the console says: {said:#?}");
    Ok(())
}

async fn walk(server: &Server, is_dark: bool) -> Result<()> {
    let Some(browser) = Browser::open(is_dark).await? else {
        return Ok(());
    };
    let look = if is_dark { "dark" } else { "light" };
    let shot = |name: &str| format!("{name}-{look}");

    // Without a session every page leads to the login form, and says where to go afterwards.
    browser
        .client
        .goto(&format!("{}/rules", server.origin))
        .await?;
    ensure!(browser.text("h1").await? == "Log in");
    browser.picture(&shot("login")).await?;

    // The printed address logs in and leaves no token behind.
    browser.client.goto(&server.login_url).await?;
    let address = browser.client.current_url().await?;
    ensure!(
        address.as_str() == format!("{}/traces", server.origin),
        "landed on {address}"
    );
    ensure!(
        browser.eval("document.cookie").await? == "",
        "a script can read the session"
    );
    let is_dark_now = "matchMedia('(prefers-color-scheme: dark)').matches";
    ensure!(browser.eval(is_dark_now).await? == Value::Bool(is_dark));
    let n_traces = browser
        .eval("document.querySelectorAll('.traces tbody tr').length")
        .await?;
    let n_traces = n_traces.as_u64().context("a number")?;
    ensure!(n_traces > 2, "{n_traces} traces");
    browser
        .wait_for("document.querySelectorAll('.chip').length > 0")
        .await?;
    browser.picture(&shot("traces")).await?;
    assert_quiet(&browser).await?;

    // The filter narrows the list and stays filled in.
    let name = browser.text(".traces tbody tr .name").await?;
    let fill = format!(
        "document.querySelector('[name=name]').value = {}",
        Value::from(name.as_str())
    );
    browser.eval(&fill).await?;
    browser.click(".filter button").await?;
    browser
        .wait_for("location.search.includes('name=')")
        .await?;
    let names = browser
        .eval("Array.from(document.querySelectorAll('.traces .name'), (a) => a.textContent.trim())")
        .await?;
    let names = names.as_array().context("names")?;
    ensure!(
        !names.is_empty() && names.iter().all(|found| found.as_str() == Some(&name)),
        "{names:?}"
    );
    ensure!(
        browser
            .eval("document.querySelector('[name=name]').value")
            .await?
            == name
    );

    // A trace: its tree, with a bar on the time axis for each step.
    browser
        .client
        .goto(&format!("{}/traces", server.origin))
        .await?;
    let scored = "Array.from(document.querySelectorAll('.traces tbody tr')).find((tr) => tr.querySelector('.chip'))";
    browser
        .eval(&format!("{scored}.querySelector('.name').click()"))
        .await?;
    browser
        .wait_for("document.querySelectorAll('[role=treeitem]').length > 1")
        .await?;
    browser.picture(&shot("trace")).await?;
    let bars = "Array.from(document.querySelectorAll('.tree rect')).every((r) => r.getBoundingClientRect().width > 0)";
    ensure!(
        browser.eval(bars).await? == Value::Bool(true),
        "each step has a bar"
    );
    ensure!(browser.text(".figures").await?.contains("Latency"));

    // The keyboard goes through the tree; steps open in place.
    let press = |key: &str| {
        format!(
            "(document.querySelector('[role=treeitem][tabindex=\"0\"]').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})), true)"
        )
    };
    let n_shown = "document.querySelectorAll('[role=treeitem]:not([hidden])').length";
    let n_rows = browser.eval(n_shown).await?;
    browser.eval(&press("Home")).await?;
    browser.eval(&press("ArrowLeft")).await?;
    ensure!(browser.eval(n_shown).await? == 1, "the tree folds");
    browser.eval(&press("ArrowRight")).await?;
    ensure!(browser.eval(n_shown).await? == n_rows, "and unfolds");

    // The step with a score shows what made it.
    browser
        .eval("(document.querySelector('.tree .row .tag.score').closest('.row').click(), true)")
        .await?;
    browser
        .wait_for("document.querySelector('#detail .card-score') !== null")
        .await?;
    let detail = browser.text("#detail").await?;
    for needed in ["Evaluator", "version 1", "Fingerprint", "Execution", "Rule"] {
        ensure!(detail.contains(needed), "{needed} in {detail}");
    }
    browser.picture(&shot("score")).await?;

    // A step without one says why.
    browser
        .eval("(Array.from(document.querySelectorAll('.tree .row')).find((row) => !row.querySelector('.tag.score')).click(), true)")
        .await?;
    browser
        .wait_for("document.querySelector('#detail .verdict') !== null")
        .await?;
    ensure!(browser.text("#detail .verdict .tag").await? != "");
    browser.picture(&shot("reason")).await?;
    assert_quiet(&browser).await?;

    browser
        .client
        .goto(&format!("{}/rules", server.origin))
        .await?;
    ensure!(browser.text("h1").await? == "Evaluation");
    browser.picture(&shot("rules")).await?;
    assert_quiet(&browser).await?;

    // An address that leads nowhere is a page too, and logging out ends the session.
    browser
        .client
        .goto(&format!("{}/traces/none", server.origin))
        .await?;
    ensure!(browser.text("h1").await? == "Not found");
    browser.picture(&shot("not-found")).await?;
    browser
        .client
        .goto(&format!("{}/traces", server.origin))
        .await?;
    browser.click(".who button").await?;
    browser.wait_for("location.pathname === '/login'").await?;
    browser
        .client
        .goto(&format!("{}/traces", server.origin))
        .await?;
    ensure!(browser.text("h1").await? == "Log in");
    browser.close().await
}

#[tokio::test]
async fn a_visitor_finds_the_scores_and_what_made_them() -> Result<()> {
    let server = Server::demo()?;
    walk(&server, false).await?;
    walk(&server, true).await
}
