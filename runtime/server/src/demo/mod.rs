//! `assay demo`: the main job, played over HTTP against a server that runs for it.
//!
//! Nothing here reaches behind the API: what the demo can do, a user can.

mod client;
mod otlp;
mod rules;
mod story;
mod table;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use assay_domain::ids::IdSource;
use assay_domain::time::Clock;
use prost::Message;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use self::client::Client;
use self::table::Row;
use crate::KeyPair;

/// How long the scores may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What came of the demo.
#[derive(Debug)]
pub struct Played {
    /// The scores as a table.
    pub table: String,
    /// Scores that came.
    pub n_scores: usize,
    /// Scores that had to come.
    pub n_expected: usize,
    /// From the spans' acknowledgement to the last score, or to the end of patience.
    pub took: Duration,
}

/// Makes evaluators and rules, exports the story's spans, and waits for the scores.
///
/// # Errors
/// When the server does not answer or refuses what is asked. Scores that do not come are no error but
/// show in [`Played`].
pub async fn play(
    address: SocketAddr,
    keys: &KeyPair,
    clock: &dyn Clock,
    ids: &dyn IdSource,
    colour: bool,
) -> anyhow::Result<Played> {
    let tasks = TaskTracker::new();
    let mut client = Client::connect(address, keys, &tasks).await?;
    rules::create(&mut client).await?;
    client.export(story::request(clock.now(), ids).encode_to_vec()).await?;
    let begun = tokio::time::Instant::now();
    let mut scores = Vec::new();
    while scores.len() < rules::N_SCORES && begun.elapsed() < PATIENCE {
        tokio::time::sleep(PAUSE).await;
        let page = client.get("/api/public/v3/scores?limit=100&fields=details,subject").await?;
        scores = page["data"].as_array().cloned().unwrap_or_default();
    }
    let took = begun.elapsed();
    let n_scores = scores.len();
    let rows = rows(&mut client, scores).await?;
    Ok(Played { table: table::render(&rows, colour), n_scores, n_expected: rules::N_SCORES, took })
}

/// Each score with the names of what it is about and what made it.
async fn rows(client: &mut Client, scores: Vec<Value>) -> anyhow::Result<Vec<Row>> {
    let mut evaluators = HashMap::new();
    for evaluator in list(client, "/api/public/v2/evaluators?limit=100").await? {
        let name = format!("{} v{}", evaluator["name"].as_str().unwrap_or("-"), evaluator["version"]);
        evaluators.insert(evaluator["versionId"].to_string(), name);
    }
    let path = "/api/public/v2/observations?limit=1000&fields=core,basic,io";
    let mut observations = HashMap::new();
    let mut questions = HashMap::new();
    for observation in list(client, path).await? {
        if observation["parentObservationId"].is_null() {
            let question = observation["input"].as_str().unwrap_or("-").to_owned();
            questions.insert(observation["traceId"].to_string(), question);
        }
        observations.insert(observation["id"].to_string(), observation);
    }
    let mut rows: Vec<Row> = scores
        .into_iter()
        .map(|score| {
            let subject = &score["subject"];
            let observation = observations.get(&subject["id"].to_string());
            let trace_id = observation.map_or(&subject["id"], |observation| &observation["traceId"]);
            Row {
                about: observation.map_or("whole trace", |o| o["name"].as_str().unwrap_or("-")).to_owned(),
                trace: questions.get(&trace_id.to_string()).cloned().unwrap_or_default(),
                evaluator: evaluators
                    .get(&score["origin"]["evaluatorVersionId"].to_string())
                    .cloned()
                    .unwrap_or_default(),
                score,
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.trace, &a.about, &a.evaluator).cmp(&(&b.trace, &b.about, &b.evaluator)));
    Ok(rows)
}

async fn list(client: &mut Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let page = client.get(path).await?;
    page["data"].as_array().cloned().with_context(|| format!("{path} answered no list"))
}
