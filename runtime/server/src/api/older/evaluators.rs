//! Evaluators by name: a name that exists gets its next version.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{all_evaluators, cut};
use crate::App;
use crate::api::evaluators::{self, shown};
use crate::api::page;
use crate::auth::Act;
use crate::extract::{Body, Params, from_value};
use crate::problem::Problem;
use crate::routes::{Operation, Routes};

const ALL: &str = "/api/public/unstable/evaluators";
const ONE: &str = "/api/public/unstable/evaluators/{evaluatorId}";

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createEvaluatorByName",
        ALL,
        "Make an evaluator, or the next version of one by name",
        EvaluatorWrite,
    );
    routes.add(create.body::<OlderEvaluator>(), create_evaluator);
    let list = Operation::get(
        "listEvaluatorsByName",
        ALL,
        "Evaluators by page, newest first",
        EvaluatorRead,
    );
    routes.add(list.query(page::PAGED), list_evaluators);
    routes.add(
        Operation::get(
            "getEvaluatorByName",
            ONE,
            "One evaluator, the older way",
            EvaluatorRead,
        ),
        get_evaluator,
    );
    let delete = Operation::delete(
        "deleteEvaluatorByName",
        ONE,
        "Delete an evaluator; the scores it made stay",
        EvaluatorWrite,
    );
    routes.add(delete, delete_evaluator);
}

/// An evaluator to be made; further members follow from its type.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(
    dead_code,
    reason = "its shape is the document's; the newer endpoint reads it"
)]
struct OlderEvaluator {
    name: String,
    /// `code` or `plugin`. Older clients leave it out and mean `llm_as_judge`, which this server does not run.
    #[schema(rename = "type")]
    kind: String,
    /// Of code: the source of a function `evaluate(ctx)`.
    source_code: Option<String>,
    /// Of code: PYTHON or TYPESCRIPT.
    source_code_language: Option<String>,
}

/// As the newer endpoint shows it, with the members that older clients read.
fn by_name(mut view: Value) -> Value {
    let n_rules = view["evaluationRuleAssignments"]
        .as_array()
        .map_or(0, Vec::len);
    view["evaluationRuleCount"] = n_rules.into();
    view["variables"] = json!([]);
    view["mapping"] = view["variableMapping"].clone();
    view
}

async fn create_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Body(body): Body<Value>,
) -> Result<Json<Value>, Problem> {
    let project = &caller.project;
    let name = body["name"].as_str().unwrap_or_default().trim();
    let all = all_evaluators(&app, project).await?;
    let standing = all.into_iter().find(|each| each.name == name);
    let evaluator = match standing {
        None => evaluators::make(&app, project, body).await?,
        Some(standing) => {
            let patch = from_value(&body)?;
            evaluators::change(&app, project, standing, patch).await?
        }
    };
    let view = shown(&app, project, &evaluator, &headers).await?;
    Ok(Json(by_name(view)))
}

async fn list_evaluators(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let found = cut(all_evaluators(&app, &caller.project).await?, paging);
    let mut views = Vec::with_capacity(found.items.len());
    for evaluator in &found.items {
        views.push(by_name(
            shown(&app, &caller.project, evaluator, &headers).await?,
        ));
    }
    let views = perpend_domain::list::Numbered {
        items: views,
        n_total: found.n_total,
    };
    Ok(page::answer(paging, &views, Value::clone))
}

async fn get_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let evaluator = evaluators::existing(&app, &caller.project, &id).await?;
    let view = shown(&app, &caller.project, &evaluator, &headers).await?;
    Ok(Json(by_name(view)))
}

async fn delete_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    evaluators::delete(&app, &caller.project, &id).await?;
    Ok(Json(json!({ "message": "Evaluator successfully deleted" })))
}
