//! `perpend demo`: the main job from end to end, on this machine, with nothing to set up.

mod large;
mod more;
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
use futures_util::future::join_all;
use perpend_config::{Config, Sources};
use perpend_domain::bundle::Bundle;
use perpend_domain::time::Clock as _;
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use self::rules::Made;
use self::wire::ExportRequest;
use super::common::{environment, print_line};
use super::{log, serve};
use crate::client::Client;
use crate::{KeyPair, RandomIds, Server, SystemClock};

/// Longest wait for the scores.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for an evaluator: a slow machine compiles an interpreter in it.
const COMPILE_PATIENCE: Duration = Duration::from_secs(300);
/// An evaluator that took longer to make is worth a line.
const NOTICED: Duration = Duration::from_secs(1);
const OTLP_PATH: &str = "/api/public/otel/v1/traces";

/// A folder that is removed when this is dropped.
pub(super) struct Scratch(pub(super) Option<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// What the demo is asked for.
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// Exit after the scores; the status says whether all of them came
    #[arg(long)]
    once: bool,
    /// Send a trace of 50,000 steps, one 1,000 levels deep and a session of 20,000 turns too
    #[arg(long)]
    large: bool,
    /// Keep the data here, instead of a temporary directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address and port to listen on, as `PERPEND_LISTEN` [default: 127.0.0.1:4717, another port where it is taken]
    #[arg(long, value_name = "VALUE")]
    listen: Option<String>,
}

/// Variables that the demo reads as a server does. The others are for servers with data that matter: a demo
/// must not write into the database that one of them names.
const READ: [&str; 2] = ["PERPEND_LISTEN", "PERPEND_DATA_PLUGIN_CACHE"];

fn config(dir: &Path, pair: &KeyPair, listen: Option<&str>) -> anyhow::Result<Config> {
    let mut env = environment()?;
    env.retain(|name, _| READ.contains(&name.as_str()));
    let dir = dir.to_str().context("the directory's name is not UTF-8")?;
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
    let is_asked_for = listen.is_some() || env.contains_key("PERPEND_LISTEN");
    if !is_asked_for && std::net::TcpListener::bind(config.listen).is_err() {
        config.listen.set_port(0);
    }
    Ok(config)
}

