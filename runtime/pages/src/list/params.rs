//! Query parameters of a list.

use std::collections::BTreeMap;

use perpend_domain::filter::{Column, Filter};
use perpend_domain::query::{MAX_BYTES, parse, print_condition};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ChosenColumns, ListDeclaration, MAX_COLUMNS, Parameter, SearchProgress, Text, count, with_query,
};

use crate::list::source::{
    ListConditions, ListParams, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters,
    kept_parameters,
};
use crate::read;
use crate::request::cursor::{self, ListLinks, truncated};
use crate::request::viewer::{Viewer, focus_of};
use crate::state::App;

/// Parameters of all lists that are given once; `cols` may be repeated.
const COMMON: [&str; 9] =
    ["q", "n", "sort", "after", "before", "page", "looked", "found", "received"];
/// The largest page number.
const MAX_PAGE: u32 = 1_000_000;

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
            let fault = format!("`{name}` must be {expected}, got `{}`; ignored.", truncated(raw));
            notices.push(Text::from(fault));
        }
    }
    own
}

/// The columns with these names. Unknown names add a notice, and too many.
fn columns<R: 'static>(
    list: &'static ListDeclaration<R>,
    raw: &str,
    notices: &mut Vec<Text>,
) -> ChosenColumns<R> {
    let (mut columns, unknown) = list.choose(raw);
    if !unknown.is_empty() {
        notices.push(Text::from(format!(
            "`cols` has unknown columns: {}. Known columns: {}.",
            truncated(&unknown.join(", ")),
            list.column_names()
        )));
    }
    if MAX_COLUMNS < columns.len() {
        columns.truncate(MAX_COLUMNS);
        notices.push(Text::from(format!(
            "`cols` must have at most {MAX_COLUMNS} columns; showing the first {MAX_COLUMNS}."
        )));
    }
    columns
}

/// The filter; empty if it is too long, because each link of the page repeats it.
fn filter(raw: &str, notices: &mut Vec<Text>) -> String {
    let q = raw.trim();
    if q.len() <= MAX_BYTES {
        return q.to_owned();
    }
    let [most, n] = [MAX_BYTES, q.len()].map(|n| count(n as u64));
    notices.push(Text::from(format!("`q` must have at most {most} bytes, got {n}; ignored.")));
    String::new()
}

/// The page number, from 1.
fn page_number(raw: &str, notices: &mut Vec<Text>) -> u32 {
    let read = raw.parse().ok().filter(|n| (1..=MAX_PAGE).contains(n));
    if read.is_none() && !raw.is_empty() {
        notices.push(Text::from(format!(
            "`page` must be between 1 and {}, got `{}`; showing the first page.",
            count(MAX_PAGE.into()),
            truncated(raw)
        )));
    }
    read.unwrap_or(1)
}

impl<L: ListSource> ListParams<L> {
    /// Parses a query string. A repeated parameter is an error.
    pub(crate) fn parse(raw: Option<&str>, mut notices: Vec<Text>) -> Result<Self, Problem> {
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
        let (filter_columns, q): (&'static [Column], &str) = match L::LIST.filter {
            Some(filter) => (filter.columns, value("q")),
            None => (&[], ""),
        };
        let q = filter(q, &mut notices);
        let parsed = parse(&q, filter_columns);
        let mut source = L::default();
        source.set_order(value("sort"), &mut notices);
        let columns = columns(L::LIST, &names.join(","), &mut notices);
        let (n, rows) = cursor::page_size(value("n"), &mut notices);
        let ends = (value("after"), value("before"));
        let parse_cursor = |raw: &str| source.parse_cursor(raw);
        let position = cursor::parse_position((ends, L::CURSORS_OF), parse_cursor, &mut notices);
        let page = match L::HAS_PAGE_NUMBERS && !position.is_later() {
            true => page_number(value("page"), &mut notices),
            false => 1,
        };
        let progress = |name: &str| value(name).parse::<u64>().ok();
        let searched = progress("looked").zip(progress("found"));
        let is_forwards = position.cursor.is_some() && !position.is_backwards;
        let searched = searched.filter(|_| L::HAS_PROGRESS && is_forwards);
        let own = own_parameters(L::PARAMETERS, &given, &mut notices);
        source.apply(&own, &parsed.filter, &mut notices);
        Ok(Self {
            source,
            table_parameters: L::LIST.columns_parameter(&columns).into_iter().chain(rows).collect(),
            searched: searched.map(|(n_tested, n_found)| SearchProgress { n_tested, n_found }),
            own: kept_parameters(L::PARAMETERS, &own),
            received: value("received").to_owned(),
            position,
            page,
            q,
            parsed,
            columns,
            n,
            notices,
        })
    }

