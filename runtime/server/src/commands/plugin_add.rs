//! `perpend plugin add`: a first-party component for all projects, registered by whoever may open the database.
//!
//! The database is what servers read plug-ins from: one that runs, and each of several, uses the component from
//! the next evaluator on.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use perpend_author::{Progress, Report};
use perpend_domain::bundle::Bundle;
use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_domain::time::Clock as _;
use perpend_store::Store;
use serde_json::json;

use super::{load, organization_key, serve};
use crate::components::{self, VENDOR};
use crate::config::{Config, SettingArgs};
use crate::{Engine, SystemClock};

pub(super) fn add(
    file: &Path,
    settings: &SettingArgs,
    bundle: Bundle,
    progress: &dyn Progress,
) -> anyhow::Result<Report> {
    let config = load(settings)?;
    let component = components::read(file)?;
    serve::runtime()?.block_on(async {
        let store = organization_key::open(&config).await?;
        progress.step("compiling");
        let begun = Instant::now();
        let added = add_to(&store, &config, &component, bundle).await;
        progress.done();
        store.close().await;
        let (info, digest) = added.with_context(|| file.display().to_string())?;
        Ok(Report {
            text: format!(
                "{}@{} (sha256:{digest}) is registered for all projects, compiled in {:.1} s. A server that runs \
                 uses it at once.",
                info.name,
                info.version,
                begun.elapsed().as_secs_f64()
            ),
            json: json!({ "name": info.name, "version": info.version, "digest": digest }),
            is_ok: true,
        })
    })
}

async fn add_to(
    store: &Store,
    config: &Config,
    component: &[u8],
    bundle: Bundle,
) -> anyhow::Result<(PluginInfo, Digest)> {
    // The cache of the server that uses this data directory finds it compiled.
    let cache = config.plugin_cache.clone();
    let cache = cache.unwrap_or_else(|| config.data_dir.join("plugin-cache"));
    let kept = cache.is_dir();
    let scratch = std::env::temp_dir().join(format!("perpend-add-{}", std::process::id()));
    let cache = if kept { cache } else { scratch.clone() };
    std::fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let engine = Engine::processes(store, program, cache, &config.evaluation);
    let inspected = components::inspect(&engine, component).await;
    engine.shutdown().await;
    if !kept {
        let _ = std::fs::remove_dir_all(&scratch);
    }
    let info = inspected.context("the component cannot be used as a plug-in")?;
    check_name(&info.name, bundle)?;
    let digest = components::put(store, &info, component, SystemClock.now()).await?;
    Ok((info, digest))
}

/// What belongs to a project is registered with its key, and what is in the program comes with the next one.
fn check_name(name: &str, bundle: Bundle) -> anyhow::Result<()> {
    anyhow::ensure!(
        name.starts_with(VENDOR),
        "it is the plug-in {name}, and this command adds first-party plug-ins, {VENDOR}NAME, for all projects: \
         register it in a project with `perpend plugin push`"
    );
    anyhow::ensure!(
        bundle.first_party(name).is_none(),
        "{name} is embedded in the program, and each version of the program brings its own"
    );
    Ok(())
}
