//! The floor: the same bytes appended to a bare SQLite table, durable after each batch.

use std::time::Instant;

use sqlx::{ConnectOptions, Connection};
use sqlx_sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::load::SPANS_PER_BATCH;
use crate::spans::Batch;

/// Spans in a second that a bare table takes: one row a span, one multi-row statement and one commit
/// (WAL, full sync) a batch, one connection, nothing else on the machine.
///
/// # Errors
/// When the database fails.
pub(crate) async fn spans_per_second(n_batches: u64) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut connection = SqliteConnectOptions::new()
        .filename(folder.path().join("floor.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    sqlx::query("CREATE TABLE spans (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        .execute(&mut connection)
        .await?;
    let batch = Batch::new(SPANS_PER_BATCH);
    let body = vec![0x5a_u8; batch.n_bytes() / SPANS_PER_BATCH];
    let rows = vec!["(?)"; SPANS_PER_BATCH].join(",");
    let insert = format!("INSERT INTO spans (body) VALUES {rows}");
    let started = Instant::now();
    for _ in 0..n_batches {
        let mut transaction = connection.begin().await?;
        let mut query = sqlx::query(sqlx::AssertSqlSafe(insert.clone()));
        for _ in 0..SPANS_PER_BATCH {
            query = query.bind(&body);
        }
        query.execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok((n_batches * SPANS_PER_BATCH as u64) as f64 / started.elapsed().as_secs_f64())
}
