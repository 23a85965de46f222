//! A server for end-to-end tests: in process on a real port with its own database, or as a child
//! process that can be killed.

mod child;
pub mod raw;
mod spans;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::http::Method;
use perpend_broker::ComponentFolder;
use perpend_config::{Config, Sources};
use perpend_db::Breakpoints;
use perpend_domain::time::{Clock, Timestamp};
use perpend_server::client::{Answer, Client};
use perpend_server::{App, RandomIds, Server, Setup, SystemClock};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use child::{Child, command, origin_in, program};

pub use spans::{Trace, protobuf, trace_id};

/// Key pair of the first project.
pub const KEYS: (&str, &str) = ("pk-test", "sk-test");
/// Key pair of its organization.
pub const ORGANIZATION_KEYS: (&str, &str) = ("pk-test-org", "sk-test-org");
/// Path of the ingestion of traces.
pub const OTLP: &str = "/api/public/otel/v1/traces";
/// The setting with which evaluators run in worker processes, as in production.
pub const PROCESSES: (&str, &str) = ("evaluation.isolation", "process");
/// Longest wait for a condition. It ends tests that hang; no assertion depends on it.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The system's clock, advanced by tests.
#[derive(Debug, Default)]
pub struct TestClock {
    ahead_ms: AtomicI64,
    stopped: OnceLock<Timestamp>,
}

impl TestClock {
    /// The system's clock, ahead by a duration.
    #[must_use]
    pub fn ahead(by: Duration) -> Self {
        let clock = Self::default();
        clock.advance(by);
        clock
    }

