//! What users define of a rule, as JSON, and its digest.

use serde_json::{Value, json};

use crate::evaluation::{Assignment, Rule, VersionPolicy};
use crate::ids::RuleId;
use crate::plugin::Digest;

fn assignment(assignment: &Assignment) -> Value {
    let policy = Some(assignment.version).filter(|policy| *policy != VersionPolicy::Latest);
    json!({
        "evaluatorId": assignment.evaluator_id.as_str(),
        "variableMapping": assignment.mapping,
        "versionPolicy": policy.map(|policy| policy.to_string()),
    })
}

impl Rule {
    /// The members that users set, with their names in the API. Pauses and times are not part of it.
    #[must_use]
    pub fn definition(&self) -> Value {
        let assignments: Vec<Value> = self.assignments.iter().map(assignment).collect();
        let after: Vec<&str> = self.after.iter().map(RuleId::as_str).collect();
        let mut definition = json!({
            "name": self.name,
            "enabled": self.enabled,
            "target": self.target.as_str(),
            "filter": self.filter.sent(),
            "sampling": self.sampling,
            "samplingIndependent": self.sampling_independent,
            "evaluatorAssignments": assignments,
            "settleMs": self.timing.settle_ms,
            "quietMs": self.timing.quiet_ms,
            "maxWaitMs": self.timing.max_wait_ms,
            "onMissing": self.on_missing.as_str(),
            "late": self.late.as_str(),
            "budget": self.budget,
            "after": after,
            "audit": self.audit,
        });
        if let Some(schedule) = &self.schedule {
            definition["schedule"] = json!("cron");
            definition["cron"] = json!(schedule.expression());
            definition["timezone"] = json!(schedule.timezone());
        }
        definition
    }

    /// Digest of the definition. Two rules with equal revisions are defined equally.
    #[must_use]
    pub fn revision(&self) -> Digest {
        Digest::of(self.definition().to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::{LatePolicy, OnMissing, Pause, TargetKind, Timing};
    use crate::filter::WrittenFilter;
    use crate::ids::{AssignmentId, EvaluatorId};
    use crate::time::Timestamp;

    fn rule() -> Rule {
        let sent = json!({"type": "string", "column": "name", "operator": "=", "value": "answer"});
        Rule {
            id: RuleId::new("r").unwrap(),
            name: "tone".to_owned(),
            target: TargetKind::Observation,
            enabled: true,
            paused: None,
            sampling: 0.5,
            sampling_independent: false,
            filter: WrittenFilter::stored(vec![sent], TargetKind::Observation.filter_columns()).0,
            assignments: vec![Assignment {
                id: AssignmentId::new("a").unwrap(),
                evaluator_id: EvaluatorId::new("e").unwrap(),
                version: VersionPolicy::Pinned(2),
                mapping: None,
                skipped_until: None,
            }],
            schedule: None,
            timing: Timing::default(),
            on_missing: OnMissing::Fail,
            late: LatePolicy::Ignore,
            budget: Vec::new(),
            after: Vec::new(),
            audit: 0.02,
            created_at: Timestamp::from_micros(0),
            updated_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn a_change_of_the_definition_gives_another_revision_and_a_pause_does_not() {
        let first = rule();
        let paused = Rule {
            paused: Some(Pause {
                reason: "PLUGIN_FAILING".to_owned(),
                message: "It fails.".to_owned(),
                at: Timestamp::from_micros(1),
                until: None,
            }),
            updated_at: Timestamp::from_micros(1),
            ..rule()
        };
        assert_eq!(first.revision(), paused.revision());
        let other = Rule { sampling: 0.25, ..rule() };
        assert_ne!(first.revision(), other.revision());
        let latest = Assignment { version: VersionPolicy::Latest, ..rule().assignments.remove(0) };
        let other = Rule { assignments: vec![latest], ..rule() };
        assert_ne!(first.revision(), other.revision());
    }
}
