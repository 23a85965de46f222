//! JavaScript and TypeScript: a bundle by esbuild in a component with a JavaScript engine.
//!
//! `build.mjs` of the SDK in the project does the work in one process of Node: it bundles the source, reads the
//! description of the plug-in, writes a world with only the imports the plug-in needs, and componentizes the bundle. Two engines: QuickJS (small, quick to start) and StarlingMonkey, which is SpiderMonkey
//! (`engine = "starlingmonkey"` under `[build]` in `plugin.toml`).

use super::error::BuildError;
use super::tool;
use crate::progress::Progress;
use crate::project::{Language, MANIFEST, Project, ProjectError};

use std::path::{Path, PathBuf};

const NODE: &str = "https://nodejs.org, version 20 or later, or your system's package `nodejs`";

/// A JavaScript engine in the component.
struct Engine {
    name: &'static str,
    /// The npm package that creates the component.
    package: &'static str,
    install: &'static str,
}

const ENGINES: [Engine; 2] = [
    Engine {
        name: "quickjs",
        package: "componentize-qjs",
        install: "npm install --save-dev esbuild@0.28.2 componentize-qjs@0.4.5",
    },
    Engine {
        name: "starlingmonkey",
        package: "@bytecodealliance/componentize-js",
        // The package requires the shim without declaring the dependency.
        install: "npm install --save-dev esbuild@0.28.2 @bytecodealliance/componentize-js@0.23.0 \
                  @bytecodealliance/preview2-shim@0.17.4",
    },
];

/// The commands that install the missing tools; `package.json` names the packages.
pub(super) fn missing(project: &Project) -> Vec<String> {
    let tools = project.tools();
    let node = match tools.find("node") {
        Some(_) => None,
        None => Some(format!("# node: {NODE}")),
    };
    let packages = ["esbuild", ENGINES[0].package];
    let lacks_one = packages.iter().any(|name| tools.node_module(name).is_none());
    let install = lacks_one.then(|| "npm install".to_owned());
    node.into_iter().chain(install).collect()
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let engine = engine(project)?;
    let entry = entry(project)?;
    let node = project.need("node", NODE)?;
    let esbuild = project.need_module("esbuild", engine.install)?;
    let componentize = project.need_module(engine.package, engine.install)?;
    progress.step(&format!("componentizing with {}", engine.name));
    let mut command = project.tools().command(&node);
    command
        .current_dir(project.dir())
        .arg(project.sdk("javascript").join("build.mjs"))
        .arg("--entry")
        .arg(entry)
        .arg("--wit")
        .arg(project.wit())
        .arg("--out")
        .arg(out)
        .args(["--engine", engine.name])
        .arg("--esbuild")
        .arg(esbuild)
        .arg("--componentize")
        .arg(componentize);
    tool::run(&mut command, progress)?;
    Ok(())
}

fn engine(project: &Project) -> Result<&'static Engine, ProjectError> {
    let selected = project.option("engine").unwrap_or(ENGINES[0].name);
    let found = ENGINES.iter().find(|engine| engine.name == selected);
    found.ok_or_else(|| ProjectError::Manifest {
        file: project.dir().join(MANIFEST).display().to_string(),
        message: format!(
            "`build.engine` must be one of `quickjs`, `starlingmonkey`; got {selected:?}"
        ),
    })
}

/// The main module: `build.entry`, else `plugin.js` or `plugin.ts`.
fn entry(project: &Project) -> Result<PathBuf, ProjectError> {
    let default = match project.language() {
        Language::TypeScript => "plugin.ts",
        _ => "plugin.js",
    };
    let name = project.option("entry").unwrap_or(default);
    let file = project.dir().join(name);
    if file.is_file() {
        return Ok(file);
    }
    Err(ProjectError::Manifest {
        file: project.dir().join(MANIFEST).display().to_string(),
        message: format!("the main module {name} does not exist; set `build.entry` to use another"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::tools::Tools;

    fn project(build: &str) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        let manifest =
            format!("name = \"a/b\"\nlanguage = \"javascript\"\ntemplate = \"0\"\n{build}");
        std::fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        let project = Project::open(folder.path(), &Tools::default()).unwrap();
        (folder, project)
    }

    fn refused(build: &str, with_entry: bool) -> String {
        let (folder, project) = project(build);
        if with_entry {
            std::fs::write(folder.path().join("plugin.js"), "").unwrap();
        }
        let out = folder.path().join("out.wasm");
        super::build(&project, &out, &Silent).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_engine_or_missing_main_module_is_reported_with_the_file() {
        let text = refused("[build]\nengine = \"v8\"\n", true);
        for part in ["plugin.toml", "v8", "quickjs", "starlingmonkey"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = refused("", false);
        assert!(text.contains("plugin.js") && text.contains("build.entry"), "{text}");
    }

    #[test]
    fn without_node_the_error_says_how_to_install_it() {
        let text = refused("", true);
        assert!(text.contains("node is needed") && text.contains("install"), "{text}");
    }
}
