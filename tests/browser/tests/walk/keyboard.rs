//! The keyboard alone: where the focus goes is seen.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Shared, TestServer, Visitor};
use serde_json::Value;

use crate::pages;

const TAB: &str = "\u{e004}";
const ESCAPE_AND_TAB: &str = "\u{e00c}\u{e004}";
/// Stops on one page. A page with more is walked as far.
const MAX_STOPS: usize = 600;
/// Stops in one message.
const MAX_REPORTED: usize = 40;

/// The focused element and the problems of its visibility; null at the end of the page.
const STOP: &str = "(() => {
    const on = document.activeElement;
    if (!on || on === document.body || on === document.documentElement) return null;
    const all = Array.from(document.querySelectorAll('*'));
    const wrong = [];
    // A link over several lines has a frame for each, and may begin with an empty one.
    const frame = Array.from(on.getClientRects()).find(({ width, height }) => width * height > 0) ?? on.getBoundingClientRect();
    const [left, top] = [Math.max(frame.left, 0), Math.max(frame.top, 0)];
    const [right, bottom] = [Math.min(frame.right, innerWidth), Math.min(frame.bottom, innerHeight)];
    if (right - left < 1 || bottom - top < 1) wrong.push('is out of view');
    else {
        const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        if (!hit || !(on.contains(hit) || hit.contains(on))) wrong.push(`is covered by ${hit?.outerHTML.slice(0, 80)}`);
    }
    const style = getComputedStyle(on);
    if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 1) wrong.push('has no outline');
    return { at: all.indexOf(on), what: on.outerHTML.slice(0, 100), wrong };
})()";

/// The visible focusable elements, each by its path in the document.
const REACHABLE: &str = "(() => {
    const all = Array.from(document.querySelectorAll('*'));
    const can = 'a[href], button, input, select, textarea, summary, [tabindex=\"0\"]';
    // Of a group of radio buttons Tab reaches the chosen one, arrows the others.
    const inGroup = 'input[type=radio]:not(:checked)';
    return all.flatMap((one, at) => one.matches(can) && !one.matches(inGroup) && one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true })
        ? [{ at, what: one.outerHTML.slice(0, 100) }] : []);
})()";

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    vec![
        shared.test(
            TestServer::Demo,
            "tab_goes_through_every_page_and_the_focus_is_always_seen",
            tabs,
        ),
        shared.test(
            TestServer::Demo,
            "the_list_of_keys_opens_takes_the_focus_and_closes",
            lists_keys,
        ),
        shared.test(
            TestServer::Demo,
            "each_key_that_is_listed_does_something_and_no_other_does",
            lists_applicable_keys,
        ),
        shared.test(
            TestServer::Demo,
            "ctrl_enter_sends_the_form_that_has_the_focus",
            sends_by_keys,
        ),
        shared.test(
            TestServer::Demo,
            "the_palette_has_commands_alone_after_a_sign_and_the_last_twenty_things_looked_at",
            recalls,
        ),
        shared.test(
            TestServer::Demo,
            "single_keys_lead_to_time_environments_order_columns_values_and_scores",
            leads_by_keys,
        ),
        shared.test(
            TestServer::Demo,
            "keys_fold_the_sections_stop_what_is_live_turn_times_to_utc_and_widen_the_pane",
            looks_by_keys,
        ),
        shared.test(
            TestServer::Demo,
            "a_key_shows_what_can_be_done_on_the_page_and_a_calendar_fills_in_a_time",
            acts_by_keys,
        ),
        shared.test(
            TestServer::Demo,
            "escape_closes_the_innermost_panel_and_leaves_a_field",
            leaves_by_keys,
        ),
        shared.test(
            TestServer::Demo,
            "enter_in_the_palette_takes_the_only_hit_and_a_page_that_is_called_so",
            takes_what_is_certain,
        ),
        shared.test(TestServer::Demo, "going_back_fields_say_what_the_address_does", goes_back),
    ]
}

async fn tabs(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.open("/login").await?;
    let mut found = walk(visitor, "login").await?;
    visitor.log_in().await?;
    let all = pages::of_demo(visitor).await?;
    // Where a field has the focus already, the walk would begin in the middle.
    for page in all.into_iter().filter(|(name, _)| *name != "suggestions") {
        pages::open(visitor, &page).await?;
        pages::drop_alike(browser, "main tbody tr", 12).await?;
        found.extend(walk(visitor, page.0).await?);
    }
    // In a low window bars take most of the height, and lists are not scrolled separately.
    browser.resize(640, 400).await?;
    for (name, path) in pages::of_demo(visitor).await? {
        if ["traces", "step"].contains(&name) {
            visitor.open(&path).await?;
            found.extend(walk(visitor, &format!("{name} in a low window")).await?);
        }
    }
    let n_found = found.len();
    found.truncate(MAX_REPORTED);
    ensure!(n_found == 0, "{n_found} stops:\n{}", found.join("\n"));
    Ok(())
}

