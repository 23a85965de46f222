//! Costs of connections, and the evaluators that use them.

use std::collections::BTreeMap;

use perpend_api_types::connection::{
    ConnectionCosts, ConnectionEvaluator, ConnectionFailure, ConnectionModel, ConnectionPause,
    LearnedModel, LlmConnectionUsage,
};
use perpend_broker as broker;
use perpend_catalog::ModelUser;
use perpend_catalog::connections::Connection;
use perpend_domain::ids::ProjectId;
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use perpend_executions::{FailedCall, ModelCost, WaitingCount};
use perpend_http_kit::problem::Problem;

use super::view;
use crate::state::App;

const DAY_MICROS: i64 = 86_400_000_000;
/// Days of the period before the current one.
const DAYS_BEFORE: i64 = 6;
/// Calls of the project that are searched for failures.
const MAX_CALLS: u32 = 500;
/// Failures listed of a connection.
const MAX_FAILURES: usize = 10;

/// The state of a project that the use of its connections is derived from.
pub(super) struct UsageFacts {
    since: Timestamp,
    default: Option<ModelChoice>,
    costs: Vec<ModelCost>,
    users: Vec<ModelUser>,
    held: Vec<WaitingCount>,
    failed: Vec<FailedCall>,
}

impl UsageFacts {
    pub(super) async fn read(app: &App, project: &ProjectId) -> Result<Self, Problem> {
        let (catalog, ledger) = (&app.store.catalog, &app.store.ledger);
        let today = app.web.clock.now().as_micros().div_euclid(DAY_MICROS);
        let since = Timestamp::from_micros((today - DAYS_BEFORE) * DAY_MICROS);
        Ok(Self {
            since,
            default: catalog.default_model(project).await?,
            costs: ledger.costs_by_model(project, since).await?,
            users: catalog.model_users(project).await?,
            held: ledger.held_counts(project).await?,
            failed: ledger.failed_calls(project, since, MAX_CALLS).await?,
        })
    }

    pub(super) fn usage(
        &self,
        app: &App,
        project: &ProjectId,
        connection: &Connection,
    ) -> LlmConnectionUsage {
        let provider = connection.provider.as_str();
        let costs = self.costs.iter().filter(|cost| cost.provider == provider);
        let learned = app.models.learned_models(project, connection);
        let usage = app.models.connection_usage(&connection.id);
        let failed = self.failed.iter().filter(|call| call.provider == provider);
        LlmConnectionUsage {
            connection: view::with_options(connection),
            default_model: self.default.clone().filter(|choice| choice.provider == provider),
            since: self.since,
            costs: costs.clone().fold(ConnectionCosts::default(), plus),
            models: models(costs, &learned),
            evaluators: self.evaluators(provider),
            in_flight: usage.n_in_flight as u64,
            queued: usage.n_waiting as u64,
            closed_until: app.models.closed_connection(&connection.id).map(|closed| closed.until),
            failures: failed.take(MAX_FAILURES).map(failure).collect(),
        }
    }

    fn evaluators(&self, provider: &str) -> Vec<ConnectionEvaluator> {
        let mut found: Vec<ConnectionEvaluator> = Vec::new();
        let has_default = self.default.as_ref().is_some_and(|choice| choice.provider == provider);
        for user in &self.users {
            let mut models: Vec<String> = Vec::new();
            for choice in user.models_of(provider, self.default.as_ref()) {
                if !models.contains(&choice.model) {
                    models.push(choice.model.clone());
                }
            }
            if models.is_empty() {
                continue;
            }
            let uses_default = has_default && user.slots.iter().any(|slot| slot.model.is_none());
            // The versions in use of one evaluator follow each other.
            if let Some(last) = found.last_mut().filter(|last| last.evaluator_id == user.id) {
                models.retain(|model| !last.models.contains(model));
                last.models.extend(models);
                last.uses_default |= uses_default;
                continue;
            }
            let held = self.held.iter().filter(|held| held.evaluator == user.id);
            found.push(ConnectionEvaluator {
                evaluator_id: user.id.clone(),
                name: user.name.clone(),
                models,
                uses_default,
                paused: user.paused.as_ref().map(|pause| ConnectionPause {
                    reason: pause.reason.clone(),
                    message: pause.message.clone(),
                    since: pause.at,
                    is_of_connection: user.waits_for_connection(),
                }),
                waiting: held.map(|held| held.n).sum(),
            });
        }
        found
    }
}

fn plus(sum: ConnectionCosts, cost: &ModelCost) -> ConnectionCosts {
    ConnectionCosts {
        call_count: sum.call_count + cost.n_calls,
        failed_count: sum.failed_count + cost.n_failed,
        unpriced_count: sum.unpriced_count + cost.n_unpriced,
        cached_count: sum.cached_count + cost.n_cached,
        input_tokens: sum.input_tokens + cost.input_tokens,
        output_tokens: sum.output_tokens + cost.output_tokens,
        cost_usd: sum.cost_usd + cost.cost,
    }
}

/// Models with calls or with known capabilities, by name.
fn models<'c>(
    costs: impl Iterator<Item = &'c ModelCost>,
    learned: &[broker::LearnedModel],
) -> Vec<ConnectionModel> {
    let mut all: BTreeMap<&str, ConnectionModel> = BTreeMap::new();
    let new = |model: &str| ConnectionModel {
        model: model.to_owned(),
        costs: ConnectionCosts::default(),
        learned: None,
    };
    for cost in costs {
        let entry = all.entry(cost.model.as_str()).or_insert_with(|| new(&cost.model));
        entry.costs = plus(entry.costs, cost);
    }
    for known in learned {
        let entry = all.entry(known.model.as_str()).or_insert_with(|| new(&known.model));
        entry.learned = Some(learned_model(known));
    }
    all.into_values().collect()
}

pub(super) fn learned_model(known: &broker::LearnedModel) -> LearnedModel {
    LearnedModel {
        method: known.structure.map(|method| method.name().to_owned()),
        deviations: known.deviations.iter().map(|name| (*name).to_owned()).collect(),
        learned_at: known.learned_at,
    }
}

fn failure(call: &FailedCall) -> ConnectionFailure {
    ConnectionFailure {
        model: call.model.clone(),
        at: call.at,
        error_class: call.class.clone(),
        error_message: call.message.clone(),
    }
}
