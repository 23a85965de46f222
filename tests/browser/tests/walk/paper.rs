//! Pages in print.

use std::sync::Arc;

use anyhow::{Context, Result};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};

use crate::pages;

/// As wide as a sheet of A4 without its margins, in CSS pixels.
const SHEET: u32 = 690;
/// The pages that are made for paper.
const PRINTED: [&str; 5] = ["trace", "step", "large-trace", "timeline", "compare"];

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![shared.test(
        TestServer::Demo,
        "a_trace_and_a_comparison_are_printed_black_on_white_without_the_frame_and_with_each_row",
        prints,
    )]
}

async fn prints(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let all = pages::of_demo(visitor).await?;
    for page in all.iter().filter(|(name, _)| PRINTED.contains(name)) {
        let (name, _) = page;
        browser.prefer("light").await?;
        browser.resize(1440, 1000).await?;
        pages::open(visitor, page).await?;
        browser.resize(SHEET, 1000).await?;
        browser.print("dark").await?;
        browser.picture(&format!("{name}-paper")).await?;
        let of_frame = "'.top, .rail, form, button, .button, .aspects, .divider, .toast'";
        let promises = [
            format!(
                "Array.from(document.querySelectorAll({of_frame})).every((one) => !one.checkVisibility())"
            ),
            "getComputedStyle(document.querySelector('main')).color === 'rgb(0, 0, 0)'".to_owned(),
            "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'".to_owned(),
            "document.scrollingElement.scrollWidth <= innerWidth".to_owned(),
            // Nothing sticks, nothing scrolls by itself, no row is cut.
            "Array.from(document.querySelectorAll('main *'))
                .every((one) => !one.checkVisibility() || getComputedStyle(one).position !== 'sticky')"
                .to_owned(),
            "Array.from(document.querySelectorAll('.grid, .detail, .scroll, main pre'))
                .every((one) => getComputedStyle(one).overflowY === 'visible')"
                .to_owned(),
            "Array.from(document.querySelectorAll('.window .row, .compared tr'))
                .every((one) => one.checkVisibility() && getComputedStyle(one).breakInside === 'avoid')"
                .to_owned(),
        ];
        for promise in promises {
            browser.expect(&promise).await.context(*name)?;
        }
    }
    // Of a trace with more rows than the page, those that are printed are counted.
    let large = all.iter().find(|(name, _)| *name == "large-trace");
    browser.prefer("light").await?;
    pages::open(visitor, large.context("a large trace")?).await?;
    browser.eval("void dispatchEvent(new Event('beforeprint'))").await?;
    browser.print("light").await?;
    let counted = "getComputedStyle(document.querySelector('.grid'), '::after').content";
    browser.expect(&format!(r"/^.Rows 1 to \d+ of \d+\..$/.test({counted})")).await
}
