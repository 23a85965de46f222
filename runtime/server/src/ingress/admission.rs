//! How much the OTLP paths hold in memory at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::problem::Problem;

/// Bytes that one permit stands for.
const UNIT: usize = 4 << 10;

/// The budget of bytes in flight.
#[derive(Clone, Debug)]
pub struct Admission {
    bytes: Arc<Semaphore>,
}

impl Admission {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(max_in_flight_bytes: usize) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(max_in_flight_bytes / UNIT)),
        }
    }

    /// An account that has taken nothing yet.
    pub(super) fn account(&self) -> Account {
        Account {
            budget: Arc::clone(&self.bytes),
            permit: None,
            taken: 0,
            used: 0,
        }
    }
}

/// What one request has taken from the budget; dropping it gives all back.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    taken: usize,
    used: usize,
}

impl Account {
    /// Takes `n_bytes` more.
    ///
    /// # Errors
    /// 503 when the budget has no more: waiting for room while holding some could wait for ever.
    pub(super) fn take(&mut self, n_bytes: usize) -> Result<(), Problem> {
        self.used += n_bytes;
        if self.used <= self.taken {
            return Ok(());
        }
        let n_units = (self.used - self.taken).div_ceil(UNIT);
        let wanted = u32::try_from(n_units).unwrap_or(u32::MAX);
        match Arc::clone(&self.budget).try_acquire_many_owned(wanted) {
            Ok(more) => {
                self.taken += n_units * UNIT;
                match &mut self.permit {
                    Some(permit) => permit.merge(more),
                    None => self.permit = Some(more),
                }
                Ok(())
            }
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => Err(Problem::unavailable(
                "too much telemetry is in flight; nothing of this request was kept",
            )),
        }
    }
}