    /// The parameter of the order, the columns and the number of rows, unless they are the default.
    fn order_and_table(&self, source: &L) -> Vec<Parameter> {
        let order = source.order_parameter().map(|order| ("sort".into(), order));
        order.into_iter().chain(self.table_parameters.clone()).collect()
    }
}

impl<L: ListSource> ListRequest<L> {
    /// The request of a viewer with this query string.
    pub(crate) fn new(scope: ListScope, raw: Option<&str>) -> Result<Self, Problem> {
        let ListScope { app, viewer } = &scope;
        let params = ListParams::<L>::parse(raw, viewer.faults.clone())?;
        let conditions = ListConditions {
            filter: params.parsed.filter.clone(),
            range: viewer.focus.range(read::start_of_minute(app.web.clock.now())),
            environments: viewer.focus.environments.clone(),
            with_own: true,
        };
        Ok(Self { scope, conditions, params })
    }

    /// The request of the page of a list whose URL has this query string.
    pub(crate) fn of_url(app: &App, viewer: &Viewer, query: Option<&str>) -> Result<Self, Problem> {
        let mut viewer = viewer.clone();
        viewer.focus = focus_of(query.unwrap_or_default()).0;
        Self::new(ListScope { app: app.clone(), viewer }, query)
    }

    /// All conditions as one filter.
    pub(crate) fn whole(&self) -> Filter {
        let columns: &'static [Column] = match L::LIST.filter {
            Some(filter) => filter.columns,
            None => &[],
        };
        self.conditions.whole(columns, L::TIME_COLUMN)
    }

    /// The `q` parameter, unless it is empty.
    pub(crate) fn filter_parameter(&self) -> Option<Parameter> {
        (!self.q.is_empty()).then(|| ("q".into(), self.q.clone()))
    }

    /// Query parameters of all pages of the list, without the filter.
    pub(crate) fn other_parameters(&self) -> Vec<Parameter> {
        self.parameters_with(&self.source)
    }

    /// The same in the order of another source.
    fn parameters_with(&self, source: &L) -> Vec<Parameter> {
        let focus = self.scope.viewer.parameters();
        [self.order_and_table(source), focus, self.own.clone()].concat()
    }

    /// Query parameters of the list except the filter, the time range and the environments.
    pub(crate) fn unfiltered_parameters(&self) -> Vec<Parameter> {
        let unknown = self.scope.viewer.unknown_parameters();
        [self.order_and_table(&self.source), unknown, self.own.clone()].concat()
    }

    /// Whether no condition is set.
    pub(crate) fn is_whole(&self) -> bool {
        let has_focus = self.scope.viewer.focus != perpend_views::Focus::default();
        self.parsed.terms.is_empty() && self.own.is_empty() && !has_focus
    }

    /// URLs of the pages of the list.
    pub(crate) fn links(&self) -> ListLinks {
        self.links_with(&self.source)
    }

    /// The same in the order of another source.
    pub(crate) fn links_with(&self, source: &L) -> ListLinks {
        let path = format!("{}/{}", self.scope.viewer.base(), L::LIST.texts.path);
        let others = self.parameters_with(source);
        ListLinks {
            path,
            pairs: self.filter_parameter().into_iter().chain(others).collect(),
            labels: L::PAGE_LABELS,
            cursor_text: L::cursor_text,
        }
    }

    /// URL of this page.
    pub(crate) fn url(&self) -> String {
        let links = self.links();
        match self.page {
            1 => links.page(&self.position),
            number => {
                let number: Parameter = ("page".into(), number.to_string());
                with_query(&links.path, &[links.pairs, vec![number]].concat())
            }
        }
    }
}

