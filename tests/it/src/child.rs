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
    /// Client with the key pair of the first project.
    pub client: Client,
}

/// The program named by `PERPEND_TEST_PROGRAM`, otherwise the one next to the running test, built when it is
/// missing or stale: `cargo test -p` does not build it.
///
/// # Errors
/// When it does not build.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("PERPEND_TEST_PROGRAM") {
        return Ok(given.into());
    }
    static BUILT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let is_built = *BUILT.get_or_init(|| {
        if program_path().is_ok_and(|program| is_fresh(&program)) {
            return true;
        }
        let mut command = std::process::Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "-p", "perpend"]);
        // The variables of the test's own package would make some build scripts run again.
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
    program_path()
}

/// Whether none of its sources has changed since the build: the `.d` file next to it lists them. A separate build
/// would recompile libraries with fewer features.
fn is_fresh(program: &Path) -> bool {
    let modified = |file: &Path| file.metadata().and_then(|found| found.modified()).ok();
    let list = std::fs::read_to_string(program.with_extension("d"));
    let list = list.unwrap_or_default();
    let Some((_, sources)) = list.split_once(": ") else {
        return false;
    };
    let built = modified(program);
    // A space inside a name is escaped with a backslash.
    let sources = sources.trim().replace("\\ ", "\0");
    let mut sources = sources.split(' ').map(|source| source.replace('\0', " "));
    built.is_some()
        && sources.all(|source| {
            modified(Path::new(&source)).is_some_and(|changed| Some(changed) <= built)
        })
}

/// Path of the built program.
pub(crate) fn program_path() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("the folder of the build")?;
    Ok(folder.join("perpend"))
}

/// Scheme, host and port of a server in its startup message.
#[must_use]
pub fn origin_in(output: &str) -> Option<&str> {
    let (before, _) = output.split_once("/?token=")?;
    before.split_whitespace().next_back()
}

/// The command with a clean environment. Its server shares the cache of compiled plug-ins with other tests.
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
    /// Starts on a data directory and a free port, and waits until the server is healthy.
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

    /// As [`Child::with`], with a limit of file descriptors for the process and each worker.
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
            // Far longer than any read or wait takes on a slow machine.
            .args(["--answers-timeout-seconds", "600", "--database-wait-seconds", "60"])
            .args(more)
            .env("PERPEND_INIT_PUBLIC_KEY", KEYS.0)
            .env("PERPEND_INIT_SECRET_KEY", KEYS.1)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let ready = async {
            loop {
                let output = std::fs::read_to_string(&path)?;
                if let Some(origin) = origin_in(&output) {
                    return Ok(origin.to_owned());
                }
                if let Some(status) = process.try_wait()? {
                    anyhow::bail!("the server ended with {status}: {output}");
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

    /// Peak memory of the process in bytes, without its workers.
    ///
    /// # Errors
    /// When the system does not report it.
    #[cfg(target_os = "linux")]
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        let pid = self.process.id().context("the process has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let n_kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let n_kib: u64 = n_kib.context("no peak memory in /proc")?.parse()?;
        Ok(n_kib << 10)
    }

    /// Resets the peak.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(target_os = "linux")]
    pub fn reset_peak_memory(&self) -> anyhow::Result<()> {
        let pid = self.process.id().context("the process has ended")?;
        Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
    }

    /// `kill -9`, and wait until the process is gone.
    ///
    /// # Errors
    /// When it has ended before.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Sends SIGTERM and returns the exit status.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let pid = self.process.id().context("the process has ended")?.to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await?;
        anyhow::ensure!(sent.success(), "kill failed");
        let ended = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        Ok(ended.context("the process did not end")??)
    }
}
