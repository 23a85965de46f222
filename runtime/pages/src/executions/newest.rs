//! The newest executions of a rule or evaluator, as parts of other pages.

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::Execution;
use perpend_domain::list::ListPosition;
use perpend_executions::ExecutionFilter;
use perpend_http_kit::problem::Problem;
use perpend_views::{ExecutionLine, ScoreView};

use crate::executions::names::Names;
use crate::executions::one::own_scores;
use crate::request::viewer::Viewer;
use crate::scores::views::score_views;
use crate::state::App;

/// The newest executions of a filter. Failed ones have the form that requeues them, if the viewer may.
pub(crate) async fn newest(
    app: &App,
    viewer: &Viewer,
    filter: &ExecutionFilter,
    limit: u32,
) -> Result<Vec<(Execution, ExecutionLine)>, Problem> {
    let (ledger, project, base) = (&app.store.ledger, &viewer.project, viewer.base());
    let first = ListPosition::default();
    let items = ledger.executions_from(project, filter, &first, limit).await?.items;
    let names = Names::read(app, viewer, &items).await?;
    let may_requeue = viewer.may(EvaluatorWrite);
    let rows = items.into_iter().map(|execution| {
        let line = ExecutionLine::new(&execution, names.of(&execution), None, &base);
        let line = if may_requeue { line.requeueable() } else { line };
        (execution, line)
    });
    Ok(rows.collect())
}

/// The newest executions of a filter with the scores that are in use.
pub(crate) async fn scored(
    app: &App,
    viewer: &Viewer,
    filter: &ExecutionFilter,
    limit: u32,
) -> Result<Vec<(ExecutionLine, Vec<ScoreView>)>, Problem> {
    let mut rows = Vec::new();
    for (execution, line) in newest(app, viewer, filter, limit).await? {
        let scores = own_scores(app, viewer, &execution).await?;
        rows.push((line, score_views(app, viewer, &scores).await?));
    }
    Ok(rows)
}
