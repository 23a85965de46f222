//! The interface of a list: its declaration, and the rows that match.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::str::FromStr;

use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::{Column, Condition, Filter, Order, Test, find};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::query::Parsed;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::{EnvironmentFilter, Telemetry};
use perpend_views::{
    ApiRequest, ChosenColumn, ChosenColumns, ListDeclaration, ListNote, ListView, Parameter,
    SearchProgress, Text,
};

use crate::export::PAGE_ROWS;
use crate::read;
use crate::request::cursor::{self, ListLinks};
use crate::request::viewer::Viewer;
use crate::state::App;

/// The project of a list and the user who requests it.
pub(crate) struct ListScope {
    pub(crate) app: App,
    pub(crate) viewer: Viewer,
}

impl ListScope {
    /// The store of telemetry, with the project.
    pub(crate) fn telemetry(&self) -> (&Telemetry, &ProjectId) {
        (&self.app.store.telemetry, &self.viewer.project)
    }
}

/// Conditions that every list understands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListConditions {
    /// Conditions of the text filter.
    pub(crate) filter: Filter,
    /// Start of the time range, inclusive, and its end, exclusive.
    pub(crate) range: (Option<Timestamp>, Option<Timestamp>),
    /// Selected environments; empty for the default.
    pub(crate) environments: Vec<String>,
    /// Whether the conditions of the list's own parameters apply.
    pub(crate) with_own: bool,
}

/// Whether a condition selects environments, which may be internal ones.
fn selects_environments(condition: &Condition) -> bool {
    let is_environment = condition.column.is_some_and(|own| own.id == "environment");
    is_environment && !matches!(condition.test, Test::NoneOf(_))
}

impl ListConditions {
    /// Whether internal environments are excluded, because no environments are selected.
    pub(crate) fn hides_internal(&self) -> bool {
        self.environments.is_empty() && !self.filter.conditions.iter().any(selects_environments)
    }

    /// All conditions. The time range applies to the column `time`.
    pub(crate) fn whole(&self, columns: &'static [Column], time: &str) -> Filter {
        let mut all = self.filter.conditions.clone();
        let (from, to) = self.range;
        for (order, at) in [(Order::AtLeast, from), (Order::Less, to)] {
            let test = at.map(|at| Test::Time(order, at));
            all.extend(test.map(|test| Condition { column: find(columns, time), test }));
        }
        if self.hides_internal() {
            all.push(read::exclude_internal(columns));
        } else if !self.environments.is_empty() {
            let test = Test::AnyOf(self.environments.clone());
            all.push(Condition { column: find(columns, "environment"), test });
        }
        Filter { conditions: all }
    }

    /// The environments of new rows.
    pub(crate) fn environment_filter(&self) -> EnvironmentFilter<'_> {
        match self.environments.as_slice() {
            [] => EnvironmentFilter::Without(&read::INTERNAL_ENVIRONMENTS),
            chosen => EnvironmentFilter::Only(chosen),
        }
    }
}

/// A page to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListQuery<'a> {
    pub(crate) conditions: &'a ListConditions,
    pub(crate) position: &'a ListPosition,
    /// Number of the page, from 1; applies to the first position.
    pub(crate) page: u32,
    /// Rows of the page.
    pub(crate) limit: u32,
    /// Rows tested for conditions without an index.
    pub(crate) max_tested: u64,
}

/// A page of a list.
pub(crate) type PageResult<T> = Result<BidirectionalPage<T>, Problem>;

/// The page of a list as it is shown.
pub(crate) type ViewResult = Result<ListView, Problem>;

/// A page that is shown.
pub(crate) struct ShownPage<'a, T> {
    pub(crate) conditions: &'a ListConditions,
    pub(crate) items: &'a [T],
    /// Rows per page.
    pub(crate) n: u32,
    /// Number of the page, from 1; 1 at a cursor.
    pub(crate) number: u32,
    /// Whether it is not the first page.
    pub(crate) is_later: bool,
}

