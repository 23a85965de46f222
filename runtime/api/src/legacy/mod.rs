//! The unstable endpoints of evaluators and evaluation rules: numbered pages, references by name. They use
//! the store and the code of the v2 endpoints; this module has only the differences.

mod evaluators;
mod lists;
mod rules;

use crate::state::Routes;

pub(super) fn routes(routes: &mut Routes) {
    evaluators::routes(routes);
    rules::routes(routes);
}
