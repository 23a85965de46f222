//! Microseconds per span for decoding and mapping the OTLP files (`.pb`, `.json`) named on the command line:
//! `cargo run --release -p perpend-otlp --example speed -- tests/corpus/otlp/*.pb`

use std::io::Write as _;
use std::time::Instant;

use perpend_domain::batch::Batch;
use perpend_otlp::{Context, Encoding, read_traces};

const ROUNDS: u32 = 2_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for path in std::env::args().skip(1) {
        let body = std::fs::read(&path)?;
        let context = Context::default();
        let encoding = match path.ends_with(".json") {
            true => Encoding::Json,
            false => Encoding::Protobuf,
        };
        let mut batch = Batch::default();
        let Ok(taken) = read_traces(&body, encoding, &context, &mut batch) else {
            continue;
        };
        let n_spans = u32::try_from(taken.n_accepted).unwrap_or(1).max(1);
        let mut kept = 0;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let mut batch = Batch::default();
            let _read = read_traces(&body, encoding, &context, &mut batch);
            kept += batch.observations.len();
        }
        let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS * n_spans);
        writeln!(
            out,
            "{micros:7.2} µs a span, {:6} bytes a span, {n_spans:3} spans ({kept} kept)  {path}",
            body.len() / n_spans as usize
        )?;
    }
    Ok(())
}
