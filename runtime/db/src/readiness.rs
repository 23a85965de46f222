//! Check whether the database accepts writes.
//!
//! Invariant:
//! - **Only a write shows it.** A database that can be read may refuse every write: on a full disk, without
//!   permission, as a standby. So a row is written. After a failed write the row is large: a small one may
//!   fit into space that the log of the database already has.

use perpend_domain::time::Timestamp;

use crate::{Arg, Error, Pool, Tx};

const WRITE: &str = "
    INSERT INTO write_probes (id, written_at, payload) VALUES (1, $1, $2)
    ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at, payload = excluded.payload";
const SMALL_BYTES: usize = 16;
const LARGE_BYTES: usize = 1 << 20;
/// How long a successful write counts, microseconds.
const FRESH_MICROS: i64 = 1_000_000;
/// How long the last result counts while another probe writes: the writer may be busy.
const BUSY_MICROS: i64 = 30_000_000;

impl Pool {
    /// Succeeds if the database accepts writes. It writes at most once a second, and by one probe at a time:
    /// concurrent callers get the last result.
    ///
    /// # Errors
    /// When a write fails.
    pub async fn prove_writes(&self, now: Timestamp) -> Result<(), Error> {
        let known = &*self.writes.0;
        let is_within = |at: Timestamp, micros: i64| (0..micros).contains(&now.micros_since(at));
        let _proving = match known.proving.try_lock() {
            Ok(proving) => proving,
            Err(_) => match known.last() {
                Some((at, true)) if is_within(at, BUSY_MICROS) => return Ok(()),
                Some((at, false)) if is_within(at, BUSY_MICROS) => {
                    return Err(Error::Unavailable("the last write failed".to_owned()));
                }
                _ => known.proving.lock().await,
            },
        };
        let (n_failures, has_failed) = known.failures();
        let last = known.last();
        if !has_failed && last.is_some_and(|(at, done)| done && is_within(at, FRESH_MICROS)) {
            return Ok(());
        }
        let payload = vec![0; if has_failed { LARGE_BYTES } else { SMALL_BYTES }];
        let row: [Arg<'_>; 2] = [now.as_micros().into(), payload.as_slice().into()];
        let written = async {
            let mut tx = Tx::begin(self).await?;
            tx.execute(WRITE, &row).await?;
            tx.commit().await
        };
        let written = written.await;
        known.set_last(now, written.is_ok());
        written?;
        if has_failed {
            known.record_large_write(n_failures);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DatabaseUrl, Options};

    const TABLE: &str =
        "CREATE TABLE write_probes (id BIGINT PRIMARY KEY, written_at BIGINT, payload BLOB)";

    #[tokio::test]
    async fn a_statement_that_fails_during_a_probe_makes_the_next_probe_write() {
        let dir = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::Sqlite(dir.path().join("perpend.db"));
        let options = Options { wait: Duration::from_secs(60), ..Options::default() };
        let pool = Pool::open(&url, &options).await.unwrap();
        let mut tx = Tx::begin(&pool).await.unwrap();
        tx.run_script(TABLE.to_owned()).await.unwrap();
        tx.commit().await.unwrap();
        let fail = || {
            let failed = Err::<(), _>(Error::Unavailable("no space".to_owned()));
            assert!(pool.writes.note(failed).is_err());
        };
        fail();
        let writer = Tx::begin(&pool).await.unwrap();
        let failing = async {
            fail();
            drop(writer);
        };
        let (proved, ()) = tokio::join!(pool.prove_writes(Timestamp::from_micros(1)), failing);
        proved.unwrap();
        assert!(pool.writes.0.failures().1);
        pool.prove_writes(Timestamp::from_micros(2)).await.unwrap();
        assert!(!pool.writes.0.failures().1);
        assert_eq!(pool.writes.0.last(), Some((Timestamp::from_micros(2), true)));
        pool.close().await;
    }
}
