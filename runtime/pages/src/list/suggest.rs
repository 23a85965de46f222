//! `GET P/_/traces/suggest?q=`, and the same for the other lists: completions at the end of a filter, which are columns,
//! operators, and values of the newest traces.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Column, ColumnKind, Filter, SCORE_COLUMNS, TRACES};
use perpend_domain::query::{
    CompletionPart, QueryCompletion, SCORE, SCORE_OPERATORS, completion_at_end, operators, parse,
    printed,
};
use perpend_domain::telemetry::GroupKey;
use perpend_domain::text_search::{Facet, FacetColumn, Facets};
use perpend_http_kit::problem::Problem;
use perpend_views::{FilterableList, SuggestPage, Suggestion, Text};
use serde::Deserialize;

use crate::read;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Completions in a response.
const MAX_COMPLETIONS: usize = 12;
/// Newest traces or scores whose values are suggested.
const MAX_ROWS: u32 = 10_000;

async fn trace_facets_of_project(app: &App, viewer: &Viewer) -> Result<Arc<Facets>, Problem> {
    let (cache, project) = (app.facets(), &viewer.project);
    let now = app.web.clock.now();
    if let Some(values) = cache.get(project, now) {
        return Ok(values);
    }
    let shown = Filter { conditions: vec![read::exclude_internal(TRACES)] };
    let telemetry = &app.store.telemetry;
    let values = Arc::new(telemetry.trace_facets(project, &shown, MAX_ROWS).await?);
    cache.insert(project, now, Arc::clone(&values));
    Ok(values)
}

