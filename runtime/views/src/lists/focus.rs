//! The form for time range and environments.

use crate::markup::{Text, with_query};
use crate::urls::{Focus, Moment, Parameter, RANGES};

/// The form for time range and environments.
#[derive(Clone, Debug, Default)]
pub struct FocusView {
    pub(crate) label: Text,
    pub(crate) links: Vec<(&'static str, String, bool)>,
    /// Action and hidden fields of the form.
    pub(crate) action: String,
    pub(crate) hidden_fields: Vec<Parameter>,
    pub(crate) from: Text,
    pub(crate) to: Text,
    pub(crate) environments: Text,
    /// Environments without a selection, as placeholder.
    pub(crate) usual_environments: &'static str,
}

impl FocusView {
    /// A form with this action and these hidden fields. `usual` is the label of the default time range; with `has_all` the
    /// whole time can be selected.
    #[must_use]
    pub fn new(
        focus: &Focus,
        (action, hidden_fields): (String, Vec<Parameter>),
        (usual, has_all): (&'static str, bool),
    ) -> Self {
        let href = |from: Option<Moment>| {
            let moved = Focus { from, to: None, environments: focus.environments.clone() };
            with_query(&action, &[moved.parameters(), hidden_fields.clone()].concat())
        };
        let ranges = RANGES.iter().map(|(minutes, label)| {
            let from = Some(Moment::Ago(*minutes));
            let is_usual = !focus.has_time() && usual.strip_prefix("Last ") == Some(label);
            let is_current = is_usual || focus.from == from && focus.to.is_none();
            (*label, href(from), is_current)
        });
        let all = has_all.then(|| ("All", href(None), !focus.has_time()));
        let written = |moment: Option<Moment>| {
            Text::from(moment.map_or_else(String::new, |moment| moment.to_string()))
        };
        Self {
            label: Text::from(focus.without_environments().label(usual)),
            links: ranges.chain(all).collect(),
            from: written(focus.from),
            to: written(focus.to),
            environments: Text::from(focus.environments.join(", ")),
            usual_environments: "all except evaluations",
            action,
            hidden_fields,
        }
    }

    /// For a page that shows all environments by default.
    #[must_use]
    pub fn in_all_environments(mut self) -> Self {
        self.usual_environments = "all";
        self
    }
}

impl FocusView {
    /// Fields of the time range: parameter, label, value and placeholder.
    pub(crate) fn fields(&self) -> [(&'static str, &'static str, &Text, &'static str); 2] {
        [("from", "From", &self.from, "-24h"), ("to", "To", &self.to, "now")]
    }
}

/// A short label: `15 min`, `24 h`, `7 d`.
pub(crate) fn brief(label: &str) -> String {
    match label.split_once(' ') {
        Some((n, "minutes")) => format!("{n} min"),
        Some((n, unit)) => format!("{n} {}", unit.get(..1).unwrap_or_default()),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_range_label_is_a_prefix_of_its_name() {
        for (_, label) in RANGES {
            assert!(label.starts_with(&brief(label)), "{label}");
        }
    }

    #[test]
    fn links_keep_the_other_parameters_of_the_page() {
        let focus = Focus { from: Some(Moment::Ago(24 * 60)), ..Focus::default() };
        let hidden_fields = vec![("q".into(), "a b".to_owned())];
        let view =
            FocusView::new(&focus, ("/p/traces".to_owned(), hidden_fields), ("All time", true));
        let usual = FocusView::new(
            &Focus::default(),
            ("/p".to_owned(), Vec::new()),
            ("Last 7 days", false),
        );
        let current = usual.links.iter().filter(|(.., is_current)| *is_current);
        assert_eq!(current.map(|(label, ..)| *label).collect::<Vec<_>>(), ["7 days"]);
        assert_eq!(view.links[2], ("24 hours", "/p/traces?from=-1d&q=a%20b".to_owned(), true));
        assert_eq!(view.links[6], ("All", "/p/traces?q=a%20b".to_owned(), false));
    }
}
