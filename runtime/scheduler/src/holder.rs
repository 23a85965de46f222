//! Holders of memory of the evaluation budget.

use perpend_domain::ids::{ProjectId, RuleId};
use perpend_memory::Owner;

/// A holder of reserved memory: a rule of a project, or without a rule the trials and previews of the
/// project.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) project: ProjectId,
    pub(crate) rule: Option<RuleId>,
}

impl Owner for Holder {
    type Share = ProjectId;

    const HAS_QUEUES: bool = true;

    fn share(&self) -> &ProjectId {
        &self.project
    }
}
