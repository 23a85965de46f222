//! `POST /api/public/scores`: one object, or an array.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axum::extract::State;
use perpend_api_types::list::{Confirmation, IdResponse};
use perpend_api_types::score::{PartialScoreResponse, RejectedScore, ScoreInput};
use perpend_domain::access::Permission::ScoreWrite;
use perpend_domain::ids::{IdSource, InvalidId, ObservationId, ScoreId, TraceId, fits};
use perpend_domain::score::{NewScore, ScoreDataType, ScoreSource, ScoreValue, Subject};
use perpend_domain::score_config::ScoreConfig;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{LenientJson, all_issues, from_json, must_be_one_of};
use perpend_http_kit::problem::{Code, MAX_LISTED, Problem};
use serde_json::{Map, Value};

use crate::records::state::App;

/// Path of the endpoint.
pub(super) const PATH: &str = "/api/public/scores";
const MAX_TEXT_CHARS: usize = 500;

/// Scores in one request.
const MAX_SCORES: usize = 10_000;

/// The response to one score, to an accepted array, or to a partly accepted array.
type ScoresAnswer = Either<
    Answer<IdResponse<ScoreId>>,
    Either<Answer<Confirmation, 202>, Answer<PartialScoreResponse, 207>>,
>;

pub(super) async fn create_scores(
    State(app): State<App>,
    caller: Act,
    LenientJson(body): LenientJson<Value>,
) -> Result<ScoresAnswer, Problem> {
    let now = app.web.clock.now();
    let (items, is_list) = match body {
        Value::Array(items) if MAX_SCORES < items.len() => {
            let n_items = items.len();
            let message =
                format!("at most {MAX_SCORES} scores are accepted in one request, got {n_items}");
            return Err(Problem::new(Code::TooLarge, message));
        }
        Value::Array(items) => (items, true),
        one => (vec![one], false),
    };
    let n_items = items.len();
    let items = items.into_iter().map(|item| (item, now)).collect();
    let read = read_scores(&app, &caller, items).await?;
    if !is_list {
        let score = read.into_iter().next().unwrap_or_else(|| Err(Problem::internal()))?;
        let id = score.id.clone();
        if !put(&app, &caller, &[score], now).await?.is_empty() {
            return Err(foreign_score().with("permission", ScoreWrite.name()));
        }
        return Ok(Either::One(Answer(IdResponse { id })));
    }
    let (mut scores, mut indices, mut problems) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (at, score) in read.into_iter().enumerate() {
        match score {
            Ok(score) => {
                scores.push(score);
                indices.push(at);
            }
            Err(problem) => drop(problems.insert(at, problem)),
        }
    }
    let foreign = put(&app, &caller, &scores, now).await?;
    for (score, at) in scores.iter().zip(indices) {
        if foreign.contains(&score.id) {
            problems.insert(at, foreign_score());
        }
    }
    if problems.is_empty() {
        return Ok(Either::Other(Either::One(Answer(Confirmation::new("Accepted")))));
    }
    let listed = problems.iter().take(MAX_LISTED);
    let rejected = listed
        .map(|(at, problem)| RejectedScore { message: format!("[{at}] {}", problem.message()) });
    let n_rejected = problems.len();
    Ok(Either::Other(Either::Other(Answer(PartialScoreResponse {
        accepted: n_items - n_rejected,
        rejected: n_rejected,
        errors: rejected.collect(),
    }))))
}

/// Writes scores with the rights of the caller. Returns the ids of scores that were not written because other keys own them.
pub(crate) async fn put(
    app: &App,
    caller: &Act,
    scores: &[NewScore],
    now: Timestamp,
) -> Result<BTreeSet<ScoreId>, Problem> {
    let (store, project) = (&app.store, &caller.project);
    match &caller.public_half {
        Some(half) => {
            Ok(store.telemetry.put_scores_by_public_key(project, scores, half, now).await?)
        }
        None => {
            store.telemetry.put_scores(project, scores, now).await?;
            Ok(BTreeSet::new())
        }
    }
}

/// The problem of a score that another key owns.
pub(crate) fn foreign_score() -> Problem {
    Problem::new(
        Code::AccessDenied,
        "a public key alone can only change scores that it created, and this id is in use: use another id, or send \
         the key pair with Basic authentication",
    )
}

