//! The common steps of `check`, `run` and `test`: open a component, select an evaluator, check its configuration and
//! make calls as a server does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use perpend_domain::identity::{fingerprint, seed};
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, EvaluatorInfo, Item, Limits, PluginInfo, Purpose,
};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::items;
use crate::progress::Progress;
use crate::project::{COMPONENT, ITEMS, MANIFEST};
use crate::sandbox::Sandbox;
use crate::text;

/// The environment of the commands: the sandbox, the progress display and the time.
pub struct Workbench<'a> {
    /// The sandbox of components.
    pub sandbox: &'a Sandbox,
    /// The progress display.
    pub progress: &'a dyn Progress,
    /// The time of the run for plug-ins, in milliseconds since 1970.
    pub now_ms: u64,
}

impl std::fmt::Debug for Workbench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workbench").finish_non_exhaustive()
    }
}

/// The selected component, evaluator, configuration and items.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The file of the component; `plugin.wasm` by default.
    pub file: Option<PathBuf>,
    /// The id of the evaluator; optional for a component with a single one.
    pub evaluator: Option<String>,
    /// The configuration as JSON text, or `@FILE`; `{}` by default.
    pub config: Option<String>,
    /// The file of the items; `items.jsonl` in the folder of the component by default.
    pub items: Option<PathBuf>,
    /// The file of the answers of a model, one JSON value per line; without it no model is granted.
    pub answers: Option<PathBuf>,
}

impl Selection {
    /// The component's file.
    #[must_use]
    pub fn component(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| COMPONENT.into())
    }

    /// The folder of the component.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let file = self.component();
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or_else(|| PathBuf::from("."), Path::to_owned)
    }

    /// The file of the items.
    #[must_use]
    pub fn items(&self) -> PathBuf {
        self.items.clone().unwrap_or_else(|| self.folder().join(ITEMS))
    }
}

/// An inspected component.
#[derive(Clone, Debug)]
pub struct Component {
    /// The path, as given.
    pub file: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The SHA-256 digest of the bytes.
    pub digest: Digest,
    /// Its description.
    pub info: PluginInfo,
}

/// A valid configuration, with its defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct CheckedConfig<'c> {
    pub(crate) evaluator: &'c EvaluatorInfo,
    pub(crate) config: Value,
    text: Arc<str>,
    fingerprint: Digest,
}

impl Component {
    pub(crate) fn shown_name(&self) -> String {
        text::inert(&format!("{} {}", self.info.name, self.info.version))
    }

    /// The evaluator of this id, or the only one.
    pub(crate) fn evaluator(&self, id: Option<&str>) -> Result<&EvaluatorInfo, Error> {
        let all = &self.info.evaluators;
        let found = match (id, all.as_slice()) {
            (Some(id), _) => all.iter().find(|evaluator| evaluator.id == id),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.ok_or_else(|| Error::Evaluator {
            file: self.file.clone(),
            ids: all.iter().map(|evaluator| evaluator.id.clone()).collect(),
            why: match id {
                Some(id) => format!("unknown evaluator {id:?}"),
                None => "select one with --evaluator".to_owned(),
            },
        })
    }
}

/// The bytes of a component.
fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|source| {
        if source.kind() != std::io::ErrorKind::NotFound {
            return Error::file(file, source);
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let is_output = file.file_name().is_some_and(|name| name == COMPONENT);
        let hint = if is_output && folder.join(MANIFEST).is_file() {
            ": create it with `perpend plugin build`"
        } else if is_output {
            ": specify a component, or change to the folder of a plug-in (create one with `perpend plugin new NAME`)"
        } else {
            ""
        };
        Error::NoComponent {
            file: file.display().to_string(),
            hint,
        }
    })
}

