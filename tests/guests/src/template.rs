//! Projects as a new author has them: made by `perpend plugin new`, built by `perpend plugin build`.

use std::path::{self, Path};

use perpend_plugin_cli::{BuildError, Language, Project, Silent, Tools};

use crate::kept::{self, Shared};
use crate::{Guest, Missing};

/// What a project was built to, and in a host.
pub struct Template {
    /// The bytes of its component.
    pub component: Vec<u8>,
    /// The component, loaded; nothing is granted to it.
    pub guest: Guest,
}

/// What was built in this program: each once, whatever the number of its tests.
static BUILT: Shared<Result<Template, Missing>> = Shared::new();

/// The template of a language, built.
///
/// # Errors
/// When its toolchain is not there.
///
/// # Panics
/// When it does not build, or its component is refused.
pub fn template(language: &'static str) -> Result<&'static Template, Missing> {
    built(language, || new_project(language))
}

/// A project under a name of its own, built.
///
/// # Errors
/// When its toolchain is not there.
///
/// # Panics
/// When it does not build, or its component is refused.
pub fn built(
    name: &'static str,
    project: impl FnOnce() -> Project,
) -> Result<&'static Template, Missing> {
    let built = BUILT.get(name, || {
        let component = build(&project())?;
        let guest = Guest::new(&component);
        Ok(Template { component, guest })
    });
    built.as_ref().map_err(Clone::clone)
}

/// A new project in a folder of its own, `acme/sample`.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn new_project(language: &str) -> Project {
    let dir = crate::scratch(language);
    let language: Language = language.parse().unwrap();
    let project =
        perpend_plugin_cli::new("acme/sample", language, &dir, &Tools::from_env()).unwrap();
    if language == Language::Rust {
        reuse_libraries(&dir);
    }
    project
}

/// Rust libraries at the versions the example is pinned to, compiled once for all runs: the tests need
/// no registry, and are quick the second time.
fn reuse_libraries(dir: &Path) {
    let root = path::absolute("../..").unwrap();
    std::fs::copy(root.join("examples/plugin-rust/Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    std::os::unix::fs::symlink(kept::guests("rust"), dir.join("target")).unwrap();
}

/// The bytes of the component that the project builds to.
///
/// # Errors
/// When its toolchain is not there.
///
/// # Panics
/// When it does not build.
#[track_caller]
pub fn build(project: &Project) -> Result<Vec<u8>, Missing> {
    kept::component(kept::inputs(project), || match project.language() {
        Language::Rust => build_rust(project),
        _ => build_now(project),
    })
}

fn build_rust(project: &Project) -> Result<Vec<u8>, Missing> {
    // Rust projects share a target directory, where the files of all have the same name; programs of
    // other tests may be there too.
    let lock = std::fs::File::create(kept::guests("rust").join("lock")).unwrap();
    lock.lock().unwrap();
    // To cargo they are one package there, and a source that is older than the last build is built: it
    // must be newer than what another project built meanwhile.
    let source = std::fs::File::options().append(true).open(project.dir().join("src/lib.rs"));
    source.unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    build_now(project)
}

#[track_caller]
fn build_now(project: &Project) -> Result<Vec<u8>, Missing> {
    match perpend_plugin_cli::build(project, &Silent) {
        Ok(file) => Ok(std::fs::read(file).unwrap()),
        Err(BuildError::ToolMissing { tool, install }) => Err(Missing::tool(&tool, &install)),
        Err(error) => panic!("{} does not build: {error}", project.dir().display()),
    }
}
