//! The server that a browser looks at: the program itself, with or without the data of its demonstration.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use http::Method;
use perpend_server::client::Client;
use serde_json::Value;
use tempfile::TempDir;

use crate::patience::PATIENCE;
use crate::process::Process;

/// Before the key pair in what `perpend demo` prints.
const PUBLIC_KEY: &str = "PERPEND_PUBLIC_KEY=";
const SECRET_KEY: &str = "PERPEND_SECRET_KEY=";

/// A running server.
#[derive(Debug)]
pub struct Server {
    _process: Process,
    _data: TempDir,
    /// The address that logs in.
    pub login_url: String,
    /// The key pair of its project.
    pub keys: (String, String),
    /// Scheme, host and port.
    pub origin: String,
    /// Speaks with the key pair of its project.
    pub client: Client,
}

impl Server {
    /// The key pair of the server without data.
    pub const KEYS: (&'static str, &'static str) = ("pk-lf-walk", "sk-lf-walk");
    /// The key pair of its organization.
    pub const ORGANIZATION_KEYS: (&'static str, &'static str) = ("pk-lf-walks", "sk-lf-walks");

    /// Starts `perpend demo` and waits until all of it was sent.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn demo() -> Result<Self> {
        let command = perpend_it::command(&["demo"])?;
        Self::start(command.into_std(), |line| line.contains(SECRET_KEY))
    }

    /// Starts `perpend serve` on a fresh database, with [`Server::KEYS`] and [`Server::ORGANIZATION_KEYS`].
    ///
    /// # Errors
    /// When it does not come up.
    pub fn empty() -> Result<Self> {
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let mut command = perpend_it::command(&serve)?.into_std();
        command.env("PERPEND_LOG_LEVEL", "error");
        command.env("PERPEND_INIT_PUBLIC_KEY", Self::KEYS.0);
        command.env("PERPEND_INIT_SECRET_KEY", Self::KEYS.1);
        command.env("PERPEND_INIT_ORG_PUBLIC_KEY", Self::ORGANIZATION_KEYS.0);
        command.env("PERPEND_INIT_ORG_SECRET_KEY", Self::ORGANIZATION_KEYS.1);
        Self::start(command, |line| line.contains("/?token="))
    }

    fn start(mut command: Command, is_ready: fn(&str) -> bool) -> Result<Self> {
        let data = tempfile::tempdir()?;
        // Longer than any read or wait takes on a slow machine.
        command.env("PERPEND_ANSWERS_TIMEOUT_SECONDS", "600");
        command.env("PERPEND_DATABASE_WAIT_SECONDS", "60");
        command.arg("--data-dir").arg(data.path());
        let process = Process::start(&mut command, is_ready)?;
        let words = || process.output.split_whitespace();
        let login_url = words().find(|word| word.contains("/?token="));
        let login_url = login_url.context("the login address")?.to_owned();
        let (origin, _) = login_url.split_once("/?").context("the origin")?;
        let value_of = |name| words().find_map(|word| word.strip_prefix(name));
        let public = value_of(PUBLIC_KEY).unwrap_or(Self::KEYS.0);
        let secret = value_of(SECRET_KEY).unwrap_or(Self::KEYS.1);
        Ok(Self {
            client: Client::new(origin).with_keys(public, secret).with_timeout(PATIENCE),
            origin: origin.to_owned(),
            login_url,
            keys: (public.to_owned(), secret.to_owned()),
            _process: process,
            _data: data,
        })
    }

    /// Posts JSON and expects success; the answer.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.client.json(Method::POST, path, body).await?;
        ensure!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.text());
        Ok(answer.json())
    }

    /// The body of a successful response of the API.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(path).await?;
        ensure!(answer.status == 200, "{path}: {}", answer.text());
        Ok(answer.json())
    }

    /// Waits until the rules have examined all traces and observations and no evaluation is open.
    ///
    /// # Errors
    /// When the server does not answer, or takes too long.
    pub async fn evaluate_all(&self) -> Result<()> {
        let rules = self.get("/api/public/v2/evaluation-rules?limit=100").await?;
        let rules = rules["data"].as_array().context("rules")?;
        loop {
            let totals = self.totals().await?;
            for rule in rules {
                self.wait_for_rule(rule, totals).await?;
            }
            // An evaluation may record traces.
            if self.totals().await? == totals {
                return Ok(());
            }
        }
    }

    /// The numbers of traces and observations.
    async fn totals(&self) -> Result<(u64, u64)> {
        let total = async |path: &str| {
            let answer = self.get(path).await?;
            answer["meta"]["totalItems"].as_u64().with_context(|| format!("{path}: {answer}"))
        };
        let n_traces = total("/api/public/traces?limit=1").await?;
        let n_observations = total("/api/public/observations?limit=1").await?;
        Ok((n_traces, n_observations))
    }

    /// Waits until a rule has examined these numbers of traces and observations and has no open evaluation.
    async fn wait_for_rule(
        &self,
        rule: &Value,
        (n_traces, n_observations): (u64, u64),
    ) -> Result<()> {
        let n_sent = match rule["target"].as_str() {
            Some("trace") => n_traces,
            Some("observation") => n_observations,
            _ => 0,
        };
        let is_evaluated = |counters: &Value| {
            let count = |name: &str| counters["funnel"][name].as_u64().unwrap_or(0);
            n_sent <= count("arrived")
                && count("pending") + count("running") + count("delayed") == 0
        };
        let id = rule["id"].as_str().context("an id")?;
        let counters = format!("/api/v1/evaluation-rules/{id}/counters");
        perpend_it::wait_for(&self.client, &counters, is_evaluated).await.map(drop)
    }

    /// Sends spans in one request.
    ///
    /// # Errors
    /// When they are not accepted.
    pub async fn send(&self, spans: &[Value]) -> Result<()> {
        let body = serde_json::json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
        self.post(perpend_it::OTLP, &body).await.map(drop)
    }
}
