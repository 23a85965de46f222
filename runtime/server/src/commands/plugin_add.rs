//! `perpend plugin add`: registers a first-party component for all projects, with direct access to the database.
//!
//! Servers read plug-ins from the database, so running servers can use the component for the next evaluator.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use perpend_broker::components::{self, VENDOR};
use perpend_broker::{ComponentFolder, Engine, NoModels};
use perpend_config::{Config, SettingArgs};
use perpend_domain::bundle::Bundle;
use perpend_domain::ids::IdSource as _;
use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_domain::time::Clock as _;
use perpend_plugin_cli::{Progress, Report};
use perpend_storage::Store;
use perpend_worker_protocol::ComponentProblem;
use serde_json::json;

use super::common::load;
use super::demo::Scratch;
use super::{organization_key, serve};
use crate::{RandomIds, SystemClock};

pub(super) fn add(
    file: &Path,
    settings: &SettingArgs,
    bundle: Bundle,
    progress: &dyn Progress,
) -> anyhow::Result<Report> {
    let config = load(settings)?;
    let file = &source(file)?;
    let component = components::read(file)?;
    serve::runtime()?.block_on(async {
        let store = organization_key::open(&config).await?;
        progress.step("compiling");
        let started = Instant::now();
        let added = add_to(&store, &config, &component, bundle).await;
        progress.done();
        store.close().await;
        let (info, digest) = added.with_context(|| file.display().to_string())?;
        Ok(Report {
            text: format!(
                "{}@{} (sha256:{digest}) was compiled in {:.1} s and registered for all projects. Running servers can use it \
                 immediately.",
                info.name,
                info.version,
                started.elapsed().as_secs_f64()
            ),
            json: json!({ "name": info.name, "version": info.version, "digest": digest }),
            is_ok: true,
        })
    })
}

/// The file, or the file of the optional component with this name in the installation.
fn source(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.to_str().filter(|name| name.starts_with(VENDOR) && !file.exists());
    let Some(name) = name else {
        return Ok(file.to_owned());
    };
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let components = ComponentFolder::of_installation(&program);
    let found = components.find(name);
    let found = found
        .with_context(|| format!("no component {name} in {}", components.folder().display()))?;
    Ok(found.path)
}

async fn add_to(
    store: &Store,
    config: &Config,
    component: &[u8],
    bundle: Bundle,
) -> anyhow::Result<(PluginInfo, Digest)> {
    // The compiled component is stored in the cache of the server, if this process runs as the user of the server. Otherwise the
    // server compiles it again.
    let cache = config.plugin_cache.clone();
    let cache = cache.unwrap_or_else(|| config.data_dir.join("plugin-cache"));
    let user = rustix::process::geteuid().as_raw();
    let is_own = std::fs::metadata(&cache).is_ok_and(|found| found.is_dir() && found.uid() == user);
    let name = format!("perpend-add-{}", RandomIds.uuid().simple());
    let scratch = Scratch((!is_own).then(|| std::env::temp_dir().join(name)));
    let cache = scratch.0.clone().unwrap_or(cache);
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let models = Arc::new(NoModels);
    let engine = Engine::processes(store, program, cache, &config.evaluation, models);
    let inspected = engine.inspect(component).await;
    engine.shutdown().await;
    let info = inspected.map_err(|problems| inspection_error(&problems))?;
    check_name(&info.name, bundle)?;
    let digest = components::register(store, &info, component, SystemClock.now()).await?;
    Ok((info, digest))
}

/// The error for a component with problems.
fn inspection_error(problems: &[ComponentProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let lines = lines.join("; ");
    let is_environment = |problem: &ComponentProblem| problem.at == "host" || problem.at == "cache";
    match problems.iter().any(is_environment) {
        true => anyhow::anyhow!("the component could not be inspected: {lines}"),
        false => anyhow::anyhow!("the component cannot be used as a plug-in: {lines}"),
    }
}

/// Only first-party plug-ins that are not embedded in the program can be added.
fn check_name(name: &str, bundle: Bundle) -> anyhow::Result<()> {
    anyhow::ensure!(
        name.starts_with(VENDOR),
        "the name of the plug-in must start with {VENDOR}, got {name}; register it in a project with `perpend plugin push`"
    );
    anyhow::ensure!(
        bundle.first_party(name).is_none(),
        "{name} is embedded in the program and cannot be added"
    );
    Ok(())
}
