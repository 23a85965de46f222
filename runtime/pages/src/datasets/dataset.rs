//! `GET P/datasets/{dataset}`: its tabs; `POST P/datasets/{dataset}/baseline`.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    DatasetRunsPage, DatasetUsePage, RejectedForm, RunsQuery, Undo, encode, with_query,
};
use serde_json::json;

use super::context::{DatasetContext, DatasetParams, DatasetPath, fault};
use super::{examples, items, schemas, versions};
use crate::experiments::list::{ExperimentListParams, page_of_runs};
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// `GET P/datasets/{dataset}`
pub(crate) async fn dataset_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    Query(params): Query<DatasetParams>,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    match params.tab.as_deref().unwrap_or("items") {
        "schemas" => {
            let view = schemas::view(&app, &context, &params).await?;
            page(StatusCode::OK, &view)
        }
        "versions" => {
            let view = versions::view(&app, &context, &params).await?;
            page(StatusCode::OK, &view)
        }
        "experiments" => {
            let view = Box::pin(runs_view(&app, &context, &params)).await?;
            page(StatusCode::OK, &view)
        }
        "use" => {
            let view = DatasetUsePage {
                shell: context.shell(),
                head: context.head("use", Vec::new(), RejectedForm::default()),
                examples: examples::of(context.name(), &context.viewer.origin),
                exports: exports(&context),
            };
            page(StatusCode::OK, &view)
        }
        tab => {
            let mut faults = Vec::new();
            if tab != "items" {
                let tabs = "one of `items`, `schemas`, `versions`, `experiments`, `use`";
                faults.push(fault("tab", tabs, tab));
            }
            let view = Box::pin(items::view(&app, &context, &params, faults)).await?;
            page(StatusCode::OK, &view)
        }
    }
}

/// Labels and URLs of the items as files.
fn exports(context: &DatasetContext) -> Vec<(&'static str, String)> {
    let formats = [("CSV", "csv"), ("TSV", "tsv"), ("JSON Lines", "jsonl"), ("JSON", "json")];
    let links = formats
        .map(|(label, format)| (label, format!("{}/export?format={format}", context.href())));
    links.to_vec()
}

/// The tab with the runs of the dataset.
async fn runs_view(
    app: &App,
    context: &DatasetContext,
    params: &DatasetParams,
) -> Result<DatasetRunsPage, Problem> {
    let (viewer, href) = (&context.viewer, context.href());
    let of = ExperimentListParams::of_dataset(
        context.id(),
        params.score.as_deref(),
        params.after.as_deref(),
    );
    let baselines = context.stored.baseline_run_id.as_deref().into_iter().collect();
    let address = |more: &[(&'static str, &str)]| {
        let tab = ("tab", "experiments");
        let pairs = std::iter::once(&tab).chain(more);
        let pairs = pairs.map(|(name, value)| (*name, (*value).to_owned()));
        with_query(&href, &pairs.collect::<Vec<_>>())
    };
    let mut found = page_of_runs(app, viewer, &of, (&baselines, &address)).await?;
    found.table.has_datasets = false;
    found.table.baseline_action =
        viewer.may(Permission::DatasetWrite).then(|| format!("{href}/baseline"));
    let new = with_query(
        &format!("{}/experiments/new", viewer.base()),
        &[("dataset", context.name().to_owned())],
    );
    Ok(DatasetRunsPage {
        shell: context.shell(),
        head: context.head("experiments", Vec::new(), RejectedForm::default()),
        notices: found.notices,
        table: found.table,
        page_links: found.page_links,
        new_href: viewer.may(Permission::ExperimentWrite).then_some(new),
    })
}

/// `POST P/datasets/{dataset}/baseline`: `run` is the percent-encoded id of the run that the others are compared with; an
/// empty one removes the baseline.
pub(crate) async fn set_baseline(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    let run = RunsQuery::parse_runs(form.fields.text("run").unwrap_or_default());
    let run = run.into_iter().next();
    let act = async {
        let path = context.operation("");
        let body = json!({ "baselineRunId": run });
        call(&app, &context.viewer, (Method::PATCH, &path), &body).await?;
        let words = match run {
            Some(_) => "Baseline set; comparisons of this dataset start with it.",
            None => "Baseline removed.",
        };
        let before = context.stored.baseline_run_id.as_deref().map(encode);
        Ok::<_, Problem>(SubmissionOutcome::new(words).with_undo(Undo {
            action: format!("{}/baseline", context.href()),
            fields: vec![("run", before.unwrap_or_default())],
        }))
    };
    Box::pin(form.run_once(&app, act)).await
}
