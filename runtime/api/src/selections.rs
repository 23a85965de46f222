//! Unsaved rules that only select targets.

use perpend_api_types::filter::Conditions;
use perpend_domain::chain;
use perpend_domain::evaluation::{LatePolicy, OnMissing, Rule, TargetKind, Timing};
use perpend_domain::filter::{Test, WrittenFilter};
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::Problem;

use crate::state::App;

/// Columns with ids of datasets.
const DATASETS: [&str; 2] = ["datasetId", "experimentDatasetId"];

/// An unsaved, disabled rule without evaluators that takes all targets of a filter, as soon as they have ended.
///
/// # Errors
/// 400 for the field `filter`.
pub(super) async fn selection(
    app: &App,
    project: &ProjectId,
    target: TargetKind,
    conditions: Conditions,
) -> Result<Rule, Problem> {
    let filter = WrittenFilter::parse(conditions.0, target.filter_columns());
    let filter = filter.map_err(filter_problem)?;
    check_datasets(app, project, &filter).await?;
    let now = app.web.clock.now();
    let id = RuleId::new(&app.web.ids.uuid().to_string()).map_err(|_| Problem::internal())?;
    Ok(Rule {
        id,
        name: String::new(),
        target,
        enabled: false,
        paused: None,
        sampling: 1.0,
        sampling_independent: false,
        filter,
        assignments: Vec::new(),
        schedule: None,
        timing: Timing { settle_ms: Some(0), ..Timing::default() },
        on_missing: OnMissing::Fail,
        late: LatePolicy::Ignore,
        budget: Vec::new(),
        after: Vec::new(),
        audit: chain::AUDIT,
        created_at: now,
        updated_at: now,
    })
}

/// Checks that the datasets of a filter exist (evaluation.md 2.1).
pub(super) async fn check_datasets(
    app: &App,
    project: &ProjectId,
    filter: &WrittenFilter,
) -> Result<(), Problem> {
    for (at, (_, condition)) in filter.iter().enumerate() {
        let is_dataset = condition.column.is_some_and(|column| DATASETS.contains(&column.id));
        let Test::AnyOf(ids) = &condition.test else {
            continue;
        };
        for id in ids.iter().filter(|_| is_dataset) {
            let found = app.store.catalog.dataset_by_id(project, id).await?;
            if found.is_none() {
                let message = format!("unknown dataset {id:?}");
                return Err(Problem::body(&format!("filter[{at}].value"), message));
            }
        }
    }
    Ok(())
}
