//! Plug-ins that are in the program only where other toolchains built them before it: interpreters and
//! scorer libraries.
//!
//! They are large and take seconds to compile, so that each is registered when somebody first asks for it:
//! a server that nobody asks pays neither time nor memory for them.

use tokio::sync::Mutex;

use crate::App;
use crate::problem::{Code, Problem};

/// One at a time: whoever asks second finds it registered.
static REGISTERING: Mutex<()> = Mutex::const_new(());

/// Registers the plug-in that `reference` names when it is one of these and not there yet. True when it
/// can be found now.
///
/// # Errors
/// When it is not in this program, with the command that builds it; or when it cannot be used.
pub(crate) async fn register(app: &App, reference: &str) -> Result<bool, Problem> {
    let name = reference
        .split_once('@')
        .map_or(reference, |(name, _)| name);
    let Some(plugin) = app.bundle.apart(name) else {
        return Ok(false);
    };
    let Some(component) = plugin.component else {
        let message = format!(
            "{name} is not built into this server: run `{}` and build the server again, or upload its \
             component",
            app.bundle.build_apart
        );
        return Err(Problem::new(Code::NotFound, message).with("field", "plugin"));
    };
    // It takes longer than some clients wait, and who asks again has to find what was begun: it goes on
    // when the caller does not.
    let registering = tokio::spawn(put(app.clone(), component));
    let registered = registering.await.unwrap_or_else(|error| Err(error.into()));
    registered.map_err(|error| {
        let error: &dyn std::error::Error = error.as_ref();
        tracing::error!(error, plugin.name = name, "built-in plug-in not registered");
        Problem::unavailable(format!("{name} cannot be registered; the log says why"))
    })?;
    Ok(true)
}

async fn put(app: App, component: fn() -> std::io::Result<Vec<u8>>) -> anyhow::Result<()> {
    let _one = REGISTERING.lock().await;
    let component = tokio::task::spawn_blocking(component).await??;
    let digest = perpend_domain::plugin::Digest::of(&component);
    let known = app.store.plugin(&app.home_project, &digest).await?;
    if known.is_some_and(|known| known.owner.is_none()) {
        return Ok(());
    }
    let inspected = app.engine.inspect(&component).await;
    let info = inspected.map_err(|problems| {
        let problems = problems.iter().map(|p| format!("{}: {}", p.at, p.message));
        anyhow::anyhow!(problems.collect::<Vec<_>>().join("; "))
    })?;
    app.store
        .put_plugin(None, &info, &component, app.clock.now())
        .await?;
    tracing::info!(
        plugin.name = info.name,
        plugin.version = info.version,
        "plug-in registered"
    );
    Ok(())
}