/// Matches that are counted for one condition, and rows that are tested for it.
const MAX_COUNTED: u32 = 100;
const MAX_COUNT_TESTED: u64 = 2_000;

/// A query parameter that only one list has. Empty values have no effect.
pub(crate) struct OwnParameter {
    pub(crate) name: &'static str,
    /// The expected value, for notices; empty if an invalid value adds none.
    pub(crate) expected: &'static str,
    pub(crate) is_valid: fn(&str) -> bool,
    /// Whether the links of the list have it too.
    pub(crate) is_kept: bool,
}

impl OwnParameter {
    pub(crate) const fn new(
        name: &'static str,
        expected: &'static str,
        is_valid: fn(&str) -> bool,
    ) -> Self {
        Self { name, expected, is_valid, is_kept: true }
    }

    /// A parameter with any value that links of the list do not have.
    pub(crate) const fn transient(name: &'static str) -> Self {
        Self { name, expected: "", is_valid: |_| true, is_kept: false }
    }
}

/// Whether a text is a value of this type.
pub(crate) fn is<T: FromStr>(raw: &str) -> bool {
    raw.parse::<T>().is_ok()
}

/// The valid values of a list's own parameters, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnParameters(pub(crate) BTreeMap<&'static str, String>);

impl OwnParameters {
    /// The value; empty without one.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.0.get(name)?.parse().ok()
    }
}