/// Presses Tab until the end of the page; returns the problems.
async fn walk(visitor: &Visitor, name: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut last = None;
    let mut keys = TAB;
    for _ in 0..MAX_STOPS {
        visitor.browser.press(keys).await?;
        let stop = visitor.browser.eval(STOP).await?;
        // In the code editor the Tab key indents until Escape is pressed.
        let is_editor = stop["what"].as_str().is_some_and(|what| what.contains("code-editor"));
        keys = if is_editor { ESCAPE_AND_TAB } else { TAB };
        let Some(at) = stop["at"].as_u64() else {
            break;
        };
        if !seen.insert(at) {
            break;
        }
        if last > Some(at) {
            found.push(format!("{name}: {} comes too late", stop["what"]));
        }
        last = Some(at);
        let wrong = stop["wrong"].as_array().map_or(&[][..], Vec::as_slice);
        let wrong = wrong.iter().filter_map(Value::as_str);
        found.extend(wrong.map(|wrong| format!("{name}: {} {wrong}", stop["what"])));
    }
    let reachable = visitor.browser.eval(REACHABLE).await?;
    for one in reachable.as_array().context("a list")? {
        if one["at"].as_u64().is_none_or(|at| !seen.contains(&at)) {
            found.push(format!("{name}: {} is passed over", one["what"]));
        }
    }
    Ok(found)
}

async fn lists_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    browser.press("?").await?;
    browser.wait_for("document.getElementById('keys').open").await?;
    browser.expect("document.getElementById('keys').contains(document.activeElement)").await?;
    // Keys of the page mean nothing below it.
    browser.press("gt").await?;
    browser.press("\u{e00c}").await?;
    browser.wait_for("!document.getElementById('keys').open").await?;
    ensure!(browser.text("h1").await? == "Overview");
    browser.press("gs").await?;
    browser.wait_for("location.pathname.endsWith('/sessions')").await?;
    visitor.assert_console_empty().await
}

/// The keys in the list of keyboard shortcuts, by line.
const LISTED: &str =
    "Array.from(document.querySelectorAll('#keys [data-needs]:not([hidden])'), (line) =>
    Array.from(line.querySelectorAll('kbd'), (cap) => cap.textContent))";

/// The address, the focus and everything on the page in one number.
const LOOK: &str = "(() => {
    const on = Array.from(document.querySelectorAll('*')).indexOf(document.activeElement);
    // How long ago things were changes by itself.
    const html = document.documentElement.outerHTML.replaceAll(/<[^>]*\\bago\\b[^>]*>[^<]*/g, '');
    const text = [location.href, on, html].join();
    let sum = 0;
    for (let at = 0; at < text.length; at++) sum = (31 * sum + text.charCodeAt(at)) | 0;
    return sum;
})()";

/// Keys of pages on which they apply.
const OF_SOME_PAGES: &str = "/tEscvnpxa><1256wmCf";

async fn lists_applicable_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let wanted = [
        "overview",
        "traces",
        "step",
        "log",
        "sessions",
        "session",
        "scores",
        "rules",
        "compare",
        "search",
        "preferences",
        "not-found",
    ];
    let mut tried = HashSet::new();
    for page in &pages::of_demo(visitor).await? {
        if !wanted.contains(&page.0) {
            continue;
        }
        pages::open(visitor, page).await?;
        let listed = listed(visitor).await?;
        let before = browser.eval(LOOK).await?;
        let is_listed = |key: &char| listed.iter().flatten().any(|cap| *cap == key.to_string());
        let others: String = OF_SOME_PAGES.chars().filter(|key| !is_listed(key)).collect();
        browser.press(&others).await?;
        ensure!(
            browser.eval(LOOK).await? == before,
            "{}: one of {others} does something and is not listed",
            page.0
        );
        for caps in &listed {
            let key = press_for(caps);
            let is_everywhere = [".", "[", "l", "y"].contains(&key.as_str());
            if !is_everywhere || tried.insert(key.clone()) {
                try_key(visitor, page, &key).await?;
            }
        }
    }
    Ok(())
}

