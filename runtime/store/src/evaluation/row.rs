//! Executions as rows.

use perpend_domain::evaluation::{Execution, ExecutionState, NewExecution, Target};
use perpend_domain::ids::{ExecutionId, ProjectId};
use perpend_domain::time::Timestamp;

use crate::Error;
use crate::catalog::checked;

const WHAT: &str = "execution";

/// States as they are stored: their place among all states. Those below [`FINAL`] are open.
pub(super) const fn code(state: ExecutionState) -> i16 {
    state as i16
}

/// The first state that nothing moves on from by itself.
pub(super) const FINAL: i16 = code(ExecutionState::Completed);

pub(super) fn state(code: i16) -> Result<ExecutionState, Error> {
    let known = usize::try_from(code)
        .ok()
        .and_then(|at| ExecutionState::ALL.get(at));
    known.copied().ok_or_else(|| Error::Inconsistent {
        what: WHAT,
        detail: format!("there is no state {code}"),
    })
}

/// The 16 bytes that the id's hex digits stand for; none for a text that is no execution id.
pub(super) fn id_bytes(id: &ExecutionId) -> Option<[u8; 16]> {
    let raw = id.as_str();
    if raw.len() != 32
        || !raw
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    {
        return None;
    }
    u128::from_str_radix(raw, 16).ok().map(u128::to_be_bytes)
}

pub(super) fn id_of(bytes: &[u8]) -> Result<ExecutionId, Error> {
    let inconsistent = || Error::Inconsistent {
        what: WHAT,
        detail: "an id has 16 bytes".to_owned(),
    };
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| inconsistent())?;
    ExecutionId::new(&format!("{:032x}", u128::from_be_bytes(bytes))).map_err(|_| inconsistent())
}

/// The columns of [`ExecutionRow`].
pub(super) const COLUMNS: &str = "seq, project_id, id, rule_id, assignment_id, evaluator_id, trace_id, \
     observation_id, generation, inclusion_probability, completion, n_observations, n_late, state, \
     attempts, due_at, evaluator_version_id, error_class, error_message, created_at, first_attempt_at, \
     finished_at";

perpend_sql::record! {
    pub(super) struct ExecutionRow {
        pub(super) seq: i64,
        project_id: String,
        id: Vec<u8>,
        rule_id: String,
        assignment_id: String,
        evaluator_id: String,
        trace_id: String,
        observation_id: Option<String>,
        generation: i32,
        inclusion_probability: f64,
        completion: String,
        n_observations: i32,
        pub(super) n_late: i32,
        state: i16,
        attempts: i32,
        due_at: i64,
        evaluator_version_id: Option<String>,
        error_class: Option<String>,
        error_message: Option<String>,
        created_at: i64,
        first_attempt_at: Option<i64>,
        finished_at: Option<i64>,
    }
}

impl TryFrom<ExecutionRow> for Execution {
    type Error = Error;

    fn try_from(row: ExecutionRow) -> Result<Self, Error> {
        let observation_id = row
            .observation_id
            .map(|id| checked(WHAT, &id))
            .transpose()?;
        let version = row
            .evaluator_version_id
            .map(|id| checked(WHAT, &id))
            .transpose()?;
        let project: ProjectId = checked(WHAT, &row.project_id)?;
        Ok(Self {
            made: NewExecution {
                id: id_of(&row.id)?,
                rule_id: checked(WHAT, &row.rule_id)?,
                assignment_id: checked(WHAT, &row.assignment_id)?,
                evaluator_id: checked(WHAT, &row.evaluator_id)?,
                target: Target {
                    trace_id: checked(WHAT, &row.trace_id)?,
                    observation_id,
                },
                generation: row.generation.unsigned_abs(),
                inclusion_probability: row.inclusion_probability,
                completion: checked(WHAT, &row.completion)?,
                n_observations: row.n_observations.unsigned_abs(),
            },
            project,
            state: state(row.state)?,
            attempts: row.attempts.unsigned_abs(),
            evaluator_version_id: version,
            error_class: row.error_class,
            error_message: row.error_message,
            due_at: Timestamp::from_micros(row.due_at),
            created_at: Timestamp::from_micros(row.created_at),
            first_attempt_at: row.first_attempt_at.map(Timestamp::from_micros),
            finished_at: row.finished_at.map(Timestamp::from_micros),
        })
    }
}
