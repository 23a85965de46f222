//! Idle: what the server costs when nothing happens, and how soon it is ready.

use std::time::Duration;

use crate::load::{Plan, run};
use crate::median;
use crate::report::{Bar, Figure};
use crate::scenario::end_to_end::{n_generations, reader, score_generations, wait_for_scores};
use crate::server::Server;

/// Starts once to fill the artifact cache, then `rounds` times for the figures, each time with a batch
/// that is scored, so that a worker process runs.
///
/// # Errors
/// When the server does not start.
pub(crate) async fn measure(rounds: usize) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    score_generations(&server).await?;
    let mut folder = server.stop().await?;
    let (mut resident, mut ready) = (vec![], vec![]);
    for round in 0..rounds as u64 {
        let server = Server::start_in(folder, &[]).await?;
        ready.push(server.ready_after.as_secs_f64());
        let one = Plan { n_connections: 1, n_batches: 1, pace: None, first_serial: round };
        run(&server, one).await?;
        wait_for_scores(&mut reader(&server).await?, n_generations(round + 1)).await?;
        // Long enough for what a start leaves to settle.
        tokio::time::sleep(Duration::from_secs(2)).await;
        resident.push(server.resident_bytes_together() as f64 / f64::from(1 << 20));
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
        figure("resident memory, workers included", resident, "MiB", Bar::AtMost(80.0)),
        figure("start to ready, warm artifact cache", ready, "s", Bar::AtMost(1.0)),
    ])
}
