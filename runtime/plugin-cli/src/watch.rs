//! Waits for changes of the files of a project.
//!
//! Sizes and times are polled: a project has few files, and polling works on every platform, in containers and on
//! network folders, unlike notifications.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::project::{COMPONENT, MANIFEST};

const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Folders of toolchain output.
const EXCLUDED_FOLDERS: [&str; 3] = ["target", "node_modules", "__pycache__"];
/// The maximum number of files. Further files are not watched.
const MAX_FILES: usize = 5_000;

/// The files of a folder, with modification time and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Snapshot {
    /// The current state of `folder`, without build output and names that begin with a dot.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(folder, &mut files);
        Self(files)
    }

    /// Adds a file, which may be outside of the folder.
    #[must_use]
    pub fn and(mut self, file: &Path) -> Self {
        if let Ok(found) = file.metadata() {
            self.0.insert(file.to_owned(), (found.modified().ok(), found.len()));
        }
        self
    }

    /// The latest modification time.
    #[must_use]
    pub fn newest(&self) -> Option<SystemTime> {
        self.0.values().filter_map(|(changed, _)| *changed).max()
    }
}

/// A message when the sources of a project are newer than its component.
#[must_use]
pub fn outdated(folder: &Path) -> Option<String> {
    let component = folder.join(COMPONENT);
    let built = component.metadata().and_then(|found| found.modified()).ok()?;
    if !folder.join(MANIFEST).is_file() {
        return None;
    }
    let mut sources = Snapshot::of(folder);
    // Items and tests are not part of the component.
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
        let is_excluded =
            name.starts_with('.') || EXCLUDED_FOLDERS.contains(&&*name) || name == COMPONENT;
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if is_excluded || MAX_FILES <= files.len() {
            continue;
        }
        if found.is_dir() {
            collect(&entry.path(), files);
        } else {
            files.insert(entry.path(), (found.modified().ok(), found.len()));
        }
    }
}

/// Returns when `look` differs from `before` and is equal twice in a row, so that an editor can write several files.
pub fn changed(before: &Snapshot, look: &dyn Fn() -> Snapshot) -> Snapshot {
    let mut last = look();
    loop {
        std::thread::sleep(POLL_INTERVAL);
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
    fn a_changed_source_is_detected_and_build_output_is_ignored() {
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
