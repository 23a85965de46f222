//! Row numbers, allocated before the rows are written.

use crate::{ColumnType, Error, Tx};

/// A table whose row numbers are allocated here.
#[derive(Clone, Copy, Debug)]
pub enum NumberedTable {
    Traces,
    Observations,
    Payloads,
    Executions,
}

/// Not the largest existing number: the number of a deleted row is never reused, so that a reader between two
/// statements cannot find the content of another row, possibly of another tenant.
const NEXT_SQLITE: &str = "
    SELECT COALESCE(MAX(CASE WHEN name = 'traces' THEN seq END), 0) + 1,
           COALESCE(MAX(CASE WHEN name = 'observations' THEN seq END), 0) + 1,
           COALESCE(MAX(CASE WHEN name = 'payloads' THEN seq END), 0) + 1,
           COALESCE(MAX(CASE WHEN name = 'executions' THEN seq END), 0) + 1
      FROM sqlite_sequence";
const NEXT_POSTGRES: [&str; 4] = [
    "SELECT nextval(pg_get_serial_sequence('traces', 'number')) FROM generate_series(1, $1)",
    "SELECT nextval(pg_get_serial_sequence('observations', 'seq')) FROM generate_series(1, $1)",
    "SELECT nextval(pg_get_serial_sequence('payloads', 'seq')) FROM generate_series(1, $1)",
    "SELECT nextval(pg_get_serial_sequence('executions', 'seq')) FROM generate_series(1, $1)",
];

/// The numbers that one transaction allocates. All rows that it adds to these tables take theirs from here.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The next number of each table on SQLite, where the transaction holds the only write lock.
    next: Option<[i64; 4]>,
}

impl Numbers {
    /// Allocates `n` numbers, ascending.
    pub async fn take(
        &mut self,
        tx: &mut Tx,
        table: NumberedTable,
        n: usize,
    ) -> Result<Vec<i64>, Error> {
        if n == 0 {
            return Ok(Vec::new());
        }
        if tx.is_postgres() {
            let args = [(n as i64).into()];
            let rows = tx.rows(NEXT_POSTGRES[table as usize], &args, &[ColumnType::Int]).await?;
            return rows.iter().map(|cells| cells[0].int()).collect();
        }
        if self.next.is_none() {
            let rows = tx.rows(NEXT_SQLITE, &[], &[ColumnType::Int; 4]).await?;
            let mut next = [1; 4];
            for (next, cell) in next.iter_mut().zip(rows.iter().flatten()) {
                *next = cell.int()?;
            }
            self.next = Some(next);
        }
        let next = &mut self.next.get_or_insert([1; 4])[table as usize];
        let first = *next;
        *next += n as i64;
        Ok((first..*next).collect())
    }
}
