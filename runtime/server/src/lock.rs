//! Lock file that allows one server per database file.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

/// Acquired before the database is opened, and released by the operating system when it is dropped or the process ends.
///
/// Worker processes do not inherit it.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the file `{database}.lock`, which is never removed, because that could release the lock of a later server.
    ///
    /// # Errors
    /// If another server has the lock, or the file cannot be created.
    pub(crate) fn take(database: &Path) -> anyhow::Result<Self> {
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let path = Path::new(&path);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => anyhow::bail!(
                "another server uses {}; a database file can have one server at a time (--data-dir)",
                database.display()
            ),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_fails_until_the_first_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("perpend.db");
        let first = Lock::take(&database).unwrap();
        let error = Lock::take(&database).unwrap_err().to_string();
        assert!(error.contains("another server"), "{error}");
        drop(first);
        Lock::take(&database).unwrap();
    }
}
