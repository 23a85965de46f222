//! The script: steps in TOML files, in the order of the files' names, and how one is carried out.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use axum::http::Method;
use perpend_it::{KEYS, ORGANIZATION_KEYS, PATIENCE};
use perpend_server::client::{Answer, Client};
use serde::Deserialize;
use serde_json::Value;

use super::audited::Exchange;
use super::contract::Success;
use super::masked::Mask;
use super::recording::Answered;
use super::variants;

/// The caller.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Caller {
    /// The key pair of the first project.
    #[default]
    Project,
    /// The key pair of another project; the script makes it and keeps `other_public` and `other_secret`.
    Other,
    /// The key pair of the organization.
    Organization,
    /// The public key of the first project as a bearer token.
    PublicKey,
    /// Anonymous.
    Anyone,
}

/// One request, and the values kept from its response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// A unique description.
    pub name: String,
    /// `METHOD /path?query`; `${name}` is a value that an earlier step kept.
    pub call: String,
    /// The caller.
    #[serde(default, rename = "as")]
    pub caller: Caller,
    /// The body, with `${name}` as in the call.
    pub body: Option<String>,
    /// The file with the body, in the folder of the script.
    pub file: Option<String>,
    /// Its media type.
    #[serde(default = "json")]
    pub media_type: String,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Values to keep, by name: a JSON pointer into the response.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// The request is repeated until these members of the response, given as JSON pointers, have these values.
    #[serde(default)]
    pub until: BTreeMap<String, toml::Value>,
    /// JSON pointers to members that depend on the speed of the server: they are not recorded.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Whether the request is sent as it is only, without the variants with mistakes.
    #[serde(default)]
    pub plain: bool,
    /// Whether the request creates a resource. It is not repeated as another project, which would create its own; the
    /// steps that follow check access to it.
    #[serde(default)]
    pub makes: bool,
}

fn json() -> String {
    "application/json".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    step: Vec<Step>,
}

/// All steps.
#[derive(Debug)]
pub(crate) struct Script {
    pub steps: Vec<Step>,
}

impl Script {
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let entries: std::io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
        let mut paths: Vec<_> = entries?.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "toml"));
        paths.sort();
        let mut steps: Vec<Step> = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path)?;
            let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
            for step in file.step {
                let is_taken = steps.iter().any(|other| other.name == step.name);
                anyhow::ensure!(!is_taken, "two steps are called {}", step.name);
                steps.push(step);
            }
        }
        Ok(Self { steps })
    }
}

impl Step {
    pub(crate) fn method_and_path(&self) -> anyhow::Result<(Method, &str)> {
        let (method, path) = self.call.split_once(' ').context("METHOD /path")?;
        Ok((method.parse()?, path))
    }
}

/// Whether a path of the document, as `/datasets/{name}`, is that of a call.
pub(crate) fn matches(template: &str, path: &str) -> bool {
    let (mut one, mut other) = (template.split('/'), path.split('/'));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one == other || one.starts_with('{') => {}
            _ => return false,
        }
    }
}

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    pub caller: Caller,
    pub media_type: Option<String>,
    pub body: Vec<u8>,
    pub headers: BTreeMap<String, String>,
}

/// The script under way.
#[derive(Debug)]
pub(crate) struct Run {
    client: Client,
    /// The kept values, by name.
    kept: BTreeMap<String, String>,
    mask: Mask,
    /// The successful JSON responses so far.
    pub successes: Vec<Success>,
    /// The requests so far.
    pub exchanges: Vec<Exchange>,
}

impl Run {
    pub(crate) fn new(origin: &str) -> Self {
        Self {
            client: Client::new(origin).with_timeout(PATIENCE),
            kept: BTreeMap::new(),
            mask: Mask::new(origin),
            successes: Vec::new(),
            exchanges: Vec::new(),
        }
    }

