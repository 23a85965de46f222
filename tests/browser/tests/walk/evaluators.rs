//! The code editor of evaluators, and drafts.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::json;

use crate::pages;

/// The typed text: the editor indents the second line.
const TYPED: &str = "def evaluate(ctx):\u{e007}return 1 +";
const SOURCE: &str = "def evaluate(ctx):\\n    return 1 +";
const SELECT_ALL: &str = "\u{e009}a";
const TAB_LEAVES: &str = "\u{e009}m";
const TAB: &str = "\u{e004}";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![shared.test(
        TestServer::Demo,
        "code_is_typed_in_the_editor_with_its_problem_at_the_line_and_kept_as_a_draft",
        writes_code,
    )]
}

async fn writes_code(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let page = format!("{}/evaluators/new/code", pages::base(visitor).await?);
    visitor.open(&page).await?;
    let script = "document.querySelector(\"script[src$='-code-editor.js']\") !== null";
    if browser.eval(script).await? != json!(true) {
        ensure!(!perpend_browser::is_required(), "the code editor is not built");
        perpend_it::left_out("the code editor is not built");
        return Ok(());
    }
    let editor = "document.querySelector('.code-editor')?.shadowRoot";
    browser.wait_for(&format!("!!{editor}?.querySelector('.cm-content')")).await?;
    browser.click(".code-editor").await?;
    browser.chord(SELECT_ALL).await?;
    browser.press(TYPED).await?;
    let field = "document.getElementById('field-source')";
    browser.wait_for(&format!("{field}.value === '{SOURCE}'")).await?;
    browser.chord(TAB_LEAVES).await?;
    browser.press(TAB).await?;
    browser.expect("document.activeElement.className !== 'code-editor'").await?;

    browser.fill("#field-name", "written in a browser").await?;
    browser.click("button[name=action][value=save]").await?;
    let marked = "?.querySelector('.cm-lintRange-error')?.textContent === 'return 1 +'";
    browser.wait_for(&format!("{editor}{marked}")).await?;
    // The response of the server has the sent text.
    browser.expect(&format!("{field}.defaultValue === '{SOURCE}'")).await?;

    let offer = "document.querySelector('[data-draft-offer]')";
    visitor.open(&page).await?;
    browser.wait_for(&format!("{offer}.hidden === false")).await?;
    browser.expect(&format!("{field}.value !== '{SOURCE}'")).await?;
    browser.click("[data-draft=restore]").await?;
    browser.expect(&format!("{field}.value === '{SOURCE}'")).await?;
    let shown = "querySelector('.cm-content').textContent.includes('return 1 +')";
    browser.expect(&format!("{editor}.{shown}")).await?;

    visitor.open(&page).await?;
    browser.wait_for(&format!("{offer}.hidden === false")).await?;
    browser.click("[data-draft=discard]").await?;
    visitor.open(&page).await?;
    browser.wait_for("document.querySelector('form[data-drafts=on]') !== null").await?;
    browser.expect(&format!("{offer}.hidden")).await?;
    let messages = browser.console().await?;
    // The refused source.
    ensure!(messages.iter().all(|message| message.contains("status of 422")), "{messages:#?}");
    Ok(())
}
