//! End to end: spans arrive while a rule scores each of their generations.
//!
//! The time at which a score became durable is read from the database of the server under test over a connection of
//! its own: polling the API would be too coarse for a percentile.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use sqlx::{ConnectOptions, Row};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::load::{Plan, SPANS_PER_BATCH, quantile, run};
use crate::report::{Bar, Figure};
use crate::server::Server;
use crate::spans::{GENERATIONS_PER_TRACE, SPANS_PER_TRACE};

/// Spans in a second of the quiet part.
const PACE: f64 = 2_000.0;

/// Without a new score for so long, the rest will not come.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// As many spans as fit, then 20 s at a quiet pace.
///
/// # Errors
/// When the server refuses something, or scores stop coming before all are there.
pub(crate) async fn measure(n_spans: u64) -> anyhow::Result<Vec<Figure>> {
    let n_batches = n_spans / SPANS_PER_BATCH as u64;
    let server = Server::start(&[]).await?;
    score_generations(&server).await?;
    let mut reader = reader(&server).await?;

    let started = Instant::now();
    let plan = Plan { n_connections: 4, n_batches, pace: None, first_serial: 0 };
    let load = run(&server, plan).await?;
    let n_scores = n_generations(n_batches);
    wait_for_scores(&mut reader, n_scores).await?;
    let all_scored = started.elapsed().as_secs_f64();
    eprintln!("end to end: {n_scores} scores after {all_scored:.1} s");

    let n_quiet = (PACE * 20.0) as u64 / SPANS_PER_BATCH as u64;
    let after = newest_score(&mut reader).await?;
    let plan =
        Plan { n_connections: 4, n_batches: n_quiet, pace: Some(PACE), first_serial: n_batches };
    run(&server, plan).await?;
    wait_for_scores(&mut reader, n_scores + n_generations(n_quiet)).await?;
    let waits = ingest_to_score(&mut reader, after).await?;
    drop(reader);
    server.stop().await?;

    let figure = |what: &str, value, unit, bar| Figure {
        scenario: "end-to-end",
        what: what.to_owned(),
        value,
        unit,
        bar,
    };
    let millis = |share| quantile(&waits, share).as_secs_f64() * 1e3;
    let per_second = n_scores as f64 / all_scored;
    let memory = load.peak_resident as f64 / f64::from(1 << 20);
    Ok(vec![
        figure("spans acknowledged meanwhile", load.spans_per_second(), "spans/s", Bar::None),
        figure("until the last score is durable", all_scored, "s", Bar::None),
        figure("evaluations while ingesting", per_second, "/s", Bar::AtLeast(5_000.0)),
        figure("peak resident memory, workers included", memory, "MiB", Bar::None),
        figure("ingest to score at 2,000 spans/s: median", millis(0.5), "ms", Bar::None),
        figure("ingest to score at 2,000 spans/s: p99", millis(0.99), "ms", Bar::AtMost(2_000.0)),
    ])
}

pub(crate) fn n_generations(n_batches: u64) -> u64 {
    n_batches * (SPANS_PER_BATCH / SPANS_PER_TRACE * GENERATIONS_PER_TRACE) as u64
}

/// A rule that scores each generation.
pub(crate) async fn score_generations(server: &Server) -> anyhow::Result<()> {
    let mut connection = server.connect().await?;
    let evaluator = json!({
        "type": "plugin",
        "name": "answer length",
        "plugin": "perpend/text",
        "evaluator": "length",
        "config": { "max": 2_000 },
    });
    let evaluator = connection.json("POST", "/api/public/v2/evaluators", Some(&evaluator)).await?;
    let id = evaluator["id"].as_str().context("the evaluator has no id")?;
    let rule = json!({
        "name": "every generation",
        "enabled": true,
        "sampling": 1,
        "filter": [{
            "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
        }],
        "evaluatorAssignments": [{ "evaluatorId": id }],
    });
    connection.json("POST", "/api/public/v2/evaluation-rules", Some(&rule)).await?;
    Ok(())
}

pub(crate) async fn reader(server: &Server) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(server.database()).read_only(true);
    Ok(options.busy_timeout(Duration::from_secs(5)).connect().await?)
}

pub(crate) async fn wait_for_scores(
    reader: &mut SqliteConnection,
    wanted: u64,
) -> anyhow::Result<()> {
    let (mut n_scores, mut changed) = (0, Instant::now());
    loop {
        let row = sqlx::query("SELECT COUNT(*) FROM scores").fetch_one(&mut *reader).await?;
        let now = u64::try_from(row.get::<i64, _>(0))?;
        if wanted <= now {
            return Ok(());
        }
        if now != n_scores {
            (n_scores, changed) = (now, Instant::now());
        }
        anyhow::ensure!(
            changed.elapsed() < GIVE_UP_AFTER,
            "{n_scores} of {wanted} scores came, and no more"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn newest_score(reader: &mut SqliteConnection) -> anyhow::Result<i64> {
    let row = sqlx::query("SELECT COALESCE(MAX(created_at), 0) FROM scores").fetch_one(reader);
    Ok(row.await?.get(0))
}

/// For each score since: from the end of its trace's root, which is when the batch was sent.
async fn ingest_to_score(
    reader: &mut SqliteConnection,
    since: i64,
) -> anyhow::Result<Vec<Duration>> {
    const WAITS: &str = "
        SELECT scores.created_at - observations.ended_at
          FROM scores
          JOIN traces ON traces.trace_id = scores.trace_id
          JOIN observations ON observations.trace = traces.number AND observations.is_root = 1
         WHERE scores.created_at > $1
         ORDER BY 1";
    let rows = sqlx::query(WAITS).bind(since).fetch_all(reader).await?;
    let micros = rows.iter().map(|row| u64::try_from(row.get::<i64, _>(0)).unwrap_or(0));
    Ok(micros.map(Duration::from_micros).collect())
}
