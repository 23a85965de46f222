//! Resources that the tests of one run share: servers, which take long to start, and browsers, one for each concurrent
//! test.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use tokio::runtime::Runtime;

use crate::browser::Browser;
use crate::server::Server;

/// One visitor: a server and a window.
#[derive(Debug)]
pub struct Visitor {
    /// The server.
    pub server: Arc<Server>,
    /// The browser.
    pub browser: Browser,
}

impl Visitor {
    /// Goes to a path of the server.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn open(&self, path: &str) -> Result<()> {
        let address = format!("{}{path}", self.server.origin);
        Ok(self.browser.client.goto(&address).await?)
    }

    /// Logs in with the key pair, which works any number of times.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn log_in(&self) -> Result<()> {
        self.open("/login").await?;
        let browser = &self.browser;
        if browser.text("h1").await? != "Log in" {
            return Ok(());
        }
        let (public_key, secret_key) = &self.server.keys;
        browser.fill("[name=public_key]", public_key).await?;
        browser.fill("[name=secret_key]", secret_key).await?;
        browser.click("form:has([name=secret_key]) button").await?;
        browser.wait_for("location.pathname.startsWith('/project/')").await
    }

    /// Fails when the console has anything to say: a script error, a refusal of the security policy, a file that
    /// did not load.
    ///
    /// # Errors
    /// When it is not empty.
    pub async fn assert_console_empty(&self) -> Result<()> {
        let messages = self.browser.console().await?;
        ensure!(messages.is_empty(), "the console says: {messages:#?}");
        Ok(())
    }
}

/// A server that is started at its first use. A failed start is not retried.
#[derive(Debug, Default)]
struct Lazy(Mutex<Option<Result<Arc<Server>, String>>>);

impl Lazy {
    fn get(&self, start: impl FnOnce() -> Result<Server>) -> Result<Arc<Server>> {
        let mut held = lock(&self.0);
        let started = held.get_or_insert_with(|| {
            let started = start().map(Arc::new);
            started.map_err(|error| format!("{error:#}"))
        });
        started.clone().map_err(anyhow::Error::msg)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server that a test uses.
#[derive(Clone, Copy, Debug)]
pub enum TestServer {
    /// `perpend demo`; tests only read from it.
    Demo,
    /// A server to which several tests write.
    Shared,
    /// An empty server of this test alone.
    Fresh,
}

/// The servers and browsers that tests share.
#[derive(Debug)]
pub struct Shared {
    runtime: Runtime,
    demo: Lazy,
    own: Lazy,
    idle: Mutex<Vec<Browser>>,
}

impl Shared {
    /// Starts nothing.
    ///
    /// # Errors
    /// When threads cannot be created.
    pub fn new() -> Result<Arc<Self>> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Ok(Arc::new(Self {
            runtime: runtime.worker_threads(2).enable_all().build()?,
            demo: Lazy::default(),
            own: Lazy::default(),
            idle: Mutex::default(),
        }))
    }

    /// A test with a visitor.
    pub fn test(
        self: &Arc<Self>,
        server_kind: TestServer,
        name: &str,
        story: impl AsyncFn(&Visitor) -> Result<()> + Send + 'static,
    ) -> Trial {
        let shared = Arc::clone(self);
        Trial::ignorable_test(name, move || {
            if !Browser::is_installed().map_err(failed)? {
                let why = "not run: chromium and chromedriver are not installed";
                return Ok(Completion::ignored_with(why));
            }
            shared.visit(server_kind, story).map_err(failed)?;
            Ok(Completion::Completed)
        })
    }

    fn visit(
        &self,
        server_kind: TestServer,
        story: impl AsyncFn(&Visitor) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let server = match server_kind {
            TestServer::Demo => self.demo.get(|| {
                let server = Server::demo()?;
                // Scores and executions do not change while tests look at them.
                self.runtime.block_on(server.evaluate_all())?;
                Ok(server)
            })?,
            TestServer::Shared => self.own.get(Server::empty)?,
            TestServer::Fresh => Arc::new(Server::empty()?),
        };
        let idle = lock(&self.idle).pop();
        self.runtime.block_on(async {
            let browser = match idle {
                Some(browser) => browser,
                None => Browser::open().await?,
            };
            browser.reset().await?;
            let visitor = Visitor { server, browser };
            // The browser of a failed test may be in any state and is not reused.
            if let Err(error) = story(&visitor).await {
                let address = visitor.browser.client.current_url().await;
                let address = address.map_or_else(|error| error.to_string(), |url| url.to_string());
                // Ending the driver alone would leave the browser running.
                let _ = visitor.browser.close().await;
                return Err(error).context(format!("at {address}"));
            }
            lock(&self.idle).push(visitor.browser);
            Ok(())
        })
    }

    /// Runs the tests and ends the shared servers and browsers.
    ///
    /// # Errors
    /// When a browser cannot be closed.
    pub fn run(self: Arc<Self>, tests: Vec<Trial>) -> Result<Conclusion> {
        let conclusion = libtest_mimic::run(&Arguments::from_args(), tests);
        for browser in lock(&self.idle).drain(..) {
            self.runtime.block_on(browser.close())?;
        }
        // The tests no longer hold references to the servers.
        drop(self);
        Ok(conclusion)
    }
}

fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}
