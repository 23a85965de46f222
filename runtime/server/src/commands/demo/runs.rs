//! A dataset of tickets and runs of a scripted application over it. Against the baseline, one run has a regression, one differs
//! within the noise, and one has too few items for a verdict. The baseline answers each ticket twice, which shows the noise.

use axum::http::Method;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::more::model;
use super::rules;
use super::sample::{Timing, TraceBuilder, request};
use super::wire::{send, text};
use crate::client::Client;

const DATASET: &str = "support/tickets";
/// The score that the application sends.
const SCORE: &str = "helpfulness";
const N_ITEMS: usize = 60;
const SECOND: u64 = 1_000_000_000;

const LANGUAGES: [&str; 3] = ["de", "en", "fr"];
const PRODUCTS: [&str; 12] = [
    "blue mug",
    "white mug",
    "green mug",
    "desk lamp",
    "floor lamp",
    "teapot",
    "sugar bowl",
    "milk jug",
    "candle holder",
    "night light",
    "lamp shade",
    "tea strainer",
];
/// The kinds of tickets with a question about a product.
const INTENTS: [(&str, &str); 5] = [
    ("delivery", "Where is my {product}? It should have arrived on Monday."),
    ("refund", "The {product} is broken. I want my money back."),
    ("billing", "I paid twice for the {product}. Why?"),
    ("product", "Is the {product} safe in the dishwasher?"),
    ("account", "I ordered a {product} with the wrong address. How do I change it?"),
];

/// A run of the application.
struct SampleRun {
    name: &'static str,
    description: &'static str,
    n_items: usize,
    n_repetitions: usize,
    /// Whether the intent of an item is classified correctly in a repetition.
    is_right: fn(usize, usize) -> bool,
    helpfulness: fn(usize, usize) -> f64,
    latency_ms: u64,
    input_tokens: i64,
}

impl SampleRun {
    /// Item and repetition of each call.
    fn calls(&self) -> impl Iterator<Item = (usize, usize)> {
        let n_repetitions = self.n_repetitions;
        (0..self.n_items * n_repetitions)
            .map(move |call| (call / n_repetitions, call % n_repetitions))
    }

    /// From 0 to 1 with three digits.
    fn score(&self, (item, repetition): (usize, usize)) -> f64 {
        ((self.helpfulness)(item, repetition).clamp(0.0, 1.0) * 1e3).round() / 1e3
    }
}

/// The result of one call of the application.
struct SampleResult {
    item: usize,
    repetition: usize,
    trace_id: String,
    observation_id: String,
}

/// A value from -1 to 1 that depends on the arguments alone; its mean over the items is about 0.
fn wave(item: usize, salt: usize) -> f64 {
    ((item * 37 + salt * 101) % 21) as f64 / 10.0 - 1.0
}

/// The helpfulness of the baseline without noise.
fn level(item: usize) -> f64 {
    0.5 + 0.03 * ((item * 7) % 10) as f64
}

fn is_hard(item: usize) -> bool {
    item % 10 == 3
}

fn runs() -> [SampleRun; 4] {
    [
        SampleRun {
            name: "baseline",
            description: "The prompt in use. Each ticket is answered twice.",
            n_items: N_ITEMS,
            n_repetitions: 2,
            is_right: |item, repetition| match repetition {
                0 => !is_hard(item),
                _ => !(is_hard(item) && item != 3 || item == 5 || item == 17),
            },
            helpfulness: |item, repetition| level(item) + 0.2 * wave(item, repetition),
            latency_ms: 1_200,
            input_tokens: 640,
        },
        SampleRun {
            name: "short prompt",
            description: "The prompt without its examples.",
            n_items: N_ITEMS,
            n_repetitions: 1,
            // Tickets in the first language need the examples.
            is_right: |item, _| !(is_hard(item) || item.is_multiple_of(LANGUAGES.len())),
            helpfulness: |item, _| level(item) - 0.22 + 0.05 * wave(item, 2),
            latency_ms: 900,
            input_tokens: 210,
        },
        SampleRun {
            name: "friendlier wording",
            description: "The prompt requires a greeting.",
            n_items: N_ITEMS,
            n_repetitions: 1,
            is_right: |item, _| !(is_hard(item) && item != 13 || item == 20),
            helpfulness: |item, _| level(item) - 0.05 + 0.03 * wave(item, 3),
            latency_ms: 1_210,
            input_tokens: 645,
        },
        SampleRun {
            name: "new examples, first tickets",
            description: "Eight tickets answered with other examples in the prompt.",
            n_items: 8,
            n_repetitions: 1,
            is_right: |item, _| item != 3 && item != 6,
            helpfulness: |item, _| level(item) - 0.06 + 0.15 * wave(item, 5),
            latency_ms: 1_205,
            input_tokens: 645,
        },
    ]
}

