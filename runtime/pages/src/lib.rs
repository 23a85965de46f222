//! HTML pages of stored data.
//!
//! Invariants:
//! - **The same authorization as the API.** A page shows the project of its session; objects of other projects are not
//!   found. The authenticator of the routes creates the `Viewer`.
//! - **No foreign code runs.** Every response carries the content security policy. Raw values are sent as plain text, media
//!   only with types that a browser displays or plays.
//! - **A page does not wait for an evaluator**, and a GET request changes nothing. The last display form of values is stored
//!   in a cookie of the browser.
//! - **A form calls the same function as the API operation**, once, and redirects to a page (`forms`).

mod accounts;
mod audit;
mod authors;
mod backfills;
mod backtests;
mod connections;
mod datasets;
mod evaluators;
mod executions;
mod experiments;
mod export;
mod groups;
mod instance;
mod jobs;
mod keys;
mod list;
mod observations;
mod overview;
mod plugins;
mod read;
mod reference;
mod request;
mod rules;
mod scores;
mod search;
mod settings;
mod setup;
mod state;
mod trace;
mod traces;

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::access::Permission::{
    self, AuditRead, CommentWrite, ConnectionRead, ConnectionWrite, DatasetRead, DatasetWrite,
    EvaluatorRead, EvaluatorWrite, ExperimentRead, ExperimentWrite, KeyRead, KeyWrite, MemberRead,
    MemberWrite, PluginRead, PluginWrite, ProjectRead, QueueWrite, ScoreConfigWrite, ScoreDelete,
    ScoreRead, ScoreWrite, SelfRead, SelfWrite, TraceMark, TraceRead,
};
use perpend_http_kit::Web;
use perpend_http_kit::auth::{Authenticator, Requirement, note_denied, use_session};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::{ApiDescription, PageRoute, Routes};
use perpend_views::{FilterableList, Section};

use crate::audit::Audit;
use crate::executions::list::Executions;
use crate::groups::list::{Sessions, Users};
use crate::list::export::export_list;
use crate::list::news::list_news;
use crate::list::page::list_page;
use crate::list::source::ListSource;
use crate::list::suggest::{SuggestParams, suggest_fragment};
use crate::observations::Observations;
use crate::request::frame::Frame;
use crate::request::query::Query;
use crate::request::viewer::{Viewer, project_of_path, viewer};
use crate::scores::list::Scores;
use crate::traces::list::Traces;

pub use instance::{DiskFigures, InstanceCheck, InstanceState, WorkerFigures};
pub use request::frame::{as_page, not_found, without_slash};
pub use request::origin::wants_page;
pub use state::{App, NewApp};

/// The URL printed at startup while there is no account, which creates the first one.
#[must_use]
pub fn setup_url(web: &Web, origin: &str) -> String {
    format!("{}/setup/{}", origin.trim_end_matches('/'), web.setup_token.text())
}

/// The URL printed at startup, which logs in with the one-time token.
#[must_use]
pub fn login_url(web: &Web, origin: &str) -> String {
    format!("{}/?token={}", origin.trim_end_matches('/'), web.login_token.text())
}

/// The routes of a list: its page, its file, the number of new rows, and the completions of its filter. The path of the file is
/// not below that of the page, where it would hide a trace, session or user with such an id.
fn list_routes<L: ListSource>(routes: &mut Routes<App>, needs: Permission) {
    let list = L::LIST;
    let route = |path: String| PageRoute::get(format!("/project/{{project}}/{path}"), needs);
    let (name, path) = (list.texts.name, list.texts.path);
    routes.page(BySession, route(path.to_owned()), list_page::<L>);
    let file = route(format!("export/{name}")).recorded_read();
    routes.page(BySession, file, export_list::<L>);
    if list.news.is_some() {
        routes.page(BySession, route(format!("_/{path}/news")), list_news::<L>);
    }
    if let Some(filter) = list.filter {
        suggestions_route(routes, route(format!("_/{path}/suggest")), filter);
    }
}

/// Completions of a filter.
fn suggestions_route(routes: &mut Routes<App>, route: PageRoute, filter: &'static FilterableList) {
    let show = move |app: State<App>, viewer: Viewer, params: Query<SuggestParams>| {
        suggest_fragment(app, viewer, params, filter)
    };
    routes.page(BySession, route, show);
}

/// Lists that the engine does not show.
fn export_routes(routes: &mut Routes<App>) {
    let experiments = PageRoute::get("/project/{project}/export/experiments", ExperimentRead);
    let experiments = experiments.recorded_read();
    routes.page(BySession, experiments, experiments::export::export_experiments);
}

