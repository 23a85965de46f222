//! `GET P/traces`: the latest traces that fit the filter.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::filter::Filter;
use perpend_ui::{Pager, Section, Text, TracesPage};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::filter::ListForm;
use crate::state::App;
use crate::viewer::Viewer;
use crate::{lines, read, setup};

/// Traces on a page.
const PER_PAGE: u32 = 50;

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    form: Result<Query<ListForm>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(form) = form.map_err(|error| Problem::query("", error.body_text()))?;
    let query = form.shown();
    let mut view = TracesPage {
        shell: viewer.shell(Section::Traces),
        ..TracesPage::default()
    };
    match form.filter() {
        Ok(filter) => fill(&app, &viewer, &form, filter, &mut view).await?,
        Err(problem) => view.problem = Some(Text::from(problem)),
    }
    if view.lines.is_empty() && !query.is_set() {
        view.setup = Some(setup::of(&app, &viewer.project, &headers).await?);
    }
    let status = if view.problem.is_some() {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    };
    view.query = query;
    page(status, &view)
}

async fn fill(
    app: &App,
    viewer: &Viewer,
    form: &ListForm,
    filter: Filter,
    view: &mut TracesPage,
) -> Result<(), Problem> {
    let number = form.page();
    let found = read::traces(app, &viewer.project, filter, number, PER_PAGE).await?;
    let before = u64::from(number - 1) * u64::from(PER_PAGE);
    let (query, base) = (form.shown(), viewer.base());
    view.pager = Pager {
        first: before + 1,
        last: before + found.traces.len() as u64,
        total: Some(found.n_total),
        previous: (number > 1).then(|| query.address(&base, u64::from(number) - 1)),
        next: (before + (found.traces.len() as u64) < found.n_total)
            .then(|| query.address(&base, u64::from(number) + 1)),
    };
    view.lines = lines::of(app, &viewer.project, &found.traces).await?;
    Ok(())
}
