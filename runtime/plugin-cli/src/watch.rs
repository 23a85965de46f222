//! Waits until a file of a project changes.
//!
//! By looking at sizes and times a few times a second: a project is a handful of files, and looking works
//! the same on every platform, in containers and on network folders, where notifications do not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::project::{COMPONENT, MANIFEST};

const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Folders that toolchains fill.
const LEFT_OUT: [&str; 3] = ["target", "node_modules", "__pycache__"];
/// A folder with more is no plug-in's; what is beyond is not watched.
const MAX_FILES: usize = 5_000;

/// The files of a folder, with what shows a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Snapshot {
    /// How `folder` is now. What builds make, and what begins with a dot, is left out.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(folder, &mut files);
        Self(files)
    }

    /// With one file more, wherever it is.
    #[must_use]
    pub fn and(mut self, file: &Path) -> Self {
        if let Ok(found) = file.metadata() {
            self.0.insert(file.to_owned(), (found.modified().ok(), found.len()));
        }
        self
    }

    /// When a file was changed last.
    #[must_use]
    pub fn newest(&self) -> Option<SystemTime> {
        self.0.values().filter_map(|(changed, _)| *changed).max()
    }
}

/// Says so when a project's sources were changed after its component was built.
#[must_use]
pub fn outdated(folder: &Path) -> Option<String> {
    let component = folder.join(COMPONENT);
    let built = component.metadata().and_then(|found| found.modified()).ok()?;
    if !folder.join(MANIFEST).is_file() {
        return None;
    }
    let mut sources = Snapshot::of(folder);
    // Items and tests are read when a command runs, and are no part of the component.
    sources.0.retain(|file, _| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        !matches!(ending, Some("jsonl" | "md"))
    });
    (built < sources.newest()?).then(|| {
        format!("{} is older than its sources: `perpend plugin build`", component.display())
    })
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, (Option<SystemTime>, u64)>) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_left_out = name.starts_with('.') || LEFT_OUT.contains(&&*name) || name == COMPONENT;
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if is_left_out || MAX_FILES <= files.len() {
            continue;
        }
        if found.is_dir() {
            collect(&entry.path(), files);
        } else {
            files.insert(entry.path(), (found.modified().ok(), found.len()));
        }
    }
}

/// Returns when `look` gives something else than `before`, and the same twice in a row: an editor that
/// writes several files is waited for.
pub fn changed(before: &Snapshot, look: &dyn Fn() -> Snapshot) -> Snapshot {
    let mut last = look();
    loop {
        std::thread::sleep(LOOK_EVERY);
        let now = look();
        if now == last && now != *before {
            return now;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_component_is_outdated_by_its_sources_and_not_by_items() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, seconds: u64| {
            let file = folder.path().join(name);
            fs::write(&file, "x").unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let file = fs::File::options().write(true).open(file).unwrap();
            file.set_modified(time).unwrap();
        };
        write("plugin.toml", 1);
        write("plugin.wasm", 2);
        write("more.jsonl", 3);
        assert_eq!(outdated(folder.path()), None);
        write("plugin.py", 3);
        assert!(outdated(folder.path()).unwrap().contains("perpend plugin build"));
    }

    #[test]
    fn a_change_of_a_source_shows_and_what_a_build_makes_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("src")).unwrap();
        fs::write(path("src/lib.rs"), "one").unwrap();
        let before = Snapshot::of(folder.path());
        fs::create_dir_all(path("target/perpend")).unwrap();
        fs::write(path("target/perpend/new.wasm"), "x").unwrap();
        fs::write(path("plugin.wasm"), "x").unwrap();
        assert_eq!(Snapshot::of(folder.path()), before);
        fs::write(path("src/lib.rs"), "longer").unwrap();
        let look = || Snapshot::of(folder.path());
        assert_ne!(changed(&before, &look), before);
    }
}
