//! `GET P/executions`: the executions of a project, newest first.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{EndReason, ExecutionState, NoCallReason};
use perpend_domain::ids::{EvaluatorId, ExecutionId, RuleId};
use perpend_domain::plugin::FailureClass;
use perpend_executions::{ExecutionFilter, ExecutionList, Ledger};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ExecutionLine, ExecutionsPage, PageLinks, Parameter, RequeueForm, RulesPage, Section,
    SelectFilter, StoppedSearch, Text, count,
};
use serde::Deserialize;

use crate::executions::names::Names;
use crate::executions::requeue::MAX_REQUEUED;
use crate::reference;
use crate::request::cursor::{self, ListLinks};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ExecutionListParams {
    state: String,
    class: String,
    rule: String,
    evaluator: String,
    after: String,
    before: String,
    n: String,
    sort: String,
    cols: String,
}

/// The value of a filter parameter. An invalid one adds a notice.
fn value<T: std::str::FromStr>(
    (name, raw): (&'static str, &str),
    expected: &str,
    notices: &mut Vec<Text>,
) -> Option<T> {
    let value = raw.trim().parse().ok();
    if value.is_none() && !raw.trim().is_empty() {
        let raw: String = raw.chars().take(100).collect();
        notices.push(Text::from(format!("`{name}` must be {expected}, got `{raw}`; ignored.")));
    }
    value
}

impl ExecutionListParams {
    fn filter(&self, notices: &mut Vec<Text>) -> ExecutionFilter {
        ExecutionFilter {
            state: value(("state", self.state.as_str()), "a state of an execution", notices),
            class: value(("class", self.class.as_str()), "an error class", notices),
            rule: value(("rule", self.rule.as_str()), "the id of a rule", notices),
            evaluator: value(
                ("evaluator", self.evaluator.as_str()),
                "the id of an evaluator",
                notices,
            ),
        }
    }
}

/// The query parameters of a filter.
fn parameters(filter: &ExecutionFilter) -> Vec<Parameter> {
    let all = [
        ("state", filter.state.map(|state| state.as_str().to_owned())),
        ("class", filter.class.map(|class| class.as_str().to_owned())),
        ("rule", filter.rule.as_ref().map(RuleId::to_string)),
        ("evaluator", filter.evaluator.as_ref().map(EvaluatorId::to_string)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect()
}

/// A filter with a fixed set of values: value and label. A selected value that is not among them is added.
fn select(
    (name, label): (&'static str, &'static str),
    options: impl Iterator<Item = (String, Text)>,
    selected: Option<&str>,
) -> SelectFilter {
    let option = |(value, label): (String, Text)| {
        let is_selected = selected == Some(value.as_str());
        (value, label, is_selected)
    };
    let mut options: Vec<(String, Text, bool)> = options.map(option).collect();
    if let Some(selected) = selected
        && !options.iter().any(|(.., is_selected)| *is_selected)
    {
        options.push((selected.to_owned(), Text::from(selected), true));
    }
    SelectFilter { name, label, options }
}

async fn filters(
    app: &App,
    viewer: &Viewer,
    filter: &ExecutionFilter,
) -> Result<Vec<SelectFilter>, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let rules = catalog.rules(project, None, RulesPage::LIMIT).await?.items.into_iter();
    let rules = rules.map(|rule| (rule.id.to_string(), Text::from(rule.name)));
    let evaluators = catalog.evaluators(project, None, RulesPage::LIMIT).await?.items.into_iter();
    let evaluators = evaluators.map(|found| (found.id.to_string(), Text::from(found.name)));
    let word = |word: &'static str| (word.to_owned(), Text::from(word));
    let states = ExecutionState::ALL.iter().map(|state| word(state.as_str()));
    let called = FailureClass::ALL.iter().map(|class| word(class.as_str()));
    let classes = called.chain(NoCallReason::ALL.iter().map(|reason| word(reason.as_str())));
    let rule = filter.rule.as_ref().map(RuleId::as_str);
    let evaluator = filter.evaluator.as_ref().map(EvaluatorId::as_str);
    Ok(vec![
        select(("state", "State"), states, filter.state.map(ExecutionState::as_str)),
        select(("class", "Error class"), classes, filter.class.map(EndReason::as_str)),
        select(("rule", "Rule"), rules, rule),
        select(("evaluator", "Evaluator"), evaluators, evaluator),
    ])
}

/// The form that requeues the failed executions of the filter. The function behind it does not select by evaluator.
fn requeue_form(viewer: &Viewer, filter: &ExecutionFilter) -> Option<RequeueForm> {
    let is_failed = filter.state == Some(ExecutionState::Failed) && filter.evaluator.is_none();
    (is_failed && viewer.may(EvaluatorWrite)).then(|| {
        let fields = [
            ("class", filter.class.map(|class| class.as_str().to_owned())),
            ("rule", filter.rule.as_ref().map(RuleId::to_string)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let fields: Vec<(&'static str, String)> = fields.collect();
        let of = if fields.is_empty() { "failed executions" } else { "matching failed executions" };
        RequeueForm {
            action: format!("{}/failed-executions/requeue", viewer.base()),
            label: format!("Requeue {of} (at most {})", count(MAX_REQUEUED.into())),
            fields,
        }
    })
}

async fn lines(
    app: &App,
    viewer: &Viewer,
    list: &ExecutionList,
) -> Result<Vec<ExecutionLine>, Problem> {
    let names = Names::read(app, viewer, &list.items).await?;
    let ids: Vec<ExecutionId> = list.items.iter().map(|each| each.made.id.clone()).collect();
    let costs = app.store.ledger.execution_costs(&viewer.project, &ids).await?;
    let base = viewer.base();
    let lines = list.items.iter().map(|each| {
        let cost = costs.get(&each.made.id).copied();
        let line = ExecutionLine::new(each, names.of(each), cost, &base);
        if viewer.may(EvaluatorWrite) { line.requeueable() } else { line }
    });
    Ok(lines.collect())
}

pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<ExecutionListParams>,
) -> Result<Response, Problem> {
    let mut notices = viewer.faults.clone();
    let filter = params.filter(&mut notices);
    let of_table = (&*params.n, &*params.sort, &*params.cols);
    let (n, rows) = cursor::page_size(of_table, "the newest", &mut notices);
    let (place, is_backwards) = cursor::parse_position(&params.after, &params.before, &mut notices);
    let (ledger, project) = (&app.store.ledger, &viewer.project);
    let list = ledger.executions_from(project, &filter, (place.as_ref(), is_backwards), n).await?;
    let mut other_parameters = viewer.parameters();
    other_parameters.extend(rows);
    let path = format!("{}/executions", viewer.base());
    let pairs = [other_parameters.clone(), parameters(&filter)].concat();
    let links = ListLinks { path: path.clone(), pairs };
    let is_later = is_backwards || place.is_some();
    let ends = [list.newer.as_ref(), list.older.as_ref()];
    let stopped = list.stopped.as_ref();
    let api = reference::equivalent_requests::executions(&viewer, &list.items);
    let view = ExecutionsPage {
        shell: viewer.shell(Section::Executions).with_api(api),
        path,
        filters: filters(&app, &viewer, &filter).await?,
        other_parameters,
        notices,
        stopped: stopped.map(|at| StoppedSearch {
            n_tested: Ledger::MAX_TESTED.into(),
            n_found: list.items.len() as u64,
            next_href: Some(links.at(at, is_backwards)),
        }),
        requeue: requeue_form(&viewer, &filter),
        page_links: PageLinks {
            first: is_later.then(|| links.first()),
            ..links.ways(ends, stopped, is_backwards)
        },
        lines: lines(&app, &viewer, &list).await?,
        is_later,
    };
    page(StatusCode::OK, &view)
}