/// Validates scores, each with its default time. An invalid score
/// does not affect the others.
///
/// # Errors
/// When the store fails.
pub(crate) async fn read_scores(
    app: &App,
    caller: &Act,
    items: Vec<(Value, Timestamp)>,
) -> Result<Vec<Result<NewScore, Problem>>, Problem> {
    let parsed: Vec<_> = items.into_iter().map(|(item, at)| (parse(item), at)).collect();
    let mut config_ids: Vec<String> =
        parsed.iter().filter_map(|(input, _)| input.as_ref().ok()?.config_id.clone()).collect();
    config_ids.sort_unstable();
    config_ids.dedup();
    let configs: HashMap<String, ScoreConfig> = app
        .store
        .catalog
        .score_configs_by_id(&caller.project, &config_ids)
        .await?
        .into_iter()
        .map(|config| (config.id.clone(), config))
        .collect();
    let check = |(input, at): (Result<ScoreInput, Problem>, Timestamp)| {
        check_input(input?, app.web.ids.as_ref(), (caller, at), &configs)
    };
    Ok(parsed.into_iter().map(check).collect())
}

fn parse(item: Value) -> Result<ScoreInput, Problem> {
    let text = item.to_string();
    from_json(text.as_bytes()).map_err(|first| all_issues::<ScoreInput>(text.as_bytes(), first))
}

/// `now` is the default time.
fn check_input(
    input: ScoreInput,
    ids: &dyn IdSource,
    (caller, now): (&Act, Timestamp),
    configs: &HashMap<String, ScoreConfig>,
) -> Result<NewScore, Problem> {
    let config =
        match &input.config_id {
            None => None,
            Some(id) => Some(configs.get(id).ok_or_else(|| {
                Problem::body("configId", "must be a score config of this project")
            })?),
        };
    let data_type = data_type_of(&input, config)?;
    let subject = subject_of(&input)?;
    let is_correction = data_type == ScoreDataType::Correction;
    if is_correction && !matches!(subject, Subject::Trace(_) | Subject::Observation(..)) {
        return Err(Problem::body(
            "dataType",
            "must not be CORRECTION: a correction is about a trace or an observation",
        ));
    }
    // A score that a person gives on a page may be without a score config.
    let source = source_of(&input, is_correction || caller.session.is_some())?;
    let value = value(data_type, &input.value)?;
    if let Some(config) = config {
        config.check(&value).map_err(|issue| Problem::issues(Code::InvalidBody, [issue]))?;
    }
    let name = match config {
        _ if is_correction => "output".to_owned(),
        Some(config) if input.name == config.name => input.name,
        Some(config) => {
            let message = format!(
                "must be {:?}, the name of the score config, got {:?}",
                config.name, input.name
            );
            return Err(Problem::body("name", message));
        }
        None => input.name,
    };
    if name.is_empty() || !fits(&name) || name.chars().any(char::is_control) {
        return Err(Problem::body(
            "name",
            "must have 1 to 800 characters and at most 1,200 bytes, without control characters",
        ));
    }
    let id = input.id.unwrap_or_else(|| ids.uuid().to_string());
    let timestamp = input.timestamp.as_deref().map(Timestamp::parse).transpose();
    let mut metadata = as_object(input.metadata);
    let environment = environment_of(input.environment, caller, &mut metadata);
    Ok(NewScore {
        id: ScoreId::to_store(&id).map_err(|error| Problem::body("id", error.to_string()))?,
        name,
        value,
        subject,
        source,
        timestamp: timestamp
            .map_err(|error| Problem::body("timestamp", error.to_string()))?
            .unwrap_or(now),
        environment,
        comment: input.comment,
        metadata,
        config_id: input.config_id,
        queue_id: input.queue_id,
        author_user_id: match source {
            ScoreSource::Annotation => caller.author().map(str::to_owned),
            ScoreSource::Api | ScoreSource::Eval => None,
        },
        origin: None,
    })
}

fn data_type_of(
    input: &ScoreInput,
    config: Option<&ScoreConfig>,
) -> Result<ScoreDataType, Problem> {
    match (&input.data_type, config) {
        (Some(text), _) => text.parse().map_err(|_| {
            let names: Vec<_> = ScoreDataType::ALL.iter().map(|t| t.as_str()).collect();
            Problem::body("dataType", must_be_one_of(&names, text))
        }),
        (None, Some(config)) => Ok(config.data_type),
        (None, None) if input.value.is_string() => Ok(ScoreDataType::Categorical),
        (None, None) => Ok(ScoreDataType::Numeric),
    }
}

fn source_of(input: &ScoreInput, is_free: bool) -> Result<ScoreSource, Problem> {
    match input.source.as_deref() {
        None | Some("API") => Ok(ScoreSource::Api),
        Some("ANNOTATION") if is_free || input.config_id.is_some() => Ok(ScoreSource::Annotation),
        Some("ANNOTATION") => {
            Err(Problem::body("configId", "is required for the source ANNOTATION"))
        }
        Some("EVAL") => Err(Problem::body(
            "source",
            "must not be EVAL: only evaluation rules create such scores",
        )),
        Some(other) => Err(Problem::body("source", must_be_one_of(&["API", "ANNOTATION"], other))),
    }
}