fn item_id(item: usize) -> String {
    format!("ticket-{:02}", item + 1)
}

fn question(item: usize) -> String {
    let (_, question) = INTENTS[item % INTENTS.len()];
    question.replace("{product}", PRODUCTS[item / INTENTS.len() % PRODUCTS.len()])
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends the dataset, the evaluator and the runs.
pub(super) async fn send_runs(
    client: &Client,
    ids: &dyn IdSource,
    now: Timestamp,
) -> anyhow::Result<()> {
    create_dataset(client).await?;
    rules::of_experiments().create(client).await?;
    let now = u64::try_from(now.as_micros()).unwrap_or(0) * 1_000;
    let runs = runs();
    for (at, run) in runs.iter().enumerate() {
        // One run per hour; the last one is the newest.
        let start = now.saturating_sub((runs.len() - at) as u64 * 3_600 * SECOND);
        send_run(client, ids, run, start).await?;
    }
    set_baseline(client, runs[0].name).await
}

/// Makes a run the one that the other runs of the dataset are compared with.
async fn set_baseline(client: &Client, run: &str) -> anyhow::Result<()> {
    let dataset = DATASET.replace('/', "%2F");
    let path = format!("/api/public/datasets/{dataset}/runs/{run}");
    let found = client.get(&path).await?;
    anyhow::ensure!(found.status.is_success(), "{path}: {}", found.text());
    let (path, body) =
        (format!("/api/v1/datasets/{dataset}"), json!({ "baselineRunId": found.json()["id"] }));
    let response = client.json(Method::PATCH, &path, &body).await?;
    anyhow::ensure!(response.status.is_success(), "{path}: {}", response.text());
    Ok(())
}

async fn post(client: &Client, path: &str, body: &Value) -> anyhow::Result<()> {
    let response = client.json(Method::POST, path, body).await?;
    anyhow::ensure!(response.status.is_success(), "{path}: {}", response.text());
    Ok(())
}

async fn create_dataset(client: &Client) -> anyhow::Result<()> {
    let dataset = json!({
        "name": DATASET, "description": "Questions of customers with the intent that a person found.",
    });
    post(client, "/api/public/v2/datasets", &dataset).await?;
    for item in 0..N_ITEMS {
        let body = json!({
            "datasetName": DATASET,
            "id": item_id(item),
            "input": question(item),
            "expectedOutput": INTENTS[item % INTENTS.len()].0,
            "metadata": { "language": LANGUAGES[item % LANGUAGES.len()] },
        });
        post(client, "/api/public/dataset-items", &body).await?;
    }
    let config = json!({
        "name": SCORE, "dataType": "NUMERIC", "minValue": 0, "maxValue": 1, "direction": "higher_is_better",
    });
    post(client, "/api/public/score-configs", &config).await
}

async fn send_run(
    client: &Client,
    ids: &dyn IdSource,
    run: &SampleRun,
    start: u64,
) -> anyhow::Result<()> {
    let (mut results, mut spans) = (Vec::new(), Vec::new());
    for (at, (item, repetition)) in run.calls().enumerate() {
        let trace_id = ids.uuid().as_bytes().to_vec();
        let start = start + at as u64 * 20 * SECOND;
        let mut builder = TraceBuilder { ids, trace_id, start, spans: Vec::new() };
        let root = answer(&mut builder, run, (item, repetition));
        results.push(SampleResult {
            item,
            repetition,
            trace_id: hex(&builder.trace_id),
            observation_id: hex(&root),
        });
        spans.append(&mut builder.spans);
    }
    send(client, [request(spans)]).await?;
    let mut scores = Vec::new();
    for result in &results {
        let link = json!({
            "runName": run.name,
            "runDescription": run.description,
            "datasetItemId": item_id(result.item),
            "traceId": result.trace_id,
            "observationId": result.observation_id,
        });
        post(client, "/api/public/dataset-run-items", &link).await?;
        scores.push(json!({
            "traceId": result.trace_id,
            "observationId": result.observation_id,
            "name": SCORE,
            "value": run.score((result.item, result.repetition)),
            "dataType": "NUMERIC",
        }));
    }
    post(client, "/api/public/scores", &Value::Array(scores)).await
}

/// Adds the spans of one call of the application and returns the id of the root.
fn answer(
    builder: &mut TraceBuilder<'_>,
    run: &SampleRun,
    (item, repetition): (usize, usize),
) -> Vec<u8> {
    let shift = usize::from(!(run.is_right)(item, repetition));
    let (intent, _) = INTENTS[(item + shift) % INTENTS.len()];
    let question = question(item);
    let jitter = (item * 13 % 7) as u64 * 40;
    let root = builder.span(
        &[],
        "classify ticket",
        &Timing(0, run.latency_ms + jitter),
        vec![
            text("perpend.observation.type", "agent"),
            text("perpend.observation.input", question.clone()),
            text("perpend.observation.output", intent),
            text("perpend.environment", rules::EXPERIMENTS),
        ],
    );
    let tokens = (run.input_tokens + question.len() as i64 / 4, 6);
    let messages = json!([{ "role": "user", "content": question }]);
    let mut attributes = model("gpt-4o-mini", &messages, intent, tokens);
    attributes.push(text("perpend.environment", rules::EXPERIMENTS));
    builder.span(&root, "choose intent", &Timing(20, run.latency_ms - 60 + jitter), attributes);
    root
}

#[cfg(test)]
mod tests {
    use perpend_domain::experiment::{ExperimentRun, ItemResult, ItemScore, RunResults};
    use perpend_domain::ids::TraceId;
    use perpend_domain::score::ScoreValue;
    use perpend_domain::score_config::ScoreDirection;
    use perpend_experiments::comparison::{DirectionSource, InconclusiveCause, Verdict};
    use perpend_experiments::options::ScoreDefinition;
    use perpend_experiments::{CompareOptions, compare};

    use super::*;

    const INTENT: &str = "right intent";

    fn results(run: &SampleRun) -> RunResults {
        let result = |(item, repetition): (usize, usize)| {
            let score = |name: &str, value| ItemScore {
                name: name.to_owned(),
                value,
                comment: None,
                origin: None,
            };
            ItemResult {
                item_id: item_id(item),
                item_version: None,
                expected_output: None,
                trace_id: TraceId::new(&format!("{}-{item}-{repetition}", run.name)).unwrap(),
                observation_id: None,
                start: Timestamp::from_millis(0),
                has_arrived: true,
                is_error: false,
                latency_ms: Some(run.latency_ms as f64),
                cost_usd: None,
                n_tokens: u64::try_from(run.input_tokens).ok(),
                scores: vec![
                    score(INTENT, ScoreValue::Boolean((run.is_right)(item, repetition))),
                    score(SCORE, ScoreValue::Numeric(run.score((item, repetition)))),
                ],
            }
        };
        RunResults {
            run: ExperimentRun {
                id: run.name.to_owned(),
                name: run.name.to_owned(),
                description: None,
                metadata: Value::Null,
                dataset_id: Some(DATASET.to_owned()),
                dataset_name: None,
                created_at: Timestamp::from_millis(0),
                updated_at: Timestamp::from_millis(0),
            },
            expected_items: None,
            items: run.calls().map(result).collect(),
            scores: Vec::new(),
        }
    }

    #[test]
    fn against_the_baseline_one_run_is_worse_one_within_the_noise_and_one_has_too_few_items() {
        let [baseline, worse, noise, few] = runs().map(|run| results(&run));
        let direction = Some((ScoreDirection::HigherIsBetter, DirectionSource::ScoreConfig));
        let definition = ScoreDefinition { direction, ..ScoreDefinition::default() };
        let options = CompareOptions {
            scores: [INTENT, SCORE].map(|name| (name.to_owned(), definition.clone())).into(),
            ..CompareOptions::default()
        };
        let verdict = |run: &RunResults, metric: &str| {
            let compared = compare(&[baseline.clone(), run.clone()], &options).unwrap();
            let of_run = compared.metric(metric).unwrap().runs[1].difference.clone().unwrap();
            (of_run.verdict, of_run.cause)
        };
        for metric in [INTENT, SCORE] {
            assert_eq!(verdict(&worse, metric), (Verdict::Worse, None), "{metric}");
            let too_few = (Verdict::Inconclusive, Some(InconclusiveCause::FewItems));
            assert_eq!(verdict(&few, metric), too_few, "{metric}");
        }
        let within_noise = (Verdict::Inconclusive, Some(InconclusiveCause::Noise));
        assert_eq!(verdict(&noise, SCORE), within_noise);
        assert_eq!(verdict(&noise, INTENT).0, Verdict::Inconclusive);
    }
}
