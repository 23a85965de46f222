//! Metric queries of the overview and of the page of a user, over one time range and the selected environments.

use perpend_domain::filter::{
    Column, Condition, Filter, OBSERVATIONS, SCORES, TRACES, Test, TextOp, find,
};
use perpend_domain::metrics::{
    Aggregation, Granularity, Metric, MetricGroup, MetricQuery, MetricView,
};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;

use crate::request::viewer::Viewer;
use crate::state::App;

/// Start and end; the end is excluded.
pub(crate) type Range = (Timestamp, Timestamp);

/// Reads metrics of a time range in the selected environments.
#[derive(Clone, Copy)]
pub(crate) struct MetricReader<'a> {
    pub(crate) app: &'a App,
    pub(crate) viewer: &'a Viewer,
    pub(crate) range: Range,
    /// Restricts the rows to this user.
    pub(crate) user: Option<&'a str>,
}

impl MetricReader<'_> {
    /// The period of a bar in a chart of the range.
    pub(crate) fn granularity(&self) -> Granularity {
        Granularity::for_range(self.range.0, self.range.1)
    }

    /// Conditions on the rows. Without a selected environment, those of a user include internal environments, as in the list of users.
    fn rows(&self, columns: &'static [Column]) -> Vec<Condition> {
        let Some(user) = self.user else {
            return vec![self.viewer.environments(columns)];
        };
        let mut all = vec![Condition {
            column: find(columns, "userId"),
            test: Test::Text(TextOp::Equal, user.to_owned()),
        }];
        if !self.viewer.focus.environments.is_empty() {
            all.push(self.viewer.environments(columns));
        }
        all
    }

    /// Groups of metrics by dimensions, with the names of the API.
    pub(crate) async fn read(
        &self,
        view: MetricView,
        dimensions: &[&str],
        metrics: &[(&str, Aggregation)],
        granularity: Option<Granularity>,
    ) -> Result<Vec<MetricGroup>, Problem> {
        self.read_where(view, dimensions, metrics, granularity, Vec::new()).await
    }

    /// Like [`read`](Self::read), for rows that also match these conditions.
    pub(crate) async fn read_where(
        &self,
        view: MetricView,
        dimensions: &[&str],
        metrics: &[(&str, Aggregation)],
        granularity: Option<Granularity>,
        mut conditions: Vec<Condition>,
    ) -> Result<Vec<MetricGroup>, Problem> {
        let columns = match view {
            MetricView::Traces => TRACES,
            MetricView::Observations => OBSERVATIONS,
            _ => SCORES,
        };
        let metric = |(name, aggregation): &(&str, Aggregation)| {
            let measure = view.measure(name)?;
            Some(Metric { measure, aggregation: *aggregation })
        };
        conditions.extend(self.rows(columns));
        let question = MetricQuery {
            view,
            with_booleans: view == MetricView::ScoresNumeric,
            dimensions: dimensions.iter().filter_map(|name| view.dimension(name)).collect(),
            metrics: metrics.iter().filter_map(metric).collect(),
            filter: Filter { conditions },
            from: self.range.0,
            to: self.range.1,
            granularity,
            top: None,
        };
        let telemetry = &self.app.store.telemetry;
        Ok(telemetry.metrics(&self.viewer.project, &question).await?)
    }
}
