//! Evaluators by name: an existing name gets its next version.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use perpend_api_types::evaluator::{EvaluatorByName, NewEvaluatorByName};
use perpend_api_types::list::{Confirmation, NumberedList, PageMeta};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, from_value};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::Value;

use super::lists::{all_evaluators, cut};
use crate::evaluators::{self, evaluator_view};
use crate::state::{App, Routes};

/// Default type of an evaluator.
const JUDGE: &str = "llm_as_judge";
const ALL: &str = "/api/public/unstable/evaluators";
const ONE: &str = "/api/public/unstable/evaluators/{evaluatorId}";

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createEvaluatorByName",
        ALL,
        "Create an evaluator, or the next version of one by name",
        EvaluatorWrite,
    );
    routes.add(create.body::<NewEvaluatorByName>(), create_evaluator);
    let list = Operation::get(
        "listEvaluatorsByName",
        ALL,
        "List evaluators by page, newest first",
        EvaluatorRead,
    );
    routes.add(list.query(page::PAGED), list_evaluators);
    routes.add(
        Operation::get("getEvaluatorByName", ONE, "Get an evaluator (unstable API)", EvaluatorRead),
        get_evaluator,
    );
    let delete = Operation::delete(
        "deleteEvaluatorByName",
        ONE,
        "Delete an evaluator; its scores are kept",
        EvaluatorWrite,
    );
    routes.add(delete, delete_evaluator);
}

async fn create_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Body(mut body): Body<Value>,
) -> Result<Answer<EvaluatorByName>, Problem> {
    // These clients send judges without a type.
    if let Some(members) = body.as_object_mut() {
        members.entry("type").or_insert_with(|| JUDGE.into());
    }
    let project = &caller.project;
    let name = body["name"].as_str().unwrap_or_default().trim();
    let all = all_evaluators(&app, project).await?;
    let current = all.into_iter().find(|each| each.name == name);
    let evaluator = match current {
        None => evaluators::make(&app, project, body).await?,
        Some(current) => {
            let patch = from_value(&body)?;
            evaluators::change(&app, project, current, patch).await?
        }
    };
    let view = evaluator_view(&app, project, &evaluator, &headers).await?;
    Ok(Answer(view.into()))
}

async fn list_evaluators(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    params: Params,
) -> Result<Answer<NumberedList<EvaluatorByName>>, Problem> {
    let paging = page::paging(&params)?;
    let found = cut(all_evaluators(&app, &caller.project).await?, paging);
    let mut data = Vec::with_capacity(found.items.len());
    for evaluator in &found.items {
        let view = evaluator_view(&app, &caller.project, evaluator, &headers);
        data.push(view.await?.into());
    }
    Ok(Answer(NumberedList { data, meta: PageMeta::new(paging, found.n_total) }))
}

async fn get_evaluator(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Answer<EvaluatorByName>, Problem> {
    let evaluator = evaluators::find(&app, &caller.project, &id).await?;
    let view = evaluator_view(&app, &caller.project, &evaluator, &headers).await?;
    Ok(Answer(view.into()))
}

async fn delete_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    evaluators::delete(&app, &caller.project, &id).await?;
    Ok(Answer(Confirmation::new("Evaluator successfully deleted")))
}
