//! What start-up says about the walls around plug-ins.

use anyhow::{Context as _, bail};
use perpend_config::{Confinement, Evaluation, Isolation};

use crate::Engine;

/// Starts a worker that is given no call, and logs what the platform put around it.
///
/// # Errors
/// When no worker can be started, or the settings require walls that are not there.
pub async fn announce(engine: &Engine, settings: &Evaluation) -> anyhow::Result<()> {
    let Engine::Processes(workers) = engine else {
        if settings.confinement == Confinement::Required {
            bail!(
                "`evaluation.confinement` is `required`, and `evaluation.isolation` is `in-process`: plug-ins \
                 would run without a second wall; set the one to `best-effort` or the other to `process`"
            );
        }
        tracing::warn!("plug-ins run in the server's own process, without a second wall");
        return Ok(());
    };
    debug_assert_eq!(settings.isolation, Isolation::Process);
    let walls = workers.walls().await.context(
        "no worker process can be started (`evaluation.confinement`, `evaluation.isolation`)",
    )?;
    let mut given = Vec::new();
    for wall in walls {
        match &wall.given {
            Ok(how) => given.push(format!("{} ({how})", wall.name)),
            Err(why) => tracing::warn!(wall = wall.name, why, "a wall around plug-ins is missing"),
        }
        if let Some(lacks) = &wall.lacks {
            tracing::warn!(wall = wall.name, lacks, "a wall around plug-ins is not whole");
        }
    }
    tracing::info!(walls = given.join("; "), "plug-ins are confined");
    Ok(())
}
