//! Feedback about the product: an installation of one's own has nobody to pass it on to.

use axum::extract::State;
use perpend_domain::access::Permission::ProjectRead;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::state::{App, Routes};

pub(super) fn routes(routes: &mut Routes) {
    let submit = Operation::post(
        "sendFeedback",
        "/api/public/feedback",
        "Feedback about the product: always refused, nobody collects it here",
        ProjectRead,
    );
    routes.add(submit.body::<Feedback>(), refuse);
}

/// Feedback as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read to say what is wrong with it, and kept nowhere")]
struct Feedback {
    target_type: TargetType,
    target: String,
    feedback: String,
    goal: Option<String>,
    reference_url: Option<String>,
}

/// What it is about.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum TargetType {
    Skill,
    McpTool,
    Cli,
    Docs,
    PublicApi,
    Other,
}

/// Well-formed feedback is refused too: a success would say that somebody reads it.
async fn refuse(State(_): State<App>, _: Body<Feedback>) -> Problem {
    Problem::new(
        Code::Conflict,
        "this installation collects no feedback; tell the people who run it",
    )
}
