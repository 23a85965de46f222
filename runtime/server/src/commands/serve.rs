//! `perpend serve`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use perpend_broker::ComponentFolder;
use perpend_config::{Config, SettingArgs};
use perpend_db::Breakpoints;
use perpend_domain::bundle::Bundle;
use tokio_util::sync::CancellationToken;

use super::kit::{load, say};
use super::log;
use crate::{KeyPair, RandomIds, Server, Setup, SystemClock};

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the async runtime cannot start")
}

/// A server with the system's clock and random ids.
pub(super) async fn open(config: Config, bundle: Bundle) -> anyhow::Result<Server> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    Server::open(Setup {
        config,
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        components: ComponentFolder::of_installation(&program),
        program,
        bundle,
        show,
        stops: Breakpoints::default(),
    })
    .await
}

pub(super) fn serve(settings: &SettingArgs, bundle: Bundle) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    log::start(&config)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        cancel_on_signal(&shutdown)?;
        let server = open(config, bundle).await?;
        announce(&server);
        server.run(shutdown).await?;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

fn show(pair: &KeyPair) {
    say("First start: this key pair opens the new project. The secret is shown only now.");
    say(&format!("  export PERPEND_PUBLIC_KEY={}", pair.public_key));
    say(&format!("  export PERPEND_SECRET_KEY={}", pair.secret_key));
}

/// What the operator needs to know.
fn announce(server: &Server) {
    tracing::info!(address = %server.address(), "listening");
    say(&format!("Perpend is ready. Open {}", server.login_url()));
}

/// SIGTERM and SIGINT cancel the token; a second one ends the program at once.
pub(super) fn cancel_on_signal(shutdown: &CancellationToken) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: requests under way may finish");
        shutdown.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}
