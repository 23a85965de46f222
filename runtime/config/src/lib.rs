//! One typed tree of settings, from a TOML file, `PERPEND_*` variables and flags.
//!
//! Later sources win: built-in values, file, environment, flags. Every source is reduced to pairs of
//! key and text and goes through the same table (`settings::SETTINGS`), so a setting behaves alike
//! wherever it is written. An unknown key or a bad value stops the start and names the key.
//!
//! The environment comes in as a map: nothing here reads the process.

mod args;
mod proxies;
mod reference;
mod settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use perpend_sql::DatabaseUrl;

pub use args::SettingArgs;
pub use proxies::TrustedProxies;
pub use reference::markdown;
use settings::{SETTINGS, Setting};

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

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the config file {}: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the config file {} is not TOML: {message}", path.display())]
    NotToml {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// A key that this version does not know.
    #[error(
        "unknown setting {key} in {source_name}{hint}; `perpend docs config` lists all of them"
    )]
    UnknownKey {
        /// As written.
        key: String,
        /// Where it stands.
        source_name: String,
        /// The nearest known key.
        hint: String,
    },
    /// A value that the setting cannot have.
    #[error("bad value for {key} in {source_name}: {problem}")]
    BadValue {
        /// Its key.
        key: String,
        /// Where it stands.
        source_name: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Settings that are each fine and do not fit together.
    #[error("{0}")]
    Inconsistent(&'static str),
}

/// Where settings come from.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// The file named by `--config` or `PERPEND_CONFIG`.
    pub file: Option<&'a Path>,
    /// Variables that begin with `PERPEND_`; others may be there and are ignored.
    pub env: BTreeMap<String, String>,
    /// Keys and values of the flags that were given.
    pub flags: Vec<(&'static str, String)>,
}

impl Config {
    /// The built-in values.
    ///
    /// # Errors
    /// Never, as a test shows; the table is data.
    pub fn defaults() -> Result<Self, Error> {
        Self::load(&Sources::default())
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// The first thing that is wrong, with the name of the key.
    pub fn load(sources: &Sources<'_>) -> Result<Self, Error> {
        let mut config = settings::blank();
        for setting in SETTINGS {
            apply(&mut config, setting, setting.default, "the built-in values")?;
        }
        let file = sources.file.map(Path::to_owned);
        let file = file.or_else(|| sources.env.get("PERPEND_CONFIG").map(PathBuf::from));
        if let Some(path) = file {
            read_file(&mut config, &path)?;
        }
        for (name, value) in &sources.env {
            if !name.starts_with("PERPEND_") || name == "PERPEND_CONFIG" {
                continue;
            }
            match SETTINGS.iter().find(|setting| setting.env() == *name) {
                Some(setting) => apply(&mut config, setting, value, name)?,
                None => return Err(unknown(name, "the environment", &Setting::env)),
            }
        }
        for (key, value) in &sources.flags {
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == *key) {
                apply(
                    &mut config,
                    setting,
                    value,
                    &format!("--{}", setting.flag()),
                )?;
            }
        }
        if config.init.public_key.is_some() != config.init.secret_key.is_some() {
            return Err(Error::Inconsistent(
                "init.public_key and init.secret_key (PERPEND_INIT_PUBLIC_KEY and \
                 PERPEND_INIT_SECRET_KEY) go together: set both, or neither",
            ));
        }
        if config.init.org_public_key.is_some() != config.init.org_secret_key.is_some() {
            return Err(Error::Inconsistent(
                "init.org_public_key and init.org_secret_key (PERPEND_INIT_ORG_PUBLIC_KEY and \
                 PERPEND_INIT_ORG_SECRET_KEY) go together: set both, or neither",
            ));
        }
        Ok(config)
    }

    /// The database in use.
    #[must_use]
    pub fn database(&self) -> DatabaseUrl {
        self.database_url
            .clone()
            .unwrap_or_else(|| DatabaseUrl::Sqlite(self.data_dir.join("perpend.db")))
    }
}

fn apply(config: &mut Config, setting: &Setting, value: &str, source: &str) -> Result<(), Error> {
    (setting.set)(config, value.trim()).map_err(|problem| Error::BadValue {
        key: setting.key.to_owned(),
        source_name: source.to_owned(),
        problem,
    })
}

fn read_file(config: &mut Config, path: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::NotToml {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
    let mut pairs = Vec::new();
    flatten("", &table, &mut pairs);
    for (key, value) in pairs {
        let source = path.display().to_string();
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(unknown(&key, &source, &|setting| setting.key.to_owned()));
        };
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            other => {
                return Err(Error::BadValue {
                    key,
                    source_name: source,
                    problem: format!("a {} where one value is expected", other.type_str()),
                });
            }
        };
        apply(config, setting, &text, &source)?;
    }
    Ok(())
}

fn flatten<'t>(prefix: &str, table: &'t toml::Table, out: &mut Vec<(String, &'t toml::Value)>) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out),
            _ => out.push((key, value)),
        }
    }
}

fn unknown(key: &str, source: &str, spelling: &dyn Fn(&Setting) -> String) -> Error {
    let nearest = SETTINGS
        .iter()
        .map(spelling)
        .map(|known| (distance(&known, key), known))
        .min();
    let hint = match nearest {
        Some((steps, known)) if steps <= 4 => format!("; did you mean {known}?"),
        _ => String::new(),
    };
    Error::UnknownKey {
        key: key.to_owned(),
        source_name: source.to_owned(),
        hint,
    }
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests;
