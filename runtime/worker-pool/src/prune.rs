//! What leaves the folder of compiled components. All of it can be made again, so nothing here is an error
//! for anybody.
//!
//! Servers of several machines may share the folder, each with an engine of its own: what this one does not
//! know may be another's, and goes only when nobody asked for it for long. A file is marked each time a
//! server reads it.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use perpend_domain::plugin::Digest;
use tempfile::NamedTempFile;

/// The end of the name of an artifact.
pub(crate) const EXTENSION: &str = ".cwasm";

const HOUR: Duration = Duration::from_secs(3_600);
/// No write takes so long: it was interrupted.
const MAX_WRITE: Duration = HOUR;
/// What is of another engine, or of a component that is not registered, and was not asked for.
const MAX_IDLE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What this server knows.
pub(crate) struct Known<'k> {
    /// Which artifacts its workers use; `None` where only the size is looked at.
    pub(crate) engine_key: Option<&'k str>,
    /// The components there are, where that is known.
    pub(crate) registered: Option<&'k HashSet<Digest>>,
    /// Files that stay.
    pub(crate) in_use: &'k HashSet<PathBuf>,
    /// The most that all of it may take; over this, what was not asked for longest goes.
    pub(crate) max_bytes: u64,
}

/// What went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pruned {
    pub(crate) n_files: usize,
    pub(crate) n_bytes: u64,
}

struct Found {
    path: PathBuf,
    n_bytes: u64,
    used: SystemTime,
}

/// Removes what need not stay. Files with other names are left alone.
pub(crate) fn prune(folder: &Path, known: &Known<'_>) -> io::Result<Pruned> {
    // By the clock that marks the files, which may be another machine's.
    let now = NamedTempFile::new_in(folder)?.as_file().metadata()?.modified()?;
    let mut pruned = Pruned::default();
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)? {
        let Some((found, digest)) = look(&entry?) else {
            continue;
        };
        let idle = now.duration_since(found.used).unwrap_or_default();
        let goes = match digest {
            None => MAX_WRITE < idle,
            Some((digest, engine_key)) => {
                let is_ours = known.engine_key.is_none_or(|ours| ours == engine_key)
                    && known.registered.is_none_or(|all| all.contains(&digest));
                !is_ours && MAX_IDLE < idle && !known.in_use.contains(&found.path)
            }
        };
        if goes {
            pruned.remove(&found);
        } else if digest_of(&found.path).is_some() {
            kept.push(found);
        }
    }
    let mut n_bytes: u64 = kept.iter().map(|found| found.n_bytes).sum();
    kept.sort_by_key(|found| found.used);
    let may_go = kept.iter().filter(|found| !known.in_use.contains(&found.path));
    for found in may_go {
        if n_bytes <= known.max_bytes {
            break;
        }
        n_bytes -= found.n_bytes;
        pruned.remove(found);
    }
    Ok(pruned)
}

impl Pruned {
    fn remove(&mut self, found: &Found) {
        // Another server may have been first.
        if fs::remove_file(&found.path).is_ok() {
            self.n_files += 1;
            self.n_bytes += found.n_bytes;
        }
    }
}

/// An artifact with what its name says, or a file of an interrupted write.
fn look(entry: &DirEntry) -> Option<(Found, Option<(Digest, String)>)> {
    let path = entry.path();
    let digest = digest_of(&path);
    let name = entry.file_name();
    let name = name.to_str()?;
    if digest.is_none() && !is_draft(name) {
        return None;
    }
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let found = Found { path, n_bytes: metadata.len(), used: metadata.modified().ok()? };
    Some((found, digest))
}

/// As the names of files are that are being written: `.tmp` and six characters, or, formerly, a digest, more,
/// and `.tmp`. Other people's files may stand in the folder.
fn is_draft(name: &str) -> bool {
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

        /// A file of 10 bytes that was not asked for so long.
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
    fn what_nobody_asked_for_goes_and_what_somebody_may_use_stays() {
        let folder = Folder::new();
        let stays = [
            (name("a", "48-ours"), 30 * DAY),
            (name("a", "48-theirs"), 6 * DAY),
            (name("gone", "48-ours"), 6 * DAY),
            ("notes.txt".to_owned(), 30 * DAY),
            (".tmpFresh1".to_owned(), Duration::from_secs(60)),
            ("report.tmp".to_owned(), 30 * DAY),
            (".tmp_notes".to_owned(), 30 * DAY),
        ];
        let goes = [
            (name("a", "47-former"), 8 * DAY),
            (name("gone", "48-ours"), 8 * DAY),
            (".tmpAbC123".to_owned(), 2 * HOUR),
            (format!("{}.17.tmp", Digest::of(b"x")), 2 * HOUR),
        ];
        for (name, idle) in goes.iter().chain(&stays[..2]).chain(&stays[3..]) {
            folder.put(name, *idle);
        }
        let registered = HashSet::from([Digest::of(b"a")]);
        let none = HashSet::new();
        let known = |in_use| Known {
            engine_key: Some("48-ours"),
            registered: Some(&registered),
            in_use,
            max_bytes: u64::MAX,
        };
        let in_use = HashSet::from([folder.0.path().join(&goes[0].0)]);
        assert_eq!(prune(folder.0.path(), &known(&in_use)).unwrap().n_files, 3);
        assert!(folder.names().contains(&goes[0].0), "it is in use");
        let pruned = prune(folder.0.path(), &known(&none)).unwrap();
        assert_eq!((pruned.n_files, pruned.n_bytes), (1, 10));
        folder.put(&stays[2].0, stays[2].1);
        assert_eq!(prune(folder.0.path(), &known(&none)).unwrap().n_files, 0);
        let names = stays.iter().map(|(name, _)| name.clone());
        assert_eq!(folder.names(), names.collect());
    }

    #[test]
    fn over_its_size_the_folder_loses_what_was_not_asked_for_longest() {
        let folder = Folder::new();
        let paths: Vec<PathBuf> =
            (1..=4).map(|n| folder.put(&name(&n.to_string(), "1"), n * HOUR)).collect();
        // The oldest is in use.
        let in_use = HashSet::from([paths[3].clone()]);
        let known = Known { engine_key: None, registered: None, in_use: &in_use, max_bytes: 25 };
        assert_eq!(prune(folder.0.path(), &known).unwrap().n_files, 2);
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [true, false, false, true]);
    }
}