/// A list of a project. The default is the list without parameters of its own.
pub(crate) trait ListSource: Default + Send + Sync + 'static {
    /// A row as it is stored.
    type Item: Send + Sync + 'static;
    /// A row with the values of all columns.
    type Row: Send + Sync + 'static;

    const LIST: &'static ListDeclaration<Self::Row>;
    /// Query parameters in addition to those of all lists.
    const PARAMETERS: &'static [OwnParameter] = &[];
    /// Those of them that [`count_new`](Self::count_new) applies.
    const NEWS_PARAMETERS: &'static [&'static str] = &[];
    /// Rows that are tested for one page.
    const MAX_TESTED: u64 = read::MAX_TESTED;
    /// The filter column of the time range.
    const TIME_COLUMN: &'static str = "timestamp";
    /// Targets of a rule that the page offers for its filter.
    const RULE_TARGET: Option<TargetKind> = None;
    /// The rows that are shown first, for notices.
    const ORDER: &'static str = "the newest";

    /// Whether pages also have numbers.
    const HAS_PAGE_NUMBERS: bool = false;
    /// Whether a search that continues passes its progress on in URLs.
    const HAS_PROGRESS: bool = false;
    /// The scope of a cursor, for notices.
    const CURSORS_OF: &'static str = "list";
    /// Labels of the links to the previous and to the next page.
    const PAGE_LABELS: [&'static str; 2] = ["Newer", "Older"];

    /// Sets the order that the parameter `sort` names. An unsupported one adds a notice.
    fn set_order(&mut self, raw: &str, notices: &mut Vec<Text>) {
        cursor::reject_order(raw, Self::ORDER, notices);
    }

    /// The parameter `sort`; absent for the default order.
    fn order_parameter(&self) -> Option<String> {
        None
    }

    /// The orders that readers can choose: parameter, label and whether it is the current one.
    fn orders(&self, _columns: &[ChosenColumn<Self::Row>]) -> Vec<(String, Text, bool)> {
        Vec::new()
    }

    /// The source in the order that the heading of a column leads to, and the value of `aria-sort` of the heading.
    fn ordered_by(&self, _column: &str) -> Option<(Self, Option<&'static str>)> {
        None
    }

    /// The text of a cursor in URLs.
    fn cursor_text(cursor: &Cursor) -> String {
        cursor::format_cursor(cursor)
    }

    /// Inverse of [`cursor_text`](Self::cursor_text) for cursors of the chosen order.
    fn parse_cursor(&self, raw: &str) -> Option<Cursor> {
        cursor::parse_cursor(raw)
    }

    /// Prepares reading a file with these columns.
    fn prepare_file(&mut self, _columns: &[ChosenColumn<Self::Row>]) {}

    /// Rows of a file that are read at a time.
    fn rows_per_read(&self) -> u32 {
        PAGE_ROWS
    }

    /// Applies the values of its own parameters. `filter` is that of the text; conditions that the list ignores add a notice.
    fn apply(&mut self, _own: &OwnParameters, _filter: &Filter, _notices: &mut Vec<Text>) {}

    /// A page of matching rows. `stopped` is set if it ended at the number of tested rows.
    fn read(
        &self,
        scope: &ListScope,
        query: ListQuery<'_>,
    ) -> impl Future<Output = PageResult<Self::Item>> + Send;

    /// The rows with the values of all columns, in the same order.
    fn rows(
        &self,
        scope: &ListScope,
        items: Vec<Self::Item>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Problem>> + Send;

    /// The time by which the list is ordered.
    fn time_of(item: &Self::Item) -> Timestamp;

    /// The API requests that return the same rows.
    fn api(&self, viewer: &Viewer, page: ShownPage<'_, Self::Item>) -> Vec<ApiRequest>;

    /// The number of matches, up to a limit.
    fn count_matches(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
    ) -> impl Future<Output = Result<BoundedCount, Problem>> + Send {
        count_page(self, scope, conditions)
    }

    /// Times of the first and the last match.
    fn ends(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
    ) -> impl Future<Output = Result<Option<(Timestamp, Timestamp)>, Problem>> + Send {
        ends_of_list(self, scope, conditions)
    }

    /// URL that the open page polls for the number of new rows, if it is not that of the list.
    fn news_href(&self, _request: &ListRequest<Self>, _items: &[Self::Item]) -> Option<String> {
        None
    }

    /// The parameter that counts all matches, unless it is set.
    fn count_parameter(&self) -> Option<Parameter> {
        None
    }

    /// Id of the row whose preview is shown.
    fn peeked_id(&self) -> Option<String> {
        None
    }

    /// The number of rows received after an instant, in the time range and environments, and whether it was cut at a limit.
    fn count_new(
        &self,
        _scope: &ListScope,
        _conditions: &ListConditions,
        _since: (Timestamp, u32),
    ) -> impl Future<Output = Result<(u64, bool), Problem>> + Send {
        std::future::ready(Ok((0, false)))
    }

    /// Singular and plural of new rows and the URL that shows them, if these are not those of the list.
    fn news_page(&self, _viewer: &Viewer) -> Option<([&'static str; 2], String)> {
        None
    }

    /// Labels and values of conditions of its own parameters, with the parameter, if its page has no form for them.
    fn narrowed(&self) -> Vec<(&'static str, Text, &'static str)> {
        Vec::new()
    }

    /// Notes about hidden rows.
    fn notes(
        &self,
        _scope: &ListScope,
        _items: &[Self::Item],
        _pages: (&ListLinks, &ListPosition),
    ) -> impl Future<Output = Result<Vec<ListNote>, Problem>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// The number of all matches, if known.
    fn total(
        &self,
        _scope: &ListScope,
        _conditions: &ListConditions,
        page: &BidirectionalPage<Self::Item>,
        _is_later: bool,
    ) -> impl Future<Output = Result<Option<BoundedCount>, Problem>> + Send {
        std::future::ready(Ok(page.total))
    }

    /// The page of a row that a parameter names by its id.
    fn redirect(
        &self,
        _scope: &ListScope,
    ) -> impl Future<Output = Result<Option<String>, Problem>> + Send {
        std::future::ready(Ok(None))
    }

    /// Adds the parts of the page that only this list has.
    fn complete(
        &self,
        _request: &ListRequest<Self>,
        view: ListView,
    ) -> impl Future<Output = ViewResult> + Send {
        std::future::ready(Ok(view))
    }
}

/// Query parameters of a list. Invalid ones have their default and add a notice.
pub(crate) struct ListParams<L: ListSource> {
    pub(crate) source: L,
    /// The filter as text.
    pub(crate) q: String,
    pub(crate) parsed: Parsed,
    pub(crate) columns: ChosenColumns<L::Row>,
    /// Rows per page.
    pub(crate) n: u32,
    pub(crate) position: ListPosition,
    /// Number of the page, from 1; 1 at a cursor.
    pub(crate) page: u32,
    /// Progress of the search that this page continues.
    pub(crate) searched: Option<SearchProgress>,
    /// Query parameters for the columns and the number of rows, unless they are the default.
    pub(crate) table_parameters: Vec<Parameter>,
    /// The list's own query parameters.
    pub(super) own: Vec<Parameter>,
    /// The time after which rows are new, for the number of new rows.
    pub(crate) received: String,
    pub(crate) notices: Vec<Text>,
}

/// A request for a page or a file of a list.
pub(crate) struct ListRequest<L: ListSource> {
    pub(crate) scope: ListScope,
    pub(crate) conditions: ListConditions,
    pub(crate) params: ListParams<L>,
}

impl<L: ListSource> Deref for ListRequest<L> {
    type Target = ListParams<L>;

    fn deref(&self) -> &ListParams<L> {
        &self.params
    }
}

/// The number of rows of the first page, up to a limit.
async fn count_page<L: ListSource>(
    source: &L,
    scope: &ListScope,
    conditions: &ListConditions,
) -> Result<BoundedCount, Problem> {
    let position = &ListPosition::default();
    let (page, limit, max_tested) = (1, MAX_COUNTED, MAX_COUNT_TESTED);
    let query = ListQuery { conditions, position, page, limit, max_tested };
    let found = source.read(scope, query).await?;
    let is_more = found.older.is_some() || found.stopped.is_some();
    Ok(BoundedCount { n: found.items.len() as u64, is_more })
}

/// Times of the last and the first row of a list from newest to oldest.
async fn ends_of_list<L: ListSource>(
    source: &L,
    scope: &ListScope,
    conditions: &ListConditions,
) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
    let mut ends = [None, None];
    let positions = [ListPosition::end(), ListPosition::default()];
    for (end, position) in ends.iter_mut().zip(&positions) {
        let (page, limit, max_tested) = (1, 1, L::MAX_TESTED);
        let query = ListQuery { conditions, position, page, limit, max_tested };
        let found = source.read(scope, query).await?;
        *end = found.items.first().map(L::time_of);
    }
    let [first, last] = ends;
    Ok(first.zip(last))
}

/// The own parameters that links of the list have.
pub(crate) fn kept_parameters(known: &[OwnParameter], own: &OwnParameters) -> Vec<Parameter> {
    let kept = known.iter().filter(|parameter| parameter.is_kept);
    let value = |parameter: &OwnParameter| {
        let value = own.0.get(parameter.name)?;
        Some((parameter.name.into(), value.clone()))
    };
    kept.filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::filter::OBSERVATIONS;
    use perpend_domain::query::parse;

    use super::*;

    #[test]
    fn internal_environments_are_excluded_unless_environments_are_selected() {
        for (q, selected, hides_internal, n_added) in [
            ("", None, true, 1),
            ("level:ERROR -environment:a,b", None, true, 1),
            ("environment:a,b", None, false, 0),
            ("environment:set", None, false, 0),
            ("", Some("prod"), false, 1),
        ] {
            let conditions = ListConditions {
                filter: parse(q, OBSERVATIONS).filter,
                environments: selected.into_iter().map(str::to_owned).collect(),
                ..ListConditions::default()
            };
            assert_eq!(conditions.hides_internal(), hides_internal, "{q}");
            let whole = conditions.whole(OBSERVATIONS, "startTime");
            let n_typed = conditions.filter.conditions.len();
            assert_eq!(whole.conditions.len() - n_typed, n_added, "{q}");
            // A range has a condition for each end.
            let from = Some(Timestamp::from_millis(0));
            let ranged = ListConditions { range: (from, from), ..conditions };
            let ranged = ranged.whole(OBSERVATIONS, "startTime").conditions.len();
            assert_eq!(ranged, whole.conditions.len() + 2, "{q}");
        }
    }
}
