//! `GET P/search?q=` and `GET P/_/search?q=`: objects by id, or by the prefix of their name.
//!
//! Every query reads one row of an index or is bounded; the page reports omitted parts. The forms send `go=1`: if one
//! object has exactly this id, the response redirects to it, and if nothing has such an id or name, to the traces that contain
//! the text. A link without `go` always shows the results.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use perpend_catalog::NamedKind;
use perpend_domain::access::Permission::{
    self, DatasetRead, EvaluatorRead, ExperimentRead, PromptRead, ScoreRead,
};
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorId, ExecutionId, ObservationId, RuleId, ScoreId, TraceId};
use perpend_domain::query::word;
use perpend_domain::score::Subject;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::text_search::BoundedCount;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    SearchContentsFragment, SearchEntry, SearchEntryGroup, SearchFragment, SearchPage,
    SearchResults, Section, Text, TracesQuery, anchor, count, encode, evaluator_href, href,
    rule_href, run_href, segment,
};
use serde::Deserialize;

use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::filter_of;

/// Characters of a search text; no stored id is longer.
const MAX_CHARS: usize = 800;
/// Characters of the search text that the page repeats.
const MAX_ECHO: usize = 60;
/// Results read of each kind: one more than is shown, to detect further ones.
const LIMIT: usize = SearchEntryGroup::LIMIT + 1;
/// Named objects: heading, singular, kind, and the permission to see them.
const NAMED_KINDS: [(&str, &str, NamedKind, Permission); 4] = [
    ("Evaluators", "evaluator", NamedKind::Evaluator, EvaluatorRead),
    ("Rules", "rule", NamedKind::Rule, EvaluatorRead),
    ("Datasets", "dataset", NamedKind::Dataset, DatasetRead),
    ("Prompts", "prompt", NamedKind::Prompt, PromptRead),
];
/// Limits of the count of traces that contain a text: matches, and newest traces tested.
const TEXT_COUNT_LIMITS: (Option<u64>, u64) = (Some(100), 100);
const TOO_LONG: &str = "A search text must have at most 800 characters.";
const OLDER_NAMES: &str =
    "Only the newest 1,000 evaluators, rules, prompts and datasets were searched by name.";
const OLDER_TRACES: &str = "Only observations of the newest 200,000 traces were searched.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchParams {
    q: String,
    go: String,
    below: String,
}

/// The kind of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchTerm<'q> {
    All(&'q str),
    Ids(&'q str),
    Help,
}

impl<'q> SearchTerm<'q> {
    fn of(q: &'q str) -> Self {
        if let Some(rest) = q.strip_prefix('#') {
            Self::Ids(rest.trim())
        } else if q.starts_with(['?', '>']) {
            // Commands are handled by the script of the page.
            Self::Help
        } else {
            Self::All(q)
        }
    }
}

/// A search in one project.
struct Search<'a> {
    app: &'a App,
    viewer: &'a Viewer,
    base: String,
}

/// The beginning of the search text, for messages.
fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn entry(title: &str, note: &str, href: String) -> SearchEntry {
    SearchEntry { title: Text::from(title), note: Text::from(note), href }
}

/// `GET P/search?q=`
pub(super) async fn search_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<SearchParams>,
) -> Result<Response, Problem> {
    if is_too_long(&params.q) {
        return too_long_page(&viewer, &params.q);
    }
    let below = match params.below.as_str() {
        "" => None,
        number => {
            let number: Option<i64> = number.parse().ok().filter(|n| 0 < *n);
            let message = "must be a positive integer from the link to older traces";
            Some(number.ok_or_else(|| Problem::query("below", message))?)
        }
    };
    let q = params.q.trim();
    let search = Search::new(&app, &viewer);
    let mut exact = Vec::new();
    let mut answer = search.answer(q, below, &mut exact).await?;
    if let ("1", [one]) = (params.go.as_str(), exact.as_slice()) {
        return Ok(Redirect::to(&one.href).into_response());
    }
    // Nothing has such a name or id, so the text is searched for in the contents of traces.
    let is_whole = answer.notes.is_empty() && answer.older_href.is_none();
    if let ("1", 0, true, Some(contents)) =
        (params.go.as_str(), answer.n_hits(), is_whole, &answer.text_matches)
    {
        return Ok(Redirect::to(&contents.href).into_response());
    }
    if answer.text_matches.is_some() {
        let q = encode(q);
        answer.text_matches_href = Some(format!("{}/_/search/contents?q={q}", search.base));
    }
    let view = SearchPage { shell: viewer.shell(Section::Search), q: q.to_owned(), answer };
    page(StatusCode::OK, &view)
}