/// Fragments that scripts insert into pages.
fn fragment_routes(routes: &mut Routes<App>) {
    let detail = PageRoute::get("/project/{project}/_/traces/{trace}/detail", TraceRead);
    routes.page(BySession, detail, trace::page::detail_fragment);
    let peek = PageRoute::get("/project/{project}/_/traces/{trace}/peek", TraceRead);
    routes.page(BySession, peek, traces::fragments::peek_fragment);
    let cell = PageRoute::get("/project/{project}/_/traces/{trace}/cell/{part}", TraceRead);
    routes.page(BySession, cell, traces::peek::cell_fragment);
    let later = PageRoute::get("/project/{project}/_/trends", TraceRead);
    routes.page(BySession, later, overview::trends::trend_fragment);
    let of_user = PageRoute::get("/project/{project}/_/users/{user}/trends", TraceRead);
    routes.page(BySession, of_user, groups::user::trends_fragment);
    let values = PageRoute::get("/project/{project}/_/traces/facets", TraceRead);
    routes.page(BySession, values, traces::fragments::facets_fragment);
    let over_time = PageRoute::get("/project/{project}/_/traces/bars", TraceRead);
    routes.page(BySession, over_time, traces::fragments::bars_fragment);
    let rows = PageRoute::get("/project/{project}/_/traces/{trace}/rows", TraceRead);
    routes.page(BySession, rows, trace::page::rows_fragment);
    let seek = PageRoute::get("/project/{project}/_/traces/{trace}/seek", TraceRead);
    routes.page(BySession, seek, trace::page::seek_fragment);
    let state = PageRoute::get("/project/{project}/_/traces/{trace}/state", TraceRead);
    routes.page(BySession, state, trace::state_fragment::state_fragment);
    let hits = PageRoute::get("/project/{project}/_/search", TraceRead);
    routes.page(BySession, hits, search::search_fragment);
    let contents = PageRoute::get("/project/{project}/_/search/contents", TraceRead);
    routes.page(BySession, contents, search::contents_fragment);
    let value = PageRoute::get("/project/{project}/_/value", TraceRead);
    routes.page(BySession, value, trace::values::value_fragment);
    let news = PageRoute::get("/project/{project}/_/news", TraceRead);
    routes.page(BySession, news, traces::news::news_fragment);
}

/// Forms that change data.
fn form_routes(routes: &mut Routes<App>) {
    let bookmark = PageRoute::post("/project/{project}/bookmarks", TraceMark);
    routes.page(BySession, bookmark, traces::marks::bookmark);
    let tag = PageRoute::post("/project/{project}/traces/{trace}", TraceMark);
    routes.page(BySession, tag, traces::marks::tag);
    let score = PageRoute::post("/project/{project}/traces/{trace}/scores", ScoreWrite);
    routes.page(BySession, score, trace::annotation_forms::save_score);
    let delete = PageRoute::post("/project/{project}/traces/{trace}/scores/delete", ScoreDelete);
    routes.page(BySession, delete, trace::annotation_forms::delete_score);
    let comment = PageRoute::post("/project/{project}/traces/{trace}/comments", CommentWrite);
    routes.page(BySession, comment, trace::annotation_forms::add_comment);
    let delete = "/project/{project}/traces/{trace}/comments/delete";
    let delete = PageRoute::post(delete, CommentWrite);
    routes.page(BySession, delete, trace::annotation_forms::delete_comment);
}

/// Rules.
fn rule_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/rules", EvaluatorRead);
    routes.page(BySession, all, rules::list::rules_page);
    let create = PageRoute::post("/project/{project}/rules", EvaluatorWrite);
    routes.page(BySession, create, rules::editor::create_rule);
    let new = PageRoute::get("/project/{project}/rules/new", EvaluatorWrite);
    routes.page(BySession, new, rules::editor::new_page);
    let one = PageRoute::get("/project/{project}/rules/{rule}", EvaluatorRead);
    routes.page(BySession, one, rules::rule::rule_page);
    let funnel = PageRoute::get("/project/{project}/_/rules/{rule}/funnel", EvaluatorRead);
    routes.page(BySession, funnel, rules::rule::funnel_fragment);
    let edit = PageRoute::get("/project/{project}/rules/{rule}/edit", EvaluatorWrite);
    routes.page(BySession, edit, rules::editor::edit_page);
    let change = PageRoute::post("/project/{project}/rules/{rule}/edit", EvaluatorWrite);
    routes.page(BySession, change, rules::editor::change_rule);
    let switch = PageRoute::post("/project/{project}/rules/{rule}/enabled", EvaluatorWrite);
    routes.page(BySession, switch, rules::switch::switch_rule);
    let delete = PageRoute::post("/project/{project}/rules/{rule}/delete", EvaluatorWrite);
    routes.page(BySession, delete, rules::editor::delete_rule);
    let chosen = "/project/{project}/rule-runs";
    routes.page(BySession, PageRoute::get(chosen, EvaluatorWrite), rules::chosen::form_page);
    routes.page(BySession, PageRoute::post(chosen, EvaluatorWrite), rules::chosen::run_rule);
}

