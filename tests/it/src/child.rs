//! `perpend serve` as a child process: for signals, and for being killed.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use perpend_server::client::Client;
use tokio::process::Command;

use crate::{KEYS, PATIENCE, plugin_cache};

/// A server process.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    /// Speaks with the key pair of the first project.
    pub client: Client,
}

/// The program that `PERPEND_TEST_PROGRAM` names, else the one beside the test that runs, built when it is
/// missing or stale. `cargo test` has just built it; `cargo test -p` did not.
///
/// # Errors
/// When it does not build.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("PERPEND_TEST_PROGRAM") {
        return Ok(given.into());
    }
    static BUILT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let is_built = *BUILT.get_or_init(|| {
        if place().is_ok_and(|program| is_fresh(&program)) {
            return true;
        }
        let mut command = std::process::Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "-p", "perpend"]);
        // What cargo says of the test's own package is not said to a build: some would start over.
        for (name, _) in std::env::vars_os() {
            let is_of_package =
                |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            if name.to_str().is_some_and(is_of_package) {
                command.env_remove(&name);
            }
        }
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        command.status().is_ok_and(|status| status.success())
    });
    anyhow::ensure!(is_built, "perpend did not build");
    place()
}

/// Whether nothing that cargo made it of has changed since: the list stands beside it. A build of it alone
/// would begin with libraries that have fewer features then.
fn is_fresh(program: &Path) -> bool {
    let modified = |file: &Path| file.metadata().and_then(|found| found.modified()).ok();
    let list = std::fs::read_to_string(program.with_extension("d"));
    let list = list.unwrap_or_default();
    let Some((_, sources)) = list.split_once(": ") else {
        return false;
    };
    let built = modified(program);
    // A space inside a name is written with a backslash before it.
    let sources = sources.trim().replace("\\ ", "\0");
    let mut sources = sources.split(' ').map(|source| source.replace('\0', " "));
    built.is_some()
        && sources.all(|source| {
            modified(Path::new(&source)).is_some_and(|changed| Some(changed) <= built)
        })
}

/// Where a build puts the program.
pub(crate) fn place() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("the folder of the build")?;
    Ok(folder.join("perpend"))
}

/// Scheme, host and port of a server, out of what it says when it is ready.
#[must_use]
pub fn origin_in(said: &str) -> Option<&str> {
    let (before, _) = said.split_once("/?token=")?;
    before.split_whitespace().next_back()
}

/// The command with an environment of its own. Its server finds plug-ins that were compiled for other tests.
///
/// # Errors
/// When the program does not build.
pub fn command(args: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(program()?);
    command
        .args(args)
        .env_clear()
        .env("PERPEND_DATA_PLUGIN_CACHE", plugin_cache()?)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    Ok(command)
}

impl Child {
    /// Starts on a data directory, at a port that the system chooses, and waits until it is healthy.
    ///
    /// # Errors
    /// When it ends or does not become healthy.
    pub async fn start(data: &Path) -> anyhow::Result<Self> {
        Self::with(data, &[]).await
    }

    /// As [`Child::start`], with further arguments.
    ///
    /// # Errors
    /// When it ends or does not become healthy.
    pub async fn with(data: &Path, more: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(command(&[])?, data, more).await
    }

    /// As [`Child::with`], with so many file descriptors for the process and its workers each.
    ///
    /// # Errors
    /// When it ends or does not become healthy.
    pub async fn with_descriptors(
        n_descriptors: u32,
        data: &Path,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let plain = command(&[])?;
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit -n {n_descriptors}; exec \"$0\" \"$@\"")])
            .arg(plain.as_std().get_program())
            .env_clear();
        for (name, value) in plain.as_std().get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        limited.kill_on_drop(true).stdin(Stdio::null());
        Self::spawn(limited, data, more).await
    }

    async fn spawn(mut command: Command, data: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let path = data.with_extension("log");
        let log = std::fs::File::create(&path)?;
        let mut process = command
            .args(["serve", "--listen", "127.0.0.1:0", "--workers", "1"])
            .arg("--data-dir")
            .arg(data)
            // Far longer than any read takes: no machine is too slow.
            .args(["--answers-timeout-seconds", "600"])
            .args(more)
            .env("PERPEND_INIT_PUBLIC_KEY", KEYS.0)
            .env("PERPEND_INIT_SECRET_KEY", KEYS.1)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let ready = async {
            loop {
                let said = std::fs::read_to_string(&path)?;
                if let Some(origin) = origin_in(&said) {
                    return Ok(origin.to_owned());
                }
                if let Some(status) = process.try_wait()? {
                    anyhow::bail!("the server ended with {status}: {said}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let origin = tokio::time::timeout(PATIENCE, ready).await.context("not ready in time")??;
        let client = Client::new(&origin).with_keys(KEYS.0, KEYS.1).with_timeout(PATIENCE);
        let health = client.get("/api/public/health").await?;
        anyhow::ensure!(health.status == 200, "{}", health.text());
        Ok(Self { process, client })
    }

    /// The most memory that the process has ever had, bytes. Its workers are processes of their own.
    ///
    /// # Errors
    /// Where the system does not say.
    #[cfg(target_os = "linux")]
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        let pid = self.process.id().context("it has ended already")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let n_kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let n_kib: u64 = n_kib.context("no peak of memory")?.parse()?;
        Ok(n_kib << 10)
    }

    /// From now on the peak is that of what comes.
    ///
    /// # Errors
    /// Where the system does not let it.
    #[cfg(target_os = "linux")]
    pub fn forget_peak_memory(&self) -> anyhow::Result<()> {
        let pid = self.process.id().context("it has ended already")?;
        Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
    }

    /// `kill -9`, and wait until the process is gone.
    ///
    /// # Errors
    /// When it is gone already.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }

    /// SIGTERM, and how the process ended.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let pid = self.process.id().context("it has ended already")?.to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await?;
        anyhow::ensure!(sent.success(), "kill failed");
        let ended = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        Ok(ended.context("it does not end")??)
    }
}
