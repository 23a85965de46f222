//! Optional plug-ins: registered when the first evaluator needs them.

use perpend_broker::components::{self, ComponentFile};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::{Code, Problem};

use crate::state::App;

/// One at a time: a compilation uses every processor, and the second request finds the first one's result.
static REGISTERING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The name in a reference `vendor/name` or `vendor/name@version`.
fn name_in(reference: &str) -> &str {
    reference.split_once('@').map_or(reference, |(name, _)| name)
}

/// Registers the optional plug-in that `reference` names, where the installation has it and this process has
/// not registered it yet. The program of a later version brings a later component: that is why a plug-in which
/// is in the database already does not settle it.
///
/// # Errors
/// When the file cannot be used; the log says why.
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
    // A task of its own: it takes longer than some clients wait, and has to go on when the caller does not.
    let task = register_file(app.clone(), name.to_owned(), file);
    let registered = tokio::spawn(task).await;
    let registered = registered.unwrap_or_else(|error| Err(error.into()));
    registered.map_err(|error| {
        let error: &dyn std::error::Error = error.as_ref();
        tracing::error!(error, plugin.name = name, "optional plug-in not registered");
        Problem::unavailable(format!("{name} cannot be registered; the log says why"))
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
            "compiling a plug-in for the first time, which may take half a minute; requests that need it wait"
        );
        let info = components::inspect(&app.engine, &component).await?;
        anyhow::ensure!(
            info.name == name,
            "{} holds the plug-in {}, not {name}",
            file.path.display(),
            info.name
        );
        components::register(&app.store, &info, &component, app.web.clock.now()).await?;
    }
    app.components.mark_registered(&name, file);
    Ok(())
}

/// No plug-in has this reference: for an optional one, with the way to get it.
pub(super) fn missing(app: &App, reference: &str) -> Problem {
    let message = match app.bundle.optional.contains(&name_in(reference)) {
        true => format!(
            "{} is not part of this installation; the operator adds its component with \
             `perpend plugin add FILE` (from source, `cargo xtask plugins` builds it)",
            name_in(reference)
        ),
        false => {
            format!("no plug-in {reference:?} in this project; GET /api/v1/plugins lists them")
        }
    };
    Problem::new(Code::NotFound, message).with("field", "plugin")
}
