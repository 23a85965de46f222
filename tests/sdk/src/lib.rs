//! Runs scripts of clients against a server of their own, on each database.
//!
//! `ASSAY_SDKS` names the folder with the clients, which `.ci/sdk` makes and prints. A test that lacks its
//! client says so and is counted as left out; with `ASSAY_TEST_SDK=require` it fails.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use assay_it::{KEYS, ORGANIZATION_KEYS, TestApp};
use assay_store::DatabaseUrl;
use assay_store::testing::TempDatabase;
use libtest_mimic::{Completion, Failed, Trial};
use tokio::process::Command;

/// Set to `require`, what is missing on this machine is a failure.
const REQUIRE: &str = "ASSAY_TEST_SDK";
/// The folder with the clients.
const SDKS: &str = "ASSAY_SDKS";

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

/// One script, run by one client on one database.
#[derive(Clone, Debug)]
pub struct Script {
    /// Folder of the client inside `ASSAY_SDKS`.
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
        let database = match self.database {
            Database::Sqlite => "sqlite",
            Database::Postgres => "postgresql",
        };
        let name = format!("{}::{name}::{database}", self.client);
        Trial::ignorable_test(name, move || self.perform())
    }

    fn perform(&self) -> Result<Completion, Failed> {
        // Switches of the test run, not of the product.
        let is_required = std::env::var(REQUIRE).is_ok_and(|value| value == "require");
        let folder = std::env::var_os(SDKS).map(|sdks| PathBuf::from(sdks).join(self.client));
        let Some(client) = folder.filter(|folder| folder.join(self.interpreter).exists()) else {
            let message = format!(
                "not run: {} missing (install: {SDKS}=$(.ci/sdk))",
                self.client
            );
            return match is_required {
                true => Err(message.into()),
                false => Ok(Completion::ignored_with(message)),
            };
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let outcome = runtime.block_on(self.against_a_server(&client));
        match outcome {
            Ok(true) => Ok(Completion::Completed),
            Ok(false) => Ok(Completion::ignored_with("not run: PostgreSQL missing")),
            Err(error) => Err(format!("{error:#}").into()),
        }
    }

    /// `false` where the database is not installed.
    async fn against_a_server(&self, client: &Path) -> anyhow::Result<bool> {
        let postgres = match self.database {
            Database::Sqlite => None,
            Database::Postgres => match TempDatabase::postgres().await {
                Some(database) => Some(database),
                None => return Ok(false),
            },
        };
        let settings: Vec<(&'static str, &str)> = match postgres.as_ref().map(TempDatabase::url) {
            Some(DatabaseUrl::Postgres(url)) => vec![("database.url", url)],
            _ => Vec::new(),
        };
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
