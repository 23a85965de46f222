//! The rules that the engine applies: all enabled rules with the current versions of their evaluators, and
//! the revision by which a cache detects that it is outdated.

use perpend_domain::evaluation::{Evaluator, Rule};
use perpend_domain::ids::ProjectId;

use super::evaluators::{self, EvaluatorRow};
use super::rules::{self, AssignmentRow, MAX_ACTIVE_RULES, RuleRow};
use crate::{Catalog, Error};
use perpend_db::checked;
use perpend_db::query;

/// A rule and its project.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveRule {
    /// The tenant.
    pub project: ProjectId,
    /// The rule. An enabled rule may be paused.
    pub rule: Rule,
}

/// All enabled rules, and the evaluators they use.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveCatalog {
    /// The catalog contains at least every change up to this revision.
    pub revision: i64,
    /// Whether nothing was changed during the read.
    pub is_consistent: bool,
    /// Enabled rules, including paused ones: their refusals are counted, and their held executions stay.
    pub rules: Vec<ActiveRule>,
    /// Disabled rules, of each project at most [`MAX_ACTIVE_RULES`], the most recently changed, without
    /// assignments: their refusals are counted too.
    pub disabled: Vec<ActiveRule>,
    /// The evaluators of these rules with their newest version. They may be paused.
    pub evaluators: Vec<(ProjectId, Evaluator)>,
    /// The evaluators of rules with other versions. One may occur twice.
    pub older: Vec<(ProjectId, Evaluator)>,
}

/// Limit of repeated reads; under permanent changes the last read is used.
const MAX_TRIES: u32 = 5;

impl Catalog {
    /// All enabled rules with their evaluators. Crosses tenants: for the engine, which caches the result
    /// until [`Catalog::catalog_revision`] exceeds its revision.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn active_rules(&self) -> Result<ActiveCatalog, Error> {
        let mut n_tries = 0;
        loop {
            let mut read = self.active_rules_once().await?;
            n_tries += 1;
            // A change between the statements may have removed a version that a rule uses.
            read.is_consistent = self.catalog_revision().await? == read.revision;
            if MAX_TRIES <= n_tries || read.is_consistent {
                return Ok(read);
            }
        }
    }

    async fn active_rules_once(&self) -> Result<ActiveCatalog, Error> {
        // The revision is read first: a change between the statements makes the data newer than the revision,
        // and the next comparison reads everything again.
        let revision = self.catalog_revision().await?;
        let (rules, assignments): (Vec<RuleRow>, Vec<AssignmentRow>) = (
            query(rules::ENABLED).fetch_all(&self.pool).await?,
            query(rules::ENABLED_ASSIGNMENTS).fetch_all(&self.pool).await?,
        );
        let disabled: Vec<RuleRow> =
            query(rules::DISABLED).bind(i64::from(MAX_ACTIVE_RULES)).fetch_all(&self.pool).await?;
        let evaluators: Vec<EvaluatorRow> = query(evaluators::IN_USE).fetch_all(&self.pool).await?;
        let older: Vec<EvaluatorRow> =
            query(evaluators::OLDER_IN_USE).fetch_all(&self.pool).await?;
        let owned = |row: EvaluatorRow| {
            let project = checked("evaluator", &row.project_id)?;
            Ok((project, row.try_into()?))
        };
        let assembled = |rows, assignments| -> Result<Vec<ActiveRule>, Error> {
            let rules = rules::assemble(rows, assignments)?.into_iter();
            let rules = rules.map(|(project, rule)| ActiveRule { project, rule });
            Ok(rules.collect())
        };
        Ok(ActiveCatalog {
            revision,
            is_consistent: false,
            rules: assembled(rules, assignments)?,
            disabled: assembled(disabled, Vec::new())?,
            evaluators: evaluators.into_iter().map(owned).collect::<Result<_, Error>>()?,
            older: older.into_iter().map(owned).collect::<Result<_, Error>>()?,
        })
    }
}
