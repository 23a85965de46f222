//! Firings of rules with a cron schedule.

use axum::extract::{Path, State};
use perpend_api_types::rule as contract;
use perpend_domain::access::Permission::EvaluatorRead;
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::{ExecutionState, Rule};
use perpend_domain::ids::ProjectId;
use perpend_executions::{RuleFiring, StateCount};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use super::rules;
use crate::state::{App, Routes};

const FIRINGS: &str = "/api/v1/evaluation-rules/{ruleId}/firings";
const LIMIT: &[Param] = &[param("limit", "integer", "Firings, 1 to 100; 20 when absent.")];
/// Next firings in a response.
const N_NEXT: usize = 5;
/// The period in which missed firings are counted.
const MISSED_MS: i64 = 31 * 86_400_000;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listRuleFirings",
        FIRINGS,
        "List the firings of the schedule of a rule, newest first",
        EvaluatorRead,
    );
    routes.add(list.query(LIMIT), list_firings);
}

fn firing_view(firing: &RuleFiring, states: &[StateCount]) -> contract::RuleFiring {
    let n_in = |wanted: fn(ExecutionState) -> bool| {
        let counted = states.iter().filter(|count| wanted(count.state));
        counted.map(|count| count.n).sum::<u64>()
    };
    contract::RuleFiring {
        fired_at: firing.fired_at,
        from: firing.from,
        noticed_at: firing.noticed_at,
        missed_count: firing.n_missed,
        execution_count: n_in(|_| true),
        open_count: n_in(|state| !state.is_final()),
        completed_count: n_in(|state| state == ExecutionState::Completed),
        skipped_count: n_in(|state| state == ExecutionState::Skipped),
        failed_count: n_in(|state| state == ExecutionState::Failed),
        cancelled_count: n_in(|state| state == ExecutionState::Cancelled),
    }
}

/// The next firings of a rule and at most `limit` of the last ones.
async fn firings(
    app: &App,
    project: &ProjectId,
    rule: &Rule,
    limit: u32,
) -> Result<contract::RuleFirings, Problem> {
    let (ledger, now) = (&app.store.ledger, app.web.clock.now());
    let since = now.plus_millis(-MISSED_MS);
    let next = |schedule: &Schedule| schedule.upcoming(now, N_NEXT);
    let last = ledger.firings(project, &rule.id, limit).await?;
    let states = ledger.firing_states(project, &rule.id, &last).await?;
    let data = last.iter().zip(&states).map(|(firing, states)| firing_view(firing, states));
    Ok(contract::RuleFirings {
        next: rule.schedule.as_ref().filter(|_| rule.enabled).map(next).unwrap_or_default(),
        missed_count: ledger.n_missed_firings(project, &rule.id, since).await?,
        data: data.collect(),
    })
}

async fn list_firings(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<contract::RuleFirings>, Problem> {
    let rule = rules::find(&app, &caller.project, &id).await?;
    let limit = params.int("limit", 1, 100, 20)?;
    Ok(Answer(firings(&app, &caller.project, &rule, limit).await?))
}
