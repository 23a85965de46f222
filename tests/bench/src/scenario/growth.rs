//! Growth: the rate on an empty database against the rate on one that holds 900,000 spans.

use crate::load::{Plan, SPANS_PER_BATCH, run};
use crate::median;
use crate::report::{Bar, Figure};
use crate::server::Server;

/// Fills a database to `n_spans` in tenths and compares the first with the last, `rounds` times.
///
/// # Errors
/// When the server refuses a batch or does not start.
pub(crate) async fn measure(rounds: usize, n_spans: u64) -> anyhow::Result<Vec<Figure>> {
    let (mut firsts, mut lasts, mut losses) = (vec![], vec![], vec![]);
    let (mut peaks, mut sizes) = (vec![], vec![]);
    for round in 0..rounds {
        let filled = fill(n_spans).await?;
        let (first, last) = (filled.rates[0], filled.rates[9]);
        eprintln!("growth {}/{rounds}: from {first:.0} to {last:.0} spans/s", round + 1);
        firsts.push(first);
        lasts.push(last);
        losses.push((1.0 - last / first) * 100.0);
        peaks.push(filled.peak_resident as f64 / f64::from(1 << 20));
        sizes.push(filled.database_bytes as f64 / n_spans as f64);
    }
    let figure = |what: String, values, unit, bar| Figure {
        scenario: "growth",
        what,
        value: median(values),
        unit,
        bar,
    };
    let tenth = n_spans / 10;
    Ok(vec![
        figure(format!("first {tenth} spans"), firsts, "spans/s", Bar::None),
        figure(format!("last {tenth} of {n_spans} spans"), lasts, "spans/s", Bar::None),
        figure("slower at the end by".to_owned(), losses, "%", Bar::AtMost(20.0)),
        figure("peak resident memory".to_owned(), peaks, "MiB", Bar::None),
        figure("database per span".to_owned(), sizes, "bytes", Bar::None),
    ])
}

/// A database that was filled.
struct Filled {
    /// Spans per second of each tenth.
    rates: [f64; 10],
    peak_resident: u64,
    database_bytes: u64,
}

async fn fill(n_spans: u64) -> anyhow::Result<Filled> {
    let n_batches = n_spans / 10 / SPANS_PER_BATCH as u64;
    let server = Server::start(&[]).await?;
    let mut rates = [0.0; 10];
    let mut peak_resident = 0;
    for (part, rate) in (0..).zip(&mut rates) {
        let plan = Plan { n_connections: 4, n_batches, pace: None, first_serial: part * n_batches };
        let run = run(&server, plan).await?;
        *rate = run.spans_per_second();
        peak_resident = peak_resident.max(run.peak_resident);
    }
    let database_bytes = std::fs::metadata(server.database()).map_or(0, |file| file.len());
    server.stop().await?;
    Ok(Filled { rates, peak_resident, database_bytes })
}
