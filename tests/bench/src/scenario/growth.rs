//! Growth: the rate on an empty database against the rate on one that holds 900,000 spans.

use crate::load::{Plan, SPANS_PER_BATCH, run};
use crate::report::{Bar, Figure};
use crate::server::Server;

/// Fills one database to `n_spans` in tenths and compares the first with the last.
///
/// # Errors
/// When the server refuses a batch or does not start.
pub(crate) async fn measure(n_spans: u64) -> anyhow::Result<Vec<Figure>> {
    let tenth = n_spans / 10 / SPANS_PER_BATCH as u64;
    let server = Server::start(&[]).await?;
    let mut rates = Vec::new();
    let mut peak = 0;
    for part in 0..10 {
        let plan = Plan {
            n_connections: 4,
            n_batches: tenth,
            pace: None,
            first_serial: part * tenth,
        };
        let run = run(&server, plan).await?;
        eprintln!(
            "growth {}/10: {:.0} spans/s",
            part + 1,
            run.spans_per_second()
        );
        rates.push(run.spans_per_second());
        peak = peak.max(run.peak_resident);
    }
    let size = std::fs::metadata(server.database()).map_or(0, |file| file.len());
    server.stop().await?;
    let loss = (1.0 - rates[9] / rates[0]) * 100.0;
    let figure = |what: String, value, unit, bar| Figure {
        scenario: "growth",
        what,
        value,
        unit,
        bar,
    };
    Ok(vec![
        figure(
            format!("first {} spans", n_spans / 10),
            rates[0],
            "spans/s",
            Bar::None,
        ),
        figure(
            format!("last {} of {n_spans} spans", n_spans / 10),
            rates[9],
            "spans/s",
            Bar::None,
        ),
        figure(
            "slower at the end by".to_owned(),
            loss,
            "%",
            Bar::AtMost(20.0),
        ),
        figure(
            "peak resident memory".to_owned(),
            peak as f64 / f64::from(1 << 20),
            "MiB",
            Bar::None,
        ),
        figure(
            "database per span".to_owned(),
            size as f64 / n_spans as f64,
            "bytes",
            Bar::None,
        ),
    ])
}
