//! Loads and validates the settings of all sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use perpend_db::DatabaseUrl;

use crate::Config;
use crate::setting::Setting;
use crate::settings::SETTINGS;

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the config file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the config file {} is not TOML: {message}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        message: String,
    },
    /// An unknown key.
    #[error(
        "unknown setting {key} in {source_name}{hint}; `perpend docs config` lists all of them"
    )]
    UnknownKey {
        /// As written.
        key: String,
        /// Its source.
        source_name: String,
        /// The nearest known key.
        hint: String,
    },
    /// An invalid value.
    #[error("bad value for {key} in {source_name}: {problem}")]
    BadValue {
        /// Its key.
        key: String,
        /// Its source.
        source_name: String,
        /// The problem and the expectation.
        problem: String,
    },
    /// Settings that contradict each other.
    #[error("{0}")]
    Inconsistent(&'static str),
}

/// The sources of settings.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// The file named by `--config` or `PERPEND_CONFIG`.
    pub file: Option<&'a Path>,
    /// Environment variables; only those with the prefix `PERPEND_` are used.
    pub env: BTreeMap<String, String>,
    /// Keys and values of the flags.
    pub flags: Vec<(&'static str, String)>,
}

impl Config {
    /// The built-in values.
    ///
    /// # Errors
    /// Never; a test checks the table.
    pub fn defaults() -> Result<Self, Error> {
        Self::load(&Sources::default())
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// The first error, with the name of the key.
    pub fn load(sources: &Sources<'_>) -> Result<Self, Error> {
        let mut config = Self::unset();
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
                apply(&mut config, setting, value, &format!("--{}", setting.flag()))?;
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
        if config.init.user_email.is_some() != config.init.user_password.is_some() {
            return Err(Error::Inconsistent(
                "init.user_email and init.user_password (PERPEND_INIT_USER_EMAIL and \
                 PERPEND_INIT_USER_PASSWORD) go together: set both, or neither",
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

pub(super) fn apply(
    config: &mut Config,
    setting: &Setting,
    value: &str,
    source: &str,
) -> Result<(), Error> {
    (setting.set)(config, value.trim()).map_err(|problem| Error::BadValue {
        key: setting.key.to_owned(),
        source_name: source.to_owned(),
        problem,
    })
}

pub(super) fn read_file(config: &mut Config, path: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Unreadable { path: path.to_owned(), error })?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Error::NotToml {
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
            toml::Value::Float(number) => number.to_string(),
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

pub(super) fn flatten<'t>(
    prefix: &str,
    table: &'t toml::Table,
    out: &mut Vec<(String, &'t toml::Value)>,
) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out),
            _ => out.push((key, value)),
        }
    }
}

pub(super) fn unknown(key: &str, source: &str, spelling: &dyn Fn(&Setting) -> String) -> Error {
    let known = SETTINGS.iter().map(spelling);
    let nearest = known.map(|known| (strsim::levenshtein(&known, key), known)).min();
    let hint = match nearest {
        Some((distance, known)) if distance <= 4 => format!(" (did you mean {known}?)"),
        _ => String::new(),
    };
    Error::UnknownKey { key: key.to_owned(), source_name: source.to_owned(), hint }
}
