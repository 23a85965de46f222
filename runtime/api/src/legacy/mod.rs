//! The older endpoints of evaluators and evaluation rules: numbered pages, references by name. The same
//! store as behind the newer ones, whose code does the work; here is only how the two differ.

mod evaluators;
mod lists;
mod rules;

use crate::state::Routes;

pub(super) fn routes(routes: &mut Routes) {
    evaluators::routes(routes);
    rules::routes(routes);
}