/// The lines of the list of keys on the page that is open. No field has the focus any longer.
async fn listed(visitor: &Visitor) -> Result<Vec<Vec<String>>> {
    let browser = &visitor.browser;
    browser.eval("document.activeElement.blur()").await?;
    browser.press("?").await?;
    browser.wait_for("document.getElementById('keys').open").await?;
    let listed = browser.eval(LISTED).await?;
    browser.press("\u{e00c}").await?;
    browser.wait_for("!document.getElementById('keys').open").await?;
    browser.eval("document.activeElement.blur()").await?;
    Ok(serde_json::from_value(listed)?)
}

/// The keys to press for a line of the list; none if another test covers it, or if it would change stored data.
fn press_for(caps: &[String]) -> String {
    let caps: Vec<&str> = caps.iter().map(String::as_str).collect();
    let key = match caps.as_slice() {
        ["Shift", key] if key.chars().count() == 1 => *key,
        ["j" | "e", _] => caps[0],
        ["Enter", _] => "\u{e007}",
        ["b" | "z" | "?" | "Esc"] => "",
        [key] => *key,
        _ => "",
    };
    key.to_owned()
}

async fn try_key(visitor: &Visitor, page: &pages::Page, key: &str) -> Result<()> {
    let browser = &visitor.browser;
    if key.is_empty() {
        return Ok(());
    }
    pages::open(visitor, page).await?;
    // A link to the page itself changes nothing.
    let here = format!("document.querySelector('[data-aspect=\"{key}\"][aria-current]') !== null");
    if browser.eval(&here).await? == Value::Bool(true) {
        return Ok(());
    }
    browser.eval("document.activeElement.blur()").await?;
    if ["p", "x", "X", "\u{e007}"].contains(&key) {
        browser.press("j").await?;
    }
    let before = browser.eval(LOOK).await?;
    browser.press(key).await?;
    let changed = browser.wait_for(&format!("{LOOK} !== {before}")).await;
    changed.with_context(|| format!("{}: {key} does nothing", page.0))?;
    // These are kept for other pages.
    if ["l", "m", "["].contains(&key) {
        browser.press(key).await?;
    }
    Ok(())
}

async fn sends_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    // Enter alone opens a list of choices, and sends nothing.
    browser.press("s").await?;
    browser.chord("\u{e009}\u{e007}").await?;
    browser.wait_for("location.search.includes('sort=')").await?;
    visitor.assert_console_empty().await
}

async fn recalls(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    let base = pages::base(visitor).await?;
    visitor.open(&format!("{base}/traces")).await?;
    let trace = "new URL(document.querySelector('.traces .name').href).pathname";
    let trace = pages::path_of(visitor, trace).await?;
    browser
        .eval(&format!(
            "localStorage.setItem('recent', JSON.stringify(Array.from({{ length: 30 }}, \
             (_, n) => ({{ href: `{base}/traces/older${{n}}`, title: `older ${{n}}` }}))))"
        ))
        .await?;
    visitor.open(&trace).await?;
    for searched in ["find?q=a", "find?q=b"] {
        visitor.open(&format!("{trace}/{searched}")).await?;
    }
    visitor.open(&format!("{base}/traces")).await?;
    let recent = "JSON.parse(localStorage.getItem('recent'))";
    browser.expect(&format!("{recent}.length === 20 && {recent}[0].href === '{trace}'")).await?;
    browser
        .eval("void dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))")
        .await?;
    browser
        .wait_for(
            "document.querySelectorAll('#hits [aria-label=Recent] [role=option]').length === 20",
        )
        .await?;
    browser.press("> older").await?;
    browser
        .wait_for("document.getElementById('hits-said').textContent === '0 found on this page'")
        .await?;
    browser.expect("document.querySelector('#hits [role=option]') === null").await?;
    browser.eval("localStorage.removeItem('recent')").await?;
    visitor.assert_console_empty().await
}

async fn leads_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let on = "document.activeElement";
    for (key, is_there) in [
        ("t", "matches('.focus > summary')"),
        ("E", "matches('.focus [name=env]')"),
        ("s", "matches('[name=sort]')"),
        ("c", "matches('.picker > summary')"),
        ("v", "matches('#facets > h2')"),
    ] {
        browser.eval("document.activeElement.blur()").await?;
        browser.press(key).await?;
        let is_open = format!("({on}.closest('details')?.open ?? true)");
        browser.expect(&format!("{on}.{is_there} && {is_open}")).await?;
    }
    let ticket = "name%3A%22support+ticket%22";
    visitor.open(&format!("/traces?q={ticket}")).await?;
    browser.click("tbody .name").await?;
    browser.wait_for("document.getElementById('pane-scores') !== null").await?;
    browser.press("w").await?;
    browser.expect(&format!("{on}.id === 'pane-scores'")).await?;
    // The link above the content leads there too, and leaves the history as it is.
    browser.eval("document.activeElement.blur()").await?;
    let before = browser.eval("[history.length, location.href]").await?;
    browser.click("[data-jumps]").await?;
    browser.expect(&format!("{on}.id === 'pane-scores'")).await?;
    ensure!(browser.eval("[history.length, location.href]").await? == before);
    visitor.assert_console_empty().await
}

