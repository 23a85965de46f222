//! `perpend demo`: starts a server, sends sample traces and prints their scores, without any setup.

mod large;
mod more;
mod rules;
mod runs;
mod sample;
mod table;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use perpend_config::{Config, Sources};
use perpend_domain::bundle::Bundle;
use perpend_domain::time::Clock as _;
use tokio_util::sync::CancellationToken;

use self::rules::Creation;
use self::wire::{OTLP_PATH, send};
use super::common::{environment, print_line};
use super::{log, serve};
use crate::client::Client;
use crate::{KeyPair, RandomIds, Server, SystemClock};

/// Timeout for the scores.
const SCORE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for creating an evaluator, which includes the compilation of an interpreter.
const CREATE_TIMEOUT: Duration = Duration::from_secs(300);
/// Evaluators that took longer to create are reported.
const SLOW_CREATION: Duration = Duration::from_secs(1);

/// A directory that is removed on drop.
pub(super) struct Scratch(pub(super) Option<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Arguments of `perpend demo`.
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// Exit after the scores; the exit status is 0 if all of them arrived
    #[arg(long)]
    once: bool,
    /// Also send a trace of 50,000 observations, one with 1,000 levels and a session of 20,000 turns
    #[arg(long)]
    large: bool,
    /// Keep the data in this directory instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address and port to listen on, like `PERPEND_LISTEN` [default: 127.0.0.1:4717, or another port if it is in use]
    #[arg(long, value_name = "VALUE")]
    listen: Option<String>,
}

/// Settings that the demo reads from the environment. It ignores all others, so that it never writes to the database of a real
/// server.
const DEMO_VARIABLES: [&str; 4] = [
    "PERPEND_LISTEN",
    "PERPEND_DATA_PLUGIN_CACHE",
    "PERPEND_ANSWERS_TIMEOUT_SECONDS",
    "PERPEND_DATABASE_WAIT_SECONDS",
];

fn config(dir: &Path, pair: &KeyPair, listen: Option<&str>) -> anyhow::Result<Config> {
    let mut env = environment()?;
    env.retain(|name, _| DEMO_VARIABLES.contains(&name.as_str()));
    let dir = dir.to_str().context("the name of the directory is not UTF-8")?;
    let flags = [
        ("data.dir", dir),
        ("log.level", "warn"),
        ("init.public_key", pair.public_key.as_str()),
        ("init.secret_key", pair.secret_key.as_str()),
        ("init.project_name", "Support agent"),
        ("init.org_name", "Demo"),
    ];
    let listen = listen.map(|listen| ("server.listen", listen));
    let flags = flags.into_iter().chain(listen);
    let mut config = Config::load(&Sources {
        flags: flags.map(|(key, value)| (key, value.to_owned())).collect(),
        env: env.clone(),
        ..Sources::default()
    })?;
    let is_configured = listen.is_some() || env.contains_key("PERPEND_LISTEN");
    if !is_configured && std::net::TcpListener::bind(config.listen).is_err() {
        config.listen.set_port(0);
    }
    Ok(config)
}