/// Evaluators.
fn evaluator_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/evaluators", EvaluatorRead);
    routes.page(BySession, all, evaluators::list::list_page);
    let gallery = PageRoute::get("/project/{project}/evaluators/new", EvaluatorWrite);
    routes.page(BySession, gallery, evaluators::new::gallery_page);
    let plugin = "/project/{project}/evaluators/new/plugin";
    let form = PageRoute::get(plugin, EvaluatorWrite);
    routes.page(BySession, form, evaluators::editor::new_plugin_page);
    let create = PageRoute::post(plugin, EvaluatorWrite);
    routes.page(BySession, create, evaluators::editor::create_plugin_evaluator);
    let code = "/project/{project}/evaluators/new/code";
    let form = PageRoute::get(code, EvaluatorWrite);
    routes.page(BySession, form, evaluators::editor::new_code_page);
    let create = PageRoute::post(code, EvaluatorWrite);
    routes.page(BySession, create, evaluators::editor::create_code);
    let edit = "/project/{project}/evaluators/{evaluator}/edit";
    let form = PageRoute::get(edit, EvaluatorWrite);
    routes.page(BySession, form, evaluators::editor::edit_page);
    let change = PageRoute::post(edit, EvaluatorWrite);
    routes.page(BySession, change, evaluators::editor::change_evaluator);
    let one = PageRoute::get("/project/{project}/evaluators/{evaluator}", EvaluatorRead);
    routes.page(BySession, one, evaluators::one::evaluator_page);
    let switch = PageRoute::post("/project/{project}/evaluators/{evaluator}/rules", EvaluatorWrite);
    routes.page(BySession, switch, evaluators::switch::switch_rules);
    let tried = "/project/{project}/evaluators/{evaluator}/try";
    routes.page(BySession, PageRoute::get(tried, EvaluatorWrite), evaluators::trial::try_page);
    let run = PageRoute::post(tried, EvaluatorWrite);
    routes.page(BySession, run, evaluators::trial::try_evaluator);
    let judge = "/project/{project}/evaluators/new/judge";
    routes.page(BySession, PageRoute::get(judge, EvaluatorWrite), evaluators::judge::new_page);
    routes.page(BySession, PageRoute::post(judge, EvaluatorWrite), evaluators::judge::create_judge);
    let delete = "/project/{project}/evaluators/{evaluator}/delete";
    let confirmation = PageRoute::get(delete, EvaluatorWrite);
    routes.page(BySession, confirmation, evaluators::delete::confirmation_page);
    let delete = PageRoute::post(delete, EvaluatorWrite);
    routes.page(BySession, delete, evaluators::delete::delete_evaluator);
}

/// Scores.
fn score_routes(routes: &mut Routes<App>) {
    list_routes::<Scores>(routes, ScoreRead);
    let analytics = PageRoute::get("/project/{project}/scores/analytics", ScoreRead);
    routes.page(BySession, analytics, scores::analytics::analytics_page);
    let thresholds = PageRoute::get("/project/{project}/scores/thresholds", ScoreRead);
    routes.page(BySession, thresholds, scores::thresholds::thresholds_page);
}

/// Executions of rules.
fn execution_routes(routes: &mut Routes<App>) {
    let one = PageRoute::get("/project/{project}/executions/{execution}", EvaluatorRead);
    routes.page(BySession, one, executions::one::execution_page);
    let requeue =
        PageRoute::post("/project/{project}/executions/{execution}/requeue", EvaluatorWrite);
    routes.page(BySession, requeue, executions::requeue::requeue_execution);
    let failed = PageRoute::post("/project/{project}/failed-executions/requeue", EvaluatorWrite);
    routes.page(BySession, failed, executions::requeue::requeue_failed);
}

/// Backtests of evaluators.
fn backtest_routes(routes: &mut Routes<App>) {
    let all = "/project/{project}/backtests";
    routes.page(BySession, PageRoute::get(all, EvaluatorRead), backtests::list::list_page);
    routes.page(BySession, PageRoute::post(all, EvaluatorWrite), backtests::list::submit);
    let one = PageRoute::get("/project/{project}/backtests/{backtest}", EvaluatorRead);
    routes.page(BySession, one, backtests::one::backtest_page);
    let progress = "/project/{project}/_/backtests/{backtest}/progress";
    let progress = PageRoute::get(progress, EvaluatorRead);
    routes.page(BySession, progress, backtests::one::progress_fragment);
    let change = PageRoute::post("/project/{project}/backtests/{backtest}/state", EvaluatorWrite);
    routes.page(BySession, change, backtests::one::change_state);
    let adopt = PageRoute::post("/project/{project}/backtests/{backtest}/adopt", EvaluatorWrite);
    routes.page(BySession, adopt, backtests::one::adopt);
    let dataset = "/project/{project}/backtests/{backtest}/flips/dataset";
    let dataset = PageRoute::post(dataset, DatasetWrite);
    routes.page(BySession, dataset, backtests::flips::add_to_dataset);
    let queue = PageRoute::post("/project/{project}/backtests/{backtest}/flips/queue", QueueWrite);
    routes.page(BySession, queue, backtests::flips::add_to_queue);
}

/// Backfills of rules.
fn backfill_routes(routes: &mut Routes<App>) {
    let all = "/project/{project}/backfills";
    routes.page(BySession, PageRoute::get(all, EvaluatorRead), backfills::list::list_page);
    routes.page(BySession, PageRoute::post(all, EvaluatorWrite), backfills::list::submit);
    let one = PageRoute::get("/project/{project}/backfills/{backfill}", EvaluatorRead);
    routes.page(BySession, one, backfills::one::backfill_page);
    let progress = "/project/{project}/_/backfills/{backfill}/progress";
    let progress = PageRoute::get(progress, EvaluatorRead);
    routes.page(BySession, progress, backfills::one::progress_fragment);
    let change = PageRoute::post("/project/{project}/backfills/{backfill}/state", EvaluatorWrite);
    routes.page(BySession, change, backfills::one::change_state);
}