/// The page for a search text that is too long.
fn too_long_page(viewer: &Viewer, q: &str) -> Result<Response, Problem> {
    let n = count(q.chars().count() as u64);
    let view = SearchPage {
        shell: viewer.shell(Section::Search),
        q: q.to_owned(),
        answer: SearchResults {
            no_hits: Text::from(format!(
                "The search text has {n} characters. Nothing was searched."
            )),
            notes: vec![TOO_LONG],
            ..SearchResults::default()
        },
    };
    page(StatusCode::BAD_REQUEST, &view)
}

/// `GET P/_/search/contents?q=`
pub(super) async fn contents_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<SearchParams>,
) -> Result<Response, Problem> {
    check(&params)?;
    let mut answer = SearchResults::default();
    if let SearchTerm::All(text) = SearchTerm::of(params.q.trim())
        && !text.is_empty()
    {
        let search = Search::new(&app, &viewer);
        let (title, may_match) = search.count_containing(text).await?;
        match may_match {
            true => search.add_traces(text, Some(title), &mut answer),
            false => answer.no_text_matches = Some(title),
        }
    }
    page(StatusCode::OK, &SearchContentsFragment { answer })
}

/// `GET P/_/search?q=`
pub(super) async fn search_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<SearchParams>,
) -> Result<Response, Problem> {
    check(&params)?;
    let q = params.q.trim();
    let search = Search::new(&app, &viewer);
    let answer = search.answer(q, None, &mut Vec::new()).await?;
    page(StatusCode::OK, &SearchFragment { answer })
}

/// Whether the text has the format of an observation id. Observation ids are searched for trace by trace.
fn may_be_observation_id(text: &str) -> bool {
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    matches!(text.len(), 16 | 36) && text.bytes().all(is_of_id)
}

/// The lowercase form of an OpenTelemetry trace or span id in uppercase letters.
fn lowercase_id(id: &str) -> Option<String> {
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit();
    let is_id = matches!(id.len(), 16 | 32) && id.bytes().all(is_of_id);
    let lowercase = id.to_ascii_lowercase();
    (is_id && lowercase != id).then_some(lowercase)
}

fn is_too_long(q: &str) -> bool {
    MAX_CHARS < q.chars().count()
}

fn check(params: &SearchParams) -> Result<(), Problem> {
    match is_too_long(&params.q) {
        true => Err(Problem::query("q", "must have at most 800 characters")),
        false => Ok(()),
    }
}

impl<'a> Search<'a> {
    fn new(app: &'a App, viewer: &'a Viewer) -> Self {
        Self { app, viewer, base: viewer.base() }
    }

    /// The results; objects with exactly this id are also added to `exact`.
    async fn answer(
        &self,
        q: &str,
        below: Option<i64>,
        exact: &mut Vec<SearchEntry>,
    ) -> Result<SearchResults, Problem> {
        let mut answer = SearchResults::default();
        match SearchTerm::of(q) {
            SearchTerm::Help => answer.has_help = true,
            SearchTerm::Ids(text) => {
                answer.no_hits = Text::from(format!("No object has the id “{}”", truncated(text)));
                let groups = self.groups(text).await?;
                *exact = self.exact(text, &groups).await?;
                self.add_exact(text, below, exact, &mut answer).await?;
            }
            SearchTerm::All("") => self.add_pages("", &mut answer),
            SearchTerm::All(text) => {
                let groups = self.groups(text).await?;
                *exact = self.exact(text, &groups).await?;
                self.add_exact(text, below, exact, &mut answer).await?;
                for (label, by, ids) in groups {
                    let hits = ids.iter().map(|id| entry(id, "", href(&self.base, by, id)));
                    answer.groups.push(SearchEntryGroup::new(label, hits.collect()));
                }
                self.add_names(text, &mut answer).await?;
                answer.no_hits = self.empty_message(text);
                self.add_traces(text, None, &mut answer);
                self.add_pages(text, &mut answer);
            }
        }
        answer.groups.retain(|group| !group.hits.is_empty());
        Ok(answer)
    }