pub(super) fn demo(args: DemoArgs, bundle: Bundle) -> anyhow::Result<ExitCode> {
    use perpend_domain::ids::IdSource as _;
    let name = format!("perpend-demo-{}", RandomIds.uuid().simple());
    let kept = args.data_dir;
    let dir = kept.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    anyhow::ensure!(
        !dir.join("perpend.db").exists(),
        "there is a database in {} (--data-dir) already, and the demo begins with a fresh one: look at what is \
         there with `perpend serve --data-dir`, or name another directory",
        dir.display()
    );
    let _scratch = Scratch(kept.is_none().then(|| dir.clone()));
    let pair = KeyPair::random(&RandomIds);
    let config = config(&dir, &pair, args.listen.as_deref())?;
    log::start(&config)?;
    let runtime = serve::runtime()?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        serve::cancel_on_signal(&shutdown)?;
        print_line("Starting Perpend on an embedded SQLite database ...");
        let server = serve::open(config, bundle).await?;
        let (origin, login_url) = (server.origin(), server.login_url());
        let serving = tokio::spawn(Server::run(server, shutdown.clone()));

        let client = Client::new(&origin).with_keys(&pair.public_key, &pair.secret_key);
        let all_came = tokio::select! {
            shown = show(&client, &origin, &dir) => shown?,
            () = shutdown.cancelled() => false,
        };
        if args.once {
            shutdown.cancel();
        } else {
            print_line(
                "Sending a conversation of 30 turns and an agent of 401 steps, to look at ...",
            );
            send(&client, more::requests(&RandomIds, SystemClock.now())).await?;
            if args.large {
                for (what, requests) in large::all(&RandomIds, SystemClock.now()) {
                    print_line(&format!("Sending {what} ..."));
                    send(&client, requests).await?;
                }
            }
            invite(&origin, &login_url, &pair);
            print_line(&farewell(kept.as_deref()));
        }
        serving.await??;
        Ok(if all_came { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Makes the evaluators and their rules; how many. What is not installed is left out, in a line.
async fn make(client: &Client, data: &Path) -> anyhow::Result<usize> {
    let measures = rules::all();
    print_line(&format!(
        "Making {} evaluators; the interpreters are compiled when they are first used ...",
        measures.len()
    ));
    rules::connect(client).await?;
    let client = client.clone().with_timeout(COMPILE_PATIENCE);
    let making = measures.into_iter().map(|measure| async {
        let name = measure.name().to_owned();
        let begun = Instant::now();
        let made = measure.create(&client).await?;
        let took = begun.elapsed();
        match &made {
            Made::LeftOut(why) => print_line(&format!(
                "  left out \"{name}\": {why} (here with --data-dir {})",
                data.display()
            )),
            Made::Yes if NOTICED < took => {
                print_line(&format!("  \"{name}\": {:.1} s", took.as_secs_f64()));
            }
            Made::Yes => {}
        }
        Ok(usize::from(matches!(made, Made::Yes)))
    });
    let made: anyhow::Result<Vec<usize>> = join_all(making).await.into_iter().collect();
    Ok(made?.iter().sum())
}

/// Makes rules, sends traces, waits for the scores and prints them. `true` when all of them came.
async fn show(client: &Client, origin: &str, data: &Path) -> anyhow::Result<bool> {
    let n_expected = make(client, data).await? * sample::N_TRACES;
    print_line(&format!(
        "Sending {} traces of a support agent to {origin}{OTLP_PATH} ...",
        sample::N_TRACES
    ));
    send(client, sample::requests(&RandomIds, SystemClock.now())).await?;
    let begun = Instant::now();
    let scores = loop {
        let answer = client
            .get("/api/public/v3/scores?source=EVAL&fields=details,subject&limit=100")
            .await?;
        let scores = answer.json()["data"].as_array().cloned().unwrap_or_default();
        if scores.len() >= n_expected || begun.elapsed() > PATIENCE {
            break scores;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    print_line("");
    print_line(&table::render(client, &scores).await?);
    let all_came = scores.len() == n_expected;
    let n = scores.len();
    print_line(&match all_came {
        true => format!(
            "All {n} scores came, the last {} ms after its trace was sent.",
            begun.elapsed().as_millis()
        ),
        false => format!("{n} of {n_expected} scores came within {} s.", PATIENCE.as_secs()),
    });
    Ok(all_came)
}

/// Sends these requests, one after the other.
async fn send(
    client: &Client,
    requests: impl IntoIterator<Item = ExportRequest>,
) -> anyhow::Result<()> {
    for request in requests {
        let headers = [("content-type", "application/x-protobuf")];
        let answer =
            client.send(Method::POST, OTLP_PATH, &headers, request.encode_to_vec()).await?;
        anyhow::ensure!(answer.status.is_success(), "OTLP: {} {}", answer.status, answer.text());
    }
    Ok(())
}

fn invite(origin: &str, login_url: &str, pair: &KeyPair) {
    print_line("");
    print_line(&format!("Look at them:   {login_url}"));
    print_line("Send your own:");
    print_line(&format!("  export OTEL_EXPORTER_OTLP_ENDPOINT={origin}/api/public/otel"));
    print_line("  export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf");
    // In the variable a blank is written as in a URL.
    let KeyPair { public_key, secret_key } = pair;
    let pair = STANDARD.encode(format!("{public_key}:{secret_key}"));
    print_line(&format!("  export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20{pair}"));
    print_line("Ask the API, or register plug-ins:");
    print_line(&format!("  export PERPEND_SERVER={origin}"));
    print_line(&format!("  export PERPEND_PUBLIC_KEY={public_key}"));
    print_line(&format!("  export PERPEND_SECRET_KEY={secret_key}"));
}

/// How it ends, and what becomes of the data.
fn farewell(kept: Option<&Path>) -> String {
    match kept {
        None => "Stop with Ctrl+C; the data of the demo are deleted then.".to_owned(),
        Some(dir) => format!(
            "Stop with Ctrl+C; the data stay in {}: open them again with `perpend serve --data-dir {}`.",
            dir.display(),
            dir.display()
        ),
    }
}