/// Values for the filter of a list. They are those of traces, except for the environments of scores.
async fn facets_for(
    app: &App,
    viewer: &Viewer,
    list: &'static FilterableList,
    text: &str,
) -> Result<Arc<Facets>, Problem> {
    let is_environment = match completion_at_end(text, list.columns).part {
        CompletionPart::Value { column, .. } => column == "environment",
        CompletionPart::Column | CompletionPart::Key(_) => false,
    };
    if list.list != "scores" || !is_environment {
        return trace_facets_of_project(app, viewer).await;
    }
    let telemetry = &app.store.telemetry;
    let found = telemetry.score_environments(&viewer.project, MAX_ROWS);
    let found = found.await?;
    let n: u64 = found.iter().map(|(_, n)| *n).sum();
    let values = found.into_iter().map(|(name, n)| (Some(name), n));
    Ok(Arc::new(Facets {
        n_traces: n,
        is_cut: u64::from(MAX_ROWS) <= n,
        facets: vec![Facet {
            column: FacetColumn::Environment,
            values: values.collect(),
            has_more: false,
        }],
    }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SuggestParams {
    /// The filter up to the text cursor.
    q: String,
}

/// Ids of sessions or users with the typed prefix, if the column contains such ids.
async fn id_completions(
    app: &App,
    viewer: &Viewer,
    list: &'static FilterableList,
    text: &str,
) -> Result<Vec<String>, Problem> {
    let QueryCompletion { start, part, .. } = completion_at_end(text, list.columns);
    let CompletionPart::Value { column, .. } = part else {
        return Ok(Vec::new());
    };
    let column = perpend_domain::query::column(list.columns, &column).map(|column| column.id);
    let by = match (list.list, column) {
        ("sessions", Some("id")) | (_, Some("sessionId")) => GroupKey::Session,
        ("users", Some("id")) => GroupKey::User,
        _ => return Ok(Vec::new()),
    };
    let telemetry = &app.store.telemetry;
    let found = telemetry.groups_with_prefix(&viewer.project, by, &start, MAX_COMPLETIONS);
    Ok(found.await?)
}

/// Completions of the filter of a list.
pub(crate) async fn suggest_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<SuggestParams>,
    list: &'static FilterableList,
) -> Result<Response, Problem> {
    let suggestions = match params.q.len() <= perpend_domain::query::MAX_BYTES {
        true => {
            let facets = facets_for(&app, &viewer, list, &params.q).await?;
            let ids = id_completions(&app, &viewer, list, &params.q).await?;
            completions(&params.q, list, &facets, &ids)
        }
        false => Vec::new(),
    };
    page(StatusCode::OK, &SuggestPage { suggestions })
}

/// Completions at the end of `text`. `ids` have the typed value as their prefix.
fn completions(
    text: &str,
    list: &'static FilterableList,
    facets: &Facets,
    ids: &[String],
) -> Vec<Suggestion> {
    let QueryCompletion { at, term, start, part } = completion_at_end(text, list.columns);
    let mut options = match &part {
        CompletionPart::Column => columns(list.columns),
        CompletionPart::Key(column) => keys(column, list, facets),
        CompletionPart::Value { column, key, is_first } => {
            let is_first = *is_first && start.is_empty();
            let own = values_and_operators((column, key.as_deref()), is_first, list, facets);
            let others = ids.iter().filter(|id| own.iter().all(|one| one.title != **id));
            let others = others.map(|id| Completion {
                title: id.clone(),
                note: String::new(),
                written: format!("{} ", printed(id)),
            });
            others.collect::<Vec<_>>().into_iter().chain(own).collect()
        }
    };
    let start = start.to_lowercase();
    let place = |option: &Completion| option.title.to_lowercase().find(&start);
    options.retain(|option| place(option).is_some() && option.written != text[at.clone()]);
    // Matches at the beginning come first; the sort is stable.
    options.sort_by_key(|option| place(option) != Some(0));
    let fits = |option: &Completion| match &part {
        CompletionPart::Column | CompletionPart::Key(_) => true,
        CompletionPart::Value { column, .. } => {
            let written = format!("{}{}", &text[term..at.start], option.written);
            is_valid_start(
                &written,
                list.columns,
                perpend_domain::query::column(list.columns, column),
            )
        }
    };
    let suggestion = |option: Completion| Suggestion {
        whole: format!("{}{}", &text[..at.start], option.written),
        title: Text::from(option.title),
        note: Text::from(option.note),
    };
    let fitting = options.into_iter().filter(fits).take(MAX_COMPLETIONS);
    fitting.map(suggestion).collect()
}

/// Whether a term may start with this text. Text that ends with a space is a complete value of a list that may continue; an
/// operator is tested with sample values.
fn is_valid_start(written: &str, columns: &'static [Column], column: Option<&Column>) -> bool {
    let reads = |term: String| parse(&term, columns).faults().next().is_none();
    let sample = column.and_then(|column| column.values.first());
    let value = sample.copied().unwrap_or("1");
    match written.strip_suffix(' ') {
        Some(whole) => ["", ")"].iter().any(|end| reads(format!("{whole}{end}"))),
        None => [value, "2026-03-01", "true"]
            .iter()
            .any(|value| reads(format!("{written}{value}")) || reads(format!("{written}{value})"))),
    }
}

struct Completion {
    title: String,
    note: String,
    written: String,
}

fn value_kind(column: &Column, all: &[Column]) -> &'static str {
    match column.kind {
        ColumnKind::Time => "a time",
        ColumnKind::Number => "a number",
        ColumnKind::Bool => "true or false",
        ColumnKind::List => "a list",
        ColumnKind::NullOnly => "null or set",
        ColumnKind::FullText if column.id == "text" && has_scores(all) => {
            "text of all observations"
        }
        _ => "text",
    }
}

/// Whether the list can be filtered by scores with a given name.
fn has_scores(columns: &[Column]) -> bool {
    columns.iter().any(|column| SCORE_COLUMNS.contains(&column.id))
}

fn columns(all: &'static [Column]) -> Vec<Completion> {
    let is_other = |column: &&Column| !SCORE_COLUMNS.contains(&column.id);
    let own = all.iter().filter(is_other).map(|column| {
        let (sign, note) = match column.kind.has_members() {
            true => ('.', "values by key"),
            false => (':', value_kind(column, all)),
        };
        Completion {
            title: column.id.to_owned(),
            note: note.to_owned(),
            written: format!("{}{sign}", column.id),
        }
    });
    let score = has_scores(all).then(|| Completion {
        title: SCORE.to_owned(),
        note: "a score, by name".to_owned(),
        written: format!("{SCORE}."),
    });
    score.into_iter().chain(own).collect()
}

fn keys(column: &str, list: &FilterableList, facets: &Facets) -> Vec<Completion> {
    if column != SCORE || !has_scores(list.columns) {
        return Vec::new();
    }
    let names = values_of(facets, FacetColumn::Score);
    let choice = |(name, n): (&str, u64)| Completion {
        title: name.to_owned(),
        note: count_note(n, facets),
        written: format!("{}:", printed(name)),
    };
    names.map(choice).collect()
}

/// Values and, directly after the colon, operators.
fn values_and_operators(
    (column, key): (&str, Option<&str>),
    is_first: bool,
    list: &'static FilterableList,
    facets: &Facets,
) -> Vec<Completion> {
    let found = perpend_domain::query::column(list.columns, column);
    let signs: &[&str] = match (found, key) {
        (Some(column), _) => operators(column.kind),
        (None, Some(_)) if column == SCORE && has_scores(list.columns) => SCORE_OPERATORS,
        _ => return Vec::new(),
    };
    let facet = found.and_then(|column| facet_of(list, column));
    let mut choices: Vec<Completion> = facet
        .into_iter()
        .flat_map(|facet| values_of(facets, facet))
        .map(|(value, n)| Completion {
            title: value.to_owned(),
            note: count_note(n, facets),
            written: format!("{} ", printed(value)),
        })
        .collect();
    // Valid values that no trace has.
    for value in found.map_or(&[][..], |column| column.values) {
        if choices.iter().all(|choice| choice.title != *value) {
            choices.push(Completion {
                title: (*value).to_owned(),
                note: String::new(),
                written: format!("{value} "),
            });
        }
    }
    let is_word = |sign: &str| sign.bytes().all(|byte| byte.is_ascii_alphabetic());
    for sign in signs {
        if is_word(sign) || (is_first && *sign != "..") {
            let space = if is_word(sign) { " " } else { "" };
            choices.push(Completion {
                title: (*sign).to_owned(),
                note: operator_note(sign).to_owned(),
                written: format!("{sign}{space}"),
            });
        }
    }
    choices
}

fn operator_note(sign: &str) -> &'static str {
    match sign {
        "=" | "==" => "exactly",
        "!=" => "not",
        "~" => "contains",
        "^" => "starts with",
        "$" => "ends with",
        "*" => "matches, ignoring case",
        ">" => "above",
        ">=" => "at least",
        "<" => "below",
        "<=" => "at most",
        "any(" => "has one of",
        "all(" => "has all of",
        "null" => "has no value",
        "set" => "has a value",
        _ => "",
    }
}

