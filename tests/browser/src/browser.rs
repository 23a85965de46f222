//! A browser window, driven through chromedriver.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::wd::TimeoutConfiguration;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::driver::{ConsoleLog, Protocol};
use crate::patience::PATIENCE;
use crate::process::Process;

/// Attempts to open a window.
const ATTEMPTS: u32 = 5;
/// Between two evaluations of an expression until it is true. The interval doubles, because each evaluation takes time
/// from the page.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(160);
/// Set to `require`, a missing browser is a failure.
pub(crate) const REQUIRE: &str = "PERPEND_TEST_BROWSER";

/// Whether this run may leave nothing out.
#[must_use]
pub fn is_required() -> bool {
    std::env::var_os(REQUIRE).is_some_and(|value| value == "require")
}

/// A browser window.
#[derive(Debug)]
pub struct Browser {
    /// The driver's client.
    pub client: Client,
    _driver: Process,
    _profile: TempDir,
}

impl Browser {
    /// Whether a driver is installed.
    ///
    /// # Errors
    /// When a driver is required and not installed.
    pub fn is_installed() -> Result<bool> {
        let mut command = Command::new("chromedriver");
        let is_there = command.arg("--version").stdout(Stdio::null()).status();
        let is_there = is_there.is_ok();
        ensure!(is_there || !is_required(), "chromedriver is not installed, and {REQUIRE}=require");
        Ok(is_there)
    }