/// Recorded inputs, outputs and media, and lists as files.
fn value_routes(routes: &mut Routes<App>) {
    let value = PageRoute::get("/project/{project}/value", TraceRead);
    routes.page(BySession, value, trace::values::value_page);
    let raw = PageRoute::get("/project/{project}/traces/{trace}/raw/{part}", TraceRead);
    routes.page(BySession, raw, trace::raw::trace_value);
    let raw = PageRoute::get(
        "/project/{project}/traces/{trace}/observations/{observation}/raw/{part}",
        TraceRead,
    );
    routes.page(BySession, raw, trace::raw::observation_value);
    let medium =
        PageRoute::get("/project/{project}/traces/{trace}/raw/{part}/media/{number}", TraceRead);
    routes.page(BySession, medium, trace::media::trace_medium);
    let medium = PageRoute::get(
        "/project/{project}/traces/{trace}/observations/{observation}/raw/{part}/media/{number}",
        TraceRead,
    );
    routes.page(BySession, medium, trace::media::observation_medium);
    let stored = PageRoute::get("/project/{project}/media/{media}", TraceRead);
    routes.page(BySession, stored, trace::media::stored_medium);
    export_routes(routes);
}

/// Datasets and their runs.
fn dataset_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/datasets", DatasetRead);
    routes.page(BySession, all, datasets::list::list_page);
    let create = PageRoute::post("/project/{project}/datasets", DatasetWrite);
    routes.page(BySession, create, datasets::list::create_dataset);
    let dataset = PageRoute::get("/project/{project}/datasets/{dataset}", DatasetRead);
    routes.page(BySession, dataset, datasets::dataset::dataset_page);
    let schemas = PageRoute::post("/project/{project}/datasets/{dataset}/schemas", DatasetWrite);
    routes.page(BySession, schemas, datasets::schemas::change_schemas);
    let bulk = PageRoute::post("/project/{project}/datasets/{dataset}/bulk", DatasetWrite);
    routes.page(BySession, bulk, datasets::items::change_selected);
    item_routes(routes);
    import_routes(routes);
    let restore = PageRoute::post("/project/{project}/datasets/{dataset}/restore", DatasetWrite);
    routes.page(BySession, restore, datasets::versions::restore);
    let edit = PageRoute::get("/project/{project}/datasets/{dataset}/edit", DatasetWrite);
    routes.page(BySession, edit, datasets::edit::edit_page);
    let change = PageRoute::post("/project/{project}/datasets/{dataset}/edit", DatasetWrite);
    routes.page(BySession, change, datasets::edit::change_dataset);
    let baseline = PageRoute::post("/project/{project}/datasets/{dataset}/baseline", DatasetWrite);
    routes.page(BySession, baseline, datasets::dataset::set_baseline);
    let archive = PageRoute::post("/project/{project}/datasets/{dataset}/archive", DatasetWrite);
    routes.page(BySession, archive, datasets::edit::archive_dataset);
    let delete = PageRoute::post("/project/{project}/datasets/{dataset}/delete", DatasetWrite);
    routes.page(BySession, delete, datasets::edit::delete_dataset);
}

/// Runs of experiments.
fn experiment_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/experiments", ExperimentRead);
    routes.page(BySession, all, experiments::list::list_page);
    let compared = PageRoute::get("/project/{project}/experiments/compare", ExperimentRead);
    routes.page(BySession, compared, experiments::compare::compare_page);
    let item = "/project/{project}/experiments/compare/items/{item}";
    let item = PageRoute::get(item, ExperimentRead);
    routes.page(BySession, item, experiments::item::item_page);
    let direction = PageRoute::post("/project/{project}/experiments/direction", ScoreConfigWrite);
    routes.page(BySession, direction, experiments::direction::set_direction);
    let by_client = PageRoute::get("/project/{project}/experiments/results", ExperimentRead);
    routes.page(BySession, by_client, request::redirects::experiment_of_client);
    let run = PageRoute::get("/project/{project}/experiments/{experiment}", ExperimentRead);
    routes.page(BySession, run, experiments::run::run_page);
    let run = PageRoute::get("/project/{project}/datasets/{dataset}/runs/{run}", ExperimentRead);
    routes.page(BySession, run, experiments::run::dataset_run);
    let new = PageRoute::get("/project/{project}/experiments/new", ExperimentWrite);
    routes.page(BySession, new, experiments::new::new_page);
    let new = PageRoute::post("/project/{project}/experiments/new", ExperimentWrite);
    routes.page(BySession, new, experiments::new::submit);
    let state =
        PageRoute::post("/project/{project}/experiments/{experiment}/state", ExperimentWrite);
    routes.page(BySession, state, experiments::new::change_state);
    let news = PageRoute::get("/project/{project}/_/experiments/{experiment}/news", ExperimentRead);
    routes.page(BySession, news, experiments::run::news_fragment);
    let gate = "/project/{project}/experiments/{experiment}/gate";
    routes.page(BySession, PageRoute::get(gate, ExperimentRead), experiments::gate::gate_page);
    let evaluate = PageRoute::post(gate, ExperimentWrite);
    routes.page(BySession, evaluate, experiments::gate::evaluate_gate);
    let rename = "/project/{project}/experiments/{experiment}/rename";
    let form = PageRoute::get(rename, ExperimentWrite);
    routes.page(BySession, form, experiments::rename::rename_page);
    let rename = PageRoute::post(rename, ExperimentWrite);
    routes.page(BySession, rename, experiments::rename::rename_run);
    let delete = "/project/{project}/experiments/{experiment}/delete";
    let confirmation = PageRoute::get(delete, ExperimentWrite);
    routes.page(BySession, confirmation, experiments::delete::confirmation_page);
    let delete = PageRoute::post(delete, ExperimentWrite);
    routes.page(BySession, delete, experiments::delete::delete_run);
}

