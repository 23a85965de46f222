//! View structs and templates of the pages.
//!
//! The page handlers of the server fill a view struct and call [`render`]. This crate has no access to storage, clock or
//! HTTP.
//!
//! Invariants:
//! - **External text is inert.** It is a [`Text`] or becomes [`Html`]; both escape it and make control characters
//!   visible. No other type builds HTML.
//! - **No inline script or style.** [`layout::assets::CONTENT_SECURITY_POLICY`] forbids both: time bars are SVG
//!   attributes, indentation is a class.
//! - **Pages work without script.** Scripts replace rows and the detail pane in place; every link also works as a
//!   page.
//! - **Bounded.** A page has at most [`ROW_WINDOW`] rows of a trace, and only these are rendered. Trees are traversed
//!   without recursion.

mod accounts;
mod backfills;
mod backtests;
mod connections;
mod datasets;
mod evaluators;
mod executions;
mod experiments;
mod facts;
pub mod format;
mod instance;
mod job_estimate;
mod job_progress;
mod keys;
pub mod layout;
mod lists;
pub mod markup;
pub mod openapi;
mod overview;
#[cfg(test)]
mod pages_tests;
mod plugins;
mod reference;
mod rules;
#[cfg(test)]
mod samples_tests;
mod scores;
mod session;
mod trace;
mod trials;
pub mod urls;
pub mod value_diff;
mod values;

pub use askama::{Error, Template};

