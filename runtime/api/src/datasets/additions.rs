//! The endpoint that adds items made of traces and observations.

use axum::extract::{Path, State};
use perpend_domain::access::Permission::{DatasetWrite, TraceRead};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;

use super::find::find;
use super::from_traces::{FromTracesInput, FromTracesView};
use super::import;
use crate::state::{App, Routes};

const FROM_TRACES: &str = "/api/v1/datasets/{datasetName}/from-traces";

pub(super) fn routes(routes: &mut Routes) {
    let add = Operation::post(
        "addDatasetItemsFromTraces",
        FROM_TRACES,
        "Add items made of traces or observations, chosen by ids or by a filter",
        DatasetWrite,
    );
    routes.add(add.body::<FromTracesInput>(), add_items);
}

async fn add_items(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<FromTracesInput>,
) -> Result<Answer<FromTracesView>, Problem> {
    if !caller.permissions.holds(TraceRead) {
        return Err(Problem::new(Code::AccessDenied, "requires the permission `trace.read`"));
    }
    let stored = find(&app, &caller, &name).await?;
    let writer = app.item_writer();
    let place = (&caller.project, stored.dataset.id.as_str());
    let Some((request, preview)) = input.in_background()? else {
        return input.run(&writer, place).await.map(Answer);
    };
    let import_id = import::start_of_traces(&app, place, &request, preview).await?;
    Ok(Answer(FromTracesView::in_background(import_id)))
}