/// Times are those of the reader's zone, nine hours ahead here; a key and the preferences make them UTC.
async fn shows_times_of_zones(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    browser.set_zone("Asia/Tokyo").await?;
    visitor.open("/traces").await?;
    let both = "(() => { const at = document.querySelector('#rows time'); return [at.textContent, at.title]; })()";
    let local = browser.eval(both).await?;
    ensure!(local[1].as_str().is_some_and(|utc| utc.ends_with("UTC")), "{local}");
    // A time of today has no date.
    let ahead = "(() => { const at = document.querySelector('#rows time'); \
        const [here, utc] = [at.textContent, at.title].map((text) => Number(/(\\d\\d):/.exec(text)[1])); \
        return (here - utc + 24) % 24; })()";
    browser.expect(&format!("{ahead} === 9")).await?;
    let head = |is| format!("document.querySelector('span[data-zone]').textContent {is} 'UTC'");
    browser.expect(&head("!==")).await?;
    let ago =
        "/^\\d+ (s|min|h) ago$/.test(document.querySelector('#rows time + .ago').textContent)";
    browser.expect(ago).await?;
    browser.press("T").await?;
    let utc = browser.eval(both).await?;
    ensure!(utc[0] == local[1] && utc[1] == local[0], "{utc}");
    browser.expect(&head("===")).await?;
    browser.press("T").await?;
    ensure!(browser.eval(both).await? == local);
    // Times are typed in the same zone; the address has the instant.
    visitor.open("/traces?from=2026-03-01T01:00:00Z").await?;
    let from = "document.querySelector('.focus [name=from]')";
    browser
        .expect(&format!(
            "{from}.value === '2026-03-01 10:00' && {from}.closest('label').textContent.trim() === 'From, local'"
        ))
        .await?;
    browser
        .eval(&format!(
            "((form) => {{ form.elements.to.value = '2026-12-01 09:00'; form.requestSubmit(); }})({from}.form)"
        ))
        .await?;
    browser
        .wait_for(
            "/from=2026-03-01T01%3A00%3A00Z&to=2026-12-01T00%3A00%3A00Z/.test(location.search)",
        )
        .await?;
    visitor.open("/preferences").await?;
    browser.click("[name=zone][value=utc]").await?;
    browser.click("form.card [type=submit]").await?;
    browser.wait_for("document.querySelector('[role=status].notice') !== null").await?;
    visitor.open("/traces").await?;
    browser.expect("document.querySelector('#rows time').title === ''").await?;
    browser.set_zone("UTC").await
}

async fn looks_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    // The rail, in this page and in the next one.
    let is_folded = "document.documentElement.dataset.rail === 'letters'";
    let keeps = |what| format!("document.getElementById('fold-rail').dataset.kept === '{what}'");
    browser.press("[").await?;
    browser.expect(is_folded).await?;
    browser.wait_for(&keeps("letters")).await?;
    visitor.open("/traces").await?;
    browser.expect(is_folded).await?;
    browser.expect("document.querySelector('.rail').offsetWidth < 60").await?;
    browser.press("[").await?;
    browser.expect(&format!("!({is_folded})")).await?;
    browser.wait_for(&keeps("names")).await?;
    visitor.open("/traces").await?;
    browser.expect(&format!("!({is_folded})")).await?;
    // The live part, until it is loaded again.
    let is_live = "document.getElementById('live').ariaPressed === 'true'";
    browser.expect(is_live).await?;
    browser.press("l").await?;
    visitor.open("/sessions").await?;
    browser.expect(&format!("!({is_live})")).await?;
    browser.press("l").await?;
    browser.expect(is_live).await?;
    shows_times_of_zones(visitor).await?;
    // The pane of a trace, by a key, by the divider, and in the next page.
    visitor.open("/traces?q=name%3A%22support+ticket%22").await?;
    browser.click("tbody .name").await?;
    let width = "document.getElementById('detail').offsetWidth";
    browser.wait_for("document.querySelector('.divider') !== null").await?;
    let usual = browser.eval(width).await?.as_f64().context("a width")?;
    browser.press("m").await?;
    let wide = browser.eval(width).await?.as_f64().context("a width")?;
    ensure!(1.3 * usual < wide, "{usual} px, then {wide} px");
    browser.eval("document.querySelector('.divider').focus()").await?;
    browser.press("\u{e014}").await?;
    let less = browser.eval(width).await?.as_f64().context("a width")?;
    ensure!(less < wide, "{wide} px, then {less} px");
    browser.client.refresh().await?;
    browser.wait_for(&format!("{width} === {less}")).await?;
    for _ in 0..4 {
        browser.eval("document.querySelector('.divider').focus()").await?;
        browser.press("\u{e014}").await?;
    }
    browser.expect("document.querySelector('.divider').ariaValueNow === '45'").await?;
    visitor.assert_console_empty().await
}

