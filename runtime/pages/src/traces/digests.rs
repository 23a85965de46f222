//! What the contents of a trace are told apart by, without holding them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_http_kit::problem::Problem;
use perpend_views::{ContentFingerprints, ObservationFingerprints, value_fingerprint};
use serde_json::Value;

use crate::state::App;

/// Contents of one trace that are read.
const MAX_BYTES: usize = 64 << 20;
/// Steps of one trace that are read.
const MAX_STEPS: usize = 10_000;

/// Of the steps of a trace, without those behind the limits. Contents are read part by part, once for each version of the trace.
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
    if let Some(prints) = app.fingerprints().get(&key, version) {
        return Ok(prints);
    }
    let prints = read(app, project, trace).await?;
    Ok(app.fingerprints().keep(key, version, prints))
}

async fn read(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
) -> Result<ObservationFingerprints, Problem> {
    let telemetry = &app.store.telemetry;
    let mut prints = ObservationFingerprints::default();
    let mut n_bytes = 0;
    let Some(mut reader) = telemetry.read_trace(project, trace).await? else {
        return Ok(prints);
    };
    while n_bytes < MAX_BYTES && prints.0.len() < MAX_STEPS {
        let some = telemetry.next_observations(&mut reader).await?;
        if some.is_empty() {
            break;
        }
        // Values of a megabyte are read whole: other requests go on meanwhile.
        let made = tokio::task::spawn_blocking(move || {
            let steps = some.iter().map(|stored| &stored.observation);
            steps.map(of_step).collect::<Vec<_>>()
        });
        for (id, own, n) in made.await.map_err(|_| Problem::internal())? {
            n_bytes += n;
            prints.0.insert(id, own);
        }
    }
    Ok(prints)
}

/// With how many bytes it has.
fn of_step(step: &Observation) -> (ObservationId, ContentFingerprints, usize) {
    let content = [&step.content.input, &step.content.output];
    let content = content.into_iter().flatten();
    let n_bytes = content.map(|value| value.as_str().len()).sum();
    let parameters = Payload::from_value(Value::Object(step.model_parameters.clone()));
    let prints = ContentFingerprints {
        input: value_fingerprint(step.content.input.as_ref()),
        output: value_fingerprint(step.content.output.as_ref()),
        parameters: value_fingerprint(Some(&parameters)),
        prompt: print(|hasher| {
            let prompt = step.prompt.as_ref();
            prompt.map(|prompt| (&prompt.name, prompt.version)).hash(hasher);
        }),
        status: print(|hasher| step.status_message.hash(hasher)),
    };
    (step.id.clone(), prints, n_bytes)
}

fn print(of: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of(&mut hasher);
    hasher.finish()
}
