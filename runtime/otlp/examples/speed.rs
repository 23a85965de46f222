//! Microseconds per span for decoding and mapping the protobuf files named on the command line:
//! `cargo run --release -p perpend-otlp --example speed -- tests/corpus/otlp/*.pb`

use std::io::Write as _;
use std::time::Instant;

use perpend_otlp::{Context, Encoding, decode, map};

const ROUNDS: u32 = 2_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for path in std::env::args().skip(1) {
        let body = std::fs::read(&path)?;
        let context = Context::default();
        let Ok(request) = decode(&body, Encoding::Protobuf) else {
            continue;
        };
        let n_spans = u32::try_from(request.n_spans()).unwrap_or(1).max(1);
        let mut kept = 0;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            if let Ok(request) = decode(&body, Encoding::Protobuf) {
                kept += map(&request, &context).batch.observations.len();
            }
        }
        let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS * n_spans);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            kept += usize::from(decode(&body, Encoding::Protobuf).is_ok());
        }
        let decoding = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS * n_spans);
        writeln!(
            out,
            "{micros:7.2} µs a span, {decoding:5.2} of it decoding, {:6} bytes a span, {n_spans:3} spans ({kept} kept)  {path}",
            body.len() / n_spans as usize
        )?;
    }
    Ok(())
}
