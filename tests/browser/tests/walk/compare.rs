//! Two rows of a list are compared, and a trace leads to the next one of its list.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};

use crate::data;

const ENTER: &str = "\u{e007}";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Shared,
            "two_rows_chosen_by_keys_are_compared_and_a_trace_leads_to_the_next_of_its_list",
            compares,
        ),
        shared.test(
            TestServer::Shared,
            "without_script_two_rows_of_a_list_are_chosen_and_compared",
            chooses_two,
        ),
    ]
}

async fn compares(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    for (n, answer) in [(1, "It comes on Monday."), (2, "It comes on Friday.")] {
        let trace = data::new_trace();
        let mut spans = vec![
            data::span(&trace, 1, None, "one of two", &[]),
            data::span(&trace, 2, Some(1), "answer", &data::input_and_output("When?", answer)),
            data::span(&trace, 3, Some(1), "check", &data::input_and_output("Is it?", "yes")),
        ];
        spans.extend((n == 2).then(|| data::span(&trace, 4, Some(1), "again", &[])));
        server.send(&spans).await?;
    }
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22one+of+two%22").await?;
    browser.press("jx").await?;
    browser.click("#choice button").await?;
    let needs = browser.text("#n-chosen").await?;
    ensure!(needs == "Select two traces to compare (1 selected).", "{needs}");
    browser.expect("document.getElementById('said').textContent.includes('1 selected')").await?;
    browser.press("jjx").await?;
    browser.click("#choice button").await?;
    browser.wait_for("location.pathname.endsWith('/traces/compare')").await?;
    browser
        .expect("document.querySelector('.equal-rows a').textContent.includes('equal observation')")
        .await?;
    let signs =
        "Array.from(document.querySelectorAll('.compared .num > b'), (b) => b.textContent[0])";
    browser
        .expect(&format!("{signs}.length > 0 && {signs}.every((sign) => '+−'.includes(sign))"))
        .await?;
    let changed = "Array.from(document.querySelectorAll('.rows .name')).find((a) => a.textContent === 'answer')";
    browser.eval(&format!("{changed}.click()")).await?;
    browser.wait_for("document.querySelectorAll('.diff b').length === 2").await?;
    let words = browser
        .eval(
            "Array.from(document.querySelectorAll('.diff b'), (b) => b.textContent).sort().join()",
        )
        .await?;
    ensure!(words == "Friday,Monday", "{words}");
    visitor.open("/traces?q=name%3A%22one+of+two%22").await?;
    browser.press("j").await?;
    browser.press(ENTER).await?;
    browser.wait_for("document.querySelector('[role=treegrid]') !== null").await?;
    let first = browser.eval("location.pathname").await?;
    browser.press(">").await?;
    browser
        .wait_for(&format!(
            "location.pathname !== {first} && document.querySelector('a[rel=prev]') !== null"
        ))
        .await?;
    browser.press("<").await?;
    browser.wait_for(&format!("location.pathname === {first}")).await?;
    visitor.assert_console_empty().await
}

async fn chooses_two(visitor: &Visitor) -> Result<()> {
    let Visitor { server, browser } = visitor;
    server.send(&data::many(2, "plain choice", "eve")).await?;
    browser.allow_scripts(false).await?;
    visitor.log_in().await?;
    visitor.open("/traces?q=name%3A%22plain+choice%22").await?;
    browser.click("tbody tr:nth-child(1) .choose input").await?;
    browser.click("#choice button").await?;
    browser.wait_for("location.pathname.endsWith('/traces/compare')").await?;
    ensure!(browser.text(".empty h2").await? == "Select two traces");
    // The list is the one that was left.
    browser.click(".crumbs a").await?;
    browser.wait_for("document.querySelectorAll('.choose input').length === 2").await?;
    browser.click("tbody tr:nth-child(1) .choose input").await?;
    browser.click("tbody tr:nth-child(2) .choose input").await?;
    browser.click("#choice button").await?;
    browser.wait_for("document.querySelector('table.rows') !== null").await?;
    let sides = "['a', 'b'].map((side) => new URLSearchParams(location.search).get(side)).join()";
    let before = browser.eval(sides).await?;
    let before = before.as_str().context("two traces")?;
    let swapped = before.split(',').rev().collect::<Vec<_>>().join(",");
    browser.click(".actions a").await?;
    browser
        .wait_for(&format!(
            "{sides} === '{swapped}' && document.querySelector('table.rows') !== null"
        ))
        .await?;
    visitor.assert_console_empty().await
}
