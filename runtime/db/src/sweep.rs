//! Deletion of rows in steps, so that writers wait for a step and not for the whole deletion.

use crate::{Arg, Error, Pool};

/// Rows per transaction.
const CHUNK: u32 = 500;

/// A table with rows of projects.
#[derive(Clone, Copy, Debug)]
pub struct TenantTable {
    /// Its name.
    pub table: &'static str,
    /// The column with the owner of a row.
    pub owner: &'static str,
    /// Columns that identify a row.
    pub key: &'static str,
}

impl TenantTable {
    /// A table whose rows have the id of their project.
    #[must_use]
    pub const fn of_project(table: &'static str, key: &'static str) -> Self {
        Self { table, owner: "project_id", key }
    }

    fn delete(&self) -> String {
        let Self { table, owner, key } = self;
        format!(
            "DELETE FROM {table} WHERE ({key}) IN \
             (SELECT {key} FROM {table} WHERE {owner} = $1 LIMIT {CHUNK})"
        )
    }
}

impl Pool {
    /// Repeats a deletion of some rows, each time in its own transaction, until it finds none. Returns the
    /// number of deleted rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn repeat(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        let mut n_deleted = 0;
        loop {
            match self.change(sql, args).await? {
                0 => return Ok(n_deleted),
                n => n_deleted += n,
            }
        }
    }

    /// Deletes all rows of an owner. Returns their number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn empty(&self, owned: &TenantTable, owner: Arg<'_>) -> Result<u64, Error> {
        self.repeat(&owned.delete(), &[owner]).await
    }
}
