//! `GET P/observations`: the observations of all traces, newest first, and the same list as a file.

use perpend_domain::access::Permission::DatasetWrite;
use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::{Condition, Filter, OBSERVATIONS, Order, Test, find};
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_domain::query::print_condition;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::ScoredSubject;
use perpend_views::{
    ApiRequest, ListChoice, ListDeclaration, ListView, OBSERVATION_ROWS, ObservationLine,
    Parameter, Text, encode, with_query,
};

use crate::list::params::ListRequest;
use crate::list::source::{ListBounds, ListConditions, ListSource, OwnParameters};
use crate::read;
use crate::reference;
use crate::request::viewer::{Viewer, focus_of};
use crate::rules::links::new_rule_href;
use crate::state::App;

/// Newest scores of an observation that a row shows.
const MAX_SCORES: u32 = 50;

/// Bytes of the URL of a list that other pages repeat.
const MAX_LIST: usize = 4_000;

/// The observations of a project.
pub(crate) struct Observations {
    app: App,
    viewer: Viewer,
}

fn is_of_environment(condition: &Condition) -> bool {
    let is_environment = condition.column.is_some_and(|own| own.id == "environment");
    is_environment && !matches!(condition.test, Test::NoneOf(_))
}

/// All conditions, with the exclusion of internal environments unless environments are selected.
fn whole_filter(conditions: &ListConditions) -> Filter {
    let mut all = conditions.filter.conditions.clone();
    let (from, to) = conditions.range;
    for (order, at) in [(Order::AtLeast, from), (Order::Less, to)] {
        let test = at.map(|at| Test::Time(order, at));
        let column = find(OBSERVATIONS, "startTime");
        all.extend(test.map(|test| Condition { column, test }));
    }
    if !conditions.environments.is_empty() {
        let test = Test::AnyOf(conditions.environments.clone());
        all.push(Condition { column: find(OBSERVATIONS, "environment"), test });
    } else if !all.iter().any(is_of_environment) {
        all.push(read::exclude_internal(OBSERVATIONS));
    }
    Filter { conditions: all }
}

/// The filter of the list with this query string as text, with its time range and environments; `None` if a condition
/// has no text.
pub(crate) fn query_of_list(app: &App, viewer: &Viewer, query: Option<&str>) -> Option<String> {
    let mut viewer = viewer.clone();
    viewer.focus = focus_of(query.unwrap_or_default()).0;
    let request = ListRequest::<Observations>::new(app, viewer, query).ok()?;
    let filter = whole_filter(&request.conditions);
    let terms = filter.conditions.iter().map(print_condition);
    Some(terms.collect::<Option<Vec<String>>>()?.join(" "))
}

/// The form that adds observations of a list to a dataset; absent if the URL of the list is too long.
fn choice(view: &ListView) -> Option<ListChoice> {
    let q = view.filter.as_ref().map(|filter| filter.q.clone()).filter(|q| !q.is_empty());
    let q: Option<Parameter> = q.map(|q| ("q".into(), q));
    let pairs: Vec<Parameter> = view.other_parameters.iter().cloned().chain(q).collect();
    let list = with_query("/observations", &pairs);
    let action = format!("{}/dataset-items/from-traces", view.shell.base());
    let all = format!("{action}?in={}", encode(&list));
    (list.len() <= MAX_LIST).then(|| ListChoice {
        action,
        fields: vec![("in", list)],
        label: "Add to dataset",
        all: ("Add all matches to a dataset", all),
    })
}

impl ListSource for Observations {
    type Item = StoredObservation;
    type Row = ObservationLine;

    const MAX_TESTED: u64 = read::MAX_TESTED;

    fn declaration() -> &'static ListDeclaration<ObservationLine> {
        &OBSERVATION_ROWS
    }

    fn new(
        (app, viewer): (&App, &Viewer),
        _: &OwnParameters,
        _: &Filter,
        _: &mut Vec<Text>,
    ) -> Self {
        Self { app: app.clone(), viewer: viewer.clone() }
    }

    async fn read(
        &self,
        conditions: &ListConditions,
        position: &ListPosition,
        bounds: ListBounds,
    ) -> Result<BidirectionalPage<StoredObservation>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let filter = whole_filter(conditions);
        let bounds = (bounds.limit, bounds.max_tested);
        Ok(telemetry.observations_from(project, &filter, position, bounds).await?)
    }

    async fn rows(&self, items: Vec<StoredObservation>) -> Result<Vec<ObservationLine>, Problem> {
        let observations = items.iter().map(|stored| &stored.observation);
        let subjects: Vec<ScoredSubject<'_>> =
            observations.map(|own| ScoredSubject::Observation(&own.trace_id, &own.id)).collect();
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let scores = telemetry.newest_scores(project, &subjects, MAX_SCORES).await?;
        let rows = items.into_iter().zip(scores);
        Ok(rows.map(|(stored, scores)| ObservationLine { stored, scores }).collect())
    }

    fn time_of(item: &StoredObservation) -> Timestamp {
        item.observation.start
    }

    fn api(
        &self,
        conditions: &ListConditions,
        _: &[StoredObservation],
        page: (u32, bool),
    ) -> Vec<ApiRequest> {
        let filter = whole_filter(conditions);
        let request = reference::equivalent_requests::observations(&self.viewer, &filter, page);
        request.into_iter().collect()
    }

    async fn complete(&self, view: ListView) -> Result<ListView, Problem> {
        let choice = match self.viewer.may(DatasetWrite) {
            true => choice(&view),
            false => None,
        };
        let q = view.filter.as_ref().map(|filter| filter.q.as_str()).unwrap_or_default();
        let score_href = new_rule_href(&self.viewer, TargetKind::Observation, q);
        let view = ListView { score_href, ..view };
        Ok(match choice {
            Some(_) => ListView { table: view.table.with_choice("observation"), choice, ..view },
            None => view,
        })
    }

    fn hides_internal(&self, conditions: &ListConditions) -> bool {
        conditions.environments.is_empty()
            && !conditions.filter.conditions.iter().any(is_of_environment)
    }
}
