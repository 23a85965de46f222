//! `perpend serve`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use perpend_broker::ComponentFolder;
use perpend_config::{Config, SettingArgs};
use perpend_db::Breakpoints;
use perpend_domain::bundle::Bundle;
use tokio_util::sync::CancellationToken;

use super::common::{load, print_line};
use super::log;
use crate::{KeyPair, RandomIds, Server, Setup, SystemClock};

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

/// A server with the system's clock and random ids.
pub(super) async fn open(config: Config, bundle: Bundle) -> anyhow::Result<Server> {
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
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
    let runtime = runtime()?;
    let export = log::start(&config, runtime.handle())?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        cancel_on_signal(&shutdown)?;
        let server = open(config, bundle).await?;
        announce(&server).await?;
        let outcome = server.run(shutdown).await;
        if let Some(export) = export {
            export.finish().await;
        }
        outcome?;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

fn show(pair: &KeyPair) {
    print_line(
        "First start: this key pair gives access to the new project. The secret is not shown again.",
    );
    print_line(&format!("  export PERPEND_PUBLIC_KEY={}", pair.public_key));
    print_line(&format!("  export PERPEND_SECRET_KEY={}", pair.secret_key));
}

/// Prints the URL of the pages: with a login token while there is no account, and the URL that creates the first one.
async fn announce(server: &Server) -> anyhow::Result<()> {
    tracing::info!(address = %server.address(), "listening");
    match server.setup_url().await? {
        Some(setup) => {
            print_line(&format!("Perpend is ready. Open {}", server.login_url()));
            print_line(&format!("Create the first account within 24 hours: {setup}"));
        }
        None => print_line(&format!("Perpend is ready. Open {}", server.origin())),
    }
    Ok(())
}

/// Cancels the token on SIGTERM or SIGINT; a second signal ends the process immediately.
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
        tracing::info!("shutting down; waiting for active requests");
        shutdown.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}
