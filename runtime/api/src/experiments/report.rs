//! `GET /api/v1/experiments/{experimentId}`.

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_domain::experiment::{RunAccount, RunResults, RunScore, unescaped_run_id};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_domain::time::Timestamp;
use perpend_experiments::run_summary::{RunFigures, ScoreSummary, run_figures, score_summaries};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::problem::Problem;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::state::App;

/// Most ids in each list of the account; the counts are those of all.
const MAX_ITEMS: usize = 1_000;

/// A run of an experiment: spans with experiment attributes, links of a dataset run, or both.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExperimentReport {
    id: String,
    /// The name; the id if the run has none.
    name: String,
    description: Option<String>,
    metadata: AnyJson,
    /// `null` if the items are the client's own.
    dataset_id: Option<String>,
    /// `null` if the items are the client's own or the dataset is deleted.
    dataset_name: Option<String>,
    /// The creation of the run, or the start of its first item.
    created_at: Timestamp,
    /// The last change of the run, or the last link or end of an item.
    updated_at: Timestamp,
    /// The lists of items have at most 1,000 ids each.
    account: RunAccount,
    figures: RunFigures,
    /// The scores of the items by name and type.
    scores: Vec<ScoreSummary>,
    /// The scores of the run as a whole, oldest first.
    run_scores: Vec<RunScoreView>,
}

/// A score of a run as a whole.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExperimentRunScore)]
struct RunScoreView {
    name: String,
    data_type: ScoreDataType,
    /// A number, `true` or `false`, or a text.
    value: AnyJson,
    comment: Option<String>,
}

fn run_score_view(score: RunScore) -> RunScoreView {
    RunScoreView {
        data_type: score.value.data_type(),
        value: AnyJson(match score.value {
            ScoreValue::Numeric(number) => json!(number),
            ScoreValue::Boolean(truth) => json!(truth),
            ScoreValue::Categorical(text)
            | ScoreValue::Text(text)
            | ScoreValue::Correction(text) => json!(text),
        }),
        name: score.name,
        comment: score.comment,
    }
}

fn report(results: RunResults, mut account: RunAccount) -> ExperimentReport {
    account.missing_items.truncate(MAX_ITEMS);
    account.unexpected_items.truncate(MAX_ITEMS);
    let figures = run_figures(&results);
    let scores = score_summaries(&results);
    let run = results.run;
    ExperimentReport {
        id: run.id,
        name: run.name,
        description: run.description,
        metadata: run.metadata.into(),
        dataset_id: run.dataset_id,
        dataset_name: run.dataset_name,
        created_at: run.created_at,
        updated_at: run.updated_at,
        account,
        figures,
        scores,
        run_scores: results.scores.into_iter().map(run_score_view).collect(),
    }
}

pub(super) async fn get_experiment(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<ExperimentReport>, Problem> {
    report_of(&app, &caller.project, unescaped_run_id(&id)).await
}

/// The run with this id.
pub(super) async fn report_of(
    app: &App,
    project: &ProjectId,
    id: &str,
) -> Result<Answer<ExperimentReport>, Problem> {
    let found = app.store.run_results(project, id).await?;
    let results = found.ok_or_else(|| Problem::not_found("experiment"))?;
    let expected = app.store.expected_scores(project, &results.run).await?;
    let account = RunAccount::of(&results, &expected);
    Ok(Answer(report(results, account)))
}
