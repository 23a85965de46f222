//! The page of a list.

use askama::Template;
use perpend_domain::text_search::BoundedCount;

use crate::format::{count, plural};
use crate::lists::column::ListTable;
use crate::lists::declaration::ListTexts;
use crate::lists::facets::FacetsView;
use crate::lists::filter::{FilterView, SearchProgress, StoppedSearch};
use crate::lists::focus::FocusView;
use crate::lists::page_links::PageLinks;
use crate::lists::picker::ColumnPicker;
use crate::overview::trends::Trend;
use crate::trace::peek::Peek;
use crate::urls::{Focus, Parameter};
use crate::{Html, Shell, Text};

/// The page of a list.
#[derive(Clone, Debug, Template)]
#[template(path = "list.html")]
pub struct ListView {
    /// Page frame.
    pub shell: Shell,
    /// Names and texts.
    pub texts: &'static ListTexts,
    /// Time range and environments, if the list has them.
    pub focus: Option<FocusView>,
    /// The text filter, if the list has one.
    pub filter: Option<FilterView>,
    /// Filters with fixed sets of values, for lists without a text filter.
    pub selects: Vec<SelectFilter>,
    /// URL of the list.
    pub path: String,
    /// Query parameters of the list without filter and position.
    pub other_parameters: Vec<Parameter>,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Progress of the search, if it stopped before the end.
    pub stopped: Option<StoppedSearch>,
    /// A form that applies to all matches.
    pub action: Option<ListAction>,
    /// The form of selected rows, and the link that takes all matches.
    pub choice: Option<ListChoice>,
    /// URL of the form of a rule that scores the rows.
    pub score_href: Option<String>,
    /// Rows of this page.
    pub table: ListTable,
    /// The form that chooses columns.
    pub picker: ColumnPicker,
    /// Links to other pages.
    pub page_links: PageLinks,
    /// Position of the page in the list.
    pub position: String,
    /// Whether it is not the first page.
    pub is_later: bool,
    /// Whether the open page polls the number of new rows.
    pub has_news: bool,
    /// Conditions of the URL that are in neither filter.
    pub narrowed: Vec<UrlCondition>,
    /// Notes about hidden rows.
    pub notes: Vec<ListNote>,
    /// Label and value of a field that opens a row by its id.
    pub open_by_id: Option<(&'static str, Text)>,
    /// Example commands, if the project has no rows.
    pub setup: Option<Html>,
    /// Labels and URLs of the list as a file.
    pub exports: [(&'static str, String); 2],
    /// Optional parts.
    pub parts: ListParts,
}

/// Optional parts of the page of a list.
#[derive(Clone, Debug, Default)]
pub struct ListParts {
    /// URL that the open page polls for the number of new rows, if the list has its own.
    pub news_href: Option<String>,
    /// URL of the page with an exact count, if the count is a lower bound.
    pub count_href: Option<String>,
    /// Total progress of a search that was continued from earlier pages.
    pub searched: Option<SearchProgress>,
    /// Label, text of the link and URL of another list for the same filter.
    pub other_list: Option<(&'static str, &'static str, String)>,
    /// Action of the form of bookmarks.
    pub bookmarks: Option<String>,
    /// Chart of the rows over time.
    pub chart: Option<DeferredPart<Trend>>,
    /// Values of some columns.
    pub facets: Option<DeferredPart<FacetsView>>,
    /// Preview of a row next to the list.
    pub peek: Option<PeekPanel>,
}

/// A part of a page that is loaded later.
#[derive(Clone, Debug)]
pub struct DeferredPart<T> {
    /// URL of the page with the part.
    pub page_href: String,
    /// URL of the part as a fragment.
    pub fragment_href: String,
    /// The part, if it was requested.
    pub content: Option<T>,
}

/// Previews of rows.
#[derive(Clone, Debug)]
pub struct PeekPanel {
    /// URL prefix of the fragments of a row.
    pub fragments: String,
    /// The shown preview.
    pub peek: Option<Peek>,
}

/// A button that takes selected rows to a page.
#[derive(Clone, Debug)]
pub struct ChoiceButton {
    /// Label.
    pub label: &'static str,
    /// URL of the page.
    pub href: String,
    /// Message unless two rows are selected, if the page takes two rows.
    pub pair: Option<&'static str>,
}

/// A form that takes the selected rows of a list to another page, and links for all matches.
#[derive(Clone, Debug)]
pub struct ListChoice {
    /// Further fields of the form.
    pub fields: Vec<(&'static str, String)>,
    /// Its buttons.
    pub buttons: Vec<ChoiceButton>,
    /// Labels and URLs of the links for all matches.
    pub all: Vec<(&'static str, String)>,
}

/// A filter with a fixed set of values.
#[derive(Clone, Debug)]
pub struct SelectFilter {
    /// Query parameter.
    pub name: &'static str,
    /// Label.
    pub label: &'static str,
    /// Value, label and whether it is selected.
    pub options: Vec<(String, Text, bool)>,
}

impl SelectFilter {
    /// A filter with these values and labels. A selected value that is not among them is added.
    #[must_use]
    pub fn new(
        (name, label): (&'static str, &'static str),
        options: impl IntoIterator<Item = (String, Text)>,
        selected: &str,
    ) -> Self {
        let option = |(value, label): (String, Text)| {
            let is_selected = value == selected;
            (value, label, is_selected)
        };
        let mut options: Vec<_> = options.into_iter().map(option).collect();
        if !selected.is_empty() && !options.iter().any(|(.., is_selected)| *is_selected) {
            options.push((selected.to_owned(), Text::from(selected), true));
        }
        Self { name, label, options }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.options.iter().any(|(.., is_selected)| *is_selected)
    }
}

/// A condition of the URL.
#[derive(Clone, Debug)]
pub struct UrlCondition {
    /// Label.
    pub name: &'static str,
    /// Value.
    pub value: Text,
    /// URL of the list without it.
    pub without: String,
}

/// A note about hidden or added rows, with a link that changes it.
#[derive(Clone, Debug)]
pub struct ListNote {
    /// Such as `2 superseded scores hidden`.
    pub text: String,
    /// Label of the link.
    pub label: &'static str,
    /// URL of the link.
    pub href: String,
}

/// A form that applies to all rows that match the filter.
#[derive(Clone, Debug)]
pub struct ListAction {
    /// Action of the form.
    pub action: String,
    /// Names and values of its fields.
    pub fields: Vec<(&'static str, String)>,
    /// Label of its button.
    pub label: String,
}

impl ListView {
    /// Whether conditions are set.
    fn is_filtered(&self) -> bool {
        let has_terms = self.filter.as_ref().is_some_and(|filter| !filter.terms.is_empty());
        let has_focus = self.focus.is_some() && self.shell.focus != Focus::default();
        let has_others = !self.narrowed.is_empty() || self.selects.iter().any(SelectFilter::is_set);
        has_terms || has_focus || has_others
    }

    /// Whether the list has no rows although it has no conditions.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        let is_whole = !self.is_filtered() && !self.is_later && self.stopped.is_none();
        is_whole && self.table.is_empty()
    }

    /// Whether the list has no matches: an empty page after other pages shows this only if those were empty.
    fn has_no_matches(&self) -> bool {
        match self.parts.searched {
            Some(all) => all.n_found == 0,
            None => !self.is_later,
        }
    }

    /// Whether a preview is shown.
    fn has_peek(&self) -> bool {
        self.parts.peek.as_ref().is_some_and(|panel| panel.peek.is_some())
    }

    /// Whether an empty list has no rows because of conditions.
    fn is_narrowed(&self) -> bool {
        self.setup.is_none() && (self.is_filtered() || self.texts.empty.is_empty())
    }

    /// Progress of a search that was continued from earlier pages, in words.
    fn search_progress(&self) -> Option<String> {
        let n = self.parts.searched?.n_tested;
        Some(format!("{} searched, to the end of the list", plural(n, self.texts.row)))
    }

    /// The same if all matches are on earlier pages.
    fn earlier_matches(&self) -> Option<String> {
        let found = match self.parts.searched?.n_found {
            0 => return None,
            1 => "1 match".to_owned(),
            n => format!("{} matches", count(n)),
        };
        Some(format!("{}: {found} on earlier pages.", self.search_progress()?))
    }

    /// URL of the list without filter, with its other parameters.
    fn first_page(&self) -> &str {
        self.page_links.first.as_deref().unwrap_or("?")
    }

    /// URL of the list without any condition of the text filter and of the focus.
    fn unfiltered_href(&self) -> String {
        self.filter.as_ref().map_or_else(String::new, FilterView::unfiltered_href)
    }

    /// Rows of a file, in words.
    fn exported_rows(&self) -> String {
        crate::lists::filter::exported_rows(self.texts.row)
    }
}

/// The position of a page in its list, such as `1–50 of 1,234`.
#[must_use]
pub fn position_text(n_before: Option<u64>, n: u64, total: Option<BoundedCount>) -> String {
    let range = match n_before {
        Some(before) => format!("{}–{}", count(before + 1), count(before + n)),
        None => count(n),
    };
    match total {
        Some(BoundedCount { n, is_more }) => {
            format!("{range} of {}{}", count(n), if is_more { "+" } else { "" })
        }
        None => format!("{range} shown"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use perpend_domain::score::ScoreValue;
    use perpend_domain::telemetry::{StoredObservation, TraceAttributes};
    use perpend_domain::time::Timestamp;

    use super::*;
    use crate::lists::chips::tests::scored;
    use crate::lists::column::CellContext;
    use crate::pages_tests::{HOSTILE, checked, focus, hostile_observation, shell, text, typed};
    use crate::{EmptyListCounts, OBSERVATION_LIST, OBSERVATION_ROWS, ObservationLine, TermChip};

    fn line() -> ObservationLine {
        let hostile = || Some(HOSTILE.to_owned());
        let mut observation = hostile_observation();
        observation.status_message = hostile();
        let trace_attributes = Arc::new(TraceAttributes {
            name: hostile(),
            user_id: hostile(),
            session_id: hostile(),
            tags: vec![HOSTILE.to_owned()],
            ..TraceAttributes::default()
        });
        let at = Timestamp::from_millis(0);
        let score = scored(HOSTILE, ScoreValue::Numeric(0.5), Some("a"));
        ObservationLine {
            stored: StoredObservation {
                observation,
                created_at: at,
                updated_at: at,
                trace_attributes,
            },
            scores: vec![score],
        }
    }

    fn view(lines: &[ObservationLine]) -> ListView {
        let list = &OBSERVATION_ROWS;
        let all: Vec<&str> = list.columns.iter().map(|column| column.id).collect();
        let (columns, unknown) = list.choose(&all.join(","));
        assert!(unknown.is_empty());
        let shell = shell();
        let (base, forms, time) = (shell.base().to_owned(), shell.forms.clone(), Focus::default());
        let context = CellContext::new(&base, &time, &forms);
        let parameters = [("q".into(), typed())];
        ListView {
            texts: &list.texts,
            focus: Some(focus()),
            filter: Some(FilterView {
                of: &OBSERVATION_LIST,
                base: base.clone(),
                q: typed(),
                terms: Vec::new(),
                other_parameters: Vec::new(),
                sorts: Vec::new(),
                empty_counts: EmptyListCounts::default(),
            }),
            selects: Vec::new(),
            path: typed(),
            other_parameters: Vec::new(),
            notices: vec![text(HOSTILE)],
            stopped: None,
            action: None,
            score_href: Some(typed()),
            choice: None,
            table: list.table(&columns, lines, &context),
            picker: list.picker("/p/observations", &parameters, (columns.as_slice(), 50)),
            page_links: PageLinks::default(),
            position: "1 of 1".to_owned(),
            is_later: false,
            has_news: true,
            narrowed: Vec::new(),
            open_by_id: None,
            notes: vec![ListNote { text: "3 hidden".to_owned(), label: "show", href: typed() }],
            setup: None,
            exports: [("Export CSV", typed()), ("Export JSONL", typed())],
            parts: ListParts::default(),
            shell,
        }
    }

    #[test]
    fn a_list_of_observations_is_inert_with_all_columns() {
        let html = checked(&view(&[line()]));
        assert_eq!(html.matches("<th scope=\"col\"").count(), OBSERVATION_ROWS.columns.len());
        assert!(html.contains("&observation=") || html.contains("?observation="), "{html}");
        let other = view(&[]);
        let empty = checked(&ListView { focus: None, ..other.clone() });
        assert!(empty.contains("No observations yet"), "{empty}");
        let mut filtered = other;
        if let Some(filter) = &mut filtered.filter {
            filter.terms.push(TermChip {
                text: text("level:ERROR"),
                problem: None,
                without: String::new(),
                corrected: None,
                alone: Some(BoundedCount { n: 2, is_more: false }),
            });
        }
        let none = checked(&filtered);
        assert!(
            none.contains("No observations match") && none.contains(": 2 observations"),
            "{none}"
        );
    }
}