impl Workbench<'_> {
    /// Compiles and inspects a component.
    ///
    /// # Errors
    /// All problems of the component.
    pub fn open(&self, file: &Path) -> Result<Component, Error> {
        let bytes = read(file)?;
        let shown = file.display().to_string();
        self.progress.step(&format!("compiling {shown}"));
        let info = self.sandbox.inspect(&bytes);
        self.progress.done();
        match info {
            Ok(info) => Ok(Component { digest: Digest::of(&bytes), file: shown, bytes, info }),
            Err(problems) => Err(Error::Component { file: shown, problems }),
        }
    }

    /// Checks a configuration against its schema, and with the check of the component if it has one.
    pub(crate) fn configure<'c>(
        &self,
        component: &'c Component,
        evaluator: &'c EvaluatorInfo,
        config: Value,
        place: &str,
    ) -> Result<CheckedConfig<'c>, Error> {
        let wrong = |issues: String| Error::Config {
            place: place.to_owned(),
            evaluator: evaluator.id.clone(),
            issues,
        };
        let config =
            perpend_sandbox::check_config(&evaluator.config_schema, config).map_err(|issues| {
                let lines = issues.iter().map(|issue| format!("\n  {issue}"));
                wrong(text::lines(&lines.collect::<String>()))
            })?;
        let configured = CheckedConfig {
            text: config.to_string().into(),
            fingerprint: fingerprint(&component.digest, &evaluator.id, &config, &[]),
            evaluator,
            config,
        };
        if component.info.checks_config {
            let mut call = self.call(component, &configured, &Item::default());
            call.purpose = Purpose::CheckConfig;
            let answer = self.sandbox.evaluate(vec![call], &|_| ()).pop();
            if let Some(Err(failure)) = answer.map(|answer| answer.outcome) {
                let lines =
                    failure.message.lines().map(|line| format!("\n  {}", text::inert(line)));
                return Err(wrong(lines.collect()));
            }
        }
        Ok(configured)
    }

    /// The call for an item, as a server makes it.
    pub(crate) fn call(
        &self,
        component: &Component,
        configured: &CheckedConfig<'_>,
        item: &Item,
    ) -> EvaluationCall {
        let item = items::needed(item, configured.evaluator.needs);
        EvaluationCall {
            plugin: component.digest,
            evaluator_id: configured.evaluator.id.as_str().into(),
            config: Arc::clone(&configured.text),
            seed: seed(&configured.fingerprint, &item),
            item: Arc::new(item),
            run_time_ms: self.now_ms,
            limits: Limits::default(),
            purpose: Purpose::Evaluate,
            origin: None,
        }
    }

    /// Scores the items.
    pub(crate) fn score(
        &self,
        component: &Component,
        configured: &CheckedConfig<'_>,
        items: &[Item],
    ) -> Vec<CallResult> {
        let calls: Vec<EvaluationCall> =
            items.iter().map(|item| self.call(component, configured, item)).collect();
        let n_all = calls.len() as u64;
        self.progress.step(&format!("scoring {}", text::pluralized(items.len(), "item")));
        let results = self.sandbox.evaluate(calls, &|n_done| {
            self.progress.count(n_done as u64, n_all);
        });
        self.progress.done();
        results
    }
}

/// The configuration of a flag, JSON text or `@FILE`, and its origin.
pub(crate) fn parse_config(raw: Option<&str>) -> Result<(Value, String), Error> {
    let (text, place) = match raw {
        None => return Ok((Value::Object(Map::new()), "--config".to_owned())),
        Some(raw) => match raw.strip_prefix('@') {
            Some(file) => {
                let file = Path::new(file);
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|source| Error::file(file, source))?;
                (text, file.display().to_string())
            }
            None => (raw.to_owned(), "--config".to_owned()),
        },
    };
    match serde_json::from_str(&text) {
        Ok(config) => Ok((config, place)),
        Err(error) => Err(Error::Config {
            place,
            evaluator: "that was chosen".to_owned(),
            issues: format!("\n  not JSON: {error}"),
        }),
    }
}
