//! Runs of the demo are selected, compared and walked through item by item.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};

/// The signs of the differences of the scores in the table of verdicts.
const SIGNS: &str = "Array.from(document.querySelectorAll('.verdicts [data-label=Difference] b'), (b) => b.textContent[0]).join('')";
const VERDICTS: &str =
    "Array.from(document.querySelectorAll('.verdicts .verdict'), (tag) => tag.textContent).join()";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "two_selected_runs_are_compared_and_a_key_walks_through_the_regressions",
            walks_through_regressions,
        ),
        shared.test(
            TestServer::Demo,
            "a_run_with_few_items_is_inconclusive_with_the_number_of_items_needed",
            shows_the_smallest_detectable_difference,
        ),
        shared.test(
            TestServer::Demo,
            "another_baseline_turns_the_signs_and_the_report_has_the_same_metrics",
            swaps_the_baseline,
        ),
        shared.test(
            TestServer::Demo,
            "without_script_runs_are_compared_and_an_item_leads_to_the_next_one",
            opens_items_without_script,
        ),
    ]
}

/// Opens the comparison of the baseline of the demo with another of its runs.
async fn compare(visitor: &Visitor, other: &str) -> Result<()> {
    let Visitor { browser, .. } = visitor;
    visitor.open("/experiments").await?;
    for name in ["baseline", other] {
        browser.click(&format!("input[aria-label='Select {name}']")).await?;
    }
    browser.click("#choice button").await?;
    browser.wait_for("document.querySelector('.verdicts') !== null").await
}

async fn walks_through_regressions(visitor: &Visitor) -> Result<()> {
    let Visitor { browser, .. } = visitor;
    visitor.log_in().await?;
    compare(visitor, "short prompt").await?;
    let verdicts = browser.eval(VERDICTS).await?;
    let verdicts = verdicts.as_str().context("verdicts")?;
    ensure!(verdicts.contains("worse"), "{verdicts}");
    browser.expect("document.querySelectorAll('.verdicts .interval svg').length > 0").await?;
    browser.press("r").await?;
    let at = "document.activeElement.closest('tr[data-item~=regressed]')?.rowIndex ?? 0";
    let first = browser.eval(at).await?;
    ensure!(first == 1, "the first row is a regression: {first}");
    browser.press("r").await?;
    browser.expect(&format!("({at}) === 2")).await?;
    browser.press("R").await?;
    browser.expect(&format!("({at}) === 1")).await?;
    visitor.assert_console_empty().await
}

async fn shows_the_smallest_detectable_difference(visitor: &Visitor) -> Result<()> {
    let Visitor { browser, .. } = visitor;
    visitor.log_in().await?;
    compare(visitor, "new examples, first tickets").await?;
    let table = browser.text(".verdicts").await?;
    for part in ["inconclusive", "Smallest detectable difference", "Needed for a verdict"] {
        ensure!(table.contains(part), "{part} in {table}");
    }
    let page = browser.text("main").await?.to_lowercase();
    ensure!(!page.contains("no difference"), "{page}");
    visitor.assert_console_empty().await
}

async fn swaps_the_baseline(visitor: &Visitor) -> Result<()> {
    let Visitor { browser, .. } = visitor;
    visitor.log_in().await?;
    compare(visitor, "short prompt").await?;
    let before = browser.eval(SIGNS).await?;
    let before = before.as_str().context("signs")?.to_owned();
    let turned: String = before
        .chars()
        .map(|sign| match sign {
            '+' => '−',
            '−' => '+',
            other => other,
        })
        .collect();
    browser.press("b").await?;
    browser
        .wait_for(&format!(
            "new URLSearchParams(location.search).has('base') && {SIGNS} === '{turned}'"
        ))
        .await?;
    browser.expect("document.getElementById('markdown').value.includes('| helpfulness |')").await?;
    visitor.assert_console_empty().await
}

async fn opens_items_without_script(visitor: &Visitor) -> Result<()> {
    let Visitor { browser, .. } = visitor;
    browser.allow_scripts(false).await?;
    visitor.log_in().await?;
    compare(visitor, "short prompt").await?;
    let links = "Array.from(document.querySelectorAll('.item-outputs .name'), (a) => a.pathname)";
    let second = browser.eval(&format!("{links}[1]")).await?;
    browser.click(".item-outputs tbody tr:first-child .name").await?;
    browser.wait_for("document.querySelector('.item-sides') !== null").await?;
    browser
        .expect("document.querySelector('.item-sides .diff, .item-sides .tag') !== null")
        .await?;
    browser.click("a[rel=next]").await?;
    browser.wait_for(&format!("location.pathname === {second}")).await?;
    visitor.assert_console_empty().await
}
