//! What a list provides: its declaration, and the rows that match.

use std::collections::BTreeMap;

use perpend_domain::filter::Filter;
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{ApiRequest, ListDeclaration, ListNote, ListView, Parameter, Text};

use crate::request::cursor::ListLinks;
use crate::request::viewer::Viewer;
use crate::state::App;

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

/// Bounds of a read: rows of the page, and rows tested for conditions without an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListBounds {
    pub(crate) limit: u32,
    pub(crate) max_tested: u64,
}

/// Parameters that only one list has, by name.
pub(crate) type OwnParameters = BTreeMap<String, String>;

/// A list of a project.
pub(crate) trait ListSource: Sized + Send + Sync + 'static {
    /// A row as it is stored.
    type Item: Send + Sync + 'static;
    /// A row with the values of all columns.
    type Row: Send + Sync + 'static;

    /// Names of query parameters in addition to those of all lists.
    const PARAMETERS: &'static [&'static str] = &[];
    /// Rows that are tested for one page.
    const MAX_TESTED: u64;
    /// The rows that are shown first, for notices.
    const ORDER: &'static str = "the newest";

    fn declaration() -> &'static ListDeclaration<Self::Row>;

    /// The list that its own parameters select. Invalid ones add a notice and have no effect. `filter` is that of the text.
    fn new(
        context: (&App, &Viewer),
        own: &OwnParameters,
        filter: &Filter,
        notices: &mut Vec<Text>,
    ) -> Self;

    /// A page of matching rows. `stopped` is set if it ended at the number of tested rows.
    fn read(
        &self,
        conditions: &ListConditions,
        position: &ListPosition,
        bounds: ListBounds,
    ) -> impl Future<Output = Result<BidirectionalPage<Self::Item>, Problem>> + Send;

    /// The rows with the values of all columns, in the same order.
    fn rows(
        &self,
        items: Vec<Self::Item>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Problem>> + Send;

    /// The time by which the list is ordered.
    fn time_of(item: &Self::Item) -> Timestamp;

    /// The API requests that return the same rows. `page` is its number of rows and whether it is not the first one.
    fn api(
        &self,
        conditions: &ListConditions,
        items: &[Self::Item],
        page: (u32, bool),
    ) -> Vec<ApiRequest>;

    /// The valid ones of its own parameters.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// Labels and values of conditions of its own parameters, with the parameter, if its page has no form for them.
    fn narrowed(&self) -> Vec<(&'static str, Text, &'static str)> {
        Vec::new()
    }

    /// Notes about hidden rows.
    fn notes(
        &self,
        _items: &[Self::Item],
        _pages: (&ListLinks, &ListPosition),
    ) -> impl Future<Output = Result<Vec<ListNote>, Problem>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// The number of all matches, if known.
    fn total(
        &self,
        _conditions: &ListConditions,
        page: &BidirectionalPage<Self::Item>,
        _is_later: bool,
    ) -> impl Future<Output = Result<Option<BoundedCount>, Problem>> + Send {
        std::future::ready(Ok(page.total))
    }

    /// Whether internal environments are excluded by default.
    fn hides_internal(&self, _conditions: &ListConditions) -> bool {
        false
    }

    /// The page of a row that a parameter names by its id.
    fn redirect(&self) -> impl Future<Output = Result<Option<String>, Problem>> + Send {
        std::future::ready(Ok(None))
    }

    /// Adds the parts of the page that only this list has.
    fn complete(&self, view: ListView) -> impl Future<Output = Result<ListView, Problem>> + Send {
        std::future::ready(Ok(view))
    }
}
