//! Schema migrations. A released step never changes: its checksum is stored in the database.

use sha2::{Digest as _, Sha256};

use crate::pool::{Engine, Pool};
use crate::query::{query, query_scalar};
use crate::{Error, in_transaction};

/// One step, for either database.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name of the step.
    pub name: &'static str,
    /// Its statements for SQLite.
    pub sqlite: &'static str,
    /// Its statements for PostgreSQL.
    pub postgres: &'static str,
}

/// Handling of a database with some of the steps. A database without any gets all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationMode {
    /// The missing steps are applied.
    Migrate,
    /// The database is not changed.
    Refuse,
}

const CREATE_LEDGER: &str = "
    CREATE TABLE IF NOT EXISTS schema_steps (
        version BIGINT PRIMARY KEY,
        name TEXT NOT NULL,
        checksum TEXT
    )";
/// The version of a database: that of its newest step.
pub const CURRENT: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_steps";
const RECORD: &str = "INSERT INTO schema_steps (version, name, checksum) VALUES ($1, $2, $3)";
const N_CHECKSUM_COLUMNS_SQLITE: &str =
    "SELECT COUNT(*) FROM pragma_table_info('schema_steps') WHERE name = 'checksum'";
const N_CHECKSUM_COLUMNS_POSTGRES: &str = "
    SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = current_schema() AND table_name = 'schema_steps' AND column_name = 'checksum'";
const ADD_CHECKSUMS: &str = "ALTER TABLE schema_steps ADD COLUMN checksum TEXT";
const CHECKSUMS: &str = "SELECT version, checksum FROM schema_steps ORDER BY version";
const SET_CHECKSUM: &str = "UPDATE schema_steps SET checksum = $1 WHERE version = $2";

impl Step {
    const fn text(&self, is_postgres: bool) -> &'static str {
        if is_postgres { self.postgres } else { self.sqlite }
    }

    fn checksum(&self, is_postgres: bool) -> String {
        let digest: [u8; 32] = Sha256::digest(self.text(is_postgres)).into();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Migrates the database to the newest of these steps; the version of a step is its number, from 1. Several
/// nodes may start at once: one migrates, the others wait for it.
///
/// # Errors
/// [`Error::TooNew`] and [`Error::ChangedStep`] for a database of another program version, [`Error::TooOld`]
/// for one that must not be changed, and when a statement fails. Nothing is changed then.
pub async fn migrate(pool: &Pool, steps: &[Step], mode: MigrationMode) -> Result<(), Error> {
    let Engine::Sqlite { writer, .. } = pool.engine() else {
        return run(pool, steps, mode).await;
    };
    // An index over a large table is sorted on disk here; elsewhere sorting is in memory.
    sqlx::query("PRAGMA temp_store = FILE").execute(writer).await?;
    let done = run(pool, steps, mode).await;
    sqlx::query("PRAGMA temp_store = MEMORY").execute(writer).await?;
    done
}

async fn run(pool: &Pool, steps: &[Step], mode: MigrationMode) -> Result<(), Error> {
    let known = steps.len() as i64;
    let is_postgres = pool.is_postgres();
    in_transaction!(pool, |tx| {
        if is_postgres {
            // An arbitrary constant that is the same for every node.
            query("SELECT pg_advisory_xact_lock(4707214)").execute(&mut tx).await?;
        }
        query(CREATE_LEDGER).execute(&mut tx).await?;
        let found: i64 = query_scalar(CURRENT).fetch_one(&mut tx).await?;
        if known < found {
            return Err(Error::TooNew { found, known });
        }
        if mode == MigrationMode::Refuse && (1..known).contains(&found) {
            return Err(Error::TooOld { found, known });
        }
        check_steps(&mut tx, steps, mode).await?;
        for (at, step) in steps.iter().enumerate().skip(found as usize) {
            tx.run_script(step.text(is_postgres).to_owned()).await?;
            query(RECORD)
                .bind(at as i64 + 1)
                .bind(step.name)
                .bind(step.checksum(is_postgres))
                .execute(&mut tx)
                .await?;
        }
    });
    Ok(())
}

/// Refuses a database that was created with other steps. A database without checksums gets those of its
/// steps.
async fn check_steps(tx: &mut crate::Tx, steps: &[Step], mode: MigrationMode) -> Result<(), Error> {
    let is_postgres = tx.is_postgres();
    let n_columns =
        if is_postgres { N_CHECKSUM_COLUMNS_POSTGRES } else { N_CHECKSUM_COLUMNS_SQLITE };
    let n_columns: i64 = query_scalar(n_columns).fetch_one(&mut *tx).await?;
    if n_columns == 0 {
        if mode == MigrationMode::Refuse {
            return Ok(());
        }
        query(ADD_CHECKSUMS).execute(tx).await?;
    }
    let kept: Vec<(i64, Option<String>)> = query(CHECKSUMS).fetch_all(&mut *tx).await?;
    for ((version, kept), step) in kept.into_iter().zip(steps) {
        let checksum = step.checksum(is_postgres);
        match kept {
            Some(kept) if kept == checksum => {}
            Some(_) => {
                return Err(Error::ChangedStep { version, name: step.name });
            }
            None if mode == MigrationMode::Refuse => {}
            None => {
                query(SET_CHECKSUM).bind(checksum).bind(version).execute(tx).await?;
            }
        }
    }
    Ok(())
}
