//! Runs scripts of clients against a server of their own, on each database.
//!
//! `PERPEND_SDKS` names the folder with the clients, which `cargo xtask check` installs. A test without its
//! client is reported as ignored; with `PERPEND_TEST_SDK=require` it fails.

mod local_model;
mod s3;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use futures_util::future::LocalBoxFuture;
use libtest_mimic::{Completion, Failed, Trial};
use perpend_db::DatabaseUrl;
use perpend_it::{KEYS, ORGANIZATION_KEYS, TestApp};
use perpend_storage::testing::TempDatabase;
use tokio::process::Command;

pub use local_model::{LocalModel, Served, with_local_model};
pub use s3::S3;

/// Set to `require`, what is missing on this machine is a failure.
const REQUIRE: &str = "PERPEND_TEST_SDK";
/// The folder with the clients.
const SDKS: &str = "PERPEND_SDKS";

/// A database that a server of a test uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite,
    /// A server that the test process starts.
    Postgres,
}

impl Database {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];
}

impl Database {
    const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgresql",
        }
    }

    /// A new one, and the settings of a server that uses it; none where it is not installed.
    async fn make(self) -> Option<(Option<TempDatabase>, Vec<(&'static str, String)>)> {
        if self == Self::Sqlite {
            return Some((None, Vec::new()));
        }
        let made = TempDatabase::postgres().await?;
        let settings = match made.url() {
            DatabaseUrl::Postgres(url) => vec![("database.url", url.clone())],
            DatabaseUrl::Sqlite(_) => Vec::new(),
        };
        Some((Some(made), settings))
    }
}

/// The program of a client, or how the test ends that lacks it.
fn installed(client: &str, program: &str) -> Result<Result<PathBuf, Completion>, Failed> {
    // Switches of the test run, not of the product.
    let is_required = std::env::var(REQUIRE).is_ok_and(|value| value == "require");
    let folder = std::env::var_os(SDKS).map(|sdks| PathBuf::from(sdks).join(client));
    if let Some(found) = folder.filter(|folder| folder.join(program).exists()) {
        return Ok(Ok(found));
    }
    let message = format!(
        "not run: {client} missing (install: `cargo xtask check --only tests` does, below target/sdk)"
    );
    match is_required {
        true => Err(message.into()),
        false => Ok(Err(Completion::ignored_with(message))),
    }
}

/// Runs it to its end; `false` means that the database is not installed.
fn complete(story: impl Future<Output = anyhow::Result<bool>>) -> Result<Completion, Failed> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match runtime.block_on(story) {
        Ok(true) => Ok(Completion::Completed),
        Ok(false) => Ok(Completion::ignored_with("not run: PostgreSQL missing")),
        Err(error) => Err(format!("{error:#}").into()),
    }
}

/// What happens between an S3 server and one of ours, which has these settings.
pub type Story = fn(S3, Vec<(&'static str, String)>) -> LocalBoxFuture<'static, anyhow::Result<()>>;

/// A test with an S3 server, on one database.
#[must_use]
pub fn with_s3(name: &str, database: Database, story: Story) -> Trial {
    let name = format!("s3::{name}::{}", database.name());
    Trial::ignorable_test(name, move || match installed("s3", S3::PROGRAM)? {
        Err(left_out) => Ok(left_out),
        Ok(client) => complete(async move {
            let Some((_database, settings)) = database.make().await else {
                return Ok(false);
            };
            story(S3::start(&client).await?, settings).await?;
            Ok(true)
        }),
    })
}

/// One script, run by one client on one database.
#[derive(Clone, Debug)]
pub struct Script {
    /// Folder of the client inside `PERPEND_SDKS`.
    pub client: &'static str,
    /// The program that runs it, inside that folder.
    pub interpreter: &'static str,
    /// Its arguments, the script among them.
    pub arguments: Vec<String>,
    /// Where the scripts are, seen from this crate.
    pub folder: &'static str,
    /// Where the server keeps its data.
    pub database: Database,
}

impl Script {
    /// As a test.
    #[must_use]
    pub fn trial(self, name: &str) -> Trial {
        let database = self.database.name();
        let name = format!("{}::{name}::{database}", self.client);
        Trial::ignorable_test(name, move || self.perform())
    }

    fn perform(&self) -> Result<Completion, Failed> {
        match installed(self.client, self.interpreter)? {
            Ok(client) => complete(self.against_a_server(&client)),
            Err(left_out) => Ok(left_out),
        }
    }

    /// `false` where the database is not installed.
    async fn against_a_server(&self, client: &Path) -> anyhow::Result<bool> {
        let Some((_database, settings)) = self.database.make().await else {
            return Ok(false);
        };
        let mut settings: Vec<_> =
            settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        // A script may speak for clients of many networks.
        settings.push(("server.trusted_proxies", "127.0.0.1"));
        let app = TestApp::with(&settings).await?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let output = Command::new(client.join(self.interpreter))
            .args(&self.arguments)
            .current_dir(&here)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANGFUSE_PUBLIC_KEY", KEYS.0)
            .env("LANGFUSE_SECRET_KEY", KEYS.1)
            .env("ORGANIZATION_PUBLIC_KEY", ORGANIZATION_KEYS.0)
            .env("ORGANIZATION_SECRET_KEY", ORGANIZATION_KEYS.1)
            .env("LANGFUSE_BASE_URL", &app.origin)
            .env("LANGFUSE_BASEURL", &app.origin)
            .env("LANGFUSE_HOST", &app.origin)
            // By itself a client waits 5 seconds for an answer: a crowded machine may need longer.
            .env("LANGFUSE_TIMEOUT", "300")
            .env("NO_PROXY", "*")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NODE_PATH", client.join("node_modules"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("{} does not start", self.client))?;
        app.stop().await?;
        anyhow::ensure!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(true)
    }
}
