//! Uploaded files on disk, in the folder `imports` of the data directory, until their import has ended.

use std::io;
use std::path::PathBuf;
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
/// Files of all projects together.
const MAX_FOLDER_BYTES: u64 = 4 << 30;
/// Age at which a file is deleted regardless of its import.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The folder of uploaded files.
#[derive(Clone, Debug)]
pub(super) struct Spool(PathBuf);

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

    /// Stores the body of a request; the number of its bytes.
    pub(super) async fn receive(
        &self,
        web: &Web,
        id: &str,
        request: Request,
    ) -> Result<u64, Problem> {
        let mut chunks = BodyChunks::of(web, request, MAX_FILE_BYTES)?;
        self.require_space().await.map_err(|error| failed(&error))?;
        let partial = self.path(&format!("{id}.{PARTIAL}"));
        let received = async {
            let mut file = tokio::fs::File::create(&partial).await.map_err(|e| failed(&e))?;
            let mut n_bytes = 0;
            while let Some(chunk) = chunks.next().await? {
                file.write_all(&chunk).await.map_err(|error| failed(&error))?;
                n_bytes += chunk.len() as u64;
            }
            file.sync_all().await.map_err(|error| failed(&error))?;
            tokio::fs::rename(&partial, self.path(id)).await.map_err(|error| failed(&error))?;
            Ok::<u64, Problem>(n_bytes)
        };
        let received = received.await;
        if received.is_err() {
            let _ = tokio::fs::remove_file(&partial).await;
        }
        received
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

    /// Stores a file that was made by the server.
    pub(super) async fn store(&self, id: &str, bytes: &[u8]) -> Result<(), Problem> {
        self.require_space().await.map_err(|error| failed(&error))?;
        tokio::fs::write(self.path(id), bytes).await.map_err(|error| failed(&error))
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

    /// Deletes files that no import can need any more.
    pub(super) fn delete_old(&self, now: SystemTime) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let modified = entry.metadata()?.modified()?;
            if now.duration_since(modified).is_ok_and(|age| MAX_AGE < age) {
                std::fs::remove_file(entry.path())?;
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
