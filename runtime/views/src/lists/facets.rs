//! Facets: values of some columns with their number of traces and filter links.

use crate::lists::column::ChosenColumn;
use crate::lists::trace_rows::TRACE_ROWS;
use crate::urls::{SCORE, TracesQuery, name_with_key};
use askama::Template;
use perpend_domain::filter::{Column, Condition, TRACES, Test, find};
use perpend_domain::query::{parse, print_condition};
use perpend_domain::text_search::{Facet, FacetColumn, Facets};

use crate::Text;
use crate::format::count;

/// Each link repeats the filter, so that longer filters get no links.
pub(crate) const MAX_FILTER: usize = 500;

/// The facets of a list of traces.
#[derive(Clone, Debug)]
pub struct FacetsView {
    pub(crate) n_traces: String,
    pub(crate) is_cut: bool,
    pub(crate) groups: Vec<FacetGroup>,
}

#[derive(Clone, Debug)]
pub(crate) struct FacetGroup {
    pub(crate) label: &'static str,
    pub(crate) values: Vec<FacetValue>,
    pub(crate) has_more: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FacetValue {
    pub(crate) text: Text,
    pub(crate) n: String,
    /// URL of the list with this value; absent if the filter is too long.
    pub(crate) with: Option<String>,
    /// URL of the list without this value.
    pub(crate) without: Option<String>,
}

/// The facets as a fragment.
#[derive(Clone, Debug, Template)]
#[template(path = "facets.html")]
pub struct FacetsPage {
    /// The facets.
    pub facets: FacetsView,
}

const fn label(column: FacetColumn) -> &'static str {
    match column {
        FacetColumn::Environment => "Environment",
        FacetColumn::Name => "Name",
        FacetColumn::User => "User",
        FacetColumn::Tag => "Tags",
        FacetColumn::Kind => "Observation kind",
        FacetColumn::Model => "Model",
        FacetColumn::Prompt => "Prompt",
        FacetColumn::Release => "Release",
        FacetColumn::Level => "Level",
        FacetColumn::Score => "Scores",
    }
}

/// Filter column of a facet; `None` for scores.
const fn filtered(column: FacetColumn) -> Option<&'static str> {
    Some(match column {
        FacetColumn::Environment => "environment",
        FacetColumn::Name => "name",
        FacetColumn::User => "userId",
        FacetColumn::Release => "release",
        FacetColumn::Level => "level",
        FacetColumn::Tag => "tags",
        FacetColumn::Kind => "kinds",
        FacetColumn::Model => "models",
        FacetColumn::Prompt => "prompts",
        FacetColumn::Score => return None,
    })
}

/// Conditions for traces with a value and for traces without it.
fn tests(value: Option<&str>) -> [Test; 2] {
    let Some(value) = value else {
        return [Test::IsNull, Test::IsNotNull];
    };
    let one = || vec![value.to_owned()];
    [Test::AnyOf(one()), Test::NoneOf(one())]
}

impl FacetsView {
    pub(crate) fn is_without_links(&self) -> bool {
        let mut values = self.groups.iter().flat_map(|group| &group.values);
        values.any(|value| value.with.is_none())
    }

    /// `query` is the current list, `base` the URL of the project.
    #[must_use]
    pub fn new(found: &Facets, query: &TracesQuery, base: &str) -> Self {
        let groups = found.facets.iter().filter(|facet| !facet.values.is_empty());
        Self {
            n_traces: count(found.n_traces),
            is_cut: found.is_cut,
            groups: groups.map(|facet| group(facet, query, base)).collect(),
        }
    }
}

fn group(facet: &Facet, query: &TracesQuery, base: &str) -> FacetGroup {
    let with_term = |test: Test, id: &str| {
        let condition = Condition { column: find(TRACES, id), test };
        let q = joined(TRACES, &query.q, condition)?;
        Some(query.with(&q).first(base))
    };
    let value = |(value, n): &(Option<String>, u64)| {
        let value = value.as_deref();
        let (with, without) = match filtered(facet.column) {
            _ if MAX_FILTER < query.q.len() => (None, None),
            Some(id) => {
                let [with, without] = tests(value);
                (Some(with_term(with, id)?), with_term(without, id))
            }
            None => (Some(with_score(query, value?, base)), None),
        };
        Some(FacetValue {
            text: match (facet.column, value) {
                // The spelling of the other pages.
                (FacetColumn::Level | FacetColumn::Kind, Some(word)) => {
                    Text::from(word.to_lowercase())
                }
                (_, value) => Text::from(value.unwrap_or("none")),
            },
            n: count(*n),
            with,
            without,
        })
    };
    FacetGroup {
        label: label(facet.column),
        values: facet.values.iter().filter_map(value).collect(),
        has_more: facet.has_more,
    }
}

