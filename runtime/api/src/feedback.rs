//! Feedback about the product, which a self-hosted installation does not collect.

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
        "Send feedback about the product; always refused by this installation",
        ProjectRead,
    );
    routes.add(submit.body::<Feedback>().unrecorded(), refuse);
}

/// Feedback about the product.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is only validated")]
struct Feedback {
    target_type: TargetType,
    target: String,
    feedback: String,
    goal: Option<String>,
    reference_url: Option<String>,
}

/// Subject of the feedback.
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

/// Valid feedback is refused too: a success would suggest that it is read.
async fn refuse(State(_): State<App>, _: Body<Feedback>) -> Problem {
    Problem::new(
        Code::Conflict,
        "this installation does not collect feedback; contact its operator",
    )
}
