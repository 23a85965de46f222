//! From the printed address to a score and its origin.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use perpend_browser::{Browser, Shared, TestServer, Visitor};
use serde_json::Value;

pub(crate) fn all(shared: &Arc<Shared>) -> Vec<Trial> {
    let walk = |name: &str, look: &'static str| {
        shared
            .test(TestServer::Demo, name, async move |visitor: &Visitor| walk(visitor, look).await)
    };
    vec![
        walk("a_visitor_finds_the_scores_and_what_made_them_in_light_colours", "light"),
        walk("a_visitor_finds_the_scores_and_what_made_them_in_dark_colours", "dark"),
    ]
}

/// One visitor with a window.
struct Walk<'a> {
    visitor: &'a Visitor,
    browser: &'a Browser,
    look: &'static str,
}

impl Walk<'_> {
    async fn open(&self, path: &str) -> Result<()> {
        self.visitor.open(path).await
    }

    async fn picture(&self, name: &str) -> Result<()> {
        self.browser.picture(&format!("{name}-{}", self.look)).await
    }

    async fn assert_console_empty(&self) -> Result<()> {
        self.visitor.assert_console_empty().await
    }

    /// Without a session every page leads to the login form, which leads to the project.
    async fn logs_in(&self) -> Result<()> {
        let browser = self.browser;
        self.open("/rules").await?;
        ensure!(browser.text("h1").await? == "Log in");
        self.picture("login").await?;
        self.visitor.log_in().await?;
        let address = browser.client.current_url().await?;
        ensure!(
            address.path().starts_with("/project/") && address.query().is_none(),
            "landed on {address}"
        );
        ensure!(browser.eval("document.cookie").await? == "", "a script can read the session");
        let is_dark = browser.eval("matchMedia('(prefers-color-scheme: dark)').matches").await?;
        ensure!(is_dark == Value::Bool(self.look == "dark"));
        self.assert_console_empty().await
    }

    /// The list shows scores; the filter narrows it and keeps its text.
    async fn filters_the_list(&self) -> Result<()> {
        let browser = self.browser;
        ensure!(browser.text("h1").await? == "Overview");
        self.picture("overview").await?;
        browser.press("gt").await?;
        browser.wait_for("document.querySelectorAll('.traces tbody tr').length > 2").await?;
        let n_traces = browser.eval("document.querySelectorAll('.traces tbody tr').length").await?;
        ensure!(n_traces.as_u64() > Some(2), "{n_traces} traces");
        let n_chips = browser.eval("document.querySelectorAll('.chip').length").await?;
        ensure!(n_chips.as_u64() > Some(0), "no scores in the list");
        self.picture("traces").await?;
        self.assert_console_empty().await?;

        let name = browser.text(".traces tbody tr .name").await?;
        let quoted = Value::from(name.as_str());
        browser
            .eval(&format!(
                "document.querySelector('.filter [name=q]').value = 'name:' + JSON.stringify({quoted})"
            ))
            .await?;
        browser.click(".filter button").await?;
        browser.wait_for("location.search.includes('q=')").await?;
        let names = browser
            .eval("Array.from(document.querySelectorAll('.traces .name'), (a) => a.textContent.trim())")
            .await?;
        let names = names.as_array().context("names")?;
        ensure!(!names.is_empty() && names.iter().all(|found| *found == quoted), "{names:?}");
        let typed = browser.eval("document.querySelector('.filter [name=q]').value").await?;
        ensure!(typed.as_str().is_some_and(|typed| typed.contains(&name)));
        self.open("/traces?q=latncy%3A%3E2").await?;
        ensure!(browser.text("[role=alert]").await?.contains("latency"));
        self.open("/traces?q=userId%3Anobody-at-all").await?;
        ensure!(browser.text(".empty h2").await? == "No traces match");
        self.open("/traces").await
    }

    /// A trace is previewed next to the list, and the preview follows the selected row.
    async fn peeks_at_traces(&self) -> Result<()> {
        let browser = &self.browser;
        self.open("/traces?sort=latency").await?;
        self.press("j").await?;
        let press = |key: &str| {
            let event = format!(
                "new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}})"
            );
            format!("document.activeElement.dispatchEvent({event})")
        };
        browser.eval(&press("p")).await?;
        let marked = "document.querySelector('tr[aria-current] .name').textContent";
        let shown = "document.querySelector('#peek h2')?.textContent";
        let search = "new URL(document.querySelector('tr[aria-current] [data-peek]').href).search";
        let agrees = format!("{marked} === {shown} && location.search === {search}");
        browser.wait_for(&agrees).await?;
        let first = browser.eval("location.search").await?;
        // However quickly rows are passed by, the peek ends on the one that is marked.
        for _ in 0..3 {
            browser.eval(&press("j")).await?;
        }
        browser.wait_for(&agrees).await?;
        ensure!(browser.eval("location.search").await? != first, "the peek did not walk");
        let on = browser.eval("location.search").await?;
        browser.eval(&press("ArrowUp")).await?;
        browser.wait_for(&format!("{agrees} && location.search !== {on}")).await?;
        self.picture("peek").await?;
        browser.eval("(window.isOld = true, location.reload())").await?;
        browser.wait_for(&format!("!window.isOld && {agrees}")).await?;
        self.press("Escape").await?;
        let is_closed =
            "document.getElementById('peek').hidden && location.search === '?sort=latency'";
        browser.wait_for(is_closed).await?;
        // The head of the list stays in view over what is scrolled below it.
        browser.eval("void scrollTo(0, 0)").await?;
        browser.click("[data-peek]").await?;
        browser.wait_for(&agrees).await?;
        browser.click("#peek [data-close]").await?;
        browser.wait_for(is_closed).await?;
        self.assert_console_empty().await?;
        self.open("/traces").await
    }

    /// Presses a key on the page.
    async fn press(&self, key: &str) -> Result<()> {
        let event = format!(
            "new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}})"
        );
        let script = format!("document.body.dispatchEvent({event})");
        self.browser.eval(&script).await.map(drop)
    }

    /// The palette finds a rule by the beginning of its name, and arrows and Enter lead to it.
    async fn finds_from_the_palette(&self) -> Result<()> {
        let browser = &self.browser;
        self.open("/traces").await?;
        browser
            .eval("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true, cancelable: true}))")
            .await?;
        let field = "document.querySelector('#palette [role=combobox]')";
        browser
            .wait_for("document.getElementById('palette').open && document.querySelector('#hits [role=option]') !== null")
            .await?;
        browser.eval(&format!("{field}.value = 'polite'")).await?;
        let typed = "new Event('input', {bubbles: true})";
        browser.eval(&format!("{field}.dispatchEvent({typed})")).await?;
        browser
            .wait_for(
                "document.querySelector('#hits [role=option]')?.textContent.includes('polite')",
            )
            .await?;
        self.picture("palette").await?;
        let press = |key: &str| {
            format!(
                "{field}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}}))"
            )
        };
        browser.eval(&press("ArrowDown")).await?;
        let marked = format!(
            "document.getElementById({field}.getAttribute('aria-activedescendant'))?.ariaSelected"
        );
        ensure!(browser.eval(&marked).await? == "true", "no hit is marked");
        browser.eval(&press("Enter")).await?;
        browser.wait_for("location.pathname.includes('/evaluators/')").await?;
        self.assert_console_empty().await
    }

    /// A session is read turn by turn, with the picture in it; a text is found in a trace of 401 steps.
    async fn reads_a_session(&self) -> Result<()> {
        let browser = self.browser;
        self.open("/sessions").await?;
        self.picture("sessions").await?;
        self.open("/sessions/chat-noor").await?;
        let n_turns = "document.querySelectorAll('.turn').length";
        ensure!(browser.eval(n_turns).await? == 20);
        self.picture("session").await?;
        browser.click("a[rel=next]").await?;
        browser.wait_for("location.search.includes('turn=')").await?;
        self.open("/users/noor").await?;
        ensure!(browser.text("h1").await? == "noor");
        self.picture("user").await?;
        self.open("/traces?q=name%3A%22compare+suppliers%22").await?;
        browser.click(".traces .name").await?;
        browser.wait_for("document.querySelectorAll('[role=row]').length > 20").await?;
        self.picture("large-trace").await?;
        browser
            .eval("document.querySelector('.find input').value = 'supplier 18 delivers'")
            .await?;
        browser.click(".find button").await?;
        browser.wait_for("/hit/.test(document.querySelector('[data-place]')?.textContent)").await?;
        browser.click("#sought > a").await?;
        browser.wait_for("document.querySelectorAll('.hits li').length > 0").await?;
        ensure!(browser.text("mark").await?.to_lowercase() == "supplier 18 delivers");
        self.picture("find").await?;
        self.assert_console_empty().await
    }

    /// A trace is a tree with a bar on the time axis for each step; the keyboard goes through it.
    async fn walks_a_tree(&self) -> Result<()> {
        let browser = self.browser;
        let scored = "Array.from(document.querySelectorAll('.traces tbody tr')).find((tr) => tr.querySelector('.chip'))";
        browser.eval(&format!("{scored}.querySelector('.name').click()")).await?;
        browser
            .wait_for("document.querySelectorAll('[role=treegrid] .window [role=row]').length > 1")
            .await?;
        self.picture("trace").await?;
        let bars = "Array.from(document.querySelectorAll('.grid rect')).every((r) => r.getBoundingClientRect().width > 0)";
        ensure!(browser.eval(bars).await? == Value::Bool(true), "a step without a bar");
        ensure!(browser.text(".figures").await?.contains("Latency"));

        let press = |key: &str| {
            let event = format!(
                "new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}})"
            );
            format!("document.querySelector('[role=row][tabindex=\"0\"]').dispatchEvent({event})")
        };
        let n_shown = "document.querySelectorAll('.window > [role=row]').length";
        let n_rows = browser.eval(n_shown).await?;
        browser.eval(&press("Home")).await?;
        browser.eval(&press("ArrowDown")).await?;
        browser.eval(&press("ArrowLeft")).await?;
        browser.wait_for(&format!("{n_shown} === 1 && location.search.includes('fold=')")).await?;
        browser.eval(&press("ArrowRight")).await?;
        browser.wait_for(&format!("{n_shown} === {n_rows}")).await?;

        // However quickly steps are passed by, the pane shows the one that is marked.
        for _ in 0..4 {
            browser.eval(&press("j")).await?;
        }
        let marked = "document.querySelector('[role=row][aria-selected=true] .name').textContent";
        let shown = "document.querySelector('#detail h2').textContent";
        let is_selected = "location.search.includes('observation=')";
        let agrees = format!("{is_selected} && {marked} === {shown}");
        let is_announced = "document.getElementById('said').textContent !== ''";
        browser.wait_for(&format!("{agrees} && {is_announced}")).await?;
        browser.eval("history.back()").await?;
        browser.wait_for(&format!("!{is_selected} && {marked} === {shown}")).await?;
        self.assert_console_empty().await
    }

    /// A step with a score shows its origin; one without a score shows the reason.
    async fn finds_scores_and_reasons(&self) -> Result<()> {
        let browser = self.browser;
        let scored = "document.querySelector('.window .row .tag.score').closest('.row')";
        browser.eval(&format!("{scored}.click()")).await?;
        // Until the new pane is loaded, that of the previous step is shown, which may have scores too.
        browser
            .wait_for(&format!(
                "document.querySelector('#detail .card-score') !== null && \
                 document.querySelector('#detail h2').textContent === {scored}.querySelector('.name').textContent"
            ))
            .await?;
        // Its evaluator is shown at once, and the details are one click away.
        ensure!(browser.text("#detail .made > summary").await?.contains("version 1, rule"));
        browser.click("#detail .made > summary").await?;
        let detail = browser.text("#detail").await?;
        for needed in ["Evaluator", "version 1", "Fingerprint", "Execution", "Rule"] {
            ensure!(detail.contains(needed), "{needed} is missing in {detail}");
        }
        self.picture("score").await?;
        let bare = "Array.from(document.querySelectorAll('.window .row')).find((row) => !row.querySelector('.tag.score'))";
        browser.eval(&format!("{bare}.click()")).await?;
        // The pane of the step before may stand there until the new one comes.
        let is_there = "document.querySelector('#detail .verdict') !== null \
            && document.querySelector('#detail .card-score') === null";
        browser.wait_for(is_there).await?;
        let why = browser.eval("document.querySelector('#detail .verdict p').textContent").await?;
        ensure!(why.as_str().is_some_and(|why| !why.is_empty()), "{why}");
        self.picture("reason").await?;
        self.open("/rules").await?;
        ensure!(browser.text("h1").await? == "Rules");
        self.picture("rules").await?;
        self.assert_console_empty().await
    }

    /// An address that leads nowhere is a page too; logging out ends the session.
    async fn leaves(&self) -> Result<()> {
        let browser = self.browser;
        self.open("/traces/none").await?;
        ensure!(browser.text("h1").await? == "Not found");
        self.picture("not-found").await?;
        self.open("/traces").await?;
        browser.click(".who button").await?;
        browser.wait_for("location.pathname === '/login'").await?;
        self.open("/traces").await?;
        ensure!(browser.text("h1").await? == "Log in");
        Ok(())
    }
}

async fn walk(visitor: &Visitor, look: &'static str) -> Result<()> {
    visitor.browser.prefer(look).await?;
    let walk = Walk { visitor, browser: &visitor.browser, look };
    walk.logs_in().await?;
    walk.filters_the_list().await?;
    walk.peeks_at_traces().await?;
    walk.finds_from_the_palette().await?;
    walk.open("/traces").await?;
    walk.walks_a_tree().await?;
    walk.finds_scores_and_reasons().await?;
    walk.reads_a_session().await?;
    walk.leaves().await
}
