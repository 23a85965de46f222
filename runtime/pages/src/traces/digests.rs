//! Fingerprints of the contents of a trace, for comparisons without loading the contents.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_http_kit::problem::Problem;
use perpend_views::{ContentFingerprints, ObservationFingerprints, value_fingerprint};
use serde_json::Value;

use crate::state::App;

/// Bytes of contents of one trace that are read.
const MAX_BYTES: usize = 64 << 20;
/// Observations of one trace that are read.
const MAX_OBSERVATIONS: usize = 10_000;

/// Fingerprints of the observations of a trace within the limits. Contents are read in batches, once per version of the trace.
pub(crate) async fn trace_digests(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
) -> Result<Arc<ObservationFingerprints>, Problem> {
    let telemetry = &app.store.telemetry;
    // Read before the contents.
    let Some(version) = telemetry.trace_version(project, trace).await? else {
        return Ok(Arc::default());
    };
    let key = (project.clone(), trace.clone());
    if let Some(fingerprints) = app.fingerprints().get(&key, version) {
        return Ok(fingerprints);
    }
    let fingerprints = read(app, project, trace).await?;
    Ok(app.fingerprints().keep(key, version, fingerprints))
}

async fn read(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
) -> Result<ObservationFingerprints, Problem> {
    let telemetry = &app.store.telemetry;
    let mut fingerprints = ObservationFingerprints::default();
    let mut n_bytes = 0;
    let Some(mut reader) = telemetry.read_trace(project, trace).await? else {
        return Ok(fingerprints);
    };
    while n_bytes < MAX_BYTES && fingerprints.0.len() < MAX_OBSERVATIONS {
        let some = telemetry.next_observations(&mut reader).await?;
        if some.is_empty() {
            break;
        }
        // Values may be megabytes, so they are hashed on a blocking thread.
        let made = tokio::task::spawn_blocking(move || {
            let steps = some.iter().map(|stored| &stored.observation);
            steps.map(observation_fingerprint).collect::<Vec<_>>()
        });
        for (id, own, n) in made.await.map_err(|_| Problem::internal())? {
            n_bytes += n;
            fingerprints.0.insert(id, own);
        }
    }
    Ok(fingerprints)
}

/// The fingerprint of an observation, with the number of bytes of its contents.
fn observation_fingerprint(
    observation: &Observation,
) -> (ObservationId, ContentFingerprints, usize) {
    let content = [&observation.content.input, &observation.content.output];
    let content = content.into_iter().flatten();
    let n_bytes = content.map(|value| value.as_str().len()).sum();
    let parameters = Payload::from_value(Value::Object(observation.model_parameters.clone()));
    let fingerprints = ContentFingerprints {
        input: value_fingerprint(observation.content.input.as_ref()),
        output: value_fingerprint(observation.content.output.as_ref()),
        parameters: value_fingerprint(Some(&parameters)),
        prompt: hash_of(|hasher| {
            let prompt = observation.prompt.as_ref();
            prompt.map(|prompt| (&prompt.name, prompt.version)).hash(hasher);
        }),
        status: hash_of(|hasher| observation.status_message.hash(hasher)),
    };
    (observation.id.clone(), fingerprints, n_bytes)
}

fn hash_of(feed: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    feed(&mut hasher);
    hasher.finish()
}
