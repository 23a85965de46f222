//! Query parameters of a list.

use std::collections::BTreeMap;

use perpend_domain::filter::Column;
use perpend_domain::list::ListPosition;
use perpend_domain::query::{Parsed, parse, print_condition};
use perpend_http_kit::problem::Problem;
use perpend_views::{ChosenColumns, ListDeclaration, Parameter, Text};

use crate::list::source::{
    ListConditions, ListScope, ListSource, OwnParameter, OwnParameters, kept_parameters,
};
use crate::read;
use crate::request::cursor::{self, ListLinks};
use crate::request::viewer::{Viewer, focus_of};
use crate::state::App;
use crate::traces;

/// Parameters of all lists that are given once; `cols` may be repeated.
const COMMON: [&str; 6] = ["q", "n", "sort", "after", "before", "received"];
/// Characters of invalid values that a notice repeats.
const MAX_ECHO: usize = 100;

/// A request for a page or a file of a list.
pub(crate) struct ListRequest<L: ListSource> {
    pub(crate) scope: ListScope,
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
    /// The list's own query parameters.
    own: Vec<Parameter>,
    /// The time after which rows are new, for the number of new rows.
    pub(crate) received: String,
    pub(crate) notices: Vec<Text>,
}

/// The valid ones of the list's own parameters. Invalid ones add a notice.
fn own_parameters(
    known: &[OwnParameter],
    given: &BTreeMap<String, String>,
    notices: &mut Vec<Text>,
) -> OwnParameters {
    let mut own = OwnParameters::default();
    for OwnParameter { name, expected, is_valid, .. } in known {
        let raw = given.get(*name).map_or("", String::as_str);
        // Blanks may belong to the id of a session or user.
        let raw = if is_valid(raw) { raw } else { raw.trim() };
        if raw.trim().is_empty() {
            continue;
        }
        if is_valid(raw) {
            own.0.insert(*name, raw.to_owned());
        } else if !expected.is_empty() {
            let raw: String = raw.chars().take(MAX_ECHO).collect();
            let fault = format!("`{name}` must be {expected}, got `{raw}`; ignored.");
            notices.push(Text::from(fault));
        }
    }
    own
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
    pub(crate) fn new(scope: ListScope, raw: Option<&str>) -> Result<Self, Problem> {
        let ListScope { app, viewer } = &scope;
        let mut given = BTreeMap::new();
        let mut names = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let is_own = L::PARAMETERS.iter().any(|own| own.name == name);
            if name == "cols" {
                names.push(value.into_owned());
            } else if (is_own || COMMON.contains(&name.as_ref()))
                && given.insert(name.to_string(), value.into_owned()).is_some()
            {
                return Err(Problem::query(&name, "must not be repeated"));
            }
        }
        let value = |name: &str| given.get(name).map_or("", String::as_str);
        let mut notices = viewer.faults.clone();
        let (filter_columns, q): (&'static [Column], &str) = match L::LIST.filter {
            Some(filter) => (filter.columns, value("q")),
            None => (&[], ""),
        };
        let q = traces::params::filter(q, &mut notices);
        let parsed = parse(&q, filter_columns);
        let (n, rows) = cursor::page_size((value("n"), value("sort")), L::ORDER, &mut notices);
        let columns = columns(L::LIST, &names.join(","), &mut notices);
        let (cursor, is_backwards) =
            cursor::parse_position(value("after"), value("before"), &mut notices);
        let conditions = ListConditions {
            filter: parsed.filter.clone(),
            range: viewer.focus.range(read::start_of_minute(app.web.clock.now())),
            environments: viewer.focus.environments.clone(),
            with_own: true,
        };
        let own = own_parameters(L::PARAMETERS, &given, &mut notices);
        let mut source = L::default();
        source.apply(&own, &parsed.filter, &mut notices);
        Ok(Self {
            source,
            table_parameters: rows.into_iter().chain(L::LIST.columns_parameter(&columns)).collect(),
            position: ListPosition { cursor, is_backwards },
            own: kept_parameters(L::PARAMETERS, &own),
            received: value("received").to_owned(),
            scope,
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
        [self.scope.viewer.parameters(), self.table_parameters.clone(), self.own.clone()].concat()
    }

    /// Query parameters of the list except the filter, the time range and the environments.
    pub(crate) fn unfiltered_parameters(&self) -> Vec<Parameter> {
        let unknown = self.scope.viewer.unknown_parameters();
        [self.own.clone(), self.table_parameters.clone(), unknown].concat()
    }

    /// Whether no condition is set.
    pub(crate) fn is_whole(&self) -> bool {
        let has_focus = self.scope.viewer.focus != perpend_views::Focus::default();
        self.parsed.terms.is_empty() && self.own.is_empty() && !has_focus
    }

    /// URLs of the pages of the list.
    pub(crate) fn links(&self) -> ListLinks {
        let path = format!("{}/{}", self.scope.viewer.base(), L::LIST.texts.path);
        let pairs = self.other_parameters().into_iter().chain(self.filter_parameter()).collect();
        ListLinks { path, pairs }
    }
}

/// All conditions of the list with this query string as the text of a filter; absent if one of them has no text.
pub(crate) fn filter_text<L: ListSource>(
    app: &App,
    viewer: &Viewer,
    query: Option<&str>,
) -> Option<String> {
    let mut viewer = viewer.clone();
    viewer.focus = focus_of(query.unwrap_or_default()).0;
    let request = ListRequest::<L>::new(ListScope { app: app.clone(), viewer }, query).ok()?;
    let filter = request.conditions.whole(L::LIST.filter?.columns, L::TIME_COLUMN);
    let terms = filter.conditions.iter().map(print_condition);
    Some(terms.collect::<Option<Vec<String>>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [OwnParameter; 2] = [
        OwnParameter::new("size", "a number", |raw| raw.parse::<u32>().is_ok()),
        OwnParameter::transient("id"),
    ];

    fn read(pairs: &[(&str, &str)]) -> (OwnParameters, Vec<Text>) {
        let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut notices = Vec::new();
        let own = own_parameters(&KNOWN, &given.collect(), &mut notices);
        (own, notices)
    }

    #[test]
    fn an_own_parameter_applies_if_it_is_valid_and_adds_a_notice_otherwise() {
        let (own, notices) = read(&[("size", " 7 "), ("id", "a"), ("other", "b")]);
        assert_eq!((own.text("size"), own.parsed::<u32>("size")), ("7", Some(7)));
        assert_eq!((own.text("id"), own.text("other")), ("a", ""));
        assert!(notices.is_empty(), "{notices:?}");
        let (own, notices) = read(&[("size", "x"), ("id", " ")]);
        assert!(own.0.is_empty());
        assert_eq!(notices.len(), 1);
        assert!(notices[0].raw().starts_with("`size` "), "{notices:?}");
    }

    #[test]
    fn links_have_the_own_parameters_that_are_kept() {
        let (own, _) = read(&[("size", "7"), ("id", "a")]);
        let kept: Vec<Parameter> = vec![("size".into(), "7".to_owned())];
        assert_eq!(kept_parameters(&KNOWN, &own), kept);
    }
}
