//! `GET P/observations`: the observations of all traces, newest first, and the same list as a file.

use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::OBSERVATIONS;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::ScoredSubject;
use perpend_views::{ApiRequest, ListDeclaration, OBSERVATION_ROWS, ObservationLine};

use crate::list::source::{
    ListConditions, ListQuery, ListScope, ListSource, PageResult, ShownPage,
};
use crate::reference::equivalent_requests;
use crate::request::viewer::Viewer;

/// Newest scores of an observation that a row shows.
const MAX_SCORES: u32 = 50;

/// The observations of a project.
#[derive(Default)]
pub(crate) struct Observations;

impl ListSource for Observations {
    type Item = StoredObservation;
    type Row = ObservationLine;

    const LIST: &'static ListDeclaration<ObservationLine> = &OBSERVATION_ROWS;
    const TIME_COLUMN: &'static str = "startTime";
    const RULE_TARGET: Option<TargetKind> = Some(TargetKind::Observation);

    async fn read(&self, scope: &ListScope, query: ListQuery<'_>) -> PageResult<StoredObservation> {
        let (telemetry, project) = scope.telemetry();
        let filter = query.conditions.whole(OBSERVATIONS, Self::TIME_COLUMN);
        let bounds = (query.limit, query.max_tested);
        Ok(telemetry.observations_from(project, &filter, query.position, bounds).await?)
    }

    async fn rows(
        &self,
        scope: &ListScope,
        items: Vec<StoredObservation>,
    ) -> Result<Vec<ObservationLine>, Problem> {
        let observations = items.iter().map(|stored| &stored.observation);
        let subjects: Vec<ScoredSubject<'_>> =
            observations.map(|own| ScoredSubject::Observation(&own.trace_id, &own.id)).collect();
        let (telemetry, project) = scope.telemetry();
        let scores = telemetry.newest_scores(project, &subjects, MAX_SCORES).await?;
        let rows = items.into_iter().zip(scores);
        Ok(rows.map(|(stored, scores)| ObservationLine { stored, scores }).collect())
    }

    fn time_of(item: &StoredObservation) -> Timestamp {
        item.observation.start
    }

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, StoredObservation>) -> Vec<ApiRequest> {
        let filter = page.conditions.whole(OBSERVATIONS, Self::TIME_COLUMN);
        let page = (page.n, page.is_later);
        equivalent_requests::observations(viewer, &filter, page).into_iter().collect()
    }

    async fn count_new(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
        since: (Timestamp, u32),
    ) -> Result<(u64, bool), Problem> {
        let (telemetry, project) = scope.telemetry();
        let among = conditions.environment_filter();
        Ok(telemetry.observations_since(project, conditions.range, among, since).await?)
    }
}
