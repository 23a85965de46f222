//! Format of exported rows: as in the API, one column per field, names with underscores.

use perpend_api_types::observation::{FieldGroups, FullObservation, GroupedObservation};
use perpend_api_types::score::ScoreV2;
use perpend_api_types::trace::{Trace, TraceFields};
use perpend_catalog::blob_exports::{ExportSettings, ExportSource};
use perpend_catalog::{Categories, ObservationReferences};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{ChangeCursor, ChangeWindow};
use serde_json::{Value, json};

use super::state::App;

/// A table of an export, and the folder of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExportTable {
    Traces,
    Observations,
    ObservationsV2,
    Scores,
}

/// Groups of columns of observations: columns of the first version, and of the second version.
const GROUPS: [(&str, &[&str], &[&str]); 11] = [
    ("core", CORE, CORE),
    (
        "basic",
        &["name", "level", "statusMessage", "version", "environment"],
        &[
            "name",
            "level",
            "statusMessage",
            "version",
            "environment",
            "userId",
            "sessionId",
            "public",
            "isRootObservation",
        ],
    ),
    ("time", TIME, TIME),
    ("io", &["input", "output"], &["input", "output"]),
    ("metadata", &["metadata"], &["metadata"]),
    (
        "model",
        &["model", "modelId", "modelParameters"],
        &["providedModelName", "modelId", "modelParameters"],
    ),
    (
        "usage",
        &[
            "usageDetails",
            "costDetails",
            "calculatedInputCost",
            "calculatedOutputCost",
            "calculatedTotalCost",
        ],
        &["usageDetails", "costDetails", "totalCost"],
    ),
    ("prompt", PROMPT, PROMPT),
    ("metrics", METRICS, METRICS),
    ("tools", &["calledToolNames"], &["calledToolNames"]),
    ("trace_context", &[], &["tags", "release", "traceName"]),
];
const CORE: &[&str] =
    &["id", "traceId", "projectId", "parentObservationId", "type", "startTime", "endTime"];
const TIME: &[&str] = &["completionStartTime", "createdAt", "updatedAt"];
const PROMPT: &[&str] = &["promptId", "promptName", "promptVersion"];
const METRICS: &[&str] = &["latency", "timeToFirstToken"];
const TRACE: &[&str] = &[
    "id",
    "projectId",
    "timestamp",
    "name",
    "environment",
    "userId",
    "sessionId",
    "release",
    "version",
    "public",
    "bookmarked",
    "tags",
    "input",
    "output",
    "metadata",
    "latency",
    "totalCost",
    "createdAt",
    "updatedAt",
];
const SCORE: &[&str] = &[
    "id",
    "projectId",
    "timestamp",
    "name",
    "dataType",
    "value",
    "stringValue",
    "source",
    "environment",
    "traceId",
    "observationId",
    "sessionId",
    "datasetRunId",
    "comment",
    "metadata",
    "configId",
    "queueId",
    "authorUserId",
    "origin",
    "createdAt",
    "updatedAt",
];

/// Names of the groups.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, ..)| *name)
}

/// `parentObservationId` as `parent_observation_id`.
fn with_underscores(name: &str) -> String {
    let mut column = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            column.push('_');
        }
        column.push(c.to_ascii_lowercase());
    }
    column
}

/// A page of rows.
#[derive(Debug, Default)]
pub(super) struct RowPage {
    /// One value per column.
    pub(super) values: Vec<Vec<Value>>,
    /// The position of the last row.
    pub(super) last: Option<ChangeCursor>,
    /// Whether the page is full, so that there may be more rows.
    pub(super) is_full: bool,
}

/// Range of rows to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportRange<'a> {
    pub(super) project: &'a ProjectId,
    pub(super) window: &'a ChangeWindow,
    pub(super) after: Option<&'a ChangeCursor>,
    pub(super) limit: u32,
}

