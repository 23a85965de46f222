//! A list as it is declared, and its page.

use askama::Template;
use perpend_domain::access::Permission;
use perpend_domain::text_search::BoundedCount;

use crate::format::{count, plural};
use crate::lists::column::{
    CellContext, ChoiceValue, ChosenColumn, DeclaredCell, ListColumn, ListTable, NamedColumns,
    TableStyle,
};
use crate::lists::facets::FacetsView;
use crate::lists::filter::{FilterView, SearchProgress, StoppedSearch};
use crate::lists::focus::FocusView;
use crate::lists::page_links::PageLinks;
use crate::lists::picker::{ColumnPicker, PickerColumn, row_choices};
use crate::lists::row_actions::RowActions;
use crate::markup::with_query;
use crate::overview::trends::Trend;
use crate::trace::peek::Peek;
use crate::urls::{FilterableList, Focus, MAX_COLUMNS, Parameter, key_of_name, split_names};
use crate::{Html, Section, Shell, Text};

/// A list with rows of type `R`.
#[derive(Debug)]
pub struct ListDeclaration<R: 'static> {
    /// Names and texts.
    pub texts: ListTexts,
    /// All columns, in their default order. The first one has the link of the row.
    pub columns: &'static [ListColumn<R>],
    /// The text filter, if it has one.
    pub filter: Option<&'static FilterableList>,
    /// Cells of the columns with declared content.
    pub cell: DeclaredCell<R>,
    /// Singular and plural of new rows, whose number the open page polls.
    pub news: Option<[&'static str; 2]>,
    /// Whether internal environments are shown by default.
    pub in_all_environments: bool,
    /// CSS class of the table; empty without one.
    pub table_class: &'static str,
    /// CSS class of a row, if rows differ.
    pub row_class: Option<fn(&R) -> &'static str>,
    /// Selection of rows for another page.
    pub choice: Option<RowChoice<R>>,
    /// Columns of values with names.
    pub named: &'static [NamedColumns<R>],
    /// Explanation of these columns in the form that chooses columns.
    pub named_note: &'static str,
    /// Preview, bookmark and menu of rows.
    pub actions: Option<RowActions<R>>,
}

/// Selection of rows for another page.
#[derive(Debug)]
pub struct RowChoice<R: 'static> {
    /// Name of the checkboxes.
    pub name: &'static str,
    /// Value and label of the checkbox of a row.
    pub value: ChoiceValue<R>,
    /// The pages.
    pub pages: &'static [ChoicePage],
}

/// A page that takes selected rows.
#[derive(Debug)]
pub struct ChoicePage {
    /// Path below the project.
    pub path: &'static str,
    /// Label of its button.
    pub label: &'static str,
    /// Label of the link for all matches; absent if the page takes selected rows only.
    pub all: Option<&'static str>,
    /// Permission for the page.
    pub needs: Permission,
    /// Message unless two rows are selected, if the page takes two rows.
    pub pair: Option<&'static str>,
}

impl ChoicePage {
    /// The page that adds selected rows to a dataset.
    pub(crate) const DATASET: Self = Self {
        path: "/dataset-items/from-traces",
        label: "Add to dataset",
        all: Some("Add all matches to a dataset"),
        needs: Permission::DatasetWrite,
        pair: None,
    };
    /// The page that applies a rule to selected rows.
    pub(crate) const RULE: Self = Self {
        path: "/rule-runs",
        label: "Run rule on selected",
        all: None,
        needs: Permission::EvaluatorWrite,
        pair: None,
    };
}

