//! Links to the editor of a rule.

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::TargetKind;
use perpend_views::with_query;

use crate::request::viewer::Viewer;

/// URL of the form of a new rule with the filter, the environments and the time range of a list; absent without the
/// permission to create rules.
pub(crate) fn new_rule_href(viewer: &Viewer, target: TargetKind, q: &str) -> Option<String> {
    let fields = [("target", target.as_str().to_owned()), ("q", q.to_owned())];
    let pairs: Vec<(&str, String)> = fields.into_iter().chain(viewer.focus.pairs()).collect();
    let path = format!("{}/rules/new", viewer.base());
    viewer.may(EvaluatorWrite).then(|| with_query(&path, &pairs))
}
