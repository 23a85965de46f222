//! One server at a time on a database file.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

/// Taken before the database is opened and given back by the operating system when this is dropped or
/// the process ends, however it ends.
///
/// It is held by the server alone: workers are other programs, and do not inherit it.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the file beside the database, which stays there: removing it could unlock a later server.
    ///
    /// # Errors
    /// When another server has it, or the file cannot be made.
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
                "another server works on {}: a database file has one server at a time (--data-dir)",
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
    fn a_second_server_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("perpend.db");
        let first = Lock::take(&database).unwrap();
        let refused = Lock::take(&database).unwrap_err().to_string();
        assert!(refused.contains("another server"), "{refused}");
        drop(first);
        Lock::take(&database).unwrap();
    }
}