/// The filter with one more condition. A value is merged into an existing condition of its column, without duplicates. If
/// the filter has an invalid term, the condition is appended.
pub(crate) fn joined(columns: &'static [Column], q: &str, condition: Condition) -> Option<String> {
    let parsed = parse(q, columns);
    if parsed.terms.iter().any(|term| term.outcome.is_err()) {
        return Some(format!("{q} {}", print_condition(&condition)?));
    }
    let mut all = parsed.filter.conditions;
    let column = condition.column.map(|own| own.id);
    let mut of_column = all.iter_mut().filter(|own| own.column.map(|own| own.id) == column);
    let has_it = of_column.any(|own| match (&mut own.test, &condition.test) {
        (Test::AnyOf(values), Test::AnyOf(more)) | (Test::NoneOf(values), Test::NoneOf(more)) => {
            let new = more.iter().filter(|value| !values.contains(value));
            let new: Vec<String> = new.cloned().collect();
            values.extend(new);
            true
        }
        (there, wanted) => *there == *wanted,
    });
    if !has_it {
        all.push(condition);
    }
    let terms: Option<Vec<String>> = all.iter().map(print_condition).collect();
    Some(terms?.join(" "))
}

/// URL of the list with a column of the scores with this name.
fn with_score(query: &TracesQuery, name: &str, base: &str) -> String {
    let (shown, _) = TRACE_ROWS.choose(&query.columns);
    let names = shown.iter().map(ChosenColumn::id).chain([name_with_key(SCORE, name).into()]);
    let (shown, _) = TRACE_ROWS.choose(&names.collect::<Vec<_>>().join(","));
    let columns = TRACE_ROWS.columns_parameter(&shown).map(|(_, names)| names).unwrap_or_default();
    let query = TracesQuery { columns, ..query.clone() };
    query.first(base)
}

impl FacetGroup {
    pub(crate) fn is_of_scores(&self) -> bool {
        self.label == label(FacetColumn::Score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_domain::query::parse;

    #[test]
    fn a_value_is_merged_into_the_condition_of_its_column_once() {
        let of = |test| Condition { column: find(TRACES, "environment"), test };
        let any = |value: &str| of(Test::AnyOf(vec![value.to_owned()]));
        let none = |value: &str| of(Test::NoneOf(vec![value.to_owned()]));
        let q = joined(TRACES, "name:chat", any("a")).unwrap();
        assert_eq!(q, "name:chat environment:a");
        let wide = joined(TRACES, &q, any("b")).unwrap();
        assert_eq!(wide, "name:chat environment:a,b");
        assert_eq!(joined(TRACES, &wide, any("b")).unwrap(), wide);
        assert_eq!(
            joined(TRACES, &q, none("b")).unwrap(),
            "name:chat environment:a -environment:b"
        );
        assert_eq!(joined(TRACES, "latncy:>2", any("a")).unwrap(), "latncy:>2 environment:a");
    }

    #[test]
    fn a_long_filter_is_not_repeated_for_each_value() {
        let facet = Facet {
            column: FacetColumn::Tag,
            values: vec![(Some("a".to_owned()), 1)],
            has_more: false,
        };
        let found = Facets { n_traces: 1, is_cut: false, facets: vec![facet] };
        let of = |n: usize| FacetsView::new(&found, &TracesQuery::of("x".repeat(n)), "/p");
        assert!(of(MAX_FILTER + 1).is_without_links());
        assert!(!of(MAX_FILTER).is_without_links());
    }

    #[test]
    fn a_value_link_round_trips_through_the_filter() {
        let hostile = "a \"b\",(c):d";
        for (column, q) in [
            (FacetColumn::Name, "x"),
            (FacetColumn::Tag, ""),
            (FacetColumn::Model, "kinds:TOOL"),
            (FacetColumn::User, "level:ERROR"),
        ] {
            let facet = Facet {
                column,
                values: vec![(Some(hostile.to_owned()), 12_345), (None, 1)],
                has_more: true,
            };
            let found = Facets { n_traces: 10_000, is_cut: true, facets: vec![facet] };
            let view = FacetsView::new(&found, &TracesQuery::of(q), "/p");
            let value = &view.groups[0].values[0];
            assert_eq!(value.n, "12,345");
            for address in [value.with.as_ref(), value.without.as_ref()].into_iter().flatten() {
                let raw = address.split_once("q=").unwrap().1;
                let text = percent_encoding::percent_decode_str(raw);
                let text = text.decode_utf8().unwrap();
                let parsed = parse(&text, TRACES);
                assert_eq!(parsed.faults().count(), 0, "{text}");
                let last = parsed.filter.conditions.last().unwrap();
                assert!(format!("{:?}", last.test).contains(r#"a \"b\",(c):d"#), "{last:?}");
            }
        }
    }
}
