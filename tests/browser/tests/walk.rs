//! A visitor's way: from the printed address to a score and what is behind it.

use anyhow::{Context, Result, ensure};
use perpend_browser::{Browser, Server};
use serde_json::Value;

/// One visitor with a window.
struct Visitor<'a> {
    server: &'a Server,
    browser: Browser,
    look: &'static str,
}

impl Visitor<'_> {
    async fn open(&self, path: &str) -> Result<()> {
        Ok(self
            .browser
            .client
            .goto(&format!("{}{path}", self.server.origin))
            .await?)
    }

    async fn picture(&self, name: &str) -> Result<()> {
        self.browser.picture(&format!("{name}-{}", self.look)).await
    }

    /// Fails when the console has anything to say: a script error, a refusal of the security policy, a
    /// file that did not load.
    async fn assert_quiet(&self) -> Result<()> {
        let said = self.browser.console().await?;
        ensure!(said.is_empty(), "the console says: {said:#?}");
        Ok(())
    }

    /// Without a session every page leads to the login form; the printed address logs in and leaves no
    /// token behind.
    async fn logs_in(&self) -> Result<()> {
        let browser = &self.browser;
        self.open("/rules").await?;
        ensure!(browser.text("h1").await? == "Log in");
        self.picture("login").await?;
        browser.client.goto(&self.server.login_url).await?;
        let address = browser.client.current_url().await?;
        ensure!(
            address.as_str() == format!("{}/traces", self.server.origin),
            "landed on {address}"
        );
        ensure!(
            browser.eval("document.cookie").await? == "",
            "a script can read the session"
        );
        let is_dark = browser
            .eval("matchMedia('(prefers-color-scheme: dark)').matches")
            .await?;
        ensure!(is_dark == Value::Bool(self.look == "dark"));
        self.assert_quiet().await
    }

    /// The list shows scores; the filter narrows it and stays filled in.
    async fn filters_the_list(&self) -> Result<()> {
        let browser = &self.browser;
        let n_traces = browser
            .eval("document.querySelectorAll('.traces tbody tr').length")
            .await?;
        ensure!(n_traces.as_u64() > Some(2), "{n_traces} traces");
        let n_chips = browser
            .eval("document.querySelectorAll('.chip').length")
            .await?;
        ensure!(n_chips.as_u64() > Some(0), "no scores in the list");
        self.picture("traces").await?;
        self.assert_quiet().await?;

        let name = browser.text(".traces tbody tr .name").await?;
        let quoted = Value::from(name.as_str());
        browser
            .eval(&format!(
                "document.querySelector('[name=name]').value = {quoted}"
            ))
            .await?;
        browser.click(".filter button").await?;
        browser
            .wait_for("location.search.includes('name=')")
            .await?;
        let names = browser
            .eval("Array.from(document.querySelectorAll('.traces .name'), (a) => a.textContent.trim())")
            .await?;
        let names = names.as_array().context("names")?;
        ensure!(
            !names.is_empty() && names.iter().all(|found| *found == quoted),
            "{names:?}"
        );
        ensure!(
            browser
                .eval("document.querySelector('[name=name]').value")
                .await?
                == name
        );
        self.open("/traces?latency=fast").await?;
        ensure!(browser.text("[role=alert]").await?.starts_with("Latency"));
        // The console reports the status of that answer, 400, which is meant.
        browser.console().await?;
        self.open("/traces?user=nobody-at-all").await?;
        ensure!(browser.text(".empty h2").await? == "No trace fits these conditions");
        self.open("/traces").await
    }

    /// A trace is a tree with a bar on the time axis for each step; the keyboard goes through it.
    async fn walks_a_tree(&self) -> Result<()> {
        let browser = &self.browser;
        let scored = "Array.from(document.querySelectorAll('.traces tbody tr')).find((tr) => tr.querySelector('.chip'))";
        browser
            .eval(&format!("{scored}.querySelector('.name').click()"))
            .await?;
        browser
            .wait_for("document.querySelectorAll('[role=treeitem]').length > 1")
            .await?;
        self.picture("trace").await?;
        let bars = "Array.from(document.querySelectorAll('.tree rect')).every((r) => r.getBoundingClientRect().width > 0)";
        ensure!(
            browser.eval(bars).await? == Value::Bool(true),
            "a step without a bar"
        );
        ensure!(browser.text(".figures").await?.contains("Latency"));

        let press = |key: &str| {
            let event = format!("new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})");
            format!(
                "document.querySelector('[role=treeitem][tabindex=\"0\"]').dispatchEvent({event})"
            )
        };
        let n_shown = "document.querySelectorAll('[role=treeitem]:not([hidden])').length";
        let n_rows = browser.eval(n_shown).await?;
        browser.eval(&press("Home")).await?;
        browser.eval(&press("ArrowLeft")).await?;
        ensure!(browser.eval(n_shown).await? == 1, "the tree does not fold");
        browser.eval(&press("ArrowRight")).await?;
        ensure!(
            browser.eval(n_shown).await? == n_rows,
            "the tree does not unfold"
        );
        self.assert_quiet().await
    }

    /// The step with a score shows what made it, one without says why.
    async fn finds_scores_and_reasons(&self) -> Result<()> {
        let browser = &self.browser;
        browser
            .eval("document.querySelector('.tree .row .tag.score').closest('.row').click()")
            .await?;
        browser
            .wait_for("document.querySelector('#detail .card-score') !== null")
            .await?;
        let detail = browser.text("#detail").await?;
        for needed in ["Evaluator", "version 1", "Fingerprint", "Execution", "Rule"] {
            ensure!(detail.contains(needed), "{needed} is missing in {detail}");
        }
        self.picture("score").await?;
        let bare = "Array.from(document.querySelectorAll('.tree .row')).find((row) => !row.querySelector('.tag.score'))";
        browser.eval(&format!("{bare}.click()")).await?;
        browser
            .wait_for("document.querySelector('#detail .verdict') !== null")
            .await?;
        ensure!(!browser.text("#detail .verdict p").await?.is_empty());
        self.picture("reason").await?;
        self.open("/rules").await?;
        ensure!(browser.text("h1").await? == "Evaluation");
        self.picture("rules").await?;
        self.assert_quiet().await
    }

    /// An address that leads nowhere is a page too; logging out ends the session.
    async fn leaves(&self) -> Result<()> {
        let browser = &self.browser;
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

async fn walk(server: &Server, look: &'static str) -> Result<()> {
    let Some(browser) = Browser::open(look == "dark").await? else {
        return Ok(());
    };
    let visitor = Visitor {
        server,
        browser,
        look,
    };
    visitor.logs_in().await?;
    visitor.filters_the_list().await?;
    visitor.walks_a_tree().await?;
    visitor.finds_scores_and_reasons().await?;
    visitor.leaves().await?;
    visitor.browser.close().await
}

#[tokio::test]
async fn a_visitor_finds_the_scores_and_what_made_them() -> Result<()> {
    let server = Server::demo()?;
    walk(&server, "light").await?;
    walk(&server, "dark").await
}