impl ExportTable {
    /// The tables of a source.
    pub(super) const fn of(source: ExportSource) -> &'static [Self] {
        match source {
            ExportSource::Older => &[Self::Traces, Self::Observations, Self::Scores],
            ExportSource::ObservationsV2 => &[Self::ObservationsV2, Self::Scores],
            ExportSource::Both => {
                &[Self::Traces, Self::Observations, Self::ObservationsV2, Self::Scores]
            }
        }
    }

    /// The folder of its files.
    pub(super) const fn folder(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Observations => "observations",
            Self::ObservationsV2 => "observations_v2",
            Self::Scores => "scores",
        }
    }

    /// Fields of the API that are its columns.
    fn fields(self, settings: &ExportSettings) -> Vec<&'static str> {
        let has = |group: &str| {
            settings.field_groups.is_empty()
                || settings.field_groups.iter().any(|name| name == group)
        };
        let chosen = GROUPS.iter().filter(|(name, ..)| has(name));
        match self {
            Self::Traces => TRACE.to_vec(),
            Self::Scores => SCORE.to_vec(),
            Self::Observations => chosen.flat_map(|(_, older, _)| older.iter().copied()).collect(),
            Self::ObservationsV2 => {
                chosen.flat_map(|(_, _, newer)| newer.iter().copied()).collect()
            }
        }
    }

    /// Names of its columns.
    pub(super) fn columns(self, settings: &ExportSettings) -> Vec<String> {
        let fields = self.fields(settings);
        fields.into_iter().map(with_underscores).collect()
    }

    /// Whether rows have content of senders, which may be long.
    pub(super) fn has_content(self, settings: &ExportSettings) -> bool {
        let fields = self.fields(settings);
        ["input", "metadata"].iter().any(|field| fields.contains(field))
    }

    /// The changed rows of the window after a position.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn rows(
        self,
        app: &App,
        settings: &ExportSettings,
        range: ExportRange<'_>,
    ) -> Result<RowPage, perpend_db::Error> {
        let ReadRows { views, last, is_full } = match self {
            Self::Traces => trace_views(app, range).await?,
            Self::Scores => score_views(app, range).await?,
            Self::Observations | Self::ObservationsV2 => {
                self.observation_views(app, settings, range).await?
            }
        };
        let fields = self.fields(settings);
        let values = views.into_iter().map(|mut view| {
            let mut take = |field: &&str| view.get_mut(*field).map(Value::take).unwrap_or_default();
            fields.iter().map(&mut take).collect()
        });
        Ok(RowPage { values: values.collect(), last, is_full })
    }

    async fn observation_views(
        self,
        app: &App,
        settings: &ExportSettings,
        range: ExportRange<'_>,
    ) -> Result<ReadRows, perpend_db::Error> {
        let read = app.store.telemetry.changed_observations(
            range.project,
            range.window,
            range.after,
            (range.limit, self.has_content(settings)),
        );
        let (read, is_cut) = read.await?;
        let last = read.last().map(|(place, _)| place.clone());
        let is_full = is_cut || read.len() == range.limit as usize;
        let groups = FieldGroups::new(groups().map(str::to_owned).collect(), Vec::new());
        // Records of traces are no observations; the traces contain their data.
        let observations = read.into_iter().map(|(_, stored)| stored);
        let observations = observations.filter(|stored| !stored.observation.is_trace_record());
        let observations: Vec<_> = observations.collect();
        let named = observations.iter().map(|stored| &stored.observation);
        let (catalog, now) = (&app.store.catalog, app.clock.now());
        let known =
            ObservationReferences::of(catalog, &app.prices, range.project, named, now).await?;
        let views = observations.into_iter().map(|stored| {
            let tools = json!(stored.observation.called_tools);
            // Not shortened, unlike in lists.
            let metadata = json!(stored.observation.content.metadata);
            let named = known.named_by(&stored.observation);
            let mut view = match self {
                Self::ObservationsV2 => {
                    json!(GroupedObservation::new(range.project, stored, &groups, named))
                }
                _ => json!(FullObservation::new(stored, named)),
            };
            view["projectId"] = json!(range.project);
            view["calledToolNames"] = tools;
            view["metadata"] = metadata;
            view
        });
        Ok(ReadRows { views: views.collect(), last, is_full })
    }
}

/// Rows in the form of the API.
struct ReadRows {
    views: Vec<Value>,
    /// The position of the last row.
    last: Option<ChangeCursor>,
    /// Whether there may be more rows.
    is_full: bool,
}

async fn trace_views(app: &App, range: ExportRange<'_>) -> Result<ReadRows, perpend_db::Error> {
    let read =
        app.store.telemetry.changed_traces(range.project, range.window, range.after, range.limit);
    let (read, is_cut) = read.await?;
    let last = read.last().map(|(place, _)| place.clone());
    let is_full = is_cut || read.len() == range.limit as usize;
    let view = |(_, stored)| json!(Trace::new(range.project, stored, TraceFields::ALL));
    Ok(ReadRows { views: read.into_iter().map(view).collect(), last, is_full })
}

async fn score_views(app: &App, range: ExportRange<'_>) -> Result<ReadRows, perpend_db::Error> {
    let read =
        app.store.telemetry.changed_scores(range.project, range.window, range.after, range.limit);
    let (read, is_cut) = read.await?;
    let scores = || read.iter().map(|(_, score)| score);
    let categories = Categories::of(&app.store.catalog, range.project, scores()).await?;
    let view = |score| {
        let number_of = |label: &str| categories.number(score, label);
        let mut view = json!(ScoreV2::new(score, number_of));
        view["projectId"] = json!(range.project);
        view
    };
    let last = read.last().map(|(place, _)| place.clone());
    Ok(ReadRows {
        views: scores().map(view).collect(),
        last,
        is_full: is_cut || read.len() == range.limit as usize,
    })
}