    /// The message if nothing was found.
    fn empty_message(&self, text: &str) -> Text {
        let kinds = NAMED_KINDS.iter().filter(|(.., permission)| self.may(*permission));
        let kinds = kinds.map(|(_, word, ..)| *word);
        let kinds: Vec<&str> = ["session", "user"].into_iter().chain(kinds).collect();
        let kinds = match kinds.as_slice() {
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
            [] => "name".to_owned(),
        };
        Text::from(format!(
            "No {kinds} starts with “{}”, and no object has this id",
            truncated(text)
        ))
    }

    /// A title with the number of traces that contain a text, within the limits, and whether any may contain it.
    async fn count_containing(&self, text: &str) -> Result<(Text, bool), Problem> {
        let query = TracesQuery::of(word(text));
        let filter = filter_of(&query, self.app.web.clock.now());
        let telemetry = &self.app.store.telemetry;
        let found = telemetry.count_traces(&self.viewer.project, &filter, TEXT_COUNT_LIMITS);
        let found = found.await?;
        let may_match = 0 < found.n || found.is_more;
        let count = match found {
            BoundedCount { n: 0, is_more: true } => "Traces that contain".to_owned(),
            BoundedCount { n: 0, .. } => "No trace contains".to_owned(),
            BoundedCount { n: 1, is_more: false } => "1 trace contains".to_owned(),
            BoundedCount { n, is_more } => {
                format!("{}{} traces contain", count(n), if is_more { "+" } else { "" })
            }
        };
        Ok((Text::from(format!("{count} “{}”", truncated(text))), may_match))
    }

    /// Adds a link to the list of traces that contain the text. `title` has their number if they were counted.
    fn add_traces(&self, text: &str, title: Option<Text>, answer: &mut SearchResults) {
        let query = TracesQuery::of(word(text));
        let default_title = || Text::from(format!("Traces that contain “{}”", truncated(text)));
        answer.text_matches = Some(SearchEntry {
            title: title.unwrap_or_else(default_title),
            note: Text::from("in the name, or in the input or output of any observation"),
            href: query.first(&self.base),
        });
    }

