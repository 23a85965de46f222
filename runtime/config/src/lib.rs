//! One typed tree of settings, from a TOML file, `PERPEND_*` variables and flags.
//!
//! Later sources win: built-in values, file, environment, flags. Every source is reduced to pairs of
//! key and text and goes through the same table (`settings::SETTINGS`), so that a setting behaves the same
//! in every source. An unknown key or an invalid value stops the start with an error that names the key.
//!
//! The environment is passed as a map: nothing here reads the process.

mod args;
mod load;
mod parse;
mod proxies;
mod reference;
mod setting;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use perpend_db::DatabaseUrl;

pub use args::SettingArgs;
pub use load::{Error, Sources};
pub use proxies::TrustedProxies;

pub use reference::markdown;

/// The validated settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listen address.
    pub listen: SocketAddr,
    /// The URL of the server for browsers, if it differs from `listen`.
    pub public_url: Option<String>,
    /// Most open connections; 0 for the limit of file descriptors minus a reserve.
    pub max_connections: usize,
    /// Proxies whose forwarding headers are trusted.
    pub trusted_proxies: TrustedProxies,
    /// Timeout of in-flight requests at shutdown.
    pub shutdown_grace: Duration,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Folder of compiled plug-ins, if it is not in `data_dir`.
    pub plugin_cache: Option<PathBuf>,
    /// The database, if it is not the SQLite file in `data_dir`.
    pub database_url: Option<DatabaseUrl>,
    /// Number of read connections.
    pub database_readers: u32,
    /// Timeout of a statement that waits for a lock or a connection.
    pub database_wait: Duration,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Limits of request bodies and spans.
    pub ingest: Ingest,
    /// Limits of responses.
    pub answers: Answers,
    /// Largest body of the other requests, bytes.
    pub api_max_body_bytes: usize,
    /// Most JSON values in the body of such a request.
    pub api_max_body_values: usize,
    /// Rate limits per key.
    pub limits: RateLimits,
    /// Settings of evaluations.
    pub evaluation: Evaluation,
    /// Settings of exports to buckets.
    pub exports: Exports,
    /// The audit trail.
    pub audit: Audit,
    /// Encryption of stored secrets.
    pub secrets: Secrets,
    /// The administrator.
    pub admin: Admin,
    /// Access to the metrics of this process.
    pub metrics: Metrics,
    /// Export of the spans of this process.
    pub tracing: Tracing,
    /// Resources created at the first start.
    pub init: Init,
}

impl Config {
    /// A tree without values, each of which the table of settings replaces.
    fn unset() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            public_url: None,
            max_connections: 0,
            trusted_proxies: TrustedProxies::default(),
            shutdown_grace: Duration::ZERO,
            data_dir: PathBuf::new(),
            plugin_cache: None,
            database_url: None,
            database_readers: 0,
            database_wait: Duration::ZERO,
            log_level: String::new(),
            log_format: LogFormat::default(),
            ingest: Ingest::default(),
            answers: Answers::default(),
            api_max_body_bytes: 0,
            api_max_body_values: 0,
            limits: RateLimits::default(),
            evaluation: Evaluation::default(),
            exports: Exports::default(),
            audit: Audit::default(),
            secrets: Secrets::default(),
            admin: Admin::default(),
            metrics: Metrics::default(),
            tracing: Tracing::default(),
            init: Init::default(),
        }
    }
}

/// Settings of exports to buckets.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    /// Hosts, with or without a port, that may resolve to private addresses.
    pub private_endpoints: Vec<String>,
    /// Size at which a new file is started, in bytes before compression.
    pub max_file_bytes: usize,
}

/// The administrator, who has access to every project.
#[derive(Clone, Default)]
pub struct Admin {
    /// The key of the administrator. `None`: no administrator.
    pub api_key: Option<String>,
}

// Keeps the key out of logs.
impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// Access to the metrics of this process.
#[derive(Clone, Default)]
pub struct Metrics {
    /// The token that a scraper sends. `None`: nothing is measured.
    pub token: Option<String>,
}

