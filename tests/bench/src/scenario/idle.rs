//! Idle: what the server costs when nothing happens, and how soon it is ready.

use std::time::Duration;

use crate::median;
use crate::report::{Bar, Figure};
use crate::server::Server;

/// Starts once to fill the artifact cache, then `rounds` times for the figures.
///
/// # Errors
/// When the server does not start.
pub(crate) async fn measure(rounds: usize) -> anyhow::Result<Vec<Figure>> {
    let mut folder = Server::start(&[]).await?.stop().await?;
    let (mut resident, mut ready) = (vec![], vec![]);
    for _ in 0..rounds {
        let server = Server::start_in(folder, &[]).await?;
        ready.push(server.ready_after.as_secs_f64());
        // Long enough for what a start leaves to settle.
        tokio::time::sleep(Duration::from_secs(2)).await;
        resident.push(server.resident_bytes() as f64 / f64::from(1 << 20));
        folder = server.stop().await?;
    }
    let figure = |what: &str, values, unit, bar| Figure {
        scenario: "idle",
        what: what.to_owned(),
        value: median(values),
        unit,
        bar,
    };
    Ok(vec![
        figure(
            "resident memory, workers included",
            resident,
            "MiB",
            Bar::AtMost(80.0),
        ),
        figure(
            "start to ready, warm artifact cache",
            ready,
            "s",
            Bar::AtMost(1.0),
        ),
    ])
}
