//! Compares the memory of reading a request with the charged amount, for the fuzz target and the test of the crate.

use peak_alloc::PeakAlloc;
use perpend_domain::batch::{Media, SpanLog};
use perpend_domain::observation::Observation;
use perpend_domain::score::NewScore;
use perpend_otlp::{Context, Encoding, Limits, MemoryExhausted, Sink, read_logs, read_traces};

/// Uncharged memory of the reader itself.
const UNCHARGED: usize = 64 << 10;
/// Memory for a request of any size, as its span may hold `max_values` values.
const ALLOWANCE: usize = 40 << 20;
/// Memory for a larger request, as a multiple of its size.
const MAX_TIMES: usize = 5;

/// A sink that drops everything, so that only the memory of the reader remains.
#[derive(Default)]
struct Charged {
    n_held: usize,
    n_charged: usize,
    max_bytes: usize,
}

impl Sink for Charged {
    fn reserve(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        let n_charged = self.n_held + n_bytes;
        if self.max_bytes < n_charged {
            return Err(MemoryExhausted);
        }
        self.n_charged = self.n_charged.max(n_charged);
        Ok(())
    }

    fn retain(&mut self, n_bytes: usize) -> Result<(), MemoryExhausted> {
        self.reserve(n_bytes)?;
        self.n_held += n_bytes;
        Ok(())
    }

    fn observation(&mut self, _: Observation) -> Result<(), MemoryExhausted> {
        Ok(())
    }

    fn score(&mut self, _: NewScore) -> Result<(), MemoryExhausted> {
        Ok(())
    }

    fn media(&mut self, _: Media) -> Result<(), MemoryExhausted> {
        Ok(())
    }

    fn log(&mut self, _: SpanLog) {}
}

/// Reads bytes as traces and as logs.
///
/// # Panics
/// When more memory is taken than was charged.
pub(crate) fn check(allocator: &PeakAlloc, bytes: &[u8], encoding: Encoding, limits: Limits) {
    let context = Context { limits, ..Context::default() };
    for is_logs in [false, true] {
        let mut sink =
            Charged { max_bytes: ALLOWANCE + MAX_TIMES * bytes.len(), ..Charged::default() };
        let before = allocator.current_usage();
        allocator.reset_peak_usage();
        if is_logs {
            let _read = read_logs(bytes, encoding, &context, &mut sink);
        } else {
            let _read = read_traces(bytes, encoding, &context, &mut sink);
        }
        let n_taken = allocator.peak_usage().saturating_sub(before);
        let (charged, len) = (sink.n_charged, bytes.len());
        let start = String::from_utf8_lossy(&bytes[..len.min(200)]);
        assert!(
            n_taken <= charged + UNCHARGED,
            "{n_taken} bytes taken, {charged} charged, for {len} sent: {start:?}"
        );
    }
}