    /// Sessions and users whose ids start with the text.
    async fn groups(
        &self,
        text: &str,
    ) -> Result<[(&'static str, GroupKey, Vec<String>); 2], Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let [session, user] = [GroupKey::Session, GroupKey::User];
        let sessions = telemetry.groups_with_prefix(project, session, text, LIMIT);
        let sessions = sessions.await?;
        let users = telemetry.groups_with_prefix(project, user, text, LIMIT);
        let users = users.await?;
        Ok([("Sessions", session, sessions), ("Users", user, users)])
    }

    /// Objects with exactly this id, without observations.
    async fn exact(
        &self,
        id: &str,
        groups: &[(&'static str, GroupKey, Vec<String>)],
    ) -> Result<Vec<SearchEntry>, Problem> {
        let (store, project, base) = (&self.app.store, &self.viewer.project, &self.base);
        let mut hits = Vec::new();
        for id in [Some(id.to_owned()), lowercase_id(id)].into_iter().flatten() {
            if let Ok(trace) = TraceId::new(&id)
                && let Some(stored) = store.telemetry.trace(project, &trace, false).await?
            {
                let name = stored.trace.name.as_deref().unwrap_or("Unnamed trace");
                hits.push(entry(name, "trace", self.trace_href(&trace, None)));
            }
        }
        for ((_, by, ids), kind) in groups.iter().zip(["session", "user"]) {
            if ids.first().is_some_and(|first| first == id) {
                hits.push(entry(id, kind, href(base, *by, id)));
            }
        }
        if self.may(DatasetRead)
            && let Some(dataset) = store.catalog.dataset_by_id(project, id).await?
        {
            let dataset = dataset.dataset;
            hits.push(entry(&dataset.name, "dataset", self.dataset_href(&dataset.id)));
        }
        if self.may(ExperimentRead) {
            hits.extend(self.run(id).await?);
        }
        hits.extend(self.score(id).await?);
        hits.extend(self.set_up(id).await?);
        Ok(hits)
    }

    async fn run(&self, id: &str) -> Result<Option<SearchEntry>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let run = telemetry.runs_by_id(project, &[id]).await?.remove(id);
        Ok(run.map(|run| entry(&run.name, "run", run_href(&self.base, &run.id))))
    }

    /// The page of the subject of a score.
    async fn score(&self, id: &str) -> Result<Option<SearchEntry>, Problem> {
        let Some(id) = ScoreId::new(id).ok().filter(|_| self.may(ScoreRead)) else {
            return Ok(None);
        };
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let Some(score) = telemetry.score(project, &id).await? else {
            return Ok(None);
        };
        let card = anchor(score.written.id.as_str());
        let href = match &score.written.subject {
            Subject::Trace(trace) => self.trace_href(trace, None) + &card,
            Subject::Observation(trace, observation) => {
                self.trace_href(trace, Some(observation)) + &card
            }
            Subject::Session(session) => href(&self.base, GroupKey::Session, session) + &card,
            Subject::Experiment(run) => match self.run(run).await? {
                Some(run) => run.href,
                // Known from spans alone: it has no page.
                None => return Ok(None),
            },
        };
        Ok(Some(entry(&score.written.name, "score", href)))
    }

    /// Evaluator, rule or execution of this id.
    async fn set_up(&self, id: &str) -> Result<Vec<SearchEntry>, Problem> {
        let (store, project) = (&self.app.store, &self.viewer.project);
        let mut hits = Vec::new();
        if !self.may(EvaluatorRead) {
            return Ok(hits);
        }
        if let Ok(id) = EvaluatorId::new(id) {
            let evaluator = store.catalog.evaluator(project, &id).await?;
            hits.extend(evaluator.map(|one| {
                entry(&one.name, "evaluator", evaluator_href(&self.base, one.id.as_str()))
            }));
        }
        if let Ok(id) = RuleId::new(id) {
            let rule = store.catalog.rule(project, &id).await?;
            hits.extend(
                rule.map(|one| entry(&one.name, "rule", rule_href(&self.base, one.id.as_str()))),
            );
        }
        if let Ok(id) = ExecutionId::new(id)
            && let Some(execution) = store.ledger.execution(project, &id).await?
        {
            let href = match &execution.made.target {
                Target::Trace(trace) => self.trace_href(trace, None),
                Target::Observation(trace, observation) => {
                    self.trace_href(trace, Some(observation))
                }
                Target::Session(session) => href(&self.base, GroupKey::Session, session.as_str()),
                Target::Run(run) => run_href(&self.base, run),
            };
            hits.push(entry(id.as_str(), "target of an execution", href));
        }
        Ok(hits)
    }

    /// Adds the objects with exactly this id, and observations if there are no others.
    async fn add_exact(
        &self,
        text: &str,
        below: Option<i64>,
        exact: &mut Vec<SearchEntry>,
        answer: &mut SearchResults,
    ) -> Result<(), Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let limit = u32::try_from(LIMIT).unwrap_or(u32::MAX);
        for id in [Some(text.to_owned()), lowercase_id(text)].into_iter().flatten() {
            let observation = ObservationId::new(&id).ok();
            let Some(observation) =
                observation.filter(|_| exact.is_empty() && may_be_observation_id(text))
            else {
                continue;
            };
            let observations =
                telemetry.observations_by_id(project, &observation, below, limit).await?;
            let hits = observations.found.iter().map(|(trace, name)| {
                let note = format!("observation of trace {trace}");
                entry(name, &note, self.trace_href(trace, Some(&observation)))
            });
            exact.extend(hits);
            if let (true, Some(below)) = (exact.is_empty(), observations.below) {
                answer.notes.retain(|note| *note != OLDER_TRACES);
                answer.notes.push(OLDER_TRACES);
                let q = encode(text);
                answer.older_href = Some(format!("{}/search?q={q}&below={below}", self.base));
            }
        }
        let group = SearchEntryGroup::new("Exact id", exact.clone());
        answer.groups.push(group);
        Ok(())
    }

    /// Adds named objects whose names start with the text.
    async fn add_names(&self, text: &str, answer: &mut SearchResults) -> Result<(), Problem> {
        let (catalog, project) = (&self.app.store.catalog, &self.viewer.project);
        for (label, _, kind, permission) in NAMED_KINDS {
            if !self.may(permission) {
                continue;
            }
            let names = catalog.names_with_prefix(project, kind, text, LIMIT).await?;
            let hits = names.found.iter().map(|(id, name)| {
                let href = match kind {
                    NamedKind::Evaluator => evaluator_href(&self.base, id),
                    NamedKind::Rule => rule_href(&self.base, id),
                    NamedKind::Dataset => self.dataset_href(id),
                    NamedKind::Prompt => "/api/reference/prompts".to_owned(),
                };
                let note = match kind {
                    NamedKind::Prompt => "available in the API",
                    _ => "",
                };
                entry(name, note, href)
            });
            answer.groups.push(SearchEntryGroup::new(label, hits.collect()));
            if names.is_cut && !answer.notes.contains(&OLDER_NAMES) {
                answer.notes.push(OLDER_NAMES);
            }
        }
        Ok(())
    }

    /// Adds pages whose names contain the text.
    fn add_pages(&self, text: &str, answer: &mut SearchResults) {
        let text = text.to_lowercase();
        let places = self.viewer.shell(Section::Search).places();
        let hits = places
            .into_iter()
            .filter(|(label, _)| label.to_lowercase().contains(&text))
            .map(|(label, href)| entry(label, "", href));
        answer.groups.push(SearchEntryGroup::new("Pages", hits.collect()));
    }

    fn may(&self, permission: Permission) -> bool {
        self.viewer.may(permission)
    }

    fn trace_href(&self, trace: &TraceId, observation: Option<&ObservationId>) -> String {
        let trace = format!("{}/traces/{}", self.base, segment(trace.as_str()));
        match observation {
            Some(observation) => format!("{trace}?observation={}", encode(observation.as_str())),
            None => trace,
        }
    }

    fn dataset_href(&self, id: &str) -> String {
        format!("{}/datasets/{}", self.base, encode(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uppercase_ids_are_recognized_by_length_and_digits() {
        let lowercase = "0af7651916cd43dd8448eb211c80319c";
        let capitals = lowercase.to_ascii_uppercase();
        assert_eq!(lowercase_id(&capitals).as_deref(), Some(lowercase));
        assert_eq!(lowercase_id("00F067AA0BA902B7").as_deref(), Some("00f067aa0ba902b7"));
        for other in [lowercase, "00f067aa0ba902b7", "ABC", "NOT-AN-ID-OF-OT-"] {
            assert_eq!(lowercase_id(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_character_selects_the_kind_of_search() {
        for (q, wanted) in [
            ("> traces", SearchTerm::Help),
            ("#0af7", SearchTerm::Ids("0af7")),
            ("?", SearchTerm::Help),
            ("tone > 1", SearchTerm::All("tone > 1")),
            ("", SearchTerm::All("")),
        ] {
            assert_eq!(SearchTerm::of(q), wanted);
        }
    }
}