/// The facet with the values of a column of this list.
fn facet_of(list: &FilterableList, column: &Column) -> Option<FacetColumn> {
    Some(match (list.list, column.id) {
        (_, "environment") => FacetColumn::Environment,
        ("users", "id") | (_, "userId") => FacetColumn::User,
        ("traces", "name") | ("observations", "traceName") => FacetColumn::Name,
        ("scores", "name") | ("traces" | "observations", "score_names") => FacetColumn::Score,
        ("traces" | "observations", "tags") => FacetColumn::Tag,
        ("traces", "kinds") | ("observations", "type") => FacetColumn::Kind,
        ("traces", "models") | ("observations", "model") => FacetColumn::Model,
        ("traces", "prompts") | ("observations", "promptName") => FacetColumn::Prompt,
        ("traces" | "observations", "release") => FacetColumn::Release,
        ("traces" | "observations", "level") => FacetColumn::Level,
        _ => return None,
    })
}

fn values_of(facets: &Facets, column: FacetColumn) -> impl Iterator<Item = (&str, u64)> {
    let facets = facets.facets.iter();
    let own = facets.filter(move |facet| facet.column == column);
    let values = own.flat_map(|facet: &Facet| &facet.values);
    values.filter_map(|(value, n)| Some((value.as_deref()?, *n)))
}

fn count_note(n: u64, facets: &Facets) -> String {
    let all = perpend_views::count(facets.n_traces);
    let n = perpend_views::count(n);
    match facets.is_cut {
        true => format!("{n} of the newest {all}"),
        false => format!("{n} of {all}"),
    }
}

#[cfg(test)]
mod tests {
    use perpend_views::{SESSION_LIST, TRACE_LIST, USER_LIST};

    use super::*;

