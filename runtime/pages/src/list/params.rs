//! Query parameters of a list.

use perpend_domain::filter::Column;
use perpend_domain::list::ListPosition;
use perpend_domain::query::{Parsed, parse};
use perpend_http_kit::problem::Problem;
use perpend_views::{ChosenColumns, ListDeclaration, Parameter, Text};

use crate::list::source::{ListConditions, ListSource, OwnParameters};
use crate::read;
use crate::request::cursor;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces;

/// Parameters of all lists that are given once; `cols` may be repeated.
const COMMON: [&str; 5] = ["q", "n", "sort", "after", "before"];
/// Characters of invalid values that a notice repeats.
const MAX_ECHO: usize = 100;

/// A request for a page or a file of a list.
pub(crate) struct ListRequest<L: ListSource> {
    pub(crate) viewer: Viewer,
    pub(crate) source: L,
    /// The filter as text.
    pub(crate) q: String,
    pub(crate) parsed: Parsed,
    pub(crate) conditions: ListConditions,
    pub(crate) columns: ChosenColumns<L::Row>,
    /// Rows per page.
    pub(crate) n: u32,
    pub(crate) position: ListPosition,
    /// Query parameters for the number of rows and the columns, unless they are the default.
    pub(crate) table_parameters: Vec<Parameter>,
    pub(crate) notices: Vec<Text>,
}

/// The columns with these names. Unknown names add a notice.
fn columns<R: 'static>(
    list: &'static ListDeclaration<R>,
    raw: &str,
    notices: &mut Vec<Text>,
) -> ChosenColumns<R> {
    let (columns, unknown) = list.choose(raw);
    if !unknown.is_empty() {
        let unknown: String = unknown.join(", ").chars().take(MAX_ECHO).collect();
        notices.push(Text::from(format!(
            "`cols` has unknown columns: {unknown}. Known columns: {}.",
            list.column_names()
        )));
    }
    columns
}

impl<L: ListSource> ListRequest<L> {
    /// Reads a query string. Invalid parameters have their default and add a notice; a repeated one is an error.
    pub(crate) fn new(app: &App, viewer: Viewer, raw: Option<&str>) -> Result<Self, Problem> {
        let list = L::declaration();
        let mut given = OwnParameters::new();
        let mut names = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let is_known =
                COMMON.contains(&name.as_ref()) || L::PARAMETERS.contains(&name.as_ref());
            if name == "cols" {
                names.push(value.into_owned());
            } else if is_known && given.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(Problem::query(&name, "must not be repeated"));
            }
        }
        let value = |name: &str| given.get(name).map_or("", String::as_str);
        let mut notices = viewer.faults.clone();
        let (filter_columns, q): (&'static [Column], &str) = match list.filter {
            Some(filter) => (filter.columns, value("q")),
            None => (&[], ""),
        };
        let q = traces::params::filter(q, &mut notices);
        let parsed = parse(&q, filter_columns);
        let (n, rows) = cursor::page_size((value("n"), value("sort")), L::ORDER, &mut notices);
        let columns = columns(list, &names.join(","), &mut notices);
        let (cursor, is_backwards) =
            cursor::parse_position(value("after"), value("before"), &mut notices);
        let conditions = ListConditions {
            filter: parsed.filter.clone(),
            range: viewer.focus.range(read::start_of_minute(app.web.clock.now())),
            environments: viewer.focus.environments.clone(),
            with_own: true,
        };
        Ok(Self {
            source: L::new((app, &viewer), &given, &parsed.filter, &mut notices),
            table_parameters: rows.into_iter().chain(list.columns_parameter(&columns)).collect(),
            position: ListPosition { cursor, is_backwards },
            viewer,
            q,
            parsed,
            conditions,
            columns,
            n,
            notices,
        })
    }

    /// The `q` parameter, unless it is empty.
    pub(crate) fn filter_parameter(&self) -> Option<Parameter> {
        (!self.q.is_empty()).then(|| ("q".into(), self.q.clone()))
    }

    /// Query parameters of all pages of the list, without the filter.
    pub(crate) fn other_parameters(&self) -> Vec<Parameter> {
        let own = self.source.parameters();
        [self.viewer.parameters(), self.table_parameters.clone(), own].concat()
    }
}
