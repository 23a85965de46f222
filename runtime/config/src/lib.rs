//! One typed tree of settings, from a TOML file, `PERPEND_*` variables and flags.
//!
//! Later sources win: built-in values, file, environment, flags. Every source is reduced to pairs of
//! key and text and goes through the same table (`settings::SETTINGS`), so a setting behaves alike
//! wherever it is written. An unknown key or a bad value stops the start and names the key.
//!
//! The environment comes in as a map: nothing here reads the process.

mod args;
mod blank;
mod load;
mod parse;
mod proxies;
mod reference;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use perpend_db::DatabaseUrl;

pub use args::SettingArgs;
pub use load::{Error, Sources};
pub use proxies::TrustedProxies;

pub use reference::markdown;

/// Every setting, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the server listens.
    pub listen: SocketAddr,
    /// How browsers reach the server, when that differs from `listen`.
    pub public_url: Option<String>,
    /// Connections that may be open at a time; 0: as many as the limit of descriptors leaves room for.
    pub max_connections: usize,
    /// Proxies that may say where a request comes from.
    pub trusted_proxies: TrustedProxies,
    /// How long in-flight requests may take after a signal to stop.
    pub shutdown_grace: Duration,
    /// Files of this installation.
    pub data_dir: PathBuf,
    /// Compiled plug-ins, when they are not in `data_dir`.
    pub plugin_cache: Option<PathBuf>,
    /// The database, when it is not the SQLite file in `data_dir`.
    pub database_url: Option<DatabaseUrl>,
    /// Connections for reading.
    pub database_readers: u32,
    /// How long a statement waits for a lock or a connection.
    pub database_wait: Duration,
    /// Filter of log lines.
    pub log_level: String,
    /// Form of log lines.
    pub log_format: LogFormat,
    /// Limits of request bodies and spans.
    pub ingest: Ingest,
    /// Limits of answers.
    pub answers: Answers,
    /// Largest body of the other requests, bytes.
    pub api_max_body_bytes: usize,
    /// JSON values in the body of such a request.
    pub api_max_body_values: usize,
    /// How many requests a key may make.
    pub limits: RateLimits,
    /// How evaluations run.
    pub evaluation: Evaluation,
    /// How data is exported to buckets.
    pub exports: Exports,
    /// What stored secrets are encrypted with.
    pub secrets: Secrets,
    /// Who may act in every project.
    pub admin: Admin,
    /// What the first start makes.
    pub init: Init,
}

/// How data is exported to buckets.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    /// Hosts, each with a port or without, that may have addresses which are not public.
    pub private_endpoints: Vec<String>,
    /// A file that is larger is followed by another, bytes before compression.
    pub max_file_bytes: usize,
}

/// Who may act in every project.
#[derive(Clone, Default)]
pub struct Admin {
    /// The key of the installation's administrator; nobody without it.
    pub api_key: Option<String>,
}

// The key does not reach a log by way of `{:?}`.
impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// What stored secrets are encrypted with.
#[derive(Clone, Default)]
pub struct Secrets {
    /// 32 bytes in base64; without it a file in the data directory holds the key.
    pub key: Option<String>,
}

// Secrets do not reach a log by way of `{:?}`.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Limits of request bodies and spans.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// Largest body of the OTLP paths, on the wire and decoded, bytes.
    pub max_body_bytes: usize,
    /// The bodies of all requests in memory together, bytes.
    pub max_in_flight_bytes: usize,
    /// How much of that the requests of one key may hold.
    pub max_key_share_percent: usize,
    /// How long a sender may pause inside a body.
    pub read_timeout: Duration,
    /// What a sender keeps up, pauses apart.
    pub min_body_bytes_per_second: u32,
    /// How long a whole body may take.
    pub body_deadline: Duration,
    /// Limits of one span (otlp.md 6.3).
    pub span: perpend_otlp::Limits,
}

/// Limits of answers to requests that read.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// All answers in memory together, and the rows that they are made of, bytes.
    pub max_in_flight_bytes: usize,
    /// How long an answer, or a part of one that is sent in parts, may take to be made.
    pub timeout: Duration,
    /// How long a client may take nothing of an answer.
    pub pause: Duration,
    /// The rate that a client keeps up, apart from pauses.
    pub min_bytes_per_second: u32,
    /// How long a client may take for a whole answer.
    pub deadline: Duration,
}

/// Requests that one key may make per minute, by group of endpoints; 0: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Telemetry, batches of events and scores that are written.
    pub ingestion: u32,
    /// Datasets, their items and runs.
    pub datasets: u32,
    /// Metrics.
    pub metrics: u32,
    /// Everything else but prompts, which are never limited.
    pub api: u32,
}

/// How evaluations run.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation {
    /// Which walls stand around a guest.
    pub isolation: Isolation,
    /// Worker processes.
    pub n_workers: usize,
    /// What happens where the platform lacks a wall around them.
    pub confinement: Confinement,
    /// A worker with more memory in use is replaced, bytes.
    pub worker_memory_bytes: u64,
    /// Memory of the targets and items of all evaluations at a time, bytes.
    pub memory_bytes: usize,
    /// How long replies of models answer equal requests, milliseconds; 0: none is stored.
    pub reply_lifetime_ms: i64,
    /// What the stored replies of a project may take up, bytes.
    pub max_reply_bytes: u64,
}

/// What happens where the platform lacks a wall around worker processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// Nothing runs.
    Required,
    /// Start-up says so, and plug-ins run behind those that are there.
    BestEffort,
}

/// Which walls stand around a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A component instance inside a child process.
    Process,
    /// A component instance in the server itself: for tests and single-user use.
    InProcess,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// What the first start makes.
#[derive(Clone, Default)]
pub struct Init {
    /// Public half of the first key pair.
    pub public_key: Option<String>,
    /// Secret half of the first key pair.
    pub secret_key: Option<String>,
    /// Public half of the organization's first key pair.
    pub org_public_key: Option<String>,
    /// Secret half of the organization's first key pair.
    pub org_secret_key: Option<String>,
    /// Name of the first project.
    pub project_name: String,
    /// Name of the first organization.
    pub org_name: String,
}

// Secrets do not reach a log by way of `{:?}`.
impl std::fmt::Debug for Init {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Init")
            .field("public_key", &self.public_key)
            .field("org_public_key", &self.org_public_key)
            .field("project_name", &self.project_name)
            .field("org_name", &self.org_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