/// Connections to model providers.
fn connection_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/settings/connections", ConnectionRead);
    routes.page(BySession, all, connections::list::list_page);
    let default = PageRoute::post("/project/{project}/settings/default-model", ConnectionWrite);
    routes.page(BySession, default, connections::default_model::change_default_model);
    let new = "/project/{project}/settings/connections/new";
    routes.page(BySession, PageRoute::get(new, ConnectionWrite), connections::form::new_page);
    let create = PageRoute::post(new, ConnectionWrite);
    routes.page(BySession, create, connections::form::create_connection);
    let one = "/project/{project}/settings/connections/{connection}";
    routes.page(BySession, PageRoute::get(one, ConnectionRead), connections::one::connection_page);
    let test = "/project/{project}/settings/connections/{connection}/test";
    routes.page(
        BySession,
        PageRoute::post(test, ConnectionWrite),
        connections::one::test_connection,
    );
    let edit = "/project/{project}/settings/connections/{connection}/edit";
    routes.page(BySession, PageRoute::get(edit, ConnectionWrite), connections::form::edit_page);
    let change = PageRoute::post(edit, ConnectionWrite);
    routes.page(BySession, change, connections::form::change_connection);
    let delete = "/project/{project}/settings/connections/{connection}/delete";
    let confirmation = PageRoute::get(delete, ConnectionWrite);
    routes.page(BySession, confirmation, connections::delete::confirmation_page);
    let delete = PageRoute::post(delete, ConnectionWrite);
    routes.page(BySession, delete, connections::delete::delete_connection);
}

/// Key pairs. Responses with a secret are neither cached nor compressed.
fn key_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/settings/keys", KeyRead);
    routes.page(BySession, all, keys::list::list_page);
    let new = "/project/{project}/settings/keys/new";
    routes.page(BySession, PageRoute::get(new, KeyWrite), keys::create::new_page);
    routes.page(BySession, PageRoute::post(new, KeyWrite).secret(), keys::create::create_key);
    let one = "/project/{project}/settings/keys/{key}";
    routes.page(BySession, PageRoute::get(one, KeyRead), keys::one::key_page);
    routes.page(BySession, PageRoute::post(one, KeyWrite), keys::one::change_key);
    let rotate = "/project/{project}/settings/keys/{key}/rotate";
    let rotate = PageRoute::post(rotate, KeyWrite).secret();
    routes.page(BySession, rotate, keys::one::rotate_key);
    let end = "/project/{project}/settings/keys/{key}/end-previous-secret";
    routes.page(BySession, PageRoute::post(end, KeyWrite), keys::one::end_previous_secret);
    let revoke = "/project/{project}/settings/keys/{key}/revoke";
    let confirmation = PageRoute::get(revoke, KeyWrite);
    routes.page(BySession, confirmation, keys::revoke::confirmation_page);
    routes.page(BySession, PageRoute::post(revoke, KeyWrite), keys::revoke::revoke_key);
}

/// Plug-ins.
fn plugin_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/plugins", PluginRead);
    routes.page(BySession, all, plugins::list::list_page);
    let new = "/project/{project}/plugins/new";
    routes.page(BySession, PageRoute::get(new, PluginWrite), plugins::upload::upload_page);
    routes.page(BySession, PageRoute::post(new, PluginWrite), plugins::upload::upload_plugin);
    let one = "/project/{project}/plugins/{digest}";
    routes.page(BySession, PageRoute::get(one, PluginRead), plugins::one::plugin_page);
    let component = PageRoute::get("/project/{project}/plugins/{digest}/component", PluginRead);
    routes.page(BySession, component, plugins::one::component);
    let grants = PageRoute::post("/project/{project}/plugins/{digest}/grants", EvaluatorWrite);
    routes.page(BySession, grants, plugins::grants::change_grants);
    let rollback = PageRoute::post("/project/{project}/plugins/{digest}/rollback", PluginWrite);
    routes.page(BySession, rollback, plugins::rollback::roll_back);
    let delete = "/project/{project}/plugins/{digest}/delete";
    let confirmation = PageRoute::get(delete, PluginWrite);
    routes.page(BySession, confirmation, plugins::delete::confirmation_page);
    let delete = PageRoute::post(delete, PluginWrite);
    routes.page(BySession, delete, plugins::delete::delete_plugin);
}