    /// A window with an empty profile. The driver gives up after a minute, which a busy machine may need.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn open() -> Result<Self> {
        let mut opened = Self::start().await;
        for _ in 1..ATTEMPTS {
            if opened.is_ok() {
                break;
            }
            opened = Self::start().await;
        }
        opened
    }

    async fn start() -> Result<Self> {
        let mut command = Command::new("chromedriver");
        let driver =
            Process::start(command.arg("--port=0"), |line| line.contains("successfully on port "))?;
        let port = driver.output.rsplit("on port ").next().unwrap_or_default();
        let port = port.trim_end().trim_end_matches('.').to_owned();
        let profile = tempfile::tempdir()?;
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1440,1000",
        ];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let Value::Object(capabilities) = capabilities else {
            bail!("capabilities are an object");
        };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let address = format!("http://127.0.0.1:{port}");
        let connecting = builder.capabilities(capabilities).connect(&address);
        let client = connecting.await.context("a browser window")?;
        let script = TimeoutConfiguration::new(Some(PATIENCE), Some(PATIENCE), None);
        client.update_timeouts(script).await?;
        Ok(Self { client, _driver: driver, _profile: profile })
    }

    /// A command of the DevTools protocol.
    ///
    /// # Errors
    /// When the browser refuses it.
    pub async fn protocol(&self, command: &'static str, parameters: Value) -> Result<Value> {
        let done = self.client.issue_cmd(Protocol(command, parameters)).await;
        done.context(command)
    }

    /// The size of what pages see, in CSS pixels, whatever a window may be.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = "Emulation.setDeviceMetricsOverride";
        self.protocol(command, size).await.map(drop)
    }

    /// Waits until the page is painted twice, after which scripts that observe its size have run.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn paint(&self) -> Result<()> {
        let twice = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
        self.eval(twice).await.map(drop)
    }

    /// The colours that a person prefers. They change at once: nothing moves on the way.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn prefer(&self, scheme: &str) -> Result<()> {
        self.emulate("", scheme).await
    }

    /// Shows pages as they are printed, until colours are preferred again.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn print(&self, scheme: &str) -> Result<()> {
        self.emulate("print", scheme).await
    }

    async fn emulate(&self, media: &str, scheme: &str) -> Result<()> {
        let media = json!({ "media": media, "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.protocol("Emulation.setEmulatedMedia", media).await.map(drop)
    }

    /// Enables or disables scripts of pages. Expressions of tests run in either case.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn allow_scripts(&self, is_allowed: bool) -> Result<()> {
        let command = "Emulation.setScriptExecutionDisabled";
        self.protocol(command, json!({ "value": !is_allowed })).await.map(drop)
    }

    /// The time zone of the reader.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn set_zone(&self, zone: &str) -> Result<()> {
        let command = "Emulation.setTimezoneOverride";
        self.protocol(command, json!({ "timezoneId": zone })).await.map(drop)
    }

    /// How long each request takes at least, in milliseconds.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn slow_down(&self, latency: u32) -> Result<()> {
        self.protocol("Network.enable", json!({})).await?;
        let conditions = json!({
            "offline": false, "latency": latency, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        self.protocol("Network.emulateNetworkConditions", conditions).await.map(drop)
    }

    /// Resets the window: no session, no emulation except of the time zone UTC, an empty console.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn reset(&self) -> Result<()> {
        self.client.goto("about:blank").await?;
        self.protocol("Network.clearBrowserCookies", json!({})).await?;
        self.slow_down(0).await?;
        self.allow_scripts(true).await?;
        self.prefer("light").await?;
        self.set_zone("UTC").await?;
        self.resize(1440, 1000).await?;
        self.console().await.map(drop)
    }

    /// The text of the first element that fits a selector, as it is shown.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let found = self.client.find(Locator::Css(selector)).await;
        Ok(found.with_context(|| selector.to_owned())?.text().await?)
    }

    /// The value of a script expression; a promise is awaited.
    ///
    /// # Errors
    /// When the script fails.
    pub async fn eval(&self, expression: &str) -> Result<Value> {
        let result = self.client.execute(&format!("return {expression};"), Vec::new()).await;
        result.with_context(|| expression.to_owned())
    }

    /// Fails when a script expression is not true.
    ///
    /// # Errors
    /// When it is anything else.
    pub async fn expect(&self, expression: &str) -> Result<()> {
        let found = self.eval(expression).await?;
        ensure!(found == Value::Bool(true), "{found}: {expression}");
        Ok(())
    }

    /// Clicks the first matching element.
    ///
    /// # Errors
    /// When no element matches, or it cannot be clicked.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let found = self.client.find(Locator::Css(selector)).await;
        Ok(found.with_context(|| selector.to_owned())?.click().await?)
    }

    /// Replaces the value of the first matching element by typing.
    ///
    /// # Errors
    /// When no element matches.
    pub async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let found = self.client.find(Locator::Css(selector)).await;
        let found = found.with_context(|| selector.to_owned())?;
        found.clear().await?;
        Ok(found.send_keys(text).await?)
    }

    /// Presses keys one after the other, as a person does: without a pause, and wherever the focus is.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in keys.chars() {
            actions = actions.then(KeyAction::Down { value });
            actions = actions.then(KeyAction::Up { value });
        }
        Ok(self.client.perform_actions(actions).await?)
    }

    /// Presses keys together: the first ones are held while the others go down.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn chord(&self, keys: &str) -> Result<()> {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in keys.chars() {
            actions = actions.then(KeyAction::Down { value });
        }
        for value in keys.chars().rev() {
            actions = actions.then(KeyAction::Up { value });
        }
        Ok(self.client.perform_actions(actions).await?)
    }

    /// Waits until the page is loaded and a script expression is true.
    ///
    /// # Errors
    /// When it does not become true; the error contains the text of the page.
    pub async fn wait_for(&self, expression: &str) -> Result<()> {
        let loaded = format!("document.readyState === 'complete' && ({expression})");
        let started = Instant::now();
        let mut interval = MIN_POLL_INTERVAL;
        while started.elapsed() < PATIENCE {
            if self.eval(&loaded).await? == Value::Bool(true) {
                return Ok(());
            }
            tokio::time::sleep(interval).await;
            interval = (2 * interval).min(MAX_POLL_INTERVAL);
        }
        let shown = "document.querySelector('main')?.innerText.slice(0, 4000)";
        let shown = self.eval(shown).await?;
        let shown = shown.as_str().unwrap_or_default();
        bail!("did not become true: {expression}\nThe page shows:\n{shown}")
    }

    /// The console messages since the last call: errors, and violations of the security policy.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn console(&self) -> Result<Vec<String>> {
        let entries = self.client.issue_cmd(ConsoleLog).await?;
        let entries = entries.as_array().context("a list of entries")?;
        Ok(entries.iter().map(|entry| entry["message"].to_string()).collect())
    }

    /// Writes a screenshot into the folder named by `PERPEND_TEST_SCREENSHOTS`, if it is set.
    ///
    /// # Errors
    /// When the picture cannot be taken or written.
    pub async fn picture(&self, name: &str) -> Result<()> {
        if let Some(folder) = std::env::var_os("PERPEND_TEST_SCREENSHOTS") {
            let png = self.client.screenshot().await?;
            std::fs::create_dir_all(&folder)?;
            std::fs::write(PathBuf::from(folder).join(format!("{name}.png")), png)?;
        }
        Ok(())
    }

    /// Closes the window.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}
