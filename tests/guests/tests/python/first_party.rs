//! Components that several tests share, each built and compiled once in this program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{self, Path};
use std::sync::{Mutex, PoisonError};

use perpend_author::{Project, Tools};
use perpend_tests_guests::{Guest, Missing, build};

/// A component, and a host that has it.
#[derive(Clone, Copy)]
pub(crate) struct Built {
    pub(crate) component: &'static [u8],
    pub(crate) guest: &'static Guest,
}

static BUILT: Mutex<BTreeMap<&str, Result<Built, Missing>>> = Mutex::new(BTreeMap::new());

/// What `project` builds to, under a name of its own.
pub(crate) fn shared(name: &'static str, project: fn(&str) -> Project) -> Result<Built, Missing> {
    // Held while it builds: the others wait for the same component.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(done) = built.get(name) {
        return done.clone();
    }
    let made = build(&project(name)).map(|component| {
        let component: &'static [u8] = Vec::leak(component);
        let guest = Box::leak(Box::new(Guest::new(component)));
        Built { component, guest }
    });
    built.insert(name, made.clone());
    made
}

/// The built-in plug-in of `plugins/NAME`.
pub(crate) fn plugin(name: &'static str) -> Result<Built, Missing> {
    shared(name, project)
}

/// A copy with the SDK in it. It stays where it is: packages are fetched once for all runs.
fn project(name: &str) -> Project {
    let root = path::absolute("../..").unwrap();
    let dir = root.join("target/guests/projects").join(name);
    fs::create_dir_all(&dir).unwrap();
    copy(&root.join("plugins").join(name), &dir);
    let project = Project::open(&dir, &Tools::from_env()).unwrap();
    perpend_author::update(&project).unwrap();
    project
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
