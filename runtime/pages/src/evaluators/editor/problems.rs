//! The problems of a refused form.

use perpend_views::Text;

use super::schema::ConfigProblems;

/// Why a form was refused.
#[derive(Default)]
pub(super) struct FormProblems {
    pub(super) fields: Vec<(&'static str, Text)>,
    /// Of members of the configuration of a plug-in.
    pub(super) config: ConfigProblems,
}
