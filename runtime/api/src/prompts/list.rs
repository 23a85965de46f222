//! The list of prompts.

use axum::extract::State;
use perpend_api_types::list::NumberedList;
use perpend_catalog::prompts::PromptQuery;
use perpend_domain::filter::Filter;
use perpend_domain::list::Paging;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;

use super::view::{self, PromptInList};
use crate::state::App;

pub(super) const LIST: &[Param] = &[
    page::PAGE,
    param("limit", "integer", "Prompts per page, 1 to 100; 10 when absent."),
    param("name", "string", "Name of the prompt."),
    param("label", "string", "Label of a version."),
    param("tag", "string", "Tag of the prompt."),
    param("fromUpdatedAt", "date-time", "Last change of a version, inclusive."),
    param("toUpdatedAt", "date-time", "Last change of a version, exclusive."),
    param(
        "filter",
        "string",
        "JSON array of conditions on `id`, `name`, `type`, `version`, `createdAt`, `updatedAt`, `labels`, `tags`, `config`.",
    ),
];

pub(super) async fn list_prompts(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<PromptInList>>, Problem> {
    let paging = Paging {
        page: params.int("page", 1, u32::MAX, 1)?,
        limit: params.int("limit", 1, 100, 10)?,
    };
    let filter = Filter::parse(&params.filter()?, PromptQuery::COLUMNS).map_err(filter_problem)?;
    let text = |name| params.text(name).map(str::to_owned);
    let query = PromptQuery {
        name: text("name"),
        label: text("label"),
        tag: text("tag"),
        from: params.time("fromUpdatedAt")?,
        to: params.time("toUpdatedAt")?,
        filter,
    };
    let found = app.store.catalog.prompts(&caller.project, &query, paging).await?;
    Ok(page::list(paging, &found, view::summary))
}