/// Imports into datasets, and datasets as files.
fn import_routes(routes: &mut Routes<App>) {
    let form = PageRoute::get("/project/{project}/datasets/{dataset}/import", DatasetWrite);
    routes.page(BySession, form, datasets::import::import_page);
    let paste = PageRoute::post("/project/{project}/datasets/{dataset}/import", DatasetWrite);
    routes.page(BySession, paste, datasets::import::paste_rows);
    let file = PageRoute::post("/project/{project}/datasets/{dataset}/import/file", DatasetWrite);
    routes.page(BySession, file, datasets::import::upload_file);
    let one = "/project/{project}/datasets/{dataset}/imports/{import}";
    let state = PageRoute::get(one, DatasetWrite);
    routes.page(BySession, state, datasets::import::state_page);
    let progress = "/project/{project}/_/datasets/{dataset}/imports/{import}/progress";
    let progress = PageRoute::get(progress, DatasetWrite);
    routes.page(BySession, progress, datasets::import::progress_fragment);
    let change = PageRoute::post(one, DatasetWrite);
    routes.page(BySession, change, datasets::import::change_import);
    let rejected = "/project/{project}/datasets/{dataset}/imports/{import}/rejected";
    let rejected = PageRoute::get(rejected, DatasetWrite);
    routes.page(BySession, rejected, datasets::downloads::rejected_rows);
    let export = PageRoute::get("/project/{project}/datasets/{dataset}/export", DatasetRead);
    routes.page(BySession, export, datasets::downloads::export_items);
}

/// Items of datasets.
fn item_routes(routes: &mut Routes<App>) {
    let new = PageRoute::get("/project/{project}/datasets/{dataset}/new-item", DatasetWrite);
    routes.page(BySession, new, datasets::item::new_item_page);
    let create = PageRoute::post("/project/{project}/datasets/{dataset}/items", DatasetWrite);
    routes.page(BySession, create, datasets::item::create_item);
    let item = PageRoute::get("/project/{project}/datasets/{dataset}/items/{item}", DatasetRead);
    routes.page(BySession, item, datasets::item::item_page);
    let change =
        PageRoute::post("/project/{project}/datasets/{dataset}/items/{item}", DatasetWrite);
    routes.page(BySession, change, datasets::item::change_item);
    let check = PageRoute::post("/project/{project}/_/datasets/{dataset}/check", DatasetWrite);
    routes.page(BySession, check, datasets::item_form::check_fragment);
    let raw = PageRoute::get(
        "/project/{project}/datasets/{dataset}/items/{item}/versions/{version}/raw/{part}",
        DatasetRead,
    );
    routes.page(BySession, raw, datasets::item_raw::item_value);
    let medium = PageRoute::get(
        "/project/{project}/datasets/{dataset}/items/{item}/versions/{version}/raw/{part}/media/{number}",
        DatasetRead,
    );
    routes.page(BySession, medium, datasets::item_raw::item_medium);
    let from_trace = PageRoute::get("/project/{project}/dataset-items/new", DatasetWrite);
    routes.page(BySession, from_trace, datasets::from_trace::from_trace_page);
    let several = "/project/{project}/dataset-items/from-traces";
    let preview = PageRoute::get(several, DatasetWrite);
    routes.page(BySession, preview, datasets::from_traces::from_traces_page);
    let add = PageRoute::post(several, DatasetWrite);
    routes.page(BySession, add, datasets::from_traces::add_traces);
}

/// Redirects of URLs without a project.
fn redirect_routes(routes: &mut Routes<App>) {
    for short in [
        "/traces",
        "/traces/{trace}",
        "/observations",
        "/sessions",
        "/sessions/{session}",
        "/users",
        "/users/{user}",
        "/search",
    ] {
        routes.page(BySession, PageRoute::get(short, TraceRead), request::redirects::to_project);
    }
    for (short, needs) in [
        ("/rules", EvaluatorRead),
        ("/rules/{rule}", EvaluatorRead),
        ("/evaluators", EvaluatorRead),
        ("/evaluators/{evaluator}", EvaluatorRead),
        ("/backfills", EvaluatorRead),
        ("/backfills/{backfill}", EvaluatorRead),
        ("/backtests", EvaluatorRead),
        ("/backtests/{backtest}", EvaluatorRead),
        ("/executions", EvaluatorRead),
        ("/executions/{execution}", EvaluatorRead),
        ("/scores", ScoreRead),
        ("/scores/analytics", ScoreRead),
        ("/scores/thresholds", ScoreRead),
        ("/datasets", DatasetRead),
        ("/datasets/{dataset}", DatasetRead),
        ("/datasets/{dataset}/items/{item}", DatasetRead),
        ("/datasets/{dataset}/runs/{run}", ExperimentRead),
        ("/experiments", ExperimentRead),
        ("/experiments/{experiment}", ExperimentRead),
        ("/settings/connections", ConnectionRead),
        ("/settings/keys", KeyRead),
        ("/settings/audit", AuditRead),
        ("/plugins", PluginRead),
        ("/plugins/{digest}", PluginRead),
    ] {
        routes.page(BySession, PageRoute::get(short, needs), request::redirects::to_project);
    }
    let by_client = PageRoute::get("/trace/{trace}", TraceRead);
    routes.page(BySession, by_client, request::redirects::trace_of_client);
}

