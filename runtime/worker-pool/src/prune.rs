//! Pruning of the folder of compiled components. All files can be created again, so that a removal is never an error.
//!
//! Servers of several machines may share the folder, with different engines. Files of other engines are removed only when they
//! were not used for long. A server sets the modification time of a file when it reads it.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use perpend_domain::plugin::Digest;
use tempfile::NamedTempFile;

/// File name extension of an artifact.
pub(crate) const EXTENSION: &str = ".cwasm";

const HOUR: Duration = Duration::from_secs(3_600);
/// A partial file of this age belongs to an interrupted write.
const MAX_WRITE: Duration = HOUR;
/// Artifacts of other engines or of unregistered components are removed after this time without use.
const MAX_IDLE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The knowledge of this server that determines which files are kept.
pub(crate) struct PruneContext<'k> {
    /// The engine key of its workers; `None` to prune by size only.
    pub(crate) engine_key: Option<&'k str>,
    /// The registered components; `None` when unknown.
    pub(crate) registered: Option<&'k HashSet<Digest>>,
    /// Files that must be kept.
    pub(crate) in_use: &'k HashSet<PathBuf>,
    /// Maximum size of the folder; the least recently used files are removed first.
    pub(crate) max_bytes: u64,
}

/// Removed files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PruneStats {
    pub(crate) n_files: usize,
    pub(crate) n_bytes: u64,
}

struct CacheFile {
    path: PathBuf,
    n_bytes: u64,
    used: SystemTime,
}

/// Removes unneeded files. Keeps files with other names.
pub(crate) fn prune(folder: &Path, context: &PruneContext<'_>) -> io::Result<PruneStats> {
    // The clock of the file system, which may be that of another machine.
    let now = NamedTempFile::new_in(folder)?.as_file().metadata()?.modified()?;
    let mut pruned = PruneStats::default();
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)? {
        let Some((file, digest)) = cache_file(&entry?) else {
            continue;
        };
        let idle = now.duration_since(file.used).unwrap_or_default();
        let is_removable = match digest {
            None => MAX_WRITE < idle,
            Some((digest, engine_key)) => {
                let is_known = context.engine_key.is_none_or(|own| own == engine_key)
                    && context.registered.is_none_or(|all| all.contains(&digest));
                !is_known && MAX_IDLE < idle && !context.in_use.contains(&file.path)
            }
        };
        if is_removable {
            pruned.remove(&file);
        } else if digest_of(&file.path).is_some() {
            kept.push(file);
        }
    }
    let mut n_bytes: u64 = kept.iter().map(|file| file.n_bytes).sum();
    kept.sort_by_key(|file| file.used);
    let removable = kept.iter().filter(|file| !context.in_use.contains(&file.path));
    for file in removable {
        if n_bytes <= context.max_bytes {
            break;
        }
        n_bytes -= file.n_bytes;
        pruned.remove(file);
    }
    Ok(pruned)
}

impl PruneStats {
    fn remove(&mut self, file: &CacheFile) {
        // Another server may have removed it.
        if fs::remove_file(&file.path).is_ok() {
            self.n_files += 1;
            self.n_bytes += file.n_bytes;
        }
    }
}

/// Reads the metadata of an artifact, with digest and engine key, or of a partial file. `None` for other files.
fn cache_file(entry: &DirEntry) -> Option<(CacheFile, Option<(Digest, String)>)> {
    let path = entry.path();
    let digest = digest_of(&path);
    let name = entry.file_name();
    let name = name.to_str()?;
    if digest.is_none() && !is_partial(name) {
        return None;
    }
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let file = CacheFile { path, n_bytes: metadata.len(), used: metadata.modified().ok()? };
    Some((file, digest))
}

/// Whether the name is that of a partial file: `.tmp` with six characters, or, in older versions, a digest with a suffix and
/// `.tmp`. The folder may contain unrelated files.
fn is_partial(name: &str) -> bool {
    let is_random = |rest: &str| rest.len() == 6 && rest.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_digest = |start: &str| start.parse::<Digest>().is_ok();
    name.strip_prefix(".tmp").is_some_and(is_random)
        || name.ends_with(".tmp") && name.get(..64).is_some_and(is_digest)
}

fn digest_of(path: &Path) -> Option<(Digest, String)> {
    let name = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?;
    let (digest, engine_key) = name.split_once('-')?;
    Some((digest.parse().ok()?, engine_key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3_600);

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// Creates a file of 10 bytes that was last used before `idle`.
        fn put(&self, name: &str, idle: Duration) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, "0123456789").unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - idle).unwrap();
            path
        }

        fn names(&self) -> HashSet<String> {
            let names = fs::read_dir(self.0.path()).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    fn name(component: &str, engine_key: &str) -> String {
        format!("{}-{engine_key}{EXTENSION}", Digest::of(component.as_bytes()))
    }

    #[test]
    fn unused_files_are_removed_and_files_that_may_be_used_are_kept() {
        let folder = Folder::new();
        let kept = [
            (name("a", "48-ours"), 30 * DAY),
            (name("a", "48-theirs"), 6 * DAY),
            (name("gone", "48-ours"), 6 * DAY),
            ("notes.txt".to_owned(), 30 * DAY),
            (".tmpFresh1".to_owned(), Duration::from_secs(60)),
            ("report.tmp".to_owned(), 30 * DAY),
            (".tmp_notes".to_owned(), 30 * DAY),
        ];
        let removed = [
            (name("a", "47-former"), 8 * DAY),
            (name("gone", "48-ours"), 8 * DAY),
            (".tmpAbC123".to_owned(), 2 * HOUR),
            (format!("{}.17.tmp", Digest::of(b"x")), 2 * HOUR),
        ];
        for (name, idle) in removed.iter().chain(&kept[..2]).chain(&kept[3..]) {
            folder.put(name, *idle);
        }
        let registered = HashSet::from([Digest::of(b"a")]);
        let none = HashSet::new();
        let context = |in_use| PruneContext {
            engine_key: Some("48-ours"),
            registered: Some(&registered),
            in_use,
            max_bytes: u64::MAX,
        };
        let in_use = HashSet::from([folder.0.path().join(&removed[0].0)]);
        assert_eq!(prune(folder.0.path(), &context(&in_use)).unwrap().n_files, 3);
        assert!(folder.names().contains(&removed[0].0), "it is in use");
        let pruned = prune(folder.0.path(), &context(&none)).unwrap();
        assert_eq!((pruned.n_files, pruned.n_bytes), (1, 10));
        folder.put(&kept[2].0, kept[2].1);
        assert_eq!(prune(folder.0.path(), &context(&none)).unwrap().n_files, 0);
        let names = kept.iter().map(|(name, _)| name.clone());
        assert_eq!(folder.names(), names.collect());
    }

    #[test]
    fn the_least_recently_used_files_are_removed_when_the_folder_is_too_large() {
        let folder = Folder::new();
        let paths: Vec<PathBuf> =
            (1..=4).map(|n| folder.put(&name(&n.to_string(), "1"), n * HOUR)).collect();
        // The oldest is in use.
        let in_use = HashSet::from([paths[3].clone()]);
        let context =
            PruneContext { engine_key: None, registered: None, in_use: &in_use, max_bytes: 25 };
        assert_eq!(prune(folder.0.path(), &context).unwrap().n_files, 2);
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [true, false, false, true]);
    }
}
