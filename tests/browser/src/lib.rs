//! A browser to drive, and the server it looks at: Debian's chromium through chromedriver, and the `perpend`
//! program itself with its demonstration data.
//!
//! A machine without chromedriver leaves the walk out and says so; with `PERPEND_TEST_BROWSER=require` it
//! fails instead.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Set to `require`, a missing browser is a failure.
const REQUIRE: &str = "PERPEND_TEST_BROWSER";
/// How long a process may take until it says that it is ready, and a page until it shows something. It ends
/// a walk that hangs, on the slowest machine too.
const PATIENCE: Duration = Duration::from_secs(300);

/// A child process that is ended with this value.
#[derive(Debug)]
struct Process {
    child: Child,
    /// The line that was waited for.
    line: String,
}

impl Process {
    /// Starts a program and waits for the line of its standard output that `is_ready` takes.
    fn start(command: &mut Command, is_ready: fn(&str) -> bool) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("standard output")?;
        let (send, lines) = mpsc::channel();
        // Reads on to the end, so that the program never waits for a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if is_ready(&line) {
                    let _ = send.send(line);
                }
            }
        });
        let line = lines.recv_timeout(PATIENCE);
        let mut process = Self {
            child,
            line: String::new(),
        };
        process.line = line.with_context(|| format!("{command:?} did not become ready"))?;
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM lets the server stop its workers; chromedriver its browser.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    _data: TempDir,
    /// The address that logs in.
    pub login_url: String,
    /// Scheme, host and port.
    pub origin: String,
}

impl Server {
    /// The key pair of the server without data.
    pub const KEYS: (&'static str, &'static str) = ("pk-lf-walk", "sk-lf-walk");

    /// Starts `perpend demo` and waits for its address.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn demo() -> Result<Self> {
        let mut command = Command::new(perpend_it::program()?);
        command.arg("demo");
        Self::start(command)
    }

    /// Starts `perpend serve` on a fresh database, with [`Server::KEYS`].
    ///
    /// # Errors
    /// When it does not come up.
    pub fn empty() -> Result<Self> {
        let mut command = Command::new(perpend_it::program()?);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        // What tests are told by variables is no setting of the server.
        command.env_clear();
        command.env("PERPEND_INIT_PUBLIC_KEY", Self::KEYS.0);
        command.env("PERPEND_INIT_SECRET_KEY", Self::KEYS.1);
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self> {
        let data = tempfile::tempdir()?;
        command.arg("--data-dir").arg(data.path());
        let process = Process::start(&mut command, |line| line.contains("/?token="))?;
        let found = process
            .line
            .split_whitespace()
            .find(|word| word.contains("/?token="));
        let login_url = found.context("the login address")?.to_owned();
        let (origin, _) = login_url.split_once("/?").context("the origin")?;
        Ok(Self {
            origin: origin.to_owned(),
            login_url,
            _process: process,
            _data: data,
        })
    }
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
    /// A window, in dark colours if wanted; `None` where there is no browser and none is required.
    ///
    /// # Errors
    /// When there is one that does not start, or none though one is required.
    pub async fn open(is_dark: bool) -> Result<Option<Self>> {
        if Command::new("chromedriver")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            ensure!(
                std::env::var_os(REQUIRE).is_none_or(|value| value != "require"),
                "chromedriver is not installed, and {REQUIRE}=require"
            );
            perpend_it::left_out("the walk through the pages needs chromium and chromedriver");
            return Ok(None);
        }
        let mut command = Command::new("chromedriver");
        let driver = Process::start(command.arg("--port=0"), |line| {
            line.contains("successfully on port ")
        })?;
        let port = driver.line.rsplit("on port ").next().unwrap_or_default();
        let port = port.trim_end_matches('.').to_owned();
        let profile = tempfile::tempdir()?;
        let mut args = vec![
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--window-size=1440,1000".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if is_dark {
            args.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
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
        Ok(Some(Self {
            client,
            _driver: driver,
            _profile: profile,
        }))
    }

    /// The text of the first element that fits a selector, as it is shown.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let found = self.client.find(Locator::Css(selector)).await;
        Ok(found.with_context(|| selector.to_owned())?.text().await?)
    }

    /// The value of a script expression.
    ///
    /// # Errors
    /// When the script fails.
    pub async fn eval(&self, expression: &str) -> Result<Value> {
        let result = self
            .client
            .execute(&format!("return {expression};"), Vec::new())
            .await;
        result.with_context(|| expression.to_owned())
    }

    /// Clicks on the first element that fits.
    ///
    /// # Errors
    /// When there is none, or it cannot be clicked.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let found = self.client.find(Locator::Css(selector)).await;
        Ok(found.with_context(|| selector.to_owned())?.click().await?)
    }

    /// Waits until the page is loaded and a script expression is true.
    ///
    /// # Errors
    /// When it does not become true.
    pub async fn wait_for(&self, expression: &str) -> Result<()> {
        let loaded = format!("document.readyState === 'complete' && ({expression})");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.eval(&loaded).await? == Value::Bool(true) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("did not become true: {expression}")
    }

    /// What the console has gathered since the last call: errors, refusals of the security policy.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn console(&self) -> Result<Vec<String>> {
        let entries = self.client.issue_cmd(ConsoleLog).await?;
        let entries = entries.as_array().context("a list of entries")?;
        Ok(entries
            .iter()
            .map(|entry| entry["message"].to_string())
            .collect())
    }

    /// Writes what the window shows into the folder named by `PERPEND_TEST_SCREENSHOTS`, if it is set.
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

/// chromedriver's own command for the console.
#[derive(Debug)]
struct ConsoleLog;

impl WebDriverCompatibleCommand for ConsoleLog {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (
            http::Method::POST,
            Some(json!({ "type": "browser" }).to_string()),
        )
    }
}