    fn facets() -> Facets {
        let facet = |column, values: &[(&str, u64)]| Facet {
            column,
            values: values.iter().map(|(value, n)| (Some((*value).to_owned()), *n)).collect(),
            has_more: false,
        };
        Facets {
            n_traces: 10_000,
            is_cut: true,
            facets: vec![
                facet(FacetColumn::Name, &[("chat", 9_000), ("two words", 12)]),
                facet(FacetColumn::Level, &[("DEFAULT", 5), ("ERROR", 2)]),
                facet(FacetColumn::Score, &[("quality", 7)]),
            ],
        }
    }

    fn wholes(text: &str) -> Vec<String> {
        wholes_of(&TRACE_LIST, text, &[])
    }

    fn wholes_of(list: &'static FilterableList, text: &str, ids: &[String]) -> Vec<String> {
        let found = completions(text, list, &facets(), ids).into_iter();
        found.map(|suggestion| suggestion.whole).collect()
    }

    #[test]
    fn lists_of_sessions_and_users_have_their_own_columns_and_ids_and_no_scores() {
        assert_eq!(wholes_of(&SESSION_LIST, "errorC", &[]), ["errorCount:"]);
        assert!(wholes_of(&SESSION_LIST, "sco", &[]).is_empty());
        assert!(wholes_of(&USER_LIST, "score.qu", &[]).is_empty());
        assert!(wholes_of(&USER_LIST, "level:", &[]).is_empty());
        let ids = ["a 1".to_owned(), "a2".to_owned()];
        assert_eq!(wholes_of(&SESSION_LIST, "id:a", &ids), ["id:\"a 1\" ", "id:a2 "]);
    }

    #[test]
    fn columns_are_completed_by_prefix() {
        assert_eq!(wholes("level:ERROR laten"), ["level:ERROR latency:"]);
        assert_eq!(wholes("-sco")[0], "-score.");
        assert!(wholes("meta").contains(&"metadata.".to_owned()));
        assert_eq!(wholes("").len(), MAX_COMPLETIONS);
    }

    #[test]
    fn values_have_counts_and_are_quoted_where_necessary() {
        assert_eq!(wholes("name:two"), ["name:\"two words\" "]);
        let level = completions("level:", &TRACE_LIST, &facets(), &[]);
        assert_eq!(level[0].note.raw(), "5 of the newest 10,000");
        let titles: Vec<_> = level.iter().map(|one| one.title.raw()).collect();
        assert_eq!(
            titles[..5],
            ["DEFAULT", "ERROR", "DEBUG", "WARNING", "="],
            "stored values first, then other valid values, then operators"
        );
        assert_eq!(wholes("level:ERROR,warn"), ["level:ERROR,WARNING "]);
        assert_eq!(wholes("score.qu"), ["score.quality:"]);
        assert_eq!(wholes("score.quality:")[0], "score.quality:<");
        assert!(wholes("latncy:").is_empty());
    }

    #[test]
    fn only_valid_completions_are_offered() {
        assert!(wholes("latency:>").is_empty());
        assert!(wholes("level:>").is_empty());
        assert_eq!(wholes("latency:nu"), ["latency:null "]);
        assert_eq!(wholes("score.quality:tr"), ["score.quality:true "]);
        assert!(wholes("score.quality:>").is_empty());
        assert_eq!(wholes("score.quality:nu"), ["score.quality:null "]);
        assert_eq!(wholes("-score.quality:set"), ["-score.quality:set "]);
        assert_eq!(wholes("bookmarked:=t"), ["bookmarked:=true "]);
        assert!(!wholes("level:").contains(&"level:any(".to_owned()));
        assert!(wholes("tags:").contains(&"tags:any(".to_owned()));
        assert_eq!(
            wholes("level:ERROR,"),
            ["DEFAULT", "ERROR", "DEBUG", "WARNING"].map(|level| format!("level:ERROR,{level} "))
        );
        // A negated term has fewer operators.
        assert!(wholes("latency:").contains(&"latency:>".to_owned()));
        assert!(!wholes("-latency:").contains(&"-latency:>".to_owned()));
        // Each completed term is valid.
        for text in ["level:", "name:", "-name:~", "tags:", "timestamp:", "bookmarked:"] {
            for whole in wholes(text).iter().filter(|whole| whole.ends_with(' ')) {
                assert_eq!(parse(whole, TRACES).faults().next(), None, "{whole}");
            }
        }
    }
}