async fn acts_by_keys(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    browser.press(".").await?;
    browser
        .wait_for("document.querySelector('#hits [aria-label=\"On this page\"]') !== null")
        .await?;
    browser.press("hour").await?;
    let found =
        "Array.from(document.querySelectorAll('#hits bdi'), (one) => one.textContent).join()";
    browser
        .wait_for(&format!(
            "document.getElementById('hits').dataset.of === '> hour' && {found} === 'Time: 1 hour,Time: 24 hours'"
        ))
        .await?;
    browser.press("\u{e015}\u{e007}").await?;
    browser.wait_for("location.search === '?from=-1h'").await?;
    browser.press("t").await?;
    browser.click("[data-calendar=from]").await?;
    browser
        .eval(
            "(() => { const input = document.querySelector('[type=datetime-local]'); \
             input.value = '2026-03-01T10:00'; input.dispatchEvent(new Event('change')); })()",
        )
        .await?;
    browser
        .expect("document.querySelector('.focus [name=from]').value === '2026-03-01 10:00'")
        .await?;
    visitor.assert_console_empty().await
}

async fn leaves_by_keys(visitor: &Visitor) -> Result<()> {
    const ESCAPE: &str = "\u{e00c}";
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let on = "document.activeElement";
    // Suggestions first, then the field.
    let has_suggestions = "!document.getElementById('suggestions').hidden";
    browser.press("/lev").await?;
    let are_loaded = "document.getElementById('suggestions').dataset.of === 'lev'";
    browser.wait_for(&format!("{has_suggestions} && {are_loaded}")).await?;
    browser.press(ESCAPE).await?;
    browser.expect(&format!("!({has_suggestions}) && {on}.matches('[data-filter]')")).await?;
    browser.press(ESCAPE).await?;
    browser.expect(&format!("{on} === document.body")).await?;
    for (key, panel) in [("t", "focus"), ("E", "focus"), ("c", "picker")] {
        browser.press(key).await?;
        let is_open = format!("document.querySelector('details.{panel}').open");
        browser.expect(&is_open).await?;
        browser.press(ESCAPE).await?;
        browser.expect(&format!("!{is_open} && {on}.matches('.{panel} > summary')")).await?;
    }
    browser.click("details.project > summary").await?;
    browser.press(ESCAPE).await?;
    browser
        .expect(&format!(
            "!document.querySelector('details.project').open && {on}.matches('.project > summary')"
        ))
        .await?;
    visitor.assert_console_empty().await
}

async fn takes_what_is_certain(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    browser.press(".").await?;
    browser.press("30 d\u{e007}").await?;
    browser.wait_for("location.search === '?from=-30d'").await?;
    browser
        .eval("void dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))")
        .await?;
    browser.press("overv\u{e007}").await?;
    browser.wait_for("document.querySelector('h1').textContent === 'Overview'").await?;
    visitor.assert_console_empty().await
}

async fn goes_back(visitor: &Visitor) -> Result<()> {
    let browser = &visitor.browser;
    visitor.log_in().await?;
    visitor.open("/traces").await?;
    let fields = "(() => { const [q, sort] = ['q', 'sort'].map((name) => document.querySelector(`.filter [name=${name}]`)); \
        return { q, sort, usual: Array.from(sort.options).find((one) => one.defaultSelected) }; })()";
    browser
        .eval(&format!(
            "(() => {{ const {{ q, sort }} = {fields}; q.value = 'level:ERROR'; sort.value = '-latency'; q.form.requestSubmit(); }})()"
        ))
        .await?;
    browser.wait_for("location.search === '?q=level%3AERROR&sort=-latency'").await?;
    browser.eval("history.back()").await?;
    browser
        .wait_for(&format!(
            "(() => {{ if (location.search !== '') return false; \
             const {{ q, sort, usual }} = {fields}; return q.value === '' && sort.value === usual.value; }})()"
        ))
        .await?;
    visitor.assert_console_empty().await
}
