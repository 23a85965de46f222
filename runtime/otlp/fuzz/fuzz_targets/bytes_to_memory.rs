//! Any bytes, read as either encoding of traces and logs, take no more memory than they were charged.
//! Seed it with `tests/corpus/otlp`.

#![no_main]

#[path = "../charged.rs"]
mod charged;

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use perpend_otlp::{Encoding, Limits};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fuzz_target!(|bytes: &[u8]| {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        charged::check(&ALLOCATOR, bytes, encoding, Limits::default());
    }
});
