//! A rule from the filter of a list: previewed, saved on, scoring, switched off and on again; every page passes axe.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::axe::{self, Rules};
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::json;

use crate::data;

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![shared.test(
        TestServer::Shared,
        "a_rule_begins_with_the_filter_of_a_list_scores_and_is_switched_off_and_on_again",
        makes_a_rule,
    )]
}

/// Requires that axe finds nothing on the open page.
async fn is_accessible(visitor: &Visitor) -> Result<()> {
    let Some(script) = axe::script()? else {
        perpend_it::left_out("axe-core is not installed");
        return Ok(());
    };
    let found = axe::violations(&visitor.browser, script, Rules::All).await?;
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

async fn makes_a_rule(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    let evaluator = json!({
        "type": "plugin", "name": "length of answers", "plugin": "perpend/text", "evaluator": "length",
        "config": { "max": 1000 },
    });
    let evaluator = server.post("/api/public/v2/evaluators", &evaluator).await?;
    let evaluator = evaluator["id"].as_str().context("an id")?;
    let content = data::input_and_output("a", "b");
    let before = data::span(&data::new_trace(), 1, None, "answer for a rule", &content);
    server.send(&[before]).await?;
    visitor.log_in().await?;
    visitor.open("/observations?q=name%3A%22answer+for+a+rule%22").await?;
    browser.click("a[data-command='Score these with a rule']").await?;
    browser.wait_for("document.getElementById('field-q') !== null").await?;
    browser
        .expect("document.getElementById('field-q').value.includes('answer for a rule')")
        .await?;
    browser.fill("#field-name", "from a list").await?;
    browser.click(&format!("input[name=evaluator][value='{evaluator}']")).await?;
    browser.click("button[name=action][value=preview]").await?;
    browser.wait_for("document.getElementById('preview') !== null").await?;
    browser
        .expect("document.getElementById('preview').parentElement.innerText.includes(' match, ')")
        .await?;
    is_accessible(visitor).await?;
    browser.click("button[name=action][value=on]").await?;
    browser.wait_for("document.getElementById('funnel') !== null").await?;
    let page = browser.eval("location.pathname").await?;
    let page = page.as_str().context("a path")?.to_owned();
    let after = data::span(&data::new_trace(), 1, None, "answer for a rule", &content);
    server.send(&[after]).await?;
    let id = page.rsplit('/').next().unwrap_or_default();
    let counters = format!("/api/v1/evaluation-rules/{id}/counters");
    perpend_it::wait_for(&server.client, &counters, |answer| answer["funnel"]["scored"] == 1)
        .await?;
    visitor.open(&page).await?;
    let funnel = browser.text(".funnel").await?;
    ensure!(funnel.contains("scored") && !funnel.contains("differs"), "{funnel}");
    is_accessible(visitor).await?;
    browser.click("form[action$='/enabled'] button").await?;
    browser.wait_for("document.querySelector('h1 .tag')?.innerText === 'off'").await?;
    let undo = "document.querySelector('form[data-undo] button')";
    browser.wait_for(&format!("{undo} !== null")).await?;
    browser.eval(&format!("void {undo}.click()")).await?;
    browser.wait_for("document.querySelector('h1 .tag')?.innerText === 'on'").await?;
    visitor.open(&format!("{page}/edit")).await?;
    is_accessible(visitor).await?;
    visitor.assert_console_empty().await
}
