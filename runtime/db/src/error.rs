//! Errors of the database.

/// Error of a database operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The project has no such row.
    #[error("no such row in this project")]
    NotFound,
    /// A different row with this identity exists, or a state forbids the change.
    #[error("conflict: {0}")]
    Conflict(&'static str),
    /// The name is unique and in use.
    #[error("the name is taken: {0}")]
    NameTaken(&'static str),
    /// A setting of the project forbids the change.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The store cannot accept the write now; the caller may retry later.
    #[error("the store cannot accept the write: {0}")]
    Unavailable(String),
    /// The result needs more memory than one request may hold.
    #[error("the result needs more memory than one request may hold")]
    AnswerTooLarge,
    /// Other requests hold the memory for results.
    #[error("other requests hold the memory for results")]
    OutOfMemory,
    /// The request reached its deadline.
    #[error("the request reached its deadline")]
    TooSlow,
    /// A name or an id is longer than an index can hold.
    #[error("a name or an id is too long")]
    TooLong,
    /// Another transaction collided with this one, which was rolled back; the caller may retry at once.
    #[error("collision with another transaction: {0}")]
    Collision(String),
    /// A breakpoint was reached, in tests only.
    #[error("stopped at {0:?}")]
    Stopped(&'static str),
    /// The database failed.
    #[error("database: {0}")]
    Sql(#[source] sqlx::Error),
    /// A stored value that this version cannot have written.
    #[error("stored {what} is inconsistent: {detail}")]
    Inconsistent {
        /// Kind of row.
        what: &'static str,
        /// The inconsistency.
        detail: String,
    },
    /// The database was created by an older version, whose server may be running.
    #[error(
        "the database has schema version {found}, this program writes {known}: start the server of this version \
         first, which brings the database up to date"
    )]
    TooOld {
        /// Version of the database.
        found: i64,
        /// Version of this program.
        known: i64,
    },
    /// The database was created with another text of a step than that of this program.
    #[error(
        "step {version} of the database's schema ({name}) is not the one that this program knows: use the program \
         that made the database, or restore a backup"
    )]
    ChangedStep {
        /// Number of the step.
        version: i64,
        /// Name of the step.
        name: &'static str,
    },
    /// The database was created by a newer version.
    #[error("the database has schema version {found}, this program supports up to {known}")]
    TooNew {
        /// Version of the database.
        found: i64,
        /// Version of this program.
        known: i64,
    },
}

impl Error {
    /// Whether the database refused because of a foreign key.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else {
            return false;
        };
        error.is_foreign_key_violation()
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if is_too_long(&error) {
            Self::TooLong
        } else if is_collision(&error) {
            Self::Collision(error.to_string())
        } else if is_passing(&error) {
            // A full disk, a lock held elsewhere, a lost connection: a retry may succeed later.
            Self::Unavailable(error.to_string())
        } else {
            Self::Sql(error)
        }
    }
}

/// Whether the fault is temporary: a retry of the same statement may succeed.
fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => match error.code().as_deref() {
            // SQLite: the primary code is the low byte. BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN.
            Some(code) if code.len() <= 4 => code
                .parse::<u32>()
                .is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 8 | 10 | 13 | 14)),
            // PostgreSQL classes: connection, transaction rollback, resources, object not in prerequisite
            // state, operator intervention, system. And a server that is currently a standby.
            Some(code) => ["08", "25006", "40", "53", "55", "57", "58"]
                .iter()
                .any(|class| code.starts_with(class)),
            None => false,
        },
        _ => false,
    }
}

/// Whether PostgreSQL rolled back a transaction because of another one: a deadlock, or a serialization
/// failure. A retry of the whole transaction may succeed at once.
fn is_collision(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("40P01" | "40001"))
}

/// Whether a value does not fit into an index of PostgreSQL. Input validation has lower limits for names and
/// ids; this is the fallback.
fn is_too_long(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.as_deref() == Some("54000")
}
