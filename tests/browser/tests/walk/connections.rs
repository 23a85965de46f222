//! Connections and plug-ins: created, tested and uploaded in the browser.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::axe::Rules;
use perpend_browser::{Shared, TestServer, Visitor, axe};

use crate::pages;

const KEY: &str = "sk-typed-in-a-browser";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Shared,
            "a_connection_is_created_and_tested_and_its_key_is_not_shown_again",
            creates_a_connection,
        ),
        shared.test(
            TestServer::Shared,
            "a_refused_component_gives_the_report_of_its_check",
            uploads_a_component,
        ),
    ]
}

/// Fails on a violation of the rules of accessibility on the open page.
async fn check(visitor: &Visitor) -> Result<()> {
    let Some(script) = axe::script()? else {
        perpend_it::left_out("axe-core is not installed");
        return Ok(());
    };
    let found = axe::violations(&visitor.browser, script, Rules::All).await?;
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

async fn creates_a_connection(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let base = pages::base(visitor).await?;
    visitor.open(&format!("{base}/settings/connections/new")).await?;
    browser.fill("#field-provider", "scripted").await?;
    browser.fill("#field-secret_key", KEY).await?;
    let config = r#"{"replies": [{"reply": {"reasoning": "ok", "score": 1}}]}"#;
    let rest = format!(
        "void (document.getElementById('field-adapter').value = 'mock', \
         document.getElementById('field-config').value = '{config}')"
    );
    browser.eval(&rest).await?;
    browser.click("form.card button.primary").await?;
    browser.wait_for("document.querySelector('form[action$=\"/test\"]') !== null").await?;
    browser.fill("#field-model", "small").await?;
    browser.click("button[name=action][value=test]").await?;
    browser.wait_for("document.getElementById('test-result') !== null").await?;
    let result = browser.text("#test-result").await?;
    ensure!(result.contains("passed"), "{result}");
    let is_hidden = format!("!document.documentElement.outerHTML.includes('{KEY}')");
    browser.expect(&is_hidden).await?;
    check(visitor).await?;
    browser.click("a[href$='/edit']").await?;
    browser.wait_for("document.getElementById('field-secret_key') !== null").await?;
    browser.expect("document.getElementById('field-secret_key').value === ''").await?;
    browser.expect(&is_hidden).await?;
    check(visitor).await?;
    visitor.open(&format!("{base}/settings/connections")).await?;
    check(visitor).await?;
    visitor.assert_console_empty().await
}

async fn uploads_a_component(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let base = pages::base(visitor).await?;
    visitor.open(&format!("{base}/plugins/new")).await?;
    let choose = "void ((field) => { const files = new DataTransfer(); \
        files.items.add(new File(['hello'], 'hello.wasm')); field.files = files.files; })\
        (document.getElementById('field-file'))";
    browser.eval(choose).await?;
    browser.click("form.card button.primary").await?;
    browser.wait_for("document.getElementById('report') !== null").await?;
    let report = browser.text("#report").await?;
    ensure!(report.contains("not a WebAssembly component"), "{report}");
    ensure!(report.contains("not reached"), "{report}");
    check(visitor).await?;
    visitor.open(&format!("{base}/plugins")).await?;
    browser.click("main [data-rows] a.name").await?;
    browser.wait_for("document.getElementById('versions') !== null").await?;
    check(visitor).await?;
    // The refused form is an error for the console.
    browser.console().await.map(drop)
}
