//! Projects as a new author has them: made by `perpend plugin new`, built by `perpend plugin build`.

use std::collections::BTreeMap;
use std::path::{self, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use perpend_author::{BuildError, Language, Project, Silent, Tools};

use crate::{Guest, Missing};

/// A project that was built, and its component in a host.
pub struct Template {
    /// The project.
    pub project: Project,
    /// The bytes of its component.
    pub component: Vec<u8>,
    /// The component, loaded; nothing is granted to it.
    pub guest: Guest,
}

/// What was built in this program: each language once, whatever the number of its tests.
static BUILT: Mutex<BTreeMap<&str, Result<&Template, Missing>>> = Mutex::new(BTreeMap::new());

/// The template of a language, built.
///
/// # Errors
/// When its toolchain is not there.
///
/// # Panics
/// When it does not build, or its component is refused.
pub fn template(language: &'static str) -> Result<&'static Template, Missing> {
    // Held while it builds: the others wait for the same component.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(done) = built.get(language) {
        return done.clone();
    }
    let project = new_project(language);
    let template = build(&project).map(|component| {
        let guest = Guest::new(&component);
        // The program's tests share it to their end.
        &*Box::leak(Box::new(Template {
            project,
            component,
            guest,
        }))
    });
    built.insert(language, template.clone());
    template
}

/// A new project in a folder of its own, `acme/sample`.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn new_project(language: &str) -> Project {
    let dir = crate::scratch(language);
    let language: Language = language.parse().unwrap();
    let project = perpend_author::new("acme/sample", language, &dir, &Tools::from_env()).unwrap();
    if language == Language::Rust {
        reuse_libraries(&dir);
    }
    project
}

/// Rust libraries at the versions the example is pinned to, compiled once for all runs: the tests need
/// no registry, and are quick the second time.
fn reuse_libraries(dir: &Path) {
    let root = path::absolute("../..").unwrap();
    std::fs::copy(
        root.join("examples/plugin-rust/Cargo.lock"),
        dir.join("Cargo.lock"),
    )
    .unwrap();
    std::os::unix::fs::symlink(shared_folder(), dir.join("target")).unwrap();
}

/// The target directory of Rust projects.
fn shared_folder() -> PathBuf {
    let folder = path::absolute("../../target/guests/rust").unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
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
    // Rust projects share a target directory, where the files of all have the same name; programs of
    // other tests may be there too.
    let lock = std::fs::File::create(shared_folder().join("lock")).unwrap();
    lock.lock().unwrap();
    // To cargo they are one package there, and a source that is older than the last build is built: it
    // must be newer than what another project built meanwhile.
    if let Ok(source) = std::fs::File::options()
        .append(true)
        .open(project.dir().join("src/lib.rs"))
    {
        source.set_modified(std::time::SystemTime::now()).unwrap();
    }
    match perpend_author::build(project, &Silent) {
        Ok(file) => Ok(std::fs::read(file).unwrap()),
        Err(BuildError::ToolMissing { tool, install }) => Err(Missing::tool(&tool, &install)),
        Err(error) => panic!("{} does not build: {error}", project.dir().display()),
    }
}
