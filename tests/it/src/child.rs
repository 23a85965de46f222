//! `assay serve` as a child process: for signals, and for being killed.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use assay_server::client::Client;
use tokio::process::Command;

use crate::{KEYS, PATIENCE};

/// A server process.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    /// Speaks with the key pair of the first project.
    pub client: Client,
}

/// The `assay` program beside the test that runs, built when it is missing or stale.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    static BUILT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let is_built = *BUILT.get_or_init(|| {
        let mut command = std::process::Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "-p", "assay-server", "--bin", "assay"]);
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        command.status().is_ok_and(|status| status.success())
    });
    anyhow::ensure!(is_built, "assay did not build");
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("the folder of the build")?;
    Ok(folder.join("assay"))
}

/// A port that is free now.
///
/// # Errors
/// When there is none.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The command with an environment of its own.
///
/// # Errors
/// When the program does not build.
pub fn command(args: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(program()?);
    command
        .args(args)
        .env_clear()
        .kill_on_drop(true)
        .stdin(Stdio::null());
    Ok(command)
}

impl Child {
    /// Starts on a data directory and waits until it is healthy.
    ///
    /// # Errors
    /// When it ends or does not become healthy.
    pub async fn start(data: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        let log = std::fs::File::create(data.with_extension("log"))?;
        let listen = address.to_string();
        let mut command = command(&["serve", "--listen", &listen, "--workers", "1"])?;
        let process = command
            .arg("--data-dir")
            .arg(data)
            .env("ASSAY_INIT_PUBLIC_KEY", KEYS.0)
            .env("ASSAY_INIT_SECRET_KEY", KEYS.1)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let client = Client::new(&format!("http://{address}")).with_keys(KEYS.0, KEYS.1);
        let mut child = Self { process, client };
        let healthy = async {
            loop {
                if let Some(status) = child.process.try_wait()? {
                    anyhow::bail!("the server ended with {status}");
                }
                let answer = child.client.get("/api/public/health").await;
                if answer.is_ok_and(|answer| answer.status == 200) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(2 * PATIENCE, healthy)
            .await
            .context("not healthy in time")??;
        Ok(child)
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
        let pid = self
            .process
            .id()
            .context("it has ended already")?
            .to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await?;
        anyhow::ensure!(sent.success(), "kill failed");
        let ended = tokio::time::timeout(2 * PATIENCE, self.process.wait()).await;
        Ok(ended.context("it does not end")??)
    }
}
