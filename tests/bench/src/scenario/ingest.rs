//! Ingest: 250-span batches over four connections, acknowledged after a durable commit.

use crate::load::{Plan, Run, SPANS_PER_BATCH, run};
use crate::report::{Bar, Figure};
use crate::server::Server;
use crate::{floor, median};

/// Runs the load `rounds` times on fresh databases, with the floor before each.
///
/// # Errors
/// When the server refuses a batch or does not start.
pub(crate) async fn measure(rounds: usize, n_spans: u64) -> anyhow::Result<Vec<Figure>> {
    let n_batches = n_spans / SPANS_PER_BATCH as u64;
    let (mut rates, mut ratios, mut p99s, mut peaks) = (vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        let bare = floor::spans_per_second(n_batches.min(200)).await?;
        let server = Server::start(&[]).await?;
        let run: Run =
            run(&server, Plan { n_connections: 4, n_batches, pace: None, first_serial: 0 }).await?;
        eprintln!(
            "ingest {}/{rounds}: {:.0} spans/s, bare append {bare:.0}",
            round + 1,
            run.spans_per_second()
        );
        rates.push(run.spans_per_second());
        ratios.push(run.spans_per_second() / bare);
        p99s.push(run.quantile(0.99).as_secs_f64() * 1e3);
        peaks.push(run.peak_resident as f64 / f64::from(1 << 20));
        server.stop().await?;
    }
    let figure = |what: &str, values: Vec<f64>, unit, bar| Figure {
        scenario: "ingest",
        what: what.to_owned(),
        value: median(values),
        unit,
        bar,
    };
    Ok(vec![
        figure("acknowledged, 4 connections", rates, "spans/s", Bar::AtLeast(20_000.0)),
        figure("share of a bare SQLite append", ratios, "x", Bar::AtLeast(0.4)),
        figure("p99 of a request", p99s, "ms", Bar::AtMost(150.0)),
        figure("peak resident memory", peaks, "MiB", Bar::AtMost(300.0)),
    ])
}
