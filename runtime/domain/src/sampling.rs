//! Sampling of targets (evaluation.md 1.13) by hash, so that every node and every retry agree, and a smaller sample is a
//! subset of each larger one.

use sha2::{Digest, Sha256};

/// The place of `id` in `[0, 1)`: the top 53 bits of a digest.
#[must_use]
pub fn value(salt: &str, id: &str) -> f64 {
    let mut hash = Sha256::new();
    hash.update(b"eval-sampling/v1\0");
    hash.update(salt);
    hash.update(b"\0");
    hash.update(id);
    let digest: [u8; 32] = hash.finalize().into();
    let top = digest[..8].iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    (top >> 11) as f64 / (1_u64 << 53) as f64
}

/// Whether a target with this value is in the sample.
#[must_use]
pub fn is_selected(value: f64, rate: f64) -> bool {
    1.0 <= rate || value < rate
}
