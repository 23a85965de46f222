//! Optional plug-ins, which are registered on first use.

use perpend_broker::components::{self, ComponentFile};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::{Code, Problem};

use crate::state::App;

/// One registration at a time: a compilation uses all processors, and concurrent requests share its result.
static REGISTERING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The name in a reference `vendor/name` or `vendor/name@version`.
fn name_in(reference: &str) -> &str {
    reference.split_once('@').map_or(reference, |(name, _)| name)
}

/// Registers the optional plug-in of `reference` if the installation has it and this process has
/// not registered it yet. A plug-in in the database is not sufficient: a newer program has a newer component.
///
/// # Errors
/// 503 when the file cannot be used; the cause is logged.
pub(super) async fn register(app: &App, reference: &str) -> Result<(), Problem> {
    let name = name_in(reference);
    if !app.bundle.optional.contains(&name) {
        return Ok(());
    }
    let Some(file) = app.components.find(name) else {
        return Ok(());
    };
    if app.components.is_registered(name, &file) {
        return Ok(());
    }
    // A separate task: it takes longer than the timeout of some clients and continues when the caller disconnects.
    let task = register_file(app.clone(), name.to_owned(), file);
    let registered = tokio::spawn(task).await;
    let registered = registered.unwrap_or_else(|error| Err(error.into()));
    registered.map_err(|error| {
        let error: &dyn std::error::Error = error.as_ref();
        tracing::error!(error, plugin.name = name, "optional plug-in not registered");
        Problem::unavailable(format!(
            "the plug-in {name} cannot be registered; the log of the server has the cause"
        ))
    })
}

async fn register_file(app: App, name: String, file: ComponentFile) -> anyhow::Result<()> {
    let _one = REGISTERING.lock().await;
    if app.components.is_registered(&name, &file) {
        return Ok(());
    }
    let path = file.path.clone();
    let component = tokio::task::spawn_blocking(move || components::read(&path)).await??;
    let digest = Digest::of(&component);
    let known = app.store.catalog.plugin(&app.home_project, &digest).await?;
    if known.is_none_or(|known| known.owner.is_some()) {
        tracing::info!(
            plugin.name = name,
            "compiling a plug-in for the first time, which may take half a minute"
        );
        let info = components::inspect(&app.engine, &component).await?;
        anyhow::ensure!(
            info.name == name,
            "{} must contain the plug-in {name}, got {}",
            file.path.display(),
            info.name
        );
        components::register(&app.store, &info, &component, app.web.clock.now()).await?;
    }
    app.components.mark_registered(&name, file);
    Ok(())
}

/// The problem for an unknown plug-in, with instructions for an optional one.
pub(super) fn missing(app: &App, reference: &str) -> Problem {
    let message = match app.bundle.optional.contains(&name_in(reference)) {
        true => format!(
            "the plug-in {} is not part of this installation; the operator can add its component with \
             `perpend plugin add FILE` (from source, `cargo xtask plugins` builds it)",
            name_in(reference)
        ),
        false => {
            format!("unknown plug-in {reference:?}; GET /api/v1/plugins lists the plug-ins")
        }
    };
    Problem::new(Code::NotFound, message).with("field", "plugin")
}