    /// Executes a step: first with mistakes, then as it is.
    pub(crate) async fn step(
        &mut self,
        step: &Step,
        answers: &mut Vec<Answered>,
    ) -> anyhow::Result<()> {
        let (method, path) = step.method_and_path()?;
        let body = match (&step.body, &step.file) {
            (Some(text), _) => self.filled(text)?.into_bytes(),
            (None, Some(name)) => std::fs::read(super::folder().join("script").join(name))?,
            (None, None) => Vec::new(),
        };
        let has_body = step.body.is_some() || step.file.is_some();
        let headers: anyhow::Result<_> = step
            .headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.filled(value)?)))
            .collect();
        let request = Request {
            method,
            path: self.filled(path)?,
            caller: step.caller,
            media_type: has_body.then(|| step.media_type.clone()),
            body,
            headers: headers?,
        };
        if !step.plain {
            for (mistake, wrong) in variants::of(step, &request) {
                let answer = self.send(&wrong).await?;
                self.successes.extend(Success::of(&wrong, &answer));
                self.exchanges.push(Exchange::of(&wrong, &answer));
                let name = format!("{}: {mistake}", step.name);
                answers.push(self.answered(&name, &answer, &step.hide));
            }
        }
        let answer = self.send_until(&request, &step.until).await?;
        self.successes.extend(Success::of(&request, &answer));
        self.exchanges.push(Exchange::of(&request, &answer));
        if !step.keep.is_empty() {
            let shown = answer.json();
            for (name, pointer) in &step.keep {
                let value = shown.pointer(pointer).and_then(Value::as_str);
                let value =
                    value.with_context(|| format!("no text at {pointer}: {}", answer.text()))?;
                // Only the query of a URL of this server is kept, because the path is part of the call.
                let value = match value.split_once('?') {
                    Some((address, query)) if address.starts_with(self.client.origin()) => query,
                    _ => value,
                };
                self.mask.name(value, name);
                self.kept.insert(name.clone(), value.to_owned());
            }
        }
        answers.push(self.answered(&step.name, &answer, &step.hide));
        Ok(())
    }

    fn answered(&self, step: &str, answer: &Answer, hidden: &[String]) -> Answered {
        let mut answered = Answered::new(step, answer, &self.mask);
        for pointer in hidden.iter().filter(|_| answer.status.is_success()) {
            if let Some(value) = answered.body.pointer_mut(pointer) {
                *value = Value::from("<hidden>");
            }
        }
        answered
    }

    /// The text with the names replaced by the kept values.
    pub(crate) fn filled(&self, text: &str) -> anyhow::Result<String> {
        let mut parts = text.split("${");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').context("${ without }")?;
            let value = self.kept.get(name);
            filled.push_str(value.with_context(|| format!("nothing was kept as {name}"))?);
            filled.push_str(rest);
        }
        Ok(filled)
    }

    pub(crate) fn client_of(&self, caller: Caller) -> Client {
        let client = self.client.clone();
        let kept = |name| self.kept.get(name).map_or("", String::as_str);
        match caller {
            Caller::Project => client.with_keys(KEYS.0, KEYS.1),
            Caller::Other => client.with_keys(kept("other_public"), kept("other_secret")),
            Caller::Organization => client.with_keys(ORGANIZATION_KEYS.0, ORGANIZATION_KEYS.1),
            Caller::PublicKey => client.with_authorization(&format!("Bearer {}", KEYS.0)),
            Caller::Anyone => client,
        }
    }

    async fn send(&self, request: &Request) -> anyhow::Result<Answer> {
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if let Some(media_type) = &request.media_type {
            headers.push(("content-type", media_type));
        }
        let more = request.headers.iter();
        headers.extend(more.map(|(name, value)| (name.as_str(), value.as_str())));
        let client = self.client_of(request.caller);
        let (method, body) = (request.method.clone(), request.body.clone());
        client.send(method, &request.path, &headers, body).await
    }

    async fn send_until(
        &self,
        request: &Request,
        until: &BTreeMap<String, toml::Value>,
    ) -> anyhow::Result<Answer> {
        let wanted: Result<Vec<(&str, Value)>, serde_json::Error> = until
            .iter()
            .map(|(pointer, value)| Ok((pointer.as_str(), serde_json::to_value(value)?)))
            .collect();
        let wanted = wanted?;
        let is_there = |answer: &Answer| {
            let shown = answer.json();
            wanted.iter().all(|(pointer, value)| shown.pointer(pointer) == Some(value))
        };
        perpend_it::until(&request.path, async || self.send(request).await, is_there).await
    }
}
