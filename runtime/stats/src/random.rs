//! A generator that is the same everywhere, so that a resampled number can be computed again.

use sha2::{Digest, Sha256};

/// SplitMix64: the state is the seed, and every draw moves it by one odd constant.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `n`: the high 64 bits of the next draw times `n`. 0 where `n` is 0.
    pub const fn below(&mut self, n: usize) -> usize {
        ((self.next_u64() as u128 * n as u128) >> 64) as usize
    }
}

/// The seed of what is resampled for a metric of a run: the first 8 bytes, big-endian, of the SHA-256
/// of both names with a zero byte between them.
#[must_use]
pub fn seed(run: &str, metric: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(run);
    hash.update(b"\0");
    hash.update(metric);
    let digest: [u8; 32] = hash.finalize().into();
    digest[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_seed_depends_on_both_names_and_on_where_one_ends() {
        assert_eq!(seed("run", "accuracy"), seed("run", "accuracy"));
        assert_ne!(seed("run", "accuracy"), seed("runa", "ccuracy"));
    }
}
