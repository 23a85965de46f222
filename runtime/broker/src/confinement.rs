//! Logs the sandbox layers of plug-ins when the server starts.

use anyhow::{Context as _, bail};
use perpend_config::{Confinement, Evaluation, Isolation};

use crate::Engine;

/// Starts a worker without calls and logs its sandbox layers.
///
/// # Errors
/// When no worker can be started, or a layer is missing and the settings require all.
pub async fn log_layers(engine: &Engine, settings: &Evaluation) -> anyhow::Result<()> {
    let Engine::Processes(workers) = engine else {
        if settings.confinement == Confinement::Required {
            bail!(
                "`evaluation.confinement` is `required`, but plug-ins run without operating-system confinement \
                 because `evaluation.isolation` is `in-process`; set `evaluation.confinement` to `best-effort` or \
                 `evaluation.isolation` to `process`"
            );
        }
        tracing::warn!(
            "plug-ins run in the server's own process, without operating-system confinement"
        );
        return Ok(());
    };
    debug_assert_eq!(settings.isolation, Isolation::Process);
    let layers = workers.sandbox_layers().await.context(
        "no worker process can be started (`evaluation.confinement`, `evaluation.isolation`)",
    )?;
    let mut applied = Vec::new();
    for layer in layers {
        match &layer.status {
            Ok(extent) => applied.push(format!("{} ({extent})", layer.name)),
            Err(reason) => {
                tracing::warn!(layer = layer.name, reason, "a sandbox layer is missing");
            }
        }
        if let Some(missing) = &layer.missing {
            tracing::warn!(layer = layer.name, missing, "a sandbox layer is incomplete");
        }
    }
    tracing::info!(layers = applied.join("; "), "plug-ins are confined");
    Ok(())
}
