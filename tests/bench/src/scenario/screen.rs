//! What a browser takes for the pages: script on its main thread, how much moves after the page is there, and a trace of
//! 50,000 observations under the fingers. In Chromium, on the data of the queries.

use std::time::Duration;

use anyhow::Context as _;
use perpend_browser::Browser;
use serde_json::{Value, json};

use crate::median;
use crate::report::{Bar, Figure};
use crate::server::KEYS;

/// How many times slower the processor is made while pages load.
const SLOWER: u32 = 4;
/// Loads of each page: of script the median counts, of what moves the worst.
const N_LOADS: usize = 5;
/// What follows the page itself has come by then: parts loaded when they are seen, live hints.
const SETTLED: Duration = Duration::from_millis(1200);
/// Scrolling through the large trace.
const SCROLLED_SECONDS: u32 = 60;
const N_KEYS: usize = 40;
const END: &str = "\u{E010}";

/// Collects layout shifts without user input, and the time from each key to the next paint.
const WATCH: &str = "
    window.watched = { moved: 0, keys: [] };
    const watch = (type, see, more) => new PerformanceObserver((list) => list.getEntries().forEach(see))
        .observe({ type, buffered: true, ...more });
    watch('layout-shift', (entry) => { if (!entry.hadRecentInput) window.watched.moved += entry.value; });
    watch('event', (entry) => { if (entry.name === 'keydown') window.watched.keys.push(entry.duration); },
        { durationThreshold: 16 });
";

/// Milliseconds from the next key until the last row is there.
const UNTIL_THE_END: &str = "
    window.untilTheEnd = new Promise((done) => addEventListener('keydown', () => {
        const start = performance.now();
        const n = Number(document.querySelector('.grid').getAttribute('aria-rowcount'));
        const look = () => document.querySelector(`.window .row[aria-rowindex=\"${n}\"]`)
            ? done(performance.now() - start) : requestAnimationFrame(look);
        look();
    }, { once: true, capture: true }))
";

/// Opens pages in Chromium; nothing where it is not installed.
///
/// # Errors
/// When a page does not come.
pub(crate) async fn measure(
    (origin, base): (&str, &str),
    pages: &[(&str, String)],
    large: &str,
) -> anyhow::Result<Vec<Figure>> {
    if !Browser::is_installed()? {
        eprintln!("pages: no chromedriver here: nothing is measured in a browser");
        return Ok(Vec::new());
    }
    let browser = Browser::open().await?;
    browser.resize(1440, 1000).await?;
    browser.client.goto(&format!("{origin}/login")).await?;
    browser.fill("[name=public_key]", KEYS.0).await?;
    browser.fill("[name=secret_key]", KEYS.1).await?;
    browser.click("form:has([name=secret_key]) button").await?;
    browser.wait_for(&format!("location.pathname.startsWith('{base}')")).await?;
    browser.protocol("Performance.enable", json!({})).await?;
    let watch = json!({ "source": WATCH });
    let command = "Page.addScriptToEvaluateOnNewDocument";
    browser.protocol(command, watch).await?;
    let mut figures = Vec::new();
    for (what, path) in pages {
        figures.extend(load(&browser, what, &format!("{origin}{path}")).await?);
    }
    figures.extend(under_the_fingers(&browser, &format!("{origin}{large}")).await?);
    browser.close().await?;
    Ok(figures)
}

/// Some loads on a slow processor.
async fn load(browser: &Browser, what: &str, address: &str) -> anyhow::Result<[Figure; 2]> {
    let (mut script, mut moved) = (Vec::new(), 0.0_f64);
    slow_down(browser, SLOWER).await?;
    for _ in 0..N_LOADS {
        let before = script_ms(browser).await?;
        browser.client.goto(address).await?;
        tokio::time::sleep(SETTLED).await;
        let after = script_ms(browser).await?;
        // A page that got a process of its own counts from nothing.
        let since = if after < before { 0.0 } else { before };
        script.push(after - since);
        moved = moved.max(number(&browser.eval("window.watched.moved").await?)?);
    }
    slow_down(browser, 1).await?;
    let script = median(script);
    eprintln!("screen: {what}: script {script:.1} ms, layout shift {moved:.4}");
    Ok([
        figure(&format!("{what}: script"), script, "ms", 50.0),
        figure(&format!("{what}: layout shift"), moved, "", 0.02),
    ])
}