pub(super) fn demo(args: DemoArgs, bundle: Bundle) -> anyhow::Result<ExitCode> {
    use perpend_domain::ids::IdSource as _;
    let name = format!("perpend-demo-{}", RandomIds.uuid().simple());
    let data_dir = args.data_dir;
    let dir = data_dir.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    anyhow::ensure!(
        !dir.join("perpend.db").exists(),
        "{} (--data-dir) already contains a database, and the demo needs a new one; use another directory, or open the \
         database with `perpend serve --data-dir`",
        dir.display()
    );
    let _scratch = Scratch(data_dir.is_none().then(|| dir.clone()));
    let pair = KeyPair::random(&RandomIds);
    let config = config(&dir, &pair, args.listen.as_deref())?;
    let runtime = serve::runtime()?;
    // The demo ignores the settings of the export.
    log::start(&config, runtime.handle())?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        serve::cancel_on_signal(&shutdown)?;
        print_line("Starting Perpend on an embedded SQLite database ...");
        let server = serve::open(config, bundle).await?;
        let (origin, login_url) = (server.origin(), server.login_url());
        let serving = tokio::spawn(Server::run(server, shutdown.clone()));

        let client = Client::new(&origin).with_keys(&pair.public_key, &pair.secret_key);
        let has_all_scores = tokio::select! {
            has_all = run_sample(&client, &origin, &dir) => has_all?,
            () = shutdown.cancelled() => false,
        };
        if args.once {
            shutdown.cancel();
        } else {
            rules::backfill(&client).await?;
            rules::backtest(&client).await?;
            print_line(
                "Sending a conversation of 30 turns and an agent run of 401 observations ...",
            );
            send(&client, more::requests(&RandomIds, SystemClock.now())).await?;
            print_line("Sending a dataset of 60 tickets and four runs over it ...");
            runs::send_runs(&client, &RandomIds, SystemClock.now()).await?;
            if args.large {
                for (description, requests) in large::all(&RandomIds, SystemClock.now()) {
                    print_line(&format!("Sending {description} ..."));
                    send(&client, requests).await?;
                }
            }
            print_access(&origin, &login_url, &pair);
            print_line(&closing_line(data_dir.as_deref()));
        }
        serving.await??;
        Ok(if has_all_scores { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Creates the evaluators and their rules and returns their number. Evaluators whose plug-in is not installed are skipped with a
/// message.
async fn create_evaluators(client: &Client, data: &Path) -> anyhow::Result<usize> {
    let evaluators = rules::all();
    print_line(&format!(
        "Creating {} evaluators; interpreters are compiled on first use ...",
        evaluators.len()
    ));
    rules::connect(client).await?;
    let client = client.clone().with_timeout(CREATE_TIMEOUT);
    let creations = evaluators.into_iter().map(|evaluator| async {
        let name = evaluator.name().to_owned();
        let started = Instant::now();
        let creation = evaluator.create(&client).await?;
        let took = started.elapsed();
        match &creation {
            Creation::Skipped(reason) => print_line(&format!(
                "  skipped \"{name}\": {reason} (for this demo with --data-dir {})",
                data.display()
            )),
            Creation::Created if SLOW_CREATION < took => {
                print_line(&format!("  \"{name}\": {:.1} s", took.as_secs_f64()));
            }
            Creation::Created => {}
        }
        Ok(usize::from(matches!(creation, Creation::Created)))
    });
    let created: anyhow::Result<Vec<usize>> = join_all(creations).await.into_iter().collect();
    Ok(created?.iter().sum())
}

/// Creates rules, sends traces, waits for the scores and prints them. `true` if all scores arrived.
async fn run_sample(client: &Client, origin: &str, data: &Path) -> anyhow::Result<bool> {
    let n_expected = create_evaluators(client, data).await? * sample::N_TRACES;
    print_line(&format!(
        "Sending {} traces of a support agent to {origin}{OTLP_PATH} ...",
        sample::N_TRACES
    ));
    send(client, sample::requests(&RandomIds, SystemClock.now())).await?;
    let started = Instant::now();
    let scores = loop {
        let answer = client
            .get("/api/public/v3/scores?source=EVAL&fields=details,subject&limit=100")
            .await?;
        let scores = answer.json()["data"].as_array().cloned().unwrap_or_default();
        if scores.len() >= n_expected || started.elapsed() > SCORE_TIMEOUT {
            break scores;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    print_line("");
    print_line(&table::render(client, &scores).await?);
    let has_all = scores.len() == n_expected;
    let n = scores.len();
    print_line(&match has_all {
        true => format!(
            "All {n} scores arrived, the last one {} ms after its trace was sent.",
            started.elapsed().as_millis()
        ),
        false => {
            format!("{n} of {n_expected} scores arrived within {} s.", SCORE_TIMEOUT.as_secs())
        }
    });
    Ok(has_all)
}

/// Prints the login URL and the settings for exporters and clients.
fn print_access(origin: &str, login_url: &str, pair: &KeyPair) {
    print_line("");
    print_line(&format!("Open the pages: {login_url}"));
    print_line("Send your own traces:");
    print_line(&format!("  export OTEL_EXPORTER_OTLP_ENDPOINT={origin}/api/public/otel"));
    print_line("  export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf");
    // Values in this variable are percent-encoded.
    let KeyPair { public_key, secret_key } = pair;
    let pair = STANDARD.encode(format!("{public_key}:{secret_key}"));
    print_line(&format!("  export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20{pair}"));
    print_line("Use the API, or register plug-ins:");
    print_line(&format!("  export PERPEND_SERVER={origin}"));
    print_line(&format!("  export PERPEND_PUBLIC_KEY={public_key}"));
    print_line(&format!("  export PERPEND_SECRET_KEY={secret_key}"));
}

/// Explains how to stop the demo, and whether the data are kept.
fn closing_line(data_dir: Option<&Path>) -> String {
    match data_dir {
        None => "Stop with Ctrl+C. The data of the demo are deleted then.".to_owned(),
        Some(dir) => format!(
            "Stop with Ctrl+C. The data remain in {}; open them again with `perpend serve --data-dir {}`.",
            dir.display(),
            dir.display()
        ),
    }
}
