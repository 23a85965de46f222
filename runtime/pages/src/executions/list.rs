//! `GET P/executions`: the executions of a project, newest first, and the same list as a file.

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{EndReason, Execution, ExecutionState, NoCallReason};
use perpend_domain::filter::Filter;
use perpend_domain::ids::{EvaluatorId, ExecutionId, RuleId};
use perpend_domain::plugin::FailureClass;
use perpend_domain::time::Timestamp;
use perpend_executions::{ExecutionFilter, Ledger};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, EXECUTION_ROWS, ExecutionLine, ExecutionRow, ListAction, ListDeclaration, ListView,
    RulesPage, SelectFilter, Text, count,
};

use crate::executions::names::Names;
use crate::executions::requeue::MAX_REQUEUED;
use crate::list::source::{
    ListQuery, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters, PageResult,
    ShownPage, ViewResult, is,
};
use crate::reference::equivalent_requests;
use crate::request::viewer::Viewer;

/// The executions of a project.
#[derive(Default)]
pub(crate) struct Executions {
    own: OwnParameters,
    filter: ExecutionFilter,
}

impl Executions {
    async fn selects(&self, scope: &ListScope) -> Result<Vec<SelectFilter>, Problem> {
        let (catalog, project) = (&scope.app.store.catalog, &scope.viewer.project);
        let rules = catalog.rules(project, None, RulesPage::LIMIT).await?.items.into_iter();
        let rules = rules.map(|rule| (rule.id.to_string(), Text::from(rule.name)));
        let found = catalog.evaluators(project, None, RulesPage::LIMIT).await?.items.into_iter();
        let evaluators = found.map(|own| (own.id.to_string(), Text::from(own.name)));
        let word = |word: &'static str| (word.to_owned(), Text::from(word));
        let states = ExecutionState::ALL.iter().map(|state| word(state.as_str()));
        let called = FailureClass::ALL.iter().map(|class| word(class.as_str()));
        let classes = called.chain(NoCallReason::ALL.iter().map(|reason| word(reason.as_str())));
        let own = |name| self.own.text(name);
        Ok(vec![
            SelectFilter::new(("state", "State"), states, own("state")),
            SelectFilter::new(("class", "Error class"), classes, own("class")),
            SelectFilter::new(("rule", "Rule"), rules, own("rule")),
            SelectFilter::new(("evaluator", "Evaluator"), evaluators, own("evaluator")),
        ])
    }

    /// The form that requeues the failed executions of the filter. The function behind it does not select by evaluator.
    fn requeue_form(&self, viewer: &Viewer) -> Option<ListAction> {
        let filter = &self.filter;
        let is_failed = filter.state == Some(ExecutionState::Failed) && filter.evaluator.is_none();
        (is_failed && viewer.may(EvaluatorWrite)).then(|| {
            let fields = ["class", "rule"].map(|name| (name, self.own.text(name).to_owned()));
            let fields: Vec<(&'static str, String)> =
                fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
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

    const LIST: &'static ListDeclaration<ExecutionRow> = &EXECUTION_ROWS;
    const PARAMETERS: &'static [OwnParameter] = &[
        OwnParameter::new("state", "a state of an execution", is::<ExecutionState>),
        OwnParameter::new("class", "an error class", is::<EndReason>),
        OwnParameter::new("rule", "the id of a rule", is::<RuleId>),
        OwnParameter::new("evaluator", "the id of an evaluator", is::<EvaluatorId>),
    ];
    const MAX_TESTED: u64 = Ledger::MAX_TESTED as u64;

    fn apply(&mut self, own: &OwnParameters, _: &Filter, _: &mut Vec<Text>) {
        self.filter = ExecutionFilter {
            state: own.parsed("state"),
            class: own.parsed("class"),
            rule: own.parsed("rule"),
            evaluator: own.parsed("evaluator"),
        };
        self.own = own.clone();
    }

    async fn read(&self, scope: &ListScope, query: ListQuery<'_>) -> PageResult<Execution> {
        let (ledger, project) = (&scope.app.store.ledger, &scope.viewer.project);
        let page = ledger.executions_from(project, &self.filter, query.position, query.limit);
        Ok(page.await?)
    }

    async fn rows(
        &self,
        ListScope { app, viewer }: &ListScope,
        items: Vec<Execution>,
    ) -> Result<Vec<ExecutionRow>, Problem> {
        let names = Names::read(app, viewer, &items).await?;
        let ids: Vec<ExecutionId> = items.iter().map(|each| each.made.id.clone()).collect();
        let costs = app.store.ledger.execution_costs(&viewer.project, &ids).await?;
        let (base, may_requeue) = (viewer.base(), viewer.may(EvaluatorWrite));
        let row = |execution: Execution| {
            let cost = costs.get(&execution.made.id).copied();
            let line = ExecutionLine::new(&execution, names.of(&execution), cost, &base);
            let line = if may_requeue { line.requeueable() } else { line };
            ExecutionRow { execution, line, cost }
        };
        Ok(items.into_iter().map(row).collect())
    }

    fn time_of(item: &Execution) -> Timestamp {
        item.created_at
    }

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, Execution>) -> Vec<ApiRequest> {
        equivalent_requests::executions(viewer, page.items)
    }

    async fn complete(&self, request: &ListRequest<Self>, view: ListView) -> ViewResult {
        let action = self.requeue_form(&request.scope.viewer);
        Ok(ListView { selects: self.selects(&request.scope).await?, action, ..view })
    }
}