/// Accounts.
fn account_routes(routes: &mut Routes<App>) {
    let setup = "/setup/{token}";
    let form = PageRoute::get(setup, Requirement::Public);
    routes.page(BySession, form.secret(), accounts::setup::form_page);
    let create = PageRoute::post(setup, Requirement::Public);
    routes.page(BySession, create.secret(), accounts::setup::create_owner);
    let own = PageRoute::get("/account", SelfRead);
    routes.page(BySession, own, accounts::own::account_page);
    let again = "/account/confirm";
    routes.page(BySession, PageRoute::get(again, SelfWrite), accounts::confirm::confirm_page);
    let confirm = PageRoute::post(again, SelfWrite);
    routes.page(BySession, confirm.secret(), accounts::confirm::confirm);
    let name = PageRoute::post("/account/name", SelfWrite);
    routes.page(BySession, name, accounts::own::change_name);
    let password = PageRoute::post("/account/password", SelfWrite);
    routes.page(BySession, password.secret(), accounts::own::change_password);
    let end = PageRoute::post("/account/sessions/end", SelfWrite);
    routes.page(BySession, end, accounts::own::end_sessions);
    let invitation = "/invite/{token}";
    let shown = PageRoute::get(invitation, Requirement::Public);
    routes.page(BySession, shown.secret(), accounts::links::invitation_page);
    let accept = PageRoute::post(invitation, Requirement::Public);
    routes.page(BySession, accept.secret(), accounts::links::accept_invitation);
    let reset = "/reset/{token}";
    let shown = PageRoute::get(reset, Requirement::Public);
    routes.page(BySession, shown.secret(), accounts::links::reset_page);
    let set = PageRoute::post(reset, Requirement::Public);
    routes.page(BySession, set.secret(), accounts::links::reset_password);
}

/// Members of the organization.
fn member_routes(routes: &mut Routes<App>) {
    let all = PageRoute::get("/project/{project}/settings/members", MemberRead);
    routes.page(BySession, all, accounts::members::members_page);
    let role = PageRoute::post("/project/{project}/settings/members/role", MemberWrite);
    routes.page(BySession, role, accounts::members::set_role);
    let role = PageRoute::post("/project/{project}/settings/members/project-role", MemberWrite);
    routes.page(BySession, role, accounts::members::set_project_role);
    let remove = PageRoute::post("/project/{project}/settings/members/remove", MemberWrite);
    routes.page(BySession, remove, accounts::members::remove);
    let invite = PageRoute::post("/project/{project}/settings/members/invite", MemberWrite);
    routes.page(BySession, invite.secret(), accounts::members::invite);
    let revoke = PageRoute::post("/project/{project}/settings/members/revoke", MemberWrite);
    routes.page(BySession, revoke, accounts::members::revoke);
    let reset = PageRoute::post("/project/{project}/settings/members/reset", MemberWrite);
    routes.page(BySession, reset.secret(), accounts::members::reset);
}

