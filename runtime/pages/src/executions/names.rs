//! Names of the rules and evaluators of executions.

use std::collections::HashMap;

use perpend_domain::evaluation::{EvaluatorVersion, Execution};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, RuleId};
use perpend_http_kit::problem::Problem;
use perpend_views::{ExecutionNames, ResourceLink};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Names by id, each read once; absent for deleted rules and evaluators.
#[derive(Debug, Default)]
pub(crate) struct Names {
    rules: HashMap<RuleId, Option<String>>,
    evaluators: HashMap<EvaluatorId, Option<String>>,
    versions: HashMap<EvaluatorVersionId, Option<EvaluatorVersion>>,
}

fn link(id: &str, name: Option<&String>) -> ResourceLink {
    let deleted = || ResourceLink::deleted(format!("{id} (deleted)"));
    name.map_or_else(deleted, |name| ResourceLink::new(name, id))
}

impl Names {
    pub(crate) async fn read(
        app: &App,
        viewer: &Viewer,
        executions: &[Execution],
    ) -> Result<Self, Problem> {
        let (catalog, project) = (&app.store.catalog, &viewer.project);
        let mut names = Self::default();
        for execution in executions {
            let made = &execution.made;
            if !names.rules.contains_key(&made.rule_id) {
                let rule = catalog.rule(project, &made.rule_id).await?;
                names.rules.insert(made.rule_id.clone(), rule.map(|rule| rule.name));
            }
            if !names.evaluators.contains_key(&made.evaluator_id) {
                let found = catalog.evaluator(project, &made.evaluator_id).await?;
                names.evaluators.insert(made.evaluator_id.clone(), found.map(|found| found.name));
            }
            if let Some(id) = &execution.evaluator_version_id
                && !names.versions.contains_key(id)
            {
                let version = catalog.evaluator_version(project, id).await?;
                names.versions.insert(id.clone(), version.map(|(_, version)| version));
            }
        }
        Ok(names)
    }

    /// The version that ran last.
    pub(crate) fn version(&self, execution: &Execution) -> Option<&EvaluatorVersion> {
        self.versions.get(execution.evaluator_version_id.as_ref()?)?.as_ref()
    }

    pub(crate) fn of(&self, execution: &Execution) -> ExecutionNames {
        let (rule, evaluator) = (&execution.made.rule_id, &execution.made.evaluator_id);
        let rule_name = self.rules.get(rule).and_then(Option::as_ref);
        let evaluator_name = self.evaluators.get(evaluator).and_then(Option::as_ref);
        ExecutionNames {
            rule: link(rule.as_str(), rule_name),
            evaluator: link(evaluator.as_str(), evaluator_name),
            version: self.version(execution).map(|version| version.number),
        }
    }
}
