//! The declaration of a list: names, texts, columns, selection and actions of rows.

use perpend_domain::access::Permission;

use crate::Section;
use crate::lists::column::{
    CellContext, ChoiceValue, ChosenColumn, DeclaredCell, ListColumn, ListTable, NamedColumns,
    TableStyle,
};
use crate::lists::picker::{ColumnPicker, PickerColumn, row_choices};
use crate::lists::row_actions::RowActions;
use crate::markup::with_query;
use crate::urls::{FilterableList, MAX_COLUMNS, Parameter, key_of_name, split_names};

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

#[cfg(test)]
mod tests {
    use crate::OBSERVATION_ROWS;

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