/// Names and texts of a list.
#[derive(Debug)]
pub struct ListTexts {
    /// Plural name of the rows, and URL name of the file, such as `observations`.
    pub name: &'static str,
    /// Path of the page below the project; usually the name.
    pub path: &'static str,
    /// Singular name of a row, such as `observation`.
    pub row: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Section in the sidebar.
    pub section: Section,
    /// The order, such as `newest first`; empty if readers choose it.
    pub order: &'static str,
    /// Explanation of the columns below the table; empty without one.
    pub footnote: &'static str,
    /// Explanation while the project has no rows; if it is empty, example commands replace it.
    pub empty: &'static str,
    /// Label of a link below the explanation, and its path below the project; empty without one.
    pub empty_link: (&'static str, &'static str),
    /// Label of a link next to the heading, and its path below the project; empty without one.
    pub related: (&'static str, &'static str),
}

impl ListTexts {
    /// Texts of a list with the newest rows first.
    #[must_use]
    pub const fn new(
        (name, row): (&'static str, &'static str),
        title: &'static str,
        section: Section,
        empty: &'static str,
        empty_link: (&'static str, &'static str),
    ) -> Self {
        let (order, footnote, related) = ("newest first", "", ("", ""));
        let path = name;
        Self { name, path, row, title, section, order, footnote, empty, empty_link, related }
    }

    /// Texts of a list with another path below the project.
    #[must_use]
    pub const fn at(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    /// Texts with a link next to the heading.
    #[must_use]
    pub const fn with_related(self, label: &'static str, path: &'static str) -> Self {
        Self { related: (label, path), ..self }
    }
}

/// The chosen columns of a list.
pub type ChosenColumns<R> = Vec<ChosenColumn<R>>;

impl<R: 'static> ListDeclaration<R> {
    /// A list without a text filter and news.
    #[must_use]
    pub const fn new(
        texts: ListTexts,
        columns: &'static [ListColumn<R>],
        cell: DeclaredCell<R>,
    ) -> Self {
        Self {
            texts,
            columns,
            filter: None,
            cell,
            news: None,
            in_all_environments: false,
            table_class: "",
            row_class: None,
            choice: None,
            named: &[],
            named_note: "",
            actions: None,
        }
    }

    /// The table of these columns.
    #[must_use]
    pub fn table(
        &'static self,
        columns: &[ChosenColumn<R>],
        rows: &[R],
        context: &CellContext<'_>,
    ) -> ListTable {
        let style = TableStyle {
            name: self.texts.name,
            cell: self.cell,
            class: self.table_class,
            row_class: self.row_class,
            choice_value: self.choice.as_ref().map(|choice| choice.value),
            actions: self.actions.as_ref(),
        };
        ListTable::new(&style, columns, rows, context)
    }

    /// The columns with these names, and unknown names. Without names it is the default; the first column is always included.
    #[must_use]
    pub fn choose(&'static self, names: &str) -> (ChosenColumns<R>, Vec<String>) {
        let mut chosen: ChosenColumns<R> = Vec::new();
        let mut unknown = Vec::new();
        for name in split_names(names) {
            match self.column(name) {
                // Further columns are not shown.
                _ if MAX_COLUMNS < chosen.len() => break,
                Some(column) if chosen.iter().any(|other| other.id() == column.id()) => {}
                Some(column) => chosen.push(column),
                None => unknown.push(name.to_owned()),
            }
        }
        if chosen.is_empty() {
            chosen = self.default_columns();
        }
        let first = self.columns.iter().take(1);
        let missing = first.filter(|first| chosen.iter().all(|other| other.id() != first.id));
        let missing: ChosenColumns<R> = missing.map(ChosenColumn::Declared).collect();
        (missing.into_iter().chain(chosen).collect(), unknown)
    }

    /// The column with this name.
    fn column(&'static self, name: &str) -> Option<ChosenColumn<R>> {
        let declared = self.columns.iter().find(|column| column.id == name);
        let named = || {
            self.named.iter().find_map(|columns| {
                Some(ChosenColumn::Named(columns, key_of_name(columns.prefix, name)?))
            })
        };
        declared.map(ChosenColumn::Declared).or_else(named)
    }

