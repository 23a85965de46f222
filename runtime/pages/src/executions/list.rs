//! `GET P/executions`: the executions of a project, newest first, and the same list as a file.

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{EndReason, Execution, ExecutionState, NoCallReason};
use perpend_domain::filter::Filter;
use perpend_domain::ids::{EvaluatorId, ExecutionId, RuleId};
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_domain::plugin::FailureClass;
use perpend_domain::time::Timestamp;
use perpend_executions::{ExecutionFilter, Ledger};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, EXECUTION_ROWS, ExecutionRow, ListAction, ListDeclaration, ListView, Parameter,
    RulesPage, SelectFilter, Text, count,
};

use crate::executions::names::Names;
use crate::executions::requeue::MAX_REQUEUED;
use crate::list::source::{ListBounds, ListConditions, ListSource, OwnParameters};
use crate::reference;
use crate::request::viewer::Viewer;
use crate::state::App;

/// The executions of a project.
pub(crate) struct Executions {
    app: App,
    viewer: Viewer,
    filter: ExecutionFilter,
}

/// The value of a filter parameter. An invalid one adds a notice.
fn value<T: std::str::FromStr>(
    own: &OwnParameters,
    (name, expected): (&str, &str),
    notices: &mut Vec<Text>,
) -> Option<T> {
    let raw = own.get(name)?.trim();
    let value = raw.parse().ok();
    if value.is_none() && !raw.is_empty() {
        let raw: String = raw.chars().take(100).collect();
        notices.push(Text::from(format!("`{name}` must be {expected}, got `{raw}`; ignored.")));
    }
    value
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

impl Executions {
    async fn selects(&self) -> Result<Vec<SelectFilter>, Problem> {
        let (catalog, project) = (&self.app.store.catalog, &self.viewer.project);
        let filter = &self.filter;
        let rules = catalog.rules(project, None, RulesPage::LIMIT).await?.items.into_iter();
        let rules = rules.map(|rule| (rule.id.to_string(), Text::from(rule.name)));
        let evaluators = catalog.evaluators(project, None, RulesPage::LIMIT).await?;
        let evaluators = evaluators.items.into_iter();
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
    fn requeue_form(&self) -> Option<ListAction> {
        let (viewer, filter) = (&self.viewer, &self.filter);
        let is_failed = filter.state == Some(ExecutionState::Failed) && filter.evaluator.is_none();
        (is_failed && viewer.may(EvaluatorWrite)).then(|| {
            let fields = [
                ("class", filter.class.map(|class| class.as_str().to_owned())),
                ("rule", filter.rule.as_ref().map(RuleId::to_string)),
            ];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let fields: Vec<(&'static str, String)> = fields.collect();
            let of =
                if fields.is_empty() { "failed executions" } else { "matching failed executions" };
            ListAction {
                action: format!("{}/failed-executions/requeue", viewer.base()),
                label: format!("Requeue {of} (at most {})", count(MAX_REQUEUED.into())),
                fields,
            }
        })
    }
}

impl ListSource for Executions {
    type Item = Execution;
    type Row = ExecutionRow;

    const PARAMETERS: &'static [&'static str] = &["state", "class", "rule", "evaluator"];
    const MAX_TESTED: u64 = Ledger::MAX_TESTED as u64;

    fn declaration() -> &'static ListDeclaration<ExecutionRow> {
        &EXECUTION_ROWS
    }

    fn new(
        (app, viewer): (&App, &Viewer),
        own: &OwnParameters,
        _: &Filter,
        notices: &mut Vec<Text>,
    ) -> Self {
        let filter = ExecutionFilter {
            state: value(own, ("state", "a state of an execution"), notices),
            class: value(own, ("class", "an error class"), notices),
            rule: value(own, ("rule", "the id of a rule"), notices),
            evaluator: value(own, ("evaluator", "the id of an evaluator"), notices),
        };
        Self { app: app.clone(), viewer: viewer.clone(), filter }
    }

    async fn read(
        &self,
        _: &ListConditions,
        position: &ListPosition,
        bounds: ListBounds,
    ) -> Result<BidirectionalPage<Execution>, Problem> {
        let (ledger, project) = (&self.app.store.ledger, &self.viewer.project);
        Ok(ledger.executions_from(project, &self.filter, position, bounds.limit).await?)
    }

    async fn rows(&self, items: Vec<Execution>) -> Result<Vec<ExecutionRow>, Problem> {
        let (app, viewer) = (&self.app, &self.viewer);
        let names = Names::read(app, viewer, &items).await?;
        let ids: Vec<ExecutionId> = items.iter().map(|each| each.made.id.clone()).collect();
        let costs = app.store.ledger.execution_costs(&viewer.project, &ids).await?;
        let (base, may_requeue) = (viewer.base(), viewer.may(EvaluatorWrite));
        let row = |each: Execution| {
            let (names, cost) = (names.of(&each), costs.get(&each.made.id).copied());
            ExecutionRow::new(each, names, cost, (base.as_str(), may_requeue))
        };
        Ok(items.into_iter().map(row).collect())
    }

    fn time_of(item: &Execution) -> Timestamp {
        item.created_at
    }

    fn api(&self, _: &ListConditions, items: &[Execution], _: (u32, bool)) -> Vec<ApiRequest> {
        reference::equivalent_requests::executions(&self.viewer, items)
    }

    fn parameters(&self) -> Vec<Parameter> {
        let filter = &self.filter;
        let all = [
            ("state", filter.state.map(|state| state.as_str().to_owned())),
            ("class", filter.class.map(|class| class.as_str().to_owned())),
            ("rule", filter.rule.as_ref().map(RuleId::to_string)),
            ("evaluator", filter.evaluator.as_ref().map(EvaluatorId::to_string)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect()
    }

    async fn complete(&self, view: ListView) -> Result<ListView, Problem> {
        Ok(ListView { selects: self.selects().await?, action: self.requeue_form(), ..view })
    }
}
