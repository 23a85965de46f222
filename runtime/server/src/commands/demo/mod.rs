//! `perpend demo`: the main job from end to end, on this machine, with nothing to set up.

mod rules;
mod sample;
mod table;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_domain::bundle::Bundle;
use perpend_domain::time::Clock as _;
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use super::{log, say, serve};
use crate::client::Client;
use crate::config::{Config, Sources};
use crate::{KeyPair, RandomIds, Server, SystemClock};

/// Longest wait for the scores; a cold machine compiles two plug-ins in it.
const PATIENCE: Duration = Duration::from_secs(60);
const OTLP_PATH: &str = "/api/public/otel/v1/traces";

/// Removes the demo's data when it ends.
struct Scratch(Option<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

fn config(dir: &Path, pair: &KeyPair, listen: &str) -> anyhow::Result<Config> {
    let flags = [
        ("server.listen", listen),
        (
            "data.dir",
            dir.to_str().context("the directory's name is not UTF-8")?,
        ),
        ("log.level", "warn"),
        ("init.public_key", pair.public_key.as_str()),
        ("init.secret_key", pair.secret_key.as_str()),
        ("init.project_name", "Support agent"),
        ("init.org_name", "Demo"),
    ];
    Ok(Config::load(&Sources {
        flags: flags.map(|(key, value)| (key, value.to_owned())).to_vec(),
        ..Sources::default()
    })?)
}

pub(super) fn demo(
    once: bool,
    data_dir: Option<PathBuf>,
    bundle: Bundle,
) -> anyhow::Result<ExitCode> {
    use perpend_domain::ids::IdSource as _;
    let name = format!("perpend-demo-{}", RandomIds.uuid().simple());
    let dir = data_dir
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(name));
    anyhow::ensure!(
        !dir.join("perpend.db").exists(),
        "there is a database in {} (--data-dir) already, and the demo begins with a fresh one: look at what is \
         there with `perpend serve --data-dir`, or name another directory",
        dir.display()
    );
    let _scratch = Scratch(data_dir.is_none().then(|| dir.clone()));
    let pair = KeyPair::made(&RandomIds);
    let config_at = |listen: &str| config(&dir, &pair, listen);
    log::start(&config_at("127.0.0.1:4717")?)?;
    let runtime = serve::runtime()?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        serve::cancel_on_signal(&shutdown)?;
        say("Starting Perpend on an embedded SQLite database ...");
        let usual = config_at("127.0.0.1:4717")?;
        let is_free = std::net::TcpListener::bind(usual.listen).is_ok();
        let config = if is_free {
            usual
        } else {
            config_at("127.0.0.1:0")?
        };
        let server = serve::open(config, bundle).await?;
        let (origin, login_url) = (server.origin(), server.login_url());
        let serving = tokio::spawn(Server::run(server, shutdown.clone()));

        let client = Client::new(&origin).with_keys(&pair.public_key, &pair.secret_key);
        let all_came = tokio::select! {
            shown = show(&client, &origin) => shown?,
            () = shutdown.cancelled() => false,
        };
        if once {
            shutdown.cancel();
        } else {
            invite(&origin, &login_url, &pair);
        }
        serving.await??;
        Ok(if all_came {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

/// Makes rules, sends traces, waits for the scores and prints them. `true` when all of them came.
async fn show(client: &Client, origin: &str) -> anyhow::Result<bool> {
    let measures = rules::all();
    let n_expected: usize = measures
        .iter()
        .map(|measure| measure.n_per_trace)
        .sum::<usize>()
        * sample::N_TRACES;
    for measure in measures {
        measure.create(client).await?;
    }
    say(&format!(
        "Sending {} traces of a support agent to {origin}{OTLP_PATH} ...",
        sample::N_TRACES
    ));
    for request in sample::requests(&RandomIds, SystemClock.now()) {
        let headers = [("content-type", "application/x-protobuf")];
        let answer = client
            .send(Method::POST, OTLP_PATH, &headers, request.encode_to_vec())
            .await?;
        anyhow::ensure!(
            answer.status.is_success(),
            "OTLP: {} {}",
            answer.status,
            answer.text()
        );
    }
    let begun = Instant::now();
    let scores = loop {
        let answer = client
            .get("/api/public/v3/scores?source=EVAL&fields=details,subject&limit=100")
            .await?;
        let scores = answer.json()["data"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if scores.len() >= n_expected || begun.elapsed() > PATIENCE {
            break scores;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    say("");
    say(&table::render(client, &scores).await?);
    let all_came = scores.len() == n_expected;
    let n = scores.len();
    say(&match all_came {
        true => format!(
            "All {n} scores came, the last {} ms after its trace was sent.",
            begun.elapsed().as_millis()
        ),
        false => format!(
            "{n} of {n_expected} scores came within {} s.",
            PATIENCE.as_secs()
        ),
    });
    Ok(all_came)
}

fn invite(origin: &str, login_url: &str, pair: &KeyPair) {
    say("");
    say(&format!("Look at them:   {login_url}"));
    say("Send your own:");
    say(&format!(
        "  export OTEL_EXPORTER_OTLP_ENDPOINT={origin}/api/public/otel"
    ));
    say("  export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf");
    // In the variable a blank is written as in a URL.
    let KeyPair {
        public_key,
        secret_key,
    } = pair;
    let pair = STANDARD.encode(format!("{public_key}:{secret_key}"));
    say(&format!(
        "  export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20{pair}"
    ));
    say("Ask the API, or register plug-ins:");
    say(&format!("  export PERPEND_SERVER={origin}"));
    say(&format!("  export PERPEND_PUBLIC_KEY={public_key}"));
    say(&format!("  export PERPEND_SECRET_KEY={secret_key}"));
    say("Stop with Ctrl+C; the data of the demo goes with it.");
}