fn subject_of(input: &ScoreInput) -> Result<Subject, Problem> {
    let invalid = |field| {
        move |error: perpend_domain::ids::InvalidId| Problem::body(field, error.to_string())
    };
    match (&input.trace_id, &input.session_id, &input.dataset_run_id) {
        (Some(trace), None, None) => {
            let trace = TraceId::to_store(trace).map_err(invalid("traceId"))?;
            match &input.observation_id {
                Some(id) => {
                    let id = ObservationId::to_store(id).map_err(invalid("observationId"))?;
                    Ok(Subject::Observation(trace, id))
                }
                None => Ok(Subject::Trace(trace)),
            }
        }
        _ if input.observation_id.is_some() => {
            Err(Problem::body("observationId", "requires traceId"))
        }
        (None, Some(session), None) if !fits(session) => Err(invalid("sessionId")(InvalidId)),
        (None, Some(session), None) if !session.is_empty() => Ok(Subject::Session(session.clone())),
        (None, None, Some(run)) if !fits(run) => Err(invalid("datasetRunId")(InvalidId)),
        (None, None, Some(run)) if !run.is_empty() => Ok(Subject::Experiment(run.clone())),
        _ => Err(Problem::body(
            "traceId",
            "exactly one of traceId (with or without observationId), sessionId, datasetRunId is required",
        )),
    }
}

/// The environment to store. A page sends that of the stored trace, which may be an internal one.
fn environment_of(sent: Option<String>, caller: &Act, metadata: &mut Map<String, Value>) -> String {
    match sent {
        Some(stored) if caller.session.is_some() && !stored.is_empty() => stored,
        sent => perpend_otlp::normalized_environment(&sent.unwrap_or_default(), metadata),
    }
}

/// Metadata as an object; any other value becomes a member of one.
fn as_object(metadata: Option<Value>) -> Map<String, Value> {
    match metadata {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(members)) => members,
        Some(other) => Map::from_iter([("metadata".to_owned(), other)]),
    }
}

fn value(data_type: ScoreDataType, raw: &Value) -> Result<ScoreValue, Problem> {
    let invalid = |message: &str| Err(Problem::body("value", message));
    let text = raw.as_str();
    match data_type {
        ScoreDataType::Numeric => match raw.as_f64() {
            Some(number) if number.is_finite() => Ok(ScoreValue::Numeric(number)),
            _ => invalid("must be a finite number for NUMERIC"),
        },
        ScoreDataType::Boolean => match raw.as_f64() {
            Some(0.0) => Ok(ScoreValue::Boolean(false)),
            Some(1.0) => Ok(ScoreValue::Boolean(true)),
            _ => invalid("must be 0 or 1 for BOOLEAN"),
        },
        ScoreDataType::Categorical => match text {
            Some(text) => Ok(ScoreValue::Categorical(text.to_owned())),
            None => invalid("must be a string for CATEGORICAL"),
        },
        ScoreDataType::Text => match text {
            Some(text) if (1..=MAX_TEXT_CHARS).contains(&text.chars().count()) => {
                Ok(ScoreValue::Text(text.to_owned()))
            }
            _ => invalid("must be a string of 1 to 500 characters for TEXT"),
        },
        ScoreDataType::Correction => match text {
            Some(text) => Ok(ScoreValue::Correction(text.to_owned())),
            None => invalid("must be a string for CORRECTION"),
        },
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::access::Scope;
    use perpend_domain::ids::ProjectId;
    use perpend_http_kit::auth::SessionPerson;

    use super::*;

    #[test]
    fn a_score_of_a_page_keeps_an_internal_environment_and_one_of_a_client_does_not() {
        let client = Act {
            project: ProjectId::new("p").unwrap(),
            permissions: Scope::Full.into(),
            public_half: None,
            session: None,
        };
        let page = Act { session: Some(SessionPerson::KeyPair("pk".to_owned())), ..client.clone() };
        let stored = |sent: &str, caller: &Act| {
            environment_of(Some(sent.to_owned()), caller, &mut Map::new())
        };
        assert_eq!(stored("perpend-evaluation", &page), "perpend-evaluation");
        assert_eq!(stored("perpend-evaluation", &client), "evaluation");
        assert_eq!(stored("", &page), "default");
        assert_eq!(environment_of(None, &page, &mut Map::new()), "default");
    }
}