/// All routes, with their descriptions.
pub fn routes() -> (Router<App>, ApiDescription) {
    let mut routes = Routes::default();
    let home = PageRoute::get("/", Requirement::Public);
    routes.page(BySession, home.secret(), request::login::home);
    let form = PageRoute::get("/login", Requirement::Public);
    routes.page(BySession, form.secret(), request::login::login_page);
    let submit = PageRoute::post("/login", Requirement::Public);
    routes.page(BySession, submit.secret(), request::login::log_in);
    let leave = PageRoute::get("/logout", Requirement::Public);
    routes.page(BySession, leave.secret(), request::login::logout_page);
    let logout = PageRoute::post("/logout", Requirement::Public);
    routes.page(BySession, logout.secret(), request::login::log_out);
    let overview = PageRoute::get("/project/{project}", TraceRead);
    routes.page(BySession, overview, overview::page::overview_page);
    let compared = PageRoute::get("/project/{project}/traces/compare", TraceRead);
    routes.page(BySession, compared, traces::compare::compare_page);
    let trace = PageRoute::get("/project/{project}/traces/{trace}", TraceRead);
    routes.page(BySession, trace, trace::page::trace_page);
    let find = PageRoute::get("/project/{project}/traces/{trace}/find", TraceRead);
    routes.page(BySession, find, trace::find::find_page);
    let session = PageRoute::get("/project/{project}/sessions/{session}", TraceRead);
    routes.page(BySession, session, groups::session::session_page);
    let user = PageRoute::get("/project/{project}/users/{user}", TraceRead);
    routes.page(BySession, user, groups::user::user_page);
    let search = PageRoute::get("/project/{project}/search", TraceRead);
    routes.page(BySession, search, search::search_page);
    rule_routes(&mut routes);
    evaluator_routes(&mut routes);
    redirect_routes(&mut routes);
    let form = PageRoute::get("/preferences", Requirement::Public);
    routes.page(BySession, form, request::preferences::preferences_page);
    let chosen = PageRoute::post("/preferences", Requirement::Public);
    routes.page(BySession, chosen, request::preferences::save_preferences);
    let instance = PageRoute::get("/instance", ProjectRead);
    routes.page(BySession, instance, instance::page::instance_page);
    let reference = PageRoute::get("/api/reference", Requirement::Public);
    routes.page(BySession, reference, reference::page::reference_page);
    let group = PageRoute::get("/api/reference/{group}", Requirement::Public);
    routes.page(BySession, group, reference::page::group_page);
    let tried = PageRoute::get("/project/{project}/try/{operation}", TraceRead);
    routes.page(BySession, tried, reference::attempt::attempt_page);
    routes.page(
        BySession,
        PageRoute::get("/assets/{file}", Requirement::Public),
        request::files::asset,
    );
    account_routes(&mut routes);
    member_routes(&mut routes);
    dataset_routes(&mut routes);
    experiment_routes(&mut routes);
    connection_routes(&mut routes);
    plugin_routes(&mut routes);
    key_routes(&mut routes);
    list_routes::<Traces>(&mut routes, TraceRead);
    list_routes::<Observations>(&mut routes, TraceRead);
    list_routes::<Sessions>(&mut routes, TraceRead);
    list_routes::<Users>(&mut routes, TraceRead);
    score_routes(&mut routes);
    list_routes::<Executions>(&mut routes, EvaluatorRead);
    list_routes::<Audit>(&mut routes, AuditRead);
    execution_routes(&mut routes);
    backfill_routes(&mut routes);
    backtest_routes(&mut routes);
    value_routes(&mut routes);
    fragment_routes(&mut routes);
    form_routes(&mut routes);
    let (pages, described) = routes.into_parts();
    let pages = pages.method_not_allowed_fallback(request::frame::method_not_allowed);
    (pages.layer(from_fn(as_page)), described)
}

/// Authenticates by the session cookie and redirects to the login page without one.
#[derive(Clone, Copy, Debug)]
struct BySession;

impl Authenticator<App> for BySession {
    async fn admit(
        &self,
        app: &App,
        parts: &mut Parts,
        any: &[Permission],
    ) -> Result<(), Response> {
        let address = parts.extensions.get::<OriginalUri>();
        let address = address.map_or(&parts.uri, |address| &address.0);
        match viewer(app, &parts.headers, address).await {
            Ok(Some(viewer)) => {
                if let Some(frame) = parts.extensions.get::<Frame>() {
                    let _ = frame.shell.set(viewer.shell(Section::Other));
                }
                if !is_in_project_of(&viewer, address.path()) {
                    return Err(Problem::not_found("page").into_response());
                }
                if !any.iter().any(|one| viewer.may(*one)) {
                    note_denied(parts, viewer.act());
                    let message = "this session lacks the permission for this page";
                    return Err(Problem::new(Code::AccessDenied, message).into_response());
                }
                let is_stale = viewer.account.as_ref().is_some_and(|own| !own.is_fresh);
                if is_stale && any.iter().any(|one| one.needs_fresh_sign_in()) {
                    let confirm = accounts::confirm::address(wanted_page(parts, address));
                    return Err(Redirect::to(&confirm).into_response());
                }
                if let (Some(frame), Some(cookie)) = (
                    parts.extensions.get::<Frame>(),
                    last_project_cookie(app, parts, &viewer, address.path()).await,
                ) {
                    let _ = frame.cookie.set(cookie);
                }
                reading::belongs_to(&viewer.project);
                parts.extensions.insert(viewer.act());
                parts.extensions.insert(viewer);
                Ok(())
            }
            Ok(None) => {
                let login = request::login::address(wanted_page(parts, address));
                Err(Redirect::to(&login).into_response())
            }
            Err(problem) => Err(problem.into_response()),
        }
    }
}

/// The page to open after a sign-in. A rejected form returns to its page instead of being submitted again.
fn wanted_page<'p>(parts: &'p Parts, address: &'p Uri) -> &'p str {
    match parts.method {
        Method::GET | Method::HEAD => address.path_and_query().map_or("", |here| here.as_str()),
        _ => request::origin::referring_page(&parts.headers).unwrap_or_default(),
    }
}

/// The `Set-Cookie` value that records the project of a page as the last used one; absent if it already is.
async fn last_project_cookie(
    app: &App,
    parts: &Parts,
    viewer: &Viewer,
    path: &str,
) -> Option<String> {
    // Requests by scripts do not show which project the user works in.
    let is_fragment = request::fragment::page_of(path).is_some()
        || request::origin::is_script_request(&parts.headers);
    if parts.method != Method::GET || is_fragment {
        return None;
    }
    let account = viewer.account.as_ref().map(|account| &account.session.digest);
    use_session(&app.web, &parts.headers, account, &viewer.project)
}

/// Whether the path is in the viewer's project or in no project.
fn is_in_project_of(viewer: &Viewer, path: &str) -> bool {
    project_of_path(path).is_none_or(|id| id == viewer.project.as_str())
}