/// A large trace: to its end by key, through it by the wheel, down it row by row.
async fn under_the_fingers(browser: &Browser, address: &str) -> anyhow::Result<Vec<Figure>> {
    let what = "a trace of 50,000";
    open(browser, address).await?;
    browser.eval(&format!("void ({UNTIL_THE_END})")).await?;
    browser.press(END).await?;
    let end = number(&browser.eval("window.untilTheEnd").await?)?;
    let rows = number(&browser.eval(&scroll()).await?)?;
    browser.protocol("HeapProfiler.collectGarbage", json!({})).await?;
    let heap = browser.protocol("Runtime.getHeapUsage", json!({})).await?;
    let heap = number(&heap["usedSize"])? / f64::from(1 << 20);
    open(browser, address).await?;
    for _ in 0..N_KEYS {
        browser.press("j").await?;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let keys = "window.watched.keys.sort((a, b) => a - b)";
    let keys = browser.eval(keys).await?;
    let keys = keys.as_array().context("a list of durations")?;
    // Keys that are painted within 16 ms are not reported by the browser.
    let at = keys.len().checked_sub(1 + N_KEYS / 20);
    let key = at.and_then(|at| keys.get(at));
    let key = key.map_or(Ok(16.0), number)?;
    eprintln!("screen: {what}: End {end:.0} ms, {rows} rows, heap {heap:.1} MiB, key {key:.0} ms");
    Ok(vec![
        figure(&format!("{what}: End to the last row"), end, "ms", 300.0),
        figure(&format!("{what}: rows in the document"), rows, "", 600.0),
        figure(&format!("{what}: heap after scrolling"), heap, "MiB", 60.0),
        figure(&format!("{what}: key to paint, p95"), key, "ms", 100.0),
    ])
}

/// Scrolls up and down for a while; the most rows that the document had.
fn scroll() -> String {
    format!(
        "new Promise((done) => {{
            const grid = document.querySelector('.grid');
            const until = performance.now() + {SCROLLED_SECONDS} * 1000;
            let most = 0;
            const step = (at) => {{
                grid.scrollTop = (at * 30907) % grid.scrollHeight;
                most = Math.max(most, document.querySelectorAll('.window .row').length);
                performance.now() < until ? setTimeout(step, 120, at + 1) : done(most);
            }};
            step(0);
        }})"
    )
}

async fn open(browser: &Browser, address: &str) -> anyhow::Result<()> {
    browser.client.goto(address).await?;
    browser.wait_for("document.querySelector('.grid .window .row') !== null").await?;
    browser.eval("document.querySelector('.grid').focus()").await.map(drop)
}

async fn slow_down(browser: &Browser, rate: u32) -> anyhow::Result<()> {
    let rate = json!({ "rate": rate });
    let command = "Emulation.setCPUThrottlingRate";
    browser.protocol(command, rate).await.map(drop)
}

/// Script that ran on the main thread so far.
async fn script_ms(browser: &Browser) -> anyhow::Result<f64> {
    let metrics = browser.protocol("Performance.getMetrics", json!({})).await?;
    let metrics = metrics["metrics"].as_array().context("metrics")?;
    let script = metrics.iter().find(|metric| metric["name"] == "ScriptDuration");
    Ok(number(&script.context("ScriptDuration")?["value"])? * 1e3)
}

fn number(value: &Value) -> anyhow::Result<f64> {
    value.as_f64().with_context(|| format!("no number: {value}"))
}

fn figure(what: &str, value: f64, unit: &'static str, most: f64) -> Figure {
    Figure { scenario: "pages", what: what.to_owned(), value, unit, bar: Bar::AtMost(most) }
}