// Keeps the token out of logs.
impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Export of the spans of this process over OTLP.
#[derive(Clone, Default)]
pub struct Tracing {
    /// URL that receives the spans. `None`: no span is recorded.
    pub otlp_endpoint: Option<String>,
    /// Names and values of headers, which may contain credentials.
    pub otlp_headers: Vec<(String, String)>,
    /// Share of traces that are recorded, greater than 0 and at most 1.
    pub sampling_ratio: f64,
}

// Keeps the headers out of logs.
impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracing")
            .field("otlp_endpoint", &self.otlp_endpoint)
            .field("sampling_ratio", &self.sampling_ratio)
            .finish_non_exhaustive()
    }
}

/// The audit trail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audit {
    /// Age in days at which a record is deleted.
    pub keep_days: u32,
}

/// Encryption of stored secrets.
#[derive(Clone, Default)]
pub struct Secrets {
    /// 32 bytes in base64; without it the key is in a file of the data directory.
    pub key: Option<String>,
}

// Keeps secrets out of logs.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Limits of request bodies and spans.
#[derive(Clone, Debug, Default)]
pub struct Ingest {
    /// Largest body of the OTLP paths, on the wire and decoded, bytes.
    pub max_body_bytes: usize,
    /// Memory for the bodies of all requests, bytes.
    pub max_in_flight_bytes: usize,
    /// Share of one key.
    pub max_key_share_percent: usize,
    /// Longest pause of a client inside a body.
    pub read_timeout: Duration,
    /// Lowest rate of a client, apart from pauses.
    pub min_body_bytes_per_second: u32,
    /// Timeout of a whole body.
    pub body_deadline: Duration,
    /// Limits of one span (otlp.md 6.3).
    pub span: perpend_otlp::Limits,
}

/// Limits of responses to read requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// Memory for all responses and their rows, bytes.
    pub max_in_flight_bytes: usize,
    /// Timeout for producing a response, or a part of a streamed one.
    pub timeout: Duration,
    /// Longest pause of a client that receives a response.
    pub pause: Duration,
    /// Lowest rate of a client, apart from pauses.
    pub min_bytes_per_second: u32,
    /// Timeout for receiving a whole response.
    pub deadline: Duration,
}

/// Requests per minute and key, by group of endpoints; 0 for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Telemetry, batches of events and writes of scores.
    pub ingestion: u32,
    /// Datasets, their items and runs.
    pub datasets: u32,
    /// Metrics.
    pub metrics: u32,
    /// All other endpoints except prompts, which are not limited.
    pub api: u32,
}

/// Settings of evaluations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evaluation {
    /// The isolation of guests.
    pub isolation: Isolation,
    /// Worker processes.
    pub n_workers: usize,
    /// The action if the platform lacks a sandbox layer for workers.
    pub confinement: Confinement,
    /// Memory at which a worker is replaced, bytes.
    pub worker_memory_bytes: u64,
    /// Memory for the targets and items of all running evaluations, bytes.
    pub memory_bytes: usize,
    /// Lifetime of cached model replies, milliseconds; 0 disables the cache.
    pub reply_lifetime_ms: i64,
    /// Largest cache of model replies per project, bytes.
    pub max_reply_bytes: u64,
}

/// The action if the platform lacks a sandbox layer for worker processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// No plug-in runs.
    Required,
    /// A warning at the start; plug-ins run in the available layers.
    #[default]
    BestEffort,
}

/// The isolation of guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A component instance inside a child process.
    #[default]
    Process,
    /// A component instance in the server process: for tests and single-user use.
    InProcess,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text.
    Text,
    /// One object per line.
    Json,
}

/// Resources created at the first start.
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
    /// E-mail address of the first account.
    pub user_email: Option<String>,
    /// Name of the person of the first account.
    pub user_name: Option<String>,
    /// Password of the first account.
    pub user_password: Option<String>,
}

// Keeps secrets out of logs.
impl std::fmt::Debug for Init {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Init")
            .field("public_key", &self.public_key)
            .field("org_public_key", &self.org_public_key)
            .field("project_name", &self.project_name)
            .field("org_name", &self.org_name)
            .field("user_email", &self.user_email)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
