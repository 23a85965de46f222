//! Executions as rows.

use perpend_domain::evaluation::{
    Execution, ExecutionClass, ExecutionOrigin, ExecutionState, Lane, NewExecution, Target,
};
use perpend_domain::ids::{ExecutionId, ProjectId};
use perpend_domain::time::Timestamp;

use super::codes::{Coded as _, codes};
use crate::Error;
use perpend_db::checked;

const WHAT: &str = "execution";

codes!(state_code, "state of an execution", ExecutionState {
    Pending = 0,
    Running = 1,
    Delayed = 2,
    Held = 3,
    Completed = 4,
    Skipped = 5,
    Failed = 6,
    Cancelled = 7,
});
codes!(origin_code, "origin of an execution", ExecutionOrigin {
    Rule = 0,
    Job = 1,
    Experiment = 2,
    Backtest = 3,
});
codes!(class_code, "class of an execution", ExecutionClass {
    Experiment = 0,
    Manual = 1,
    Continuous = 2,
    Cron = 3,
    Backfill = 4,
});
codes!(lane_code, "lane of an execution", Lane { Code = 0, Model = 1, });

/// The 16 bytes of the hexadecimal id; `None` for a text that is no execution id.
pub(super) fn id_bytes(id: &ExecutionId) -> Option<[u8; 16]> {
    let raw = id.as_str();
    if raw.len() != 32 || !raw.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    u128::from_str_radix(raw, 16).ok().map(u128::to_be_bytes)
}

pub(super) fn id_of(bytes: &[u8]) -> Result<ExecutionId, Error> {
    let inconsistent =
        || Error::Inconsistent { what: WHAT, detail: "an id has 16 bytes".to_owned() };
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| inconsistent())?;
    ExecutionId::new(&format!("{:032x}", u128::from_be_bytes(bytes))).map_err(|_| inconsistent())
}

/// The columns of [`ExecutionRow`].
pub(super) const COLUMNS: &str = "seq, project_id, id, origin, rule_id, assignment_id, evaluator_id, trace_id, \
     observation_id, session_id, shadow, generation, inclusion_probability, completion, n_observations, is_audit, n_late, state, \
     attempts, due_at, evaluator_version_id, error_class, error_message, created_at, first_attempt_at, \
     finished_at, firing_at";

perpend_db::record! {
    pub(super) struct ExecutionRow {
        seq: i64,
        project_id: String,
        id: Vec<u8>,
        origin: i16,
        rule_id: String,
        assignment_id: String,
        evaluator_id: String,
        trace_id: String,
        observation_id: Option<String>,
        session_id: Option<String>,
        shadow: Option<i32>,
        generation: i32,
        inclusion_probability: f64,
        completion: String,
        n_observations: i32,
        is_audit: i16,
        n_late: i32,
        state: i16,
        attempts: i32,
        due_at: i64,
        evaluator_version_id: Option<String>,
        error_class: Option<String>,
        error_message: Option<String>,
        created_at: i64,
        first_attempt_at: Option<i64>,
        finished_at: Option<i64>,
        firing_at: Option<i64>,
    }
}

impl TryFrom<ExecutionRow> for Execution {
    type Error = Error;

    fn try_from(row: ExecutionRow) -> Result<Self, Error> {
        let target = match (row.session_id, row.observation_id) {
            (Some(id), None) => Target::Session(checked(WHAT, &id)?),
            // The id of a run is in the column of observations, without a trace.
            (None, Some(id)) if row.trace_id.is_empty() => Target::Run(id),
            (None, Some(id)) => {
                Target::Observation(checked(WHAT, &row.trace_id)?, checked(WHAT, &id)?)
            }
            (None, None) => Target::Trace(checked(WHAT, &row.trace_id)?),
            (Some(_), Some(_)) => {
                return Err(Error::Inconsistent {
                    what: WHAT,
                    detail: "it is over a session and an observation".to_owned(),
                });
            }
        };
        let version = row.evaluator_version_id.map(|id| checked(WHAT, &id)).transpose()?;
        let project: ProjectId = checked(WHAT, &row.project_id)?;
        Ok(Self {
            seq: row.seq,
            made: NewExecution {
                id: id_of(&row.id)?,
                origin: ExecutionOrigin::of_code(row.origin)?,
                rule_id: checked(WHAT, &row.rule_id)?,
                assignment_id: checked(WHAT, &row.assignment_id)?,
                evaluator_id: checked(WHAT, &row.evaluator_id)?,
                target,
                shadow: row.shadow.map(i32::unsigned_abs),
                generation: row.generation.unsigned_abs(),
                inclusion_probability: row.inclusion_probability,
                completion: checked(WHAT, &row.completion)?,
                n_observations: row.n_observations.unsigned_abs(),
                is_audit: row.is_audit != 0,
            },
            project,
            state: ExecutionState::of_code(row.state)?,
            attempts: row.attempts.unsigned_abs(),
            evaluator_version_id: version,
            error_class: row.error_class.map(|class| checked(WHAT, &class)).transpose()?,
            error_message: row.error_message,
            due_at: Timestamp::from_micros(row.due_at),
            created_at: Timestamp::from_micros(row.created_at),
            first_attempt_at: row.first_attempt_at.map(Timestamp::from_micros),
            finished_at: row.finished_at.map(Timestamp::from_micros),
            n_late: row.n_late.unsigned_abs(),
            firing_at: row.firing_at.map(Timestamp::from_micros),
        })
    }
}