/// All conditions of the list with this query string as the text of a filter; absent if one of them has no text.
pub(crate) fn filter_text<L: ListSource>(
    app: &App,
    viewer: &Viewer,
    query: Option<&str>,
) -> Option<String> {
    let filter = ListRequest::<L>::of_url(app, viewer, query).ok()?.whole();
    let terms = filter.conditions.iter().map(print_condition);
    Some(terms.collect::<Option<Vec<String>>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use perpend_domain::list::ListPosition;

    use super::*;
    use crate::traces::list::Traces;

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

    fn traces(query: &str) -> ListParams<Traces> {
        ListParams::parse(Some(query), Vec::new()).ok().unwrap()
    }

    fn columns_of(params: &ListParams<Traces>) -> String {
        Traces::LIST.columns_parameter(&params.columns).unwrap().1
    }

    #[test]
    fn columns_of_checkboxes_and_of_the_text_field_are_combined() {
        let params = traces("cols=trace&cols=id&cols=metadata.a%2Cscore.b&n=25&sort=-errorCount");
        assert_eq!(columns_of(&params), "trace,id,metadata.a,score.b");
        assert_eq!((params.n, params.page, params.notices.len()), (25, 1, 0));
    }

    #[test]
    fn a_filter_that_is_too_long_is_ignored_with_a_notice() {
        let long = traces(&format!("q={}", "a".repeat(MAX_BYTES + 1)));
        assert_eq!(long.q, "");
        assert!(long.notices[0].raw().starts_with("`q` "), "{:?}", long.notices);
        let fits = traces(&format!("q={}", "a".repeat(MAX_BYTES)));
        assert_eq!((fits.q.len(), fits.notices.len()), (MAX_BYTES, 0));
    }

    #[test]
    fn each_invalid_parameter_adds_a_notice_and_the_others_apply() {
        let params = traces("q=+a+&cols=luck,id&n=7&sort=x&page=0&peculiar=1");
        let notices: Vec<&str> = params.notices.iter().map(Text::raw).collect();
        for (notice, start) in notices.iter().zip(["`sort` ", "`cols` ", "`n` ", "`page` "]) {
            assert!(notice.starts_with(start), "{notice}");
        }
        assert_eq!(notices.len(), 4);
        assert_eq!((params.q.as_str(), params.page), ("a", 1));
        assert_eq!(columns_of(&params), "trace,id");
    }

    #[test]
    fn search_progress_applies_only_after_a_cursor() {
        let searched = |query| traces(query).searched;
        let so_far = SearchProgress { n_tested: 20_000, n_found: 5 };
        assert_eq!(searched("after=_5_a&looked=20000&found=5"), Some(so_far));
        assert_eq!(so_far.more(), "&looked=20000&found=5");
        for other in [
            "looked=20000&found=5",
            "before=_5_a&looked=20000&found=5",
            "after=_5_a&looked=20000",
            "after=_5_a&looked=-1&found=5",
        ] {
            assert_eq!(searched(other), None, "{other}");
        }
    }

    #[test]
    fn a_cursor_applies_in_its_order_and_adds_a_notice_in_another() {
        let params = traces("after=_5_a&page=3");
        let cursor = params.position.cursor.as_ref().map(Traces::cursor_text);
        assert_eq!((cursor.as_deref(), params.page), (Some("_5_a"), 1));
        assert!(params.notices.is_empty());
        let params = traces("before=_5_a&sort=-latency");
        assert_eq!((params.page, params.position), (1, ListPosition::default()));
        assert!(params.notices[0].raw().starts_with("`before` "));
    }
}