    fn default_columns(&'static self) -> ChosenColumns<R> {
        let default = self.columns.iter().filter(|column| column.is_default);
        default.map(ChosenColumn::Declared).collect()
    }

    /// The `cols` parameter; absent for the default columns.
    #[must_use]
    pub fn columns_parameter(&'static self, chosen: &[ChosenColumn<R>]) -> Option<Parameter> {
        let names = |columns: &[ChosenColumn<R>]| -> Vec<_> {
            columns.iter().map(ChosenColumn::id).collect()
        };
        let own = names(chosen);
        (own != names(&self.default_columns())).then(|| ("cols".into(), own.join(",")))
    }

    /// The names of all columns, for messages.
    #[must_use]
    pub fn column_names(&self) -> String {
        let declared = self.columns.iter().map(|column| column.id);
        let named = self.named.iter().map(|columns| columns.example);
        declared.chain(named).collect::<Vec<_>>().join(", ")
    }

    /// The form that chooses columns. `parameters` are the other query parameters of the list without its position.
    #[must_use]
    pub fn picker(
        &'static self,
        path: &str,
        parameters: &[Parameter],
        (chosen, n): (&[ChosenColumn<R>], u32),
    ) -> ColumnPicker {
        let is_own = |name: &str| matches!(name, "cols" | "n");
        let others = parameters.iter().filter(|(name, _)| !is_own(name));
        let others: Vec<Parameter> = others.cloned().collect();
        let pick = |column: &ChosenColumn<R>, is_shown| PickerColumn {
            name: column.id().into_owned(),
            label: column.label(),
            is_fixed: self.columns.first().is_some_and(|first| first.id == column.id()),
            is_shown,
            earlier: None,
        };
        let earlier = |at: usize| {
            let mut moved = chosen.to_vec();
            moved.swap(at - 1, at);
            let rows = parameters.iter().filter(|(name, _)| name == "n").cloned();
            let columns = self.columns_parameter(&moved);
            let pairs: Vec<Parameter> = others.iter().cloned().chain(rows).chain(columns).collect();
            with_query(path, &pairs)
        };
        let shown = chosen.iter().enumerate().map(|(at, column)| PickerColumn {
            earlier: (0 < at).then(|| earlier(at)),
            ..pick(column, true)
        });
        let is_chosen = |id: &str| chosen.iter().any(|column| column.id() == id);
        let rest = self.columns.iter().filter(|column| !is_chosen(column.id));
        let rest = rest.map(|column| pick(&ChosenColumn::Declared(column), false));
        ColumnPicker {
            action: path.to_owned(),
            columns: shown.chain(rest).collect(),
            rows: row_choices(n),
            default_href: with_query(path, &others),
            hidden_fields: others,
            named_note: self.named_note,
        }
    }
}

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

    #[test]
    fn columns_are_chosen_by_name_with_the_first_one_always_included() {
        let list = &OBSERVATION_ROWS;
        let names = |raw: &str| {
            let (columns, unknown) = list.choose(raw);
            let parameter = list.columns_parameter(&columns).map(|(_, value)| value);
            (parameter.unwrap_or_default(), unknown)
        };
        assert_eq!(names(""), (String::new(), Vec::new()), "the default is not printed");
        let (parameter, unknown) = names("level, luck,userId,level");
        assert_eq!((parameter.as_str(), unknown), ("name,level,userId", vec!["luck".to_owned()]));
        let (columns, _) = list.choose("name,level,userId");
        let rows = [("n".into(), "25".to_owned()), ("cols".into(), parameter)];
        let picker = list.picker("/p/observations", &rows, (columns.as_slice(), 25));
        let moved = picker.columns[2].earlier.as_deref();
        assert_eq!(moved, Some("/p/observations?n=25&cols=name%2CuserId%2Clevel"));
        assert_eq!(picker.columns.len(), list.columns.len());
        assert_eq!(picker.default_href, "/p/observations");
    }
}
