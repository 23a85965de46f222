//! Uploaded files on disk, in the folder `imports` of the data directory, until their import has ended.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use perpend_http_kit::Web;
use perpend_http_kit::admission::BodyChunks;
use perpend_http_kit::problem::{Code, Problem};
use tokio::io::AsyncWriteExt as _;

const FOLDER: &str = "imports";
/// Extension of a file that is being received.
const PARTIAL: &str = "partial";
/// Largest file.
pub(super) const MAX_FILE_BYTES: u64 = 512 << 20;
/// Files of open imports of a project at which it uploads no other one.
pub(super) const MAX_PROJECT_BYTES: u64 = 1 << 30;
/// Files of all projects together.
const MAX_FOLDER_BYTES: u64 = 4 << 30;
/// Bytes of a file after which the space is checked again.
const CHECK_BYTES: u64 = 64 << 20;
/// Age at which a file is deleted regardless of its import.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Age at which a file without an open import is deleted. A file that is being received is younger.
const MAX_ORPHAN_AGE: Duration = Duration::from_secs(3_600);

/// The folder of uploaded files.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

/// Deletes a file when it is dropped, unless it is kept: a request may end at any point when its client disconnects.
#[derive(Debug)]
pub(super) struct Unclaimed(Option<PathBuf>);

impl Unclaimed {
    /// Leaves the file to its import.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            remove(path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "uploaded file not deleted");
    }
}

impl Spool {
    pub(super) fn of(web: &Web) -> Self {
        Self(web.config.data_dir.join(FOLDER))
    }

    /// The file of an import.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.path(id).is_file()
    }

    /// Stores the body of a request; the number of its bytes, and the file, which the caller keeps.
    pub(super) async fn receive(
        &self,
        web: &Web,
        id: &str,
        request: Request,
    ) -> Result<(u64, Unclaimed), Problem> {
        let mut chunks = BodyChunks::of(web, request, MAX_FILE_BYTES)?;
        self.require_space().await.map_err(|error| failed(&error))?;
        let path = self.path(&format!("{id}.{PARTIAL}"));
        let partial = Unclaimed(Some(path.clone()));
        let mut file = tokio::fs::File::create(&path).await.map_err(|error| failed(&error))?;
        let (mut n_bytes, mut n_unchecked) = (0, 0);
        while let Some(chunk) = chunks.next().await? {
            file.write_all(&chunk).await.map_err(|error| failed(&error))?;
            n_bytes += chunk.len() as u64;
            n_unchecked += chunk.len() as u64;
            if CHECK_BYTES <= n_unchecked {
                n_unchecked = 0;
                self.require_space().await.map_err(|error| failed(&error))?;
            }
        }
        file.sync_all().await.map_err(|error| failed(&error))?;
        let complete = Unclaimed(Some(self.path(id)));
        tokio::fs::rename(&path, self.path(id)).await.map_err(|error| failed(&error))?;
        partial.keep();
        Ok((n_bytes, complete))
    }

    /// Creates the folder and refuses another file if its files are too large together.
    async fn require_space(&self) -> io::Result<()> {
        tokio::fs::create_dir_all(&self.0).await?;
        let mut n_bytes = 0;
        let mut entries = tokio::fs::read_dir(&self.0).await?;
        while let Some(entry) = entries.next_entry().await? {
            n_bytes += entry.metadata().await.map_or(0, |metadata| metadata.len());
        }
        match n_bytes < MAX_FOLDER_BYTES {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }

    /// Stores a file that was made by the server, which the caller keeps.
    pub(super) async fn store(&self, id: &str, bytes: &[u8]) -> Result<Unclaimed, Problem> {
        self.require_space().await.map_err(|error| failed(&error))?;
        let file = Unclaimed(Some(self.path(id)));
        tokio::fs::write(self.path(id), bytes).await.map_err(|error| failed(&error))?;
        Ok(file)
    }

    /// Deletes the file of an import, if it exists.
    pub(super) async fn delete(&self, id: &str) {
        if let Err(error) = tokio::fs::remove_file(self.path(id)).await
            && error.kind() != io::ErrorKind::NotFound
        {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, import.id = id, "uploaded file not deleted");
        }
    }

    /// Deletes files that no import can need any more. `open` are the imports that have not ended.
    pub(super) fn delete_old(&self, now: SystemTime, open: &HashSet<String>) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // Another request may delete it meanwhile.
            let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else {
                continue;
            };
            let is_open = entry.file_name().to_str().is_some_and(|name| open.contains(name));
            let max_age = if is_open { MAX_AGE } else { MAX_ORPHAN_AGE };
            if now.duration_since(modified).is_ok_and(|age| max_age < age) {
                remove(&entry.path());
            }
        }
        Ok(())
    }
}

/// The problem of a file that cannot be written. The cause is logged.
pub(super) fn failed(error: &io::Error) -> Problem {
    let cause: &dyn std::error::Error = error;
    tracing::error!(error = cause, "uploaded file not written");
    match error.kind() {
        io::ErrorKind::StorageFull => Problem::unavailable(
            "the uploaded files of other imports have reached the limit; send the request again later",
        ),
        _ => Problem::new(Code::Unavailable, "the uploaded file cannot be stored"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_open_import_is_deleted_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool(folder.path().to_owned());
        for name in ["open", "ended", "ended.partial"] {
            std::fs::write(spool.path(name), "rows").unwrap();
        }
        let open = HashSet::from(["open".to_owned()]);
        let written = std::fs::metadata(spool.path("open")).unwrap().modified().unwrap();
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        spool.delete_old(written + MAX_ORPHAN_AGE / 2, &open).unwrap();
        assert_eq!(names().len(), 3);
        spool.delete_old(written + MAX_ORPHAN_AGE * 2, &open).unwrap();
        assert_eq!(names(), ["open"]);
        spool.delete_old(written + MAX_AGE * 2, &open).unwrap();
        assert!(names().is_empty());
    }

    #[test]
    fn a_file_of_a_request_that_ends_early_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "rows").unwrap();
        Unclaimed(Some(path.clone())).keep();
        assert!(path.is_file());
        drop(Unclaimed(Some(path.clone())));
        assert!(!path.is_file());
    }
}
