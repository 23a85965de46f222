//! Query parameters of the lists of scores.

use perpend_api_types::score::ScoreGroups;
use perpend_domain::filter::{Column, ColumnKind, Filter, Order, Test};
use perpend_domain::ids::{ObservationId, ScoreId, TraceId};
use perpend_domain::score::{ScoreDataType, ScoreSource};
use perpend_domain::telemetry::{MemberTest, ScoreQuery, ScoreValues};
use perpend_http_kit::extract::{Param, Params, must_be_one_of, param};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::page::{LIMIT, PAGE};
use perpend_http_kit::problem::{Code, Problem};

pub(super) const V3: &[Param] = &[
    LIMIT,
    param("cursor", "string", "`meta.cursor` of the previous page."),
    param(
        "fields",
        "string",
        "Comma-separated list of `details`, `subject`, `annotation`; the core is always included.",
    ),
    param("id", "string", "Comma-separated list."),
    param("name", "string", "Comma-separated list."),
    param("source", "string", "Comma-separated list of `API`, `ANNOTATION`, `EVAL`."),
    param(
        "dataType",
        "string",
        "Comma-separated list of `NUMERIC`, `BOOLEAN`, `CATEGORICAL`, `TEXT`, `CORRECTION`.",
    ),
    param("environment", "string", "Comma-separated list."),
    param("configId", "string", "Comma-separated list."),
    param("queueId", "string", "Comma-separated list."),
    param("authorUserId", "string", "Comma-separated list."),
    param("traceId", "string", "Comma-separated list. Excludes `sessionId` and `experimentId`."),
    param("sessionId", "string", "Comma-separated list."),
    param("observationId", "string", "Comma-separated list. Requires `traceId`."),
    param("experimentId", "string", "Comma-separated list."),
    param("value", "string", "Comma-separated list. Requires exactly one `dataType`."),
    param("valueMin", "number", "Inclusive. Requires `dataType=NUMERIC`."),
    param("valueMax", "number", "Inclusive. Requires `dataType=NUMERIC`."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
];

/// Columns of the `filter` of v2.
static SCORE_METADATA: &[Column] = &[Column::new("metadata", ColumnKind::Members)];

pub(super) const V2: &[Param] = &[
    PAGE,
    LIMIT,
    param("userId", "string", "Id of the user of the trace."),
    param("traceTags", "array", "Tags that the trace must all have; repeatable."),
    param("filter", "string", "JSON array of `stringObject` conditions on `metadata`."),
    param("name", "string", "Name of the score."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
    param("environment", "array", "Environments; repeatable."),
    param("source", "string", "`API`, `ANNOTATION` or `EVAL`."),
    param("operator", "string", "`<`, `>`, `<=`, `>=`, `!=` or `=`. Requires `value`."),
    param("value", "number", "Operand of `operator`."),
    param("scoreIds", "string", "Comma-separated list."),
    param("configId", "string", "Id of the score config."),
    param("sessionId", "string", "Id of the session."),
    param("datasetRunId", "string", "Id of the experiment."),
    param("traceId", "string", "Id of the trace."),
    param("observationId", "string", "Comma-separated list."),
    param("queueId", "string", "Id of the annotation queue."),
    param("dataType", "string", "`NUMERIC`, `BOOLEAN`, `CATEGORICAL`, `TEXT` or `CORRECTION`."),
    param("fields", "string", "Comma-separated list of `score`, `trace`; both when absent."),
];

/// Parses a list of ids.
fn ids<T>(params: &Params, name: &str, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, Problem> {
    let parsed = params.list(name).iter().map(|id| parse(id)).collect::<Option<Vec<T>>>();
    parsed.ok_or_else(|| Problem::query(name, perpend_domain::ids::InvalidId.to_string()))
}

pub(super) fn read_v3(params: &Params) -> Result<(ScoreQuery, ScoreGroups), Problem> {
    params.only(V3)?;
    let targets = ["traceId", "sessionId", "experimentId"];
    let given: Vec<_> = targets.into_iter().filter(|name| params.text(name).is_some()).collect();
    if let [_, second, ..] = given.as_slice() {
        return Err(Problem::query(
            second,
            "must be absent: only one of traceId, sessionId and experimentId is allowed",
        ));
    }
    if params.text("observationId").is_some() && params.text("traceId").is_none() {
        return Err(Problem::query("observationId", "requires traceId"));
    }
    let mut fields = ScoreGroups::default();
    for name in params.list("fields") {
        match name.as_str() {
            "core" => {}
            "details" => fields.details = true,
            "subject" => fields.subject = true,
            "annotation" => fields.annotation = true,
            _ => {
                let groups = ["core", "details", "subject", "annotation"];
                let message = must_be_one_of(&groups, &name);
                return Err(Problem::query("fields", message));
            }
        }
    }
    let data_types = params.choices("dataType", ScoreDataType::ALL, ScoreDataType::as_str)?;
    let query = ScoreQuery {
        ids: ids(params, "id", |id| ScoreId::new(id).ok())?,
        names: params.list("name"),
        sources: params.choices("source", ScoreSource::ALL, ScoreSource::as_str)?,
        environments: params.list("environment"),
        config_ids: params.list("configId"),
        queue_ids: params.list("queueId"),
        author_user_ids: params.list("authorUserId"),
        trace_ids: ids(params, "traceId", |id| TraceId::new(id).ok())?,
        observation_ids: ids(params, "observationId", |id| ObservationId::new(id).ok())?,
        session_ids: params.list("sessionId"),
        experiment_ids: params.list("experimentId"),
        values: values(params, &data_types)?,
        number: bounds(params, &data_types)?,
        from: params.time("fromTimestamp")?,
        to: params.time("toTimestamp")?,
        data_types,
        ..ScoreQuery::default()
    };
    Ok((query, fields))
}

fn values(params: &Params, data_types: &[ScoreDataType]) -> Result<ScoreValues, Problem> {
    let list = params.list("value");
    if list.is_empty() {
        return Ok(ScoreValues::Any);
    }
    match data_types {
        [ScoreDataType::Numeric] => {
            let number = |text: &String| text.parse().ok().filter(|n: &f64| n.is_finite());
            let numbers: Option<Vec<f64>> = list.iter().map(number).collect();
            let numbers =
                numbers.ok_or_else(|| Problem::query("value", "must be finite numbers"))?;
            Ok(ScoreValues::Numeric(numbers))
        }
        [ScoreDataType::Boolean] => {
            let truths: Option<Vec<bool>> = list.iter().map(|text| text.parse().ok()).collect();
            let truths =
                truths.ok_or_else(|| Problem::query("value", "must be `true` or `false`"))?;
            Ok(ScoreValues::Boolean(truths))
        }
        [ScoreDataType::Categorical] => Ok(ScoreValues::Categorical(list)),
        _ => Err(Problem::query(
            "value",
            "requires exactly one dataType of NUMERIC, BOOLEAN, CATEGORICAL",
        )),
    }
}

fn bounds(params: &Params, data_types: &[ScoreDataType]) -> Result<Vec<(Order, f64)>, Problem> {
    let mut bounds = Vec::new();
    for (name, order) in [("valueMin", Order::AtLeast), ("valueMax", Order::AtMost)] {
        if let Some(number) = params.number(name)? {
            if data_types != [ScoreDataType::Numeric] {
                return Err(Problem::query(name, "requires dataType=NUMERIC"));
            }
            bounds.push((order, number));
        }
    }
    Ok(bounds)
}

pub(super) fn has_trace_group(params: &Params) -> bool {
    let fields = params.list("fields");
    fields.is_empty() || fields.iter().any(|field| field == "trace")
}

pub(super) fn read_v2(params: &Params) -> Result<ScoreQuery, Problem> {
    if !has_trace_group(params) {
        for name in ["userId", "traceTags"] {
            if params.text(name).is_some() {
                let message = "requires `trace` in fields";
                return Err(Problem::query(name, message));
            }
        }
    }
    let one = |name: &str| params.text(name).map(str::to_owned).into_iter().collect::<Vec<_>>();
    let source = params.choice("source", ScoreSource::ALL, ScoreSource::as_str)?;
    let data_type = params.choice("dataType", ScoreDataType::ALL, ScoreDataType::as_str)?;
    Ok(ScoreQuery {
        ids: ids(params, "scoreIds", |id| ScoreId::new(id).ok())?,
        names: one("name"),
        sources: source.into_iter().collect(),
        data_types: data_type.into_iter().collect(),
        environments: params.all("environment"),
        config_ids: one("configId"),
        queue_ids: one("queueId"),
        trace_ids: ids(params, "traceId", |id| TraceId::new(id).ok())?,
        observation_ids: ids(params, "observationId", |id| ObservationId::new(id).ok())?,
        session_ids: one("sessionId"),
        experiment_ids: one("datasetRunId"),
        number: comparison(params)?,
        metadata: metadata(params)?,
        trace_user_ids: one("userId"),
        trace_tags: params.all("traceTags"),
        from: params.time("fromTimestamp")?,
        to: params.time("toTimestamp")?,
        ..ScoreQuery::default()
    })
}

/// The `filter` parameter: conditions on members of the metadata.
fn metadata(params: &Params) -> Result<Vec<(String, MemberTest)>, Problem> {
    let filter = Filter::parse(&params.filter()?, SCORE_METADATA).map_err(filter_problem)?;
    let tests = filter.conditions.into_iter().enumerate();
    tests
        .map(|(at, condition)| match condition.test {
            Test::MemberText(key, op, value) => Ok((key, MemberTest::Text(op, value))),
            Test::MemberIsSet(key) => Ok((key, MemberTest::IsSet)),
            Test::MemberIsNotSet(key) => Ok((key, MemberTest::IsNotSet)),
            _ => Err(Problem::query(&format!("filter[{at}].type"), "must be stringObject")),
        })
        .collect()
}

fn comparison(params: &Params) -> Result<Vec<(Order, f64)>, Problem> {
    let orders =
        [Order::Less, Order::Greater, Order::AtMost, Order::AtLeast, Order::NotEqual, Order::Equal];
    match (params.choice("operator", &orders, Order::sign)?, params.number("value")?) {
        (Some(order), Some(value)) => Ok(vec![(order, value)]),
        (None, None) => Ok(Vec::new()),
        _ => Err(Problem::new(Code::InvalidQuery, "operator and value require each other")),
    }
}
