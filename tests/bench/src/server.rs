//! The server under test: the release binary as its own process, on a fresh folder.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::http::Connection;

/// The key pair every server under test starts with.
pub(crate) const KEYS: (&str, &str) = ("pk-bench", "sk-bench");

/// Where a server keeps its data.
pub(crate) enum Folder {
    /// Gone with this value.
    Temporary(TempDir),
    /// Stays for a later run.
    Kept(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }
}

/// A running server; dropping it ends it.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    folder: Folder,
    /// From the start of the process to the first healthy answer.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts on a fresh folder; `cache` keeps compiled plug-ins over several servers.
    ///
    /// # Errors
    /// When it does not become healthy within 60 s.
    pub(crate) async fn start(extra: &[&str]) -> anyhow::Result<Self> {
        Self::start_in(Folder::Temporary(tempfile::tempdir()?), extra).await
    }

    /// Starts on a folder that an earlier server left.
    ///
    /// # Errors
    /// When it does not become healthy within 60 s.
    pub(crate) async fn start_in(folder: Folder, extra: &[&str]) -> anyhow::Result<Self> {
        let address = free_address()?;
        let program = std::env::current_exe()?.with_file_name("perpend");
        let log = std::fs::File::create(folder.path().join("server.log"))?;
        let started = Instant::now();
        let child = Command::new(&program)
            .arg("serve")
            .args(["--listen", &address.to_string()])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(extra)
            .env("PERPEND_INIT_PUBLIC_KEY", KEYS.0)
            .env("PERPEND_INIT_SECRET_KEY", KEYS.1)
            .env("PERPEND_INIT_PROJECT_NAME", "bench")
            .env("PERPEND_INIT_ORG_NAME", "bench")
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("{}: build it with cargo build --release", program.display())
            })?;
        let mut server = Self { child, address, folder, ready_after: Duration::ZERO };
        server.wait_until_healthy(started).await?;
        Ok(server)
    }

    async fn wait_until_healthy(&mut self, started: Instant) -> anyhow::Result<()> {
        while started.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the server ended with {status}:\n{}", self.log());
            }
            if let Ok(mut connection) = self.connect().await
                && connection.json("GET", "/api/public/health", None).await.is_ok()
            {
                self.ready_after = started.elapsed();
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::bail!("the server is not healthy after 60 s:\n{}", self.log())
    }

    /// A new connection with the server's key pair.
    ///
    /// # Errors
    /// When it does not listen.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address, KEYS).await
    }

    /// What its addresses begin with.
    #[must_use]
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The database file.
    #[must_use]
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("data").join("perpend.db")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// Resident memory of the server and all processes it started, in bytes.
    #[must_use]
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.child.id().map_or(0, |pid| {
            descendants(pid)
                .into_iter()
                .map(|pid| kib(pid, "status", "VmRSS:").unwrap_or(0) * 1024)
                .sum()
        })
    }

    /// The same, with the pages that several of them share counted once.
    #[must_use]
    pub(crate) fn resident_bytes_together(&self) -> u64 {
        self.child.id().map_or(0, |pid| {
            descendants(pid)
                .into_iter()
                .map(|pid| kib(pid, "smaps_rollup", "Pss:").unwrap_or(0) * 1024)
                .sum()
        })
    }

    /// Terminates the server and waits until it has ended; the folder is kept.
    ///
    /// # Errors
    /// When it does not end within 30 s or ends with a failure.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Folder> {
        if let Some(pid) = self.child.id() {
            std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status()?;
        }
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait())
            .await
            .with_context(|| format!("does not end within 30 s:\n{}", self.log()))??;
        anyhow::ensure!(status.success(), "ended with {status}:\n{}", self.log());
        Ok(self.folder)
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Resident memory of one process.
pub(crate) fn resident_kib(pid: u32) -> Option<u64> {
    kib(pid, "status", "VmRSS:")
}

fn kib(pid: u32, file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn descendants(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut at = 0;
    while at < family.len() {
        let threads = Path::new("/proc").join(family[at].to_string()).join("task");
        for thread in std::fs::read_dir(threads).into_iter().flatten().flatten() {
            let children =
                std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    family
}
