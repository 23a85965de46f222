//! OpenAPI schemas of the types of this crate.

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::backfill::{BackfillMode, BackfillReason, BackfillState};
use crate::backtest::{BacktestReason, SegmentKind};
use crate::budget::{BudgetScope, BudgetWindow, OnReached};
use crate::dataset::ItemStatus;
use crate::evaluation::{CompletionReason, ExecutionState, LatePolicy, OnMissing, TargetKind};
use crate::ids::{
    AssignmentId, EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, ProjectId, RuleId,
    ScoreId, TraceId,
};
use crate::model::{AttributeSource, TierOperator};
use crate::observation::{Level, ObservationKind};
use crate::plugin::Digest;
use crate::prompt::PromptKind;
use crate::score::{ScoreDataType, ScoreSource};
use crate::score_config::ScoreDirection;
use crate::server_run::RunState;
use crate::time::Timestamp;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

macro_rules! texts {
    ($($name:ident: $about:literal,)*) => {
        $(impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                text().description(Some($about)).build().into()
            }
        }

        impl ToSchema for $name {})*
    };
}

texts! {
    ProjectId: "A project.",
    TraceId: "A trace, unique within its project.",
    ObservationId: "An observation, unique within its trace.",
    ScoreId: "A score, unique within its project.",
    EvaluatorId: "An evaluator, stable over its versions.",
    EvaluatorVersionId: "One immutable version of an evaluator.",
    RuleId: "An evaluation rule.",
    AssignmentId: "One evaluator in one rule.",
    ExecutionId: "An execution of an evaluator over a target.",
    Digest: "SHA-256 as 64 lower-case hex digits: of a component, or of all that produces a score.",
}

macro_rules! names {
    ($($name:ident,)*) => {
        $(impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let names = Self::ALL.iter().map(|value| value.as_str());
                text().enum_values(Some(names)).build().into()
            }
        }

        impl ToSchema for $name {})*
    };
}

names! {
    ObservationKind, Level, ScoreSource, ScoreDataType, TargetKind, OnMissing, LatePolicy, ExecutionState,
    CompletionReason, BudgetScope, BudgetWindow, OnReached, ItemStatus, TierOperator,
    AttributeSource, PromptKind, RunState, ScoreDirection, BackfillMode, BackfillReason, BackfillState,
    BacktestReason, SegmentKind,
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        text().format(Some(format)).build().into()
    }
}

impl ToSchema for Timestamp {}