pub use crate::format::{
    TraceState, clock, cost, count, date, dollars, duration, number, percent, plural,
    read_duration, size,
};
pub use crate::markup::{
    Html, Text, decode_segment, encode, segment, with_query, without_volatile_parts,
};
pub use crate::urls::{
    ApiRequest, END, FilterableList, Focus, MAX_COLUMNS, MAX_LIST, Moment, OBSERVATION_LIST,
    Parameter, ROWS, RowColumn, SCORE_LIST, SESSION_LIST, Sort, TRACE_LIST, TracesQuery, USER_LIST,
    UnknownParameters,
};
pub use accounts::{
    AccountPage, ConfirmPage, InvitationLine, LinkKind, LinkPage, MemberLine, MembersPage,
    OneTimeLinkPage, SessionLine, SetupAccountPage,
};
pub use backfills::{BackfillLine, BackfillPage, BackfillsPage};
pub use backtests::{
    BacktestLine, BacktestPage, BacktestScoreView, BacktestSegmentLine, BacktestsPage, FlipLine,
};
pub use connections::form::{
    ConnectionConflict, ConnectionFields, ConnectionFormPage, DeleteConnectionPage,
};
pub use connections::list::{ConnectionLine, ConnectionsPage, DefaultModelForm};
pub use connections::one::{
    ConnectionEvaluatorLine, ConnectionFailureLine, ConnectionModelLine, ConnectionPage,
    ConnectionTestCall, ConnectionTestView, EvaluatorPauseView,
};
pub use datasets::dataset::{
    ChangeLine, DatasetEditPage, DatasetHead, DatasetItemsPage, DatasetRunsPage,
    DatasetSchemasPage, DatasetUsePage, DatasetVersionsPage, ItemFilterView, ItemLine,
    SchemaImpactView, ValiditySummary, VersionDifference,
};
pub use datasets::editor::JsonEditor;
pub use datasets::from_traces::{FromTraceLine, FromTracesPage};
pub use datasets::import::{
    ImportColumnView, ImportLine, ImportPage, ImportProgressFragment, ImportRejectLine,
    ImportSettingsView, ImportStatePage,
};
pub use datasets::item::{
    ItemPage, ItemProblemsFragment, ItemRunLine, ItemSourceView, ItemVersionLine, StoredItemView,
};
pub use datasets::list::{DatasetLine, DatasetsPage, FolderLine};
pub use evaluators::definition::{DefinitionContent, EvaluatorDefinition};
pub use evaluators::editor::{
    CodeFields, ConfigControl, ConfigField, EvaluatorConflict, EvaluatorDefinitionFields,
    EvaluatorFormPage, EvaluatorHeadFields, ModelField, PluginFields, SourceProblem,
};
pub use evaluators::figures::{EvaluatorFiguresView, PeopleAgreement, VersionTrend};
pub use evaluators::gallery::{EvaluatorGalleryPage, GalleryEntry, GalleryGroup};
pub use evaluators::judge::{
    JudgeConflict, JudgeConnection, JudgeEditorPage, JudgeFields, JudgeMessage, MappingChoice,
    PromptMessageView, PromptPreview,
};
pub use evaluators::list::{EvaluatorLine, EvaluatorPauseSummary, EvaluatorsPage};
pub use evaluators::one::{DeleteEvaluatorPage, EvaluatorPage, EvaluatorUseLine};
pub use evaluators::versions::{EvaluatorVersionLine, VersionComparison};
pub use executions::{
    AttemptLine, CallLine, ExecutionLine, ExecutionNames, ExecutionPage, LogEntry,
};
pub use experiments::address::{ComparedRun, OutputDiff, RunsQuery};
pub use experiments::chart::{RunChart, RunPoint};
pub use experiments::compare::{
    ComparedItem, DirectionForm, ItemCell, ItemScoreChip, OutputView, RunComparisonPage,
    RunSelectionPage,
};
pub use experiments::deltas::DeltaChart;
pub use experiments::estimate::{Estimate, Unit};
pub use experiments::gate::{GateOutcome, GatePage, GateRecordLine, GateRequirementLine};
pub use experiments::item::{ComparedItemPage, ItemSide};
pub use experiments::list::{
    DeleteExperimentPage, ExperimentLine, ExperimentsPage, ItemCounts, RenameExperimentPage,
    RunTable, run_href,
};
pub use experiments::new::{ExperimentEstimate, NewExperimentPage, RunEstimateLine};
pub use experiments::run::{EvaluatorCountLine, RunItem, RunPage, RunScoreLine, ScoreSummary};
pub use experiments::verdict::{MetricVerdicts, SegmentVerdicts, VerdictInput, VerdictRow};
pub use facts::{side_tokens, total_tokens, utc_time};
pub use instance::{
    InstanceJobLine, InstancePage, InstancePart, InstanceProblemLine, InstanceProgressLine,
    InstanceQueueLine, RefusedLine,
};
pub use job_estimate::JobEstimateView;
pub use job_progress::JobProgressFragment;
pub use keys::{
    KeyLine, KeyPage, KeyRotationView, KeySecretPage, KeyState, KeysPage, NewKeyPage, RevokeKeyPage,
};
pub use layout::forms::{FlashMessage, FormContext, RejectedForm, Undo};
pub use layout::preferences::{Preferences, PreferencesPage, Theme};
pub use layout::setup::{RejectedRequest, Setup};
pub use layout::shell::{
    AttentionCounts, ProjectLink, Section, Shell, base, evaluator_href, execution_href, href,
    list_href, rule_href,
};
pub use layout::small_pages::{ErrorPage, LoginPage, LogoutPage, ScoresOnlyPage};
pub use lists::audit::{AUDIT_ROWS, AuditRow};
pub use lists::chips::{ScoreChip, score_chips};
pub use lists::column::{
    Cell, CellContent, CellContext, CellLayout, ChosenColumn, DeclaredCell, ExportedValue,
    ListColumn, ListTable, NamedColumns, TableStyle,
};
pub use lists::declaration::{ChoicePage, ChosenColumns, ListDeclaration, ListTexts, RowChoice};
pub use lists::executions::{EXECUTION_ROWS, ExecutionRow};
pub use lists::facets::{FacetsPage, FacetsView};
pub use lists::filter::{
    EmptyListCounts, FilterView, MAX_EXPORTED, SearchProgress, StoppedSearch, TermChip,
    export_links,
};
pub use lists::focus::FocusView;
pub use lists::groups::{
    GroupChip, GroupLine, GroupRow, GroupSetup, SESSION_ROWS, USER_ROWS, UserPage, session_table,
};
pub use lists::list::{
    ChoiceButton, DeferredPart, ListAction, ListChoice, ListNote, ListParts, ListView, PeekPanel,
    SelectFilter, UrlCondition, position_text,
};
pub use lists::news::{NewsFragment, StateFragment};
pub use lists::observations::{OBSERVATION_ROWS, ObservationLine};
pub use lists::page_links::PageLinks;
pub use lists::picker::ColumnPicker;
pub use lists::row_actions::{PageActions, RowActions};
pub use lists::search::{
    SearchContentsFragment, SearchEntry, SearchEntryGroup, SearchFragment, SearchPage,
    SearchResults,
};
pub use lists::suggest::{SuggestPage, Suggestion};
pub use lists::trace_line::{TraceContent, TraceLine};
pub use lists::trace_rows::TRACE_ROWS;
pub use overview::charts::{Chart, ChartBar, ChartPart, SO_FAR};
pub use overview::figure::{Figure, percent_change, point_change};
pub use overview::page::{AttentionItem, OverviewPage, RunLine};
pub use overview::trends::{
    DeferredTrend, ModelLine, ScoreAggregate, ScoreTrend, Trend, TrendPage,
};
pub use plugins::list::{PluginLine, PluginsPage};
pub use plugins::one::{
    DeletePluginPage, PluginChanges, PluginEvaluatorView, PluginGrant, PluginMoveLine, PluginPage,
    PluginUserLine, PluginVersionLine,
};
pub use plugins::upload::{ComponentReport, ComponentStep, PluginUploadPage};
pub use reference::{ReferenceGroupPage, ReferencePage, TryPage};
pub use rules::chosen::RuleRunPage;
pub use rules::editor::{
    EvaluatorChoice, RuleConflict, RuleEditorPage, RuleFields, RulePreviewExampleView,
    RulePreviewView,
};
pub use rules::page::{
    AssignmentLine, DefinitionChange, FailureLine, FunnelPart, FunnelStep, PauseView,
    RuleChangeLine, RuleExplanation, RuleFunnelFragment, RulePage,
};
pub use rules::schedule::{FiringLine, RuleScheduleView};
pub use rules::{ExampleEvaluator, RuleRow, RulesPage};
pub use scores::analytics::{
    CategoryLine, ComparedScoreLine, PairCellView, PairLine, PairRow, ScoreAnalyticsPage,
    ScoreBinLine, ScoreComparisonView, ScoreDistributionView, ScoreGroupLine, ScoreGroupTable,
    ScoreSelectionForm,
};
pub use scores::list::{SCORE_ROWS, ScoreLine, ScoreRow, ScoreSetup};
pub use scores::score::{
    OriginView, ResourceLink, RuleOutcome, RuleRange, ScoreView, Tone, aggregate, anchor,
    score_value,
};
pub use scores::thresholds::{ScoreThresholdLine, ScoreThresholdsPage, ScoreThresholdsView};
pub use session::page::{SessionPage, TURNS_PER_PAGE, Turn, TurnHits, TurnInput};
pub use trace::annotations::{AnnotatedScore, AnnotationsInput, CommentLine};
pub use trace::compare::{
    COMPARED_ROWS, CompareInput, ComparePage, CompareQuery, CompareSelectionPage, CompareSide,
    ComparedObservation, ContentFingerprints, ObservationFingerprints, ScoresByName,
};
pub use trace::find::{FindInput, FindPage};
pub use trace::header::{HeadInput, Neighbours, RowState, TraceView, TypedRange, ViewParams};
pub use trace::log::{LOG_PAGE_SIZE, LogInput, LogPage};
pub use trace::observation_scores::{ObservationScore, ObservationScores};
pub use trace::page::{DetailInput, DetailPage, TraceInput, TracePage};
pub use trace::peek::{CellPage, Peek, PeekInput, PeekPage};
pub use trace::rows::{ROW_WINDOW, RowsInput, RowsPage};
pub use trace::thread::{CALLS_PER_PAGE, Call, EnclosingAgent, ThreadInput, ThreadPage};
pub use trials::{EvaluatorTryPage, TrialResultsView, TrialRow, TrialView};
pub use values::content::{
    Addresses, Block, Form, Forms, InlineMedium, MAX_PATH, MessageSelection, ValueParams,
    inline_medium, inline_type, node,
};
pub use values::diff::{Diff, DiffChoice, value_fingerprint};
pub use values::page::{ValueInput, ValuePage, ValueView};
pub use values::preview::{Preview, beginning};

/// The HTML of a page.
///
/// # Errors
/// Only when formatting into memory fails, which is a bug in a template.
pub fn render(page: &impl Template) -> Result<String, Error> {
    page.render()
}
