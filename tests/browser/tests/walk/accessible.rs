//! WCAG 2.2 AA, as far as a program can tell; narrow windows.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::axe::Rules;
use perpend_browser::{Browser, Shared, TestServer, Visitor, axe};

use crate::pages::{self, Page};

/// The sizes of windows that pages are looked at in.
const SIZES: [(u32, u32); 3] = [(1440, 1000), (768, 1024), (360, 780)];
/// Violations in one message.
const MAX_REPORTED: usize = 40;
/// Colour schemes, and the rules to check in them: the dark one changes only colours.
const COLOURS: [(&str, Rules); 2] = [("light", Rules::All), ("dark", Rules::Colours)];
/// The window required by WCAG, and the same zoomed to 200 %. A phone is one of the sizes above.
const NARROW: [u32; 2] = [320, 160];

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "axe_finds_no_violation_and_each_target_is_24_px_wide_and_high_on_lists",
            async |visitor: &Visitor| {
                visitor.log_in().await?;
                let pages = pages::of_demo(visitor).await?;
                check(visitor, pages.into_iter().filter(|page| !is_trace(page))).await
            },
        ),
        shared.test(
            TestServer::Demo,
            "axe_finds_no_violation_and_each_target_is_24_px_wide_and_high_on_a_trace",
            async |visitor: &Visitor| {
                visitor.log_in().await?;
                let pages = pages::of_demo(visitor).await?;
                check(visitor, pages.into_iter().filter(is_trace)).await
            },
        ),
        shared.test(
            TestServer::Fresh,
            "axe_finds_no_violation_where_nothing_is_recorded",
            async |visitor: &Visitor| {
                check(visitor, [("login", "/login".to_owned())]).await?;
                visitor.log_in().await?;
                let base = pages::base(visitor).await?;
                let empty = [
                    ("empty-overview", base.clone()),
                    ("empty-sessions", format!("{base}/sessions")),
                    ("empty-users", format!("{base}/users")),
                    ("empty-scores", format!("{base}/scores")),
                    ("empty-rules", format!("{base}/rules")),
                    ("empty-evaluators", format!("{base}/evaluators")),
                ];
                check(visitor, empty).await?;
                check(visitor, pages::of_dataset(visitor).await?).await
            },
        ),
        shared.test(TestServer::Demo, "no_page_scrolls_sideways_in_a_narrow_window", narrow),
    ]
}

fn is_trace((name, _): &Page) -> bool {
    let of_traces =
        ["trace", "step", "large-trace", "find", "timeline", "thread", "log", "reference-group"];
    of_traces.contains(name)
}

/// Checks pages in all colour schemes and sizes, and reports the violations together.
async fn check(visitor: &Visitor, pages: impl IntoIterator<Item = Page>) -> Result<()> {
    let script = axe::script()?;
    if script.is_none() {
        perpend_it::left_out("axe-core is not installed");
    }
    let browser = &visitor.browser;
    let mut found = Vec::new();
    for page in pages {
        let (name, _) = page;
        for (width, height) in SIZES {
            browser.resize(width, height).await?;
            // Scripts lay the page out for this size.
            pages::open(visitor, &page).await?;
            let page = format!("{name}, {width} px");
            found.extend(small_targets(browser, &page).await?);
            if width < 400 {
                found.extend(overflow(browser, &page).await?);
            }
            let Some(script) = script else {
                continue;
            };
            // A rule checks each element.
            pages::drop_alike(browser, "main tbody tr, main li, .window > .row", 3).await?;
            for (colours, rules) in COLOURS {
                browser.prefer(colours).await?;
                browser.picture(&format!("{name}-{width}-{colours}")).await?;
                let lines = axe::violations(browser, script, rules).await?;
                found.extend(lines.into_iter().map(|line| format!("{page}, {colours}: {line}")));
            }
        }
    }
    let n_found = found.len();
    found.truncate(MAX_REPORTED);
    ensure!(n_found == 0, "{n_found} violations:\n{}", found.join("\n"));
    Ok(())
}

/// The innermost elements that are wider than the window, for a message, without those in a box that scrolls by itself.
const WIDE: &str = "(() => {
    const scrolls = (one) => one !== document.body
        && (getComputedStyle(one).overflowX !== 'visible' || scrolls(one.parentElement));
    return Array.from(document.querySelectorAll('main *, header *, nav *'))
        .filter((one) => one.getBoundingClientRect().right > innerWidth && !scrolls(one.parentElement))
        .map((one) => one.outerHTML.slice(0, 200)).slice(-3).join(' ');
})()";

async fn narrow(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let mut all = pages::of_demo(visitor).await?;
    all.extend([("logout", "/logout".to_owned())]);
    let mut found = Vec::new();
    for page in all {
        let (name, _) = page;
        for width in NARROW {
            browser.resize(width, 780).await?;
            pages::open(visitor, &page).await?;
            browser.picture(&format!("{name}-{width}")).await?;
            found.extend(overflow(browser, &format!("{name}, {width} px")).await?);
        }
    }
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

/// How much wider than the window the page is, if it is.
async fn overflow(browser: &Browser, page: &str) -> Result<Option<String>> {
    let over = browser.eval("document.documentElement.scrollWidth - innerWidth").await?;
    if over.as_i64() == Some(0) {
        return Ok(None);
    }
    let wide = browser.eval(WIDE).await?;
    Ok(Some(format!("{page}: {over} px too wide: {wide}")))
}

/// The pointer targets smaller than 24 px, one line each. The target of a checkbox is its label, that of a linked card
/// the whole card. Links in a sentence are left out, and bars of charts: the table below a chart has the same links.
const SMALL: &str = r"(() => {
    const isSmall = ({ width, height }) => width < 23.9 || height < 23.9;
    const isSentence = (one) => Array.from(one.parentElement.childNodes)
        .some((node) => node.nodeType === Node.TEXT_NODE && /\p{L}{2}/u.test(node.data));
    const target = (one) => one.closest('.leads') || (one.matches('[type=checkbox], [type=radio]') && one.closest('label')) || one;
    const all = 'a[href], button, input:not([type=hidden]), select, summary, [role=treegrid] [role=row], [tabindex=\'0\']';
    return Array.from(document.querySelectorAll(all))
        .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest('.said, .skip, svg'))
        .filter((one) => isSmall(target(one).getBoundingClientRect()))
        .filter((one) => getComputedStyle(one).display !== 'inline' || !isSentence(one))
        .map((one) => {
            const { width, height } = target(one).getBoundingClientRect();
            return `${width.toFixed(1)} x ${height.toFixed(1)}: ${one.outerHTML.slice(0, 160)}`;
        });
})()";

async fn small_targets(browser: &Browser, page: &str) -> Result<Vec<String>> {
    let small = browser.eval(SMALL).await?;
    let small = small.as_array().context("a list of targets")?;
    Ok(small.iter().map(|one| format!("{page}: {one}")).collect())
}
