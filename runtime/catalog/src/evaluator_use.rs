//! The rules that use the evaluators of a project, and the fingerprints of its versions.

use perpend_domain::evaluation::Fingerprint;
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ProjectId, RuleId};

use crate::{Catalog, Error};
use perpend_db::{checked, digest, query};

/// A rule that uses an evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluatorRule {
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// The rule.
    pub rule: RuleId,
    /// Name of the rule.
    pub name: String,
    /// Whether the rule is enabled.
    pub is_enabled: bool,
}

/// The fingerprint of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFingerprint {
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// The version.
    pub version: EvaluatorVersionId,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
}

const RULES: &str = "
    SELECT a.evaluator_id, r.id, r.name, r.enabled
      FROM assignments a JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
     WHERE a.project_id = $1
     ORDER BY r.name, r.id, a.place";
const FINGERPRINTS: &str = "
    SELECT evaluator_id, id, fingerprint
      FROM (SELECT evaluator_id, id, number, fingerprint,
                   ROW_NUMBER() OVER (PARTITION BY evaluator_id ORDER BY number DESC) AS place
              FROM evaluator_versions WHERE project_id = $1) v
     WHERE v.place <= $2
     ORDER BY v.evaluator_id, v.number DESC";

impl Catalog {
    /// The rules of a project with their evaluators, by name of the rule. A rule with several evaluators is
    /// returned once for each.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_rules(&self, project: &ProjectId) -> Result<Vec<EvaluatorRule>, Error> {
        let rows: Vec<(String, String, String, i16)> =
            query(RULES).bind(project.as_str()).fetch_all(&self.pool).await?;
        let of_row = |(evaluator, rule, name, enabled): (String, String, String, i16)| {
            Ok(EvaluatorRule {
                evaluator: checked("assignment", &evaluator)?,
                rule: checked("assignment", &rule)?,
                name,
                is_enabled: enabled != 0,
            })
        };
        rows.into_iter().map(of_row).collect()
    }

    /// The fingerprints of the newest versions of each evaluator of a project, at most `limit` of each, newest
    /// first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version_fingerprints(
        &self,
        project: &ProjectId,
        limit: u32,
    ) -> Result<Vec<VersionFingerprint>, Error> {
        let rows: Vec<(String, String, Vec<u8>)> = query(FINGERPRINTS)
            .bind(project.as_str())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let of_row = |(evaluator, version, fingerprint): (String, String, Vec<u8>)| {
            Ok(VersionFingerprint {
                evaluator: checked("evaluator version", &evaluator)?,
                version: checked("evaluator version", &version)?,
                fingerprint: digest("evaluator version", &fingerprint)?,
            })
        };
        rows.into_iter().map(of_row).collect()
    }
}