    /// A clock that is stopped until a test advances it.
    #[must_use]
    pub fn stopped_at(time: Timestamp) -> Self {
        Self { stopped: OnceLock::from(time), ..Self::default() }
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Stops the clock: from now on only [`TestClock::advance`] moves it.
    pub fn stop(&self) {
        self.stopped.get_or_init(|| SystemClock.now());
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = self.stopped.get().copied();
        let now = now.unwrap_or_else(|| SystemClock.now());
        now.plus_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

/// A server in this process.
#[derive(Debug)]
pub struct TestApp {
    /// State of the server.
    pub app: App,
    /// Clock of the server.
    pub clock: Arc<TestClock>,
    /// Client with the key pair of the first project.
    pub client: Client,
    /// Scheme, host and port.
    pub origin: String,
    shutdown: CancellationToken,
    serving: Option<JoinHandle<anyhow::Result<()>>>,
    data: PathBuf,
    /// The data directory, if it is deleted with the server.
    temporary: Option<tempfile::TempDir>,
}

/// A server in this process that is not running yet.
async fn open(
    data: &Path,
    settings: &[(&'static str, &str)],
    clock: Arc<TestClock>,
    stops: Breakpoints,
) -> anyhow::Result<Server> {
    let dir = data.display().to_string();
    let cache = plugin_cache()?.display().to_string();
    let mut flags = vec![
        ("data.plugin_cache", cache),
        ("server.listen", "127.0.0.1:0".to_owned()),
        ("data.dir", dir),
        // Far longer than any wait on a slow machine.
        ("database.wait_seconds", "60".to_owned()),
        ("answers.timeout_seconds", "600".to_owned()),
        ("evaluation.isolation", "in-process".to_owned()),
        ("init.public_key", KEYS.0.to_owned()),
        ("init.secret_key", KEYS.1.to_owned()),
        ("init.org_public_key", ORGANIZATION_KEYS.0.to_owned()),
        ("init.org_secret_key", ORGANIZATION_KEYS.1.to_owned()),
    ];
    flags.extend(settings.iter().map(|(key, value)| (*key, (*value).to_owned())));
    let config = Config::load(&Sources { flags, ..Sources::default() })?;
    Server::open(Setup {
        config,
        clock,
        ids: Arc::new(RandomIds),
        program: match settings.contains(&PROCESSES) {
            true => child::program()?,
            false => std::env::current_exe()?,
        },
        bundle: perpend_plugins_bundle::BUNDLE,
        components: ComponentFolder::of_installation(&child::program_path()?),
        show: |_| (),
        stops,
    })
    .await
}

/// Writes the files of a server that was started once with the default settings. They are created once per process: a
/// first start takes longer than most tests.
async fn copy_first_start(data: &Path) -> anyhow::Result<()> {
    static FILES: OnceCell<[(&str, Vec<u8>); 2]> = OnceCell::const_new();
    let files = FILES.get_or_try_init(async || {
        let data = tempfile::tempdir()?;
        let started = open(data.path(), &[], Arc::default(), Breakpoints::default());
        let server = Box::pin(started).await?;
        server.app.store.close().await;
        let file = |name: &'static str| anyhow::Ok((name, std::fs::read(data.path().join(name))?));
        Ok::<_, anyhow::Error>([file("perpend.db")?, file("secrets.key")?])
    });
    for (name, content) in files.await? {
        let path = data.join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

impl TestApp {
    /// A server with the default settings.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn new() -> anyhow::Result<Self> {
        Self::with(&[]).await
    }

    /// A server with these settings, by key.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn with(settings: &[(&'static str, &str)]) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let changes_first_start = |(key, _): &(&str, &str)| {
            *key == "database.url" || key.starts_with("init.") || key.starts_with("secrets.")
        };
        if !settings.iter().any(changes_first_start) {
            copy_first_start(data.path()).await?;
        }
        let clock = TestClock::default();
        let mut app = Self::in_dir(data.path(), settings, clock, Breakpoints::default()).await?;
        app.temporary = Some(data);
        Ok(app)
    }

    /// A server on a directory that is kept, with its own clock, whose transactions stop at the breakpoints `stops`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn in_dir(
        data: &Path,
        settings: &[(&'static str, &str)],
        clock: TestClock,
        stops: Breakpoints,
    ) -> anyhow::Result<Self> {
        let clock = Arc::new(clock);
        let server = open(data, settings, Arc::clone(&clock), stops).await?;
        let (app, origin) = (server.app.clone(), server.origin());
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(server.run(shutdown.clone()));
        Ok(Self {
            app,
            clock,
            client: Client::new(&origin).with_keys(KEYS.0, KEYS.1).with_timeout(PATIENCE),
            origin,
            shutdown,
            serving: Some(serving),
            data: data.to_owned(),
            temporary: None,
        })
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// A client without credentials.
    #[must_use]
    pub fn anonymous(&self) -> Client {
        Client::new(&self.origin).with_timeout(PATIENCE)
    }

    /// A client with the key pair of the organization.
    #[must_use]
    pub fn organizer(&self) -> Client {
        let (public, secret) = ORGANIZATION_KEYS;
        Client::new(&self.origin).with_keys(public, secret).with_timeout(PATIENCE)
    }

    /// Creates a second project in an organization of its own, whose key pair is `pk-other-org` and `sk-other-org`.
    /// Returns a client with the key pair of the project.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn other_project(&self) -> anyhow::Result<Client> {
        let init = perpend_config::Init {
            public_key: Some("pk-other".to_owned()),
            secret_key: Some("sk-other".to_owned()),
            org_public_key: Some("pk-other-org".to_owned()),
            org_secret_key: Some("sk-other-org".to_owned()),
            project_name: "Other".to_owned(),
            org_name: "Other".to_owned(),
            ..perpend_config::Init::default()
        };
        let now = self.clock.now();
        perpend_server::first_start(&self.app.store, &init, &RandomIds, now, |_| ()).await?;
        let client = Client::new(&self.origin).with_keys("pk-other", "sk-other");
        Ok(client.with_timeout(PATIENCE))
    }

    /// Sends a trace as OTLP/JSON and expects 200.
    ///
    /// # Errors
    /// When it is not accepted.
    pub async fn ingest(&self, trace: &Trace) -> anyhow::Result<()> {
        let answer = self.client.json(Method::POST, OTLP, &trace.to_json()).await?;
        anyhow::ensure!(answer.status == 200, "{} {}", answer.status, answer.text());
        Ok(())
    }

    /// Creates an evaluator from a plug-in and returns its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn evaluator(&self, plugin: &str, id: &str, config: Value) -> anyhow::Result<String> {
        let body = json!({
            "type": "plugin", "name": id, "plugin": plugin, "evaluator": id, "config": config,
        });
        self.make("/api/public/v2/evaluators", &body).await
    }

    /// Creates an enabled rule without delay and with a unique name, and returns its id; `more` are further members.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn rule(&self, evaluator: &str, more: Value) -> anyhow::Result<String> {
        let mut body = json!({
            "name": format!("rule {}", self.app.web.ids.uuid()), "enabled": true, "settleMs": 0,
            "evaluatorAssignments": [{ "evaluatorId": evaluator }],
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        self.make("/api/public/v2/evaluation-rules", &body).await
    }

    async fn make(&self, path: &str, body: &Value) -> anyhow::Result<String> {
        let made = self.client.json(Method::POST, path, body).await?;
        anyhow::ensure!(made.status == 200, "{path}: {} {}", made.status, made.text());
        Ok(made.json()["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Requests `path` until `done` returns true, at most for [`PATIENCE`].
    ///
    /// # Errors
    /// When it does not; the message has the last response.
    pub async fn wait_for(
        &self,
        path: &str,
        done: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        wait_for(&self.client, path, done).await
    }

    /// The scores, once there are at least `n`.
    ///
    /// # Errors
    /// When there are fewer after [`PATIENCE`].
    pub async fn scores(&self, n: usize) -> anyhow::Result<Vec<Value>> {
        let path = "/api/public/v3/scores?fields=details,subject&limit=100";
        let answer = self.wait_for(path, |answer| count(answer) >= n).await?;
        Ok(answer["data"].as_array().cloned().unwrap_or_default())
    }

    /// Stops the server like SIGTERM and waits for its end.
    ///
    /// # Errors
    /// When it failed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        match self.serving.take() {
            Some(serving) => serving.await?,
            None => Ok(()),
        }
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Cache of compiled plug-ins, shared by the servers of all tests.
pub(crate) fn plugin_cache() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("it-plugin-cache"))
}

/// Reports that a test, or a part of it, did not run. Written to stderr directly, because the output of passing tests is captured.
pub fn left_out(why: &str) {
    let _ = writeln!(std::io::stderr().lock(), "not run: {why}");
}

/// Number of elements of `data`.
#[must_use]
pub fn count(answer: &Value) -> usize {
    answer["data"].as_array().map_or(0, Vec::len)
}

/// Requests `path` until `done` returns true, at most for [`PATIENCE`].
///
/// # Errors
/// When it does not.
pub async fn wait_for(
    client: &Client,
    path: &str,
    done: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let is_done = |answer: &Answer| answer.status == 200 && done(&answer.json());
    let answer = until(path, async || client.get(path).await, is_done).await?;
    Ok(answer.json())
}

/// Sends a request until the response satisfies `is_done`, at most for [`PATIENCE`].
///
/// # Errors
/// When it does not; the message has the last response.
pub async fn until(
    description: &str,
    send: impl AsyncFn() -> anyhow::Result<Answer>,
    is_done: impl Fn(&Answer) -> bool,
) -> anyhow::Result<Answer> {
    let mut last = String::new();
    let poll = async {
        loop {
            match send().await {
                Ok(answer) if is_done(&answer) => return answer,
                Ok(answer) => last = answer.text(),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, poll).await;
    in_time.with_context(|| {
        format!("{description} did not satisfy the condition in time; last: {last}")
    })
}
