//! Whether the database takes writes.
//!
//! Invariant:
//! - **The truth is a write.** A database that reads may still refuse every write: on a full disk, without permission, as a
//!   standby. So a row is written. After a write that failed the row is large: a small one may fit into space that the
//!   log of the database already has.

use std::sync::atomic::Ordering;

use perpend_domain::time::Timestamp;

use crate::{Arg, Error, Pool, Tx};

const WRITE: &str = "
    INSERT INTO write_probes (id, written_at, payload) VALUES (1, $1, $2)
    ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at, payload = excluded.payload";
const SMALL_BYTES: usize = 16;
const LARGE_BYTES: usize = 1 << 20;
/// How long a successful write counts.
const FRESH_MICROS: i64 = 1_000_000;

impl Pool {
    /// Succeeds when the database takes writes. It is asked at most once a second.
    ///
    /// # Errors
    /// When a write fails.
    pub async fn prove_writes(&self, now: Timestamp) -> Result<(), Error> {
        let known = &*self.writes.0;
        let mut proved_at = known.proved_at.lock().await;
        let has_failed = known.has_failed.load(Ordering::Relaxed);
        let is_fresh = |at: Timestamp| (0..FRESH_MICROS).contains(&now.micros_since(at));
        if !has_failed && proved_at.is_some_and(is_fresh) {
            return Ok(());
        }
        let payload = vec![0; if has_failed { LARGE_BYTES } else { SMALL_BYTES }];
        let row: [Arg<'_>; 2] = [now.as_micros().into(), payload.as_slice().into()];
        let written = async {
            let mut tx = Tx::begin(self).await?;
            tx.execute(WRITE, &row).await?;
            tx.commit().await
        };
        written.await?;
        if has_failed {
            known.has_failed.store(false, Ordering::Relaxed);
        }
        *proved_at = Some(now);
        Ok(())
    }
}
