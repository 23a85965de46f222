//! JavaScript.

use std::path::Path;

use super::BuildError;
use crate::progress::Progress;
use crate::project::Project;

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    _out: &Path,
    _progress: &dyn Progress,
) -> Result<(), BuildError> {
    Err(BuildError::NotBuiltIn(project.language()))
}
