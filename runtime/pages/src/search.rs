//! `GET P/search?q=` and `GET P/_/search?q=`: what has this id, or a name that begins so.
//!
//! Everything asked of the store is one row of an index or bounded; what was not searched is said. The forms send
//! `go=1`: where one thing alone has exactly this id, the answer leads to it, and where nothing has such an id or name, to
//! the traces that say the text. A link without `go` always shows what was found.

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
    SearchResults, Section, Text, TracesQuery, anchor, count, encode, href, segment,
};
use serde::Deserialize;

use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::Conditions;

/// Longer than any id that is stored.
const MAX_CHARS: usize = 800;
/// Characters of it that an answer repeats.
const SAID: usize = 60;
/// Asked for of each kind: one more than is shown, which tells that there are more.
const WANTED: usize = SearchEntryGroup::LIMIT + 1;
/// What people set up and give a name: a heading, a word for one, and what its reader may have to see it.
const NAMES: [(&str, &str, NamedKind, Permission); 4] = [
    ("Evaluators", "evaluator", NamedKind::Evaluator, EvaluatorRead),
    ("Rules", "rule", NamedKind::Rule, EvaluatorRead),
    ("Datasets", "dataset", NamedKind::Dataset, DatasetRead),
    ("Prompts", "prompt", NamedKind::Prompt, PromptRead),
];
/// Traces that say a text are counted as far as the first, among as many of the newest as the second.
const COUNTED: (Option<u64>, u64) = (Some(100), 100);
const TOO_LONG: &str = "An id, a name or a text that is searched for has at most 800 characters.";
const OLDER_NAMES: &str =
    "Evaluators, rules, prompts and datasets: the newest 1,000 of each were searched by name.";
const OLDER_TRACES: &str =
    "Observations: those of the newest 200,000 traces were searched, older ones were not.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchParams {
    q: String,
    go: String,
    below: String,
}

/// What a text asks for.
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
            // Commands are those of the page that the palette is opened on, which alone knows them.
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

/// The beginning of a text that is repeated in an answer.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn found(title: &str, note: &str, href: String) -> SearchEntry {
    SearchEntry { title: Text::from(title), note: Text::from(note), href }
}

/// `GET P/search?q=`
pub(super) async fn search_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<SearchParams>,
) -> Result<Response, Problem> {
    if is_too_long(&params.q) {
        return refused(&viewer, &params.q);
    }
    let below = match params.below.as_str() {
        "" => None,
        number => {
            let number: Option<i64> = number.parse().ok().filter(|n| 0 < *n);
            let message = "is the number of a trace, as the link to older traces has it";
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
    // No name and no id, wherever they may be: the text is looked for in what traces say.
    let is_whole = answer.notes.is_empty() && answer.older_href.is_none();
    if let ("1", 0, true, Some(contents)) =
        (params.go.as_str(), answer.n_hits(), is_whole, &answer.contents)
    {
        return Ok(Redirect::to(&contents.href).into_response());
    }
    if answer.contents.is_some() {
        let q = encode(q);
        answer.later = Some(format!("{}/_/search/contents?q={q}", search.base));
    }
    let view = SearchPage { shell: viewer.shell(Section::Search), q: q.to_owned(), answer };
    page(StatusCode::OK, &view)
}

/// The page with the text that is too long to be looked for.
fn refused(viewer: &Viewer, q: &str) -> Result<Response, Problem> {
    let n = count(q.chars().count() as u64);
    let view = SearchPage {
        shell: viewer.shell(Section::Search),
        q: q.to_owned(),
        answer: SearchResults {
            none: Text::from(format!("This text has {n} characters: nothing was searched.")),
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
        let (said, may_say) = search.n_that_say(text).await?;
        match may_say {
            true => search.add_traces(text, Some(said), &mut answer),
            false => answer.no_text_matches = Some(said),
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

/// Ids of observations are looked for trace by trace: only where the text can be one as clients make them.
fn may_be_step(text: &str) -> bool {
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    matches!(text.len(), 16 | 36) && text.bytes().all(is_of_id)
}

/// An id as OpenTelemetry writes it, where it was copied in capitals: of a trace or of an observation.
fn in_small(id: &str) -> Option<String> {
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit();
    let is_id = matches!(id.len(), 16 | 32) && id.bytes().all(is_of_id);
    let small = id.to_ascii_lowercase();
    (is_id && small != id).then_some(small)
}

fn is_too_long(q: &str) -> bool {
    MAX_CHARS < q.chars().count()
}

fn check(params: &SearchParams) -> Result<(), Problem> {
    match is_too_long(&params.q) {
        true => Err(Problem::query("q", "has at most 800 characters")),
        false => Ok(()),
    }
}

impl<'a> Search<'a> {
    fn new(app: &'a App, viewer: &'a Viewer) -> Self {
        Self { app, viewer, base: viewer.base() }
    }

    /// What is found, and what has exactly this id.
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
                answer.none = Text::from(format!("Nothing has the id “{}”", cut(text)));
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
                    let hits = ids.iter().map(|id| found(id, "", href(&self.base, by, id)));
                    answer.groups.push(SearchEntryGroup::new(label, hits.collect()));
                }
                self.add_names(text, &mut answer).await?;
                answer.none = self.none(text);
                self.add_traces(text, None, &mut answer);
                self.add_pages(text, &mut answer);
            }
        }
        answer.groups.retain(|group| !group.hits.is_empty());
        Ok(answer)
    }

    /// What was looked in for a text that nothing is called by.
    fn none(&self, text: &str) -> Text {
        let kinds = NAMES.iter().filter(|(.., permission)| self.may(*permission));
        let kinds = kinds.map(|(_, word, ..)| *word);
        let kinds: Vec<&str> = ["session", "user"].into_iter().chain(kinds).collect();
        let kinds = match kinds.as_slice() {
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
            [] => "name".to_owned(),
        };
        Text::from(format!("No {kinds} begins with “{}”, and nothing has it as its id", cut(text)))
    }

    /// How many traces say a text, as far as that is counted, and whether any may.
    async fn n_that_say(&self, text: &str) -> Result<(Text, bool), Problem> {
        let query = TracesQuery::of(word(text));
        let filter = Conditions::new(&query, self.app.web.clock.now()).filter();
        let telemetry = &self.app.store.telemetry;
        let found = telemetry.count_traces(&self.viewer.project, &filter, COUNTED);
        let found = found.await?;
        let may_say = 0 < found.n || found.is_more;
        let said = match found {
            BoundedCount { n: 0, is_more: true } => "Traces that say".to_owned(),
            BoundedCount { n: 0, .. } => "No trace says".to_owned(),
            BoundedCount { n: 1, is_more: false } => "1 trace says".to_owned(),
            BoundedCount { n, is_more } => {
                format!("{}{} traces say", count(n), if is_more { "+" } else { "" })
            }
        };
        Ok((Text::from(format!("{said} “{}”", cut(text))), may_say))
    }

    /// Contents take longer to look through: the list of traces does that, and says how far it came.
    /// `said`: how many, where they were counted.
    fn add_traces(&self, text: &str, said: Option<Text>, answer: &mut SearchResults) {
        let query = TracesQuery::of(word(text));
        let title = || Text::from(format!("Traces that say “{}”", cut(text)));
        answer.contents = Some(SearchEntry {
            title: said.unwrap_or_else(title),
            note: Text::from("in the name, or the input or output of any step"),
            href: query.first(&self.base),
        });
    }

    /// Sessions and users whose ids begin so.
    async fn groups(
        &self,
        text: &str,
    ) -> Result<[(&'static str, GroupKey, Vec<String>); 2], Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let [session, user] = [GroupKey::Session, GroupKey::User];
        let sessions = telemetry.groups_beginning(project, session, text, WANTED);
        let sessions = sessions.await?;
        let users = telemetry.groups_beginning(project, user, text, WANTED);
        let users = users.await?;
        Ok([("Sessions", session, sessions), ("Users", user, users)])
    }

    /// What has exactly this id, without observations.
    async fn exact(
        &self,
        id: &str,
        groups: &[(&'static str, GroupKey, Vec<String>)],
    ) -> Result<Vec<SearchEntry>, Problem> {
        let (store, project, base) = (&self.app.store, &self.viewer.project, &self.base);
        let mut hits = Vec::new();
        for id in [Some(id.to_owned()), in_small(id)].into_iter().flatten() {
            if let Ok(trace) = TraceId::new(&id)
                && let Some(stored) = store.telemetry.trace(project, &trace, false).await?
            {
                let name = stored.trace.name.as_deref().unwrap_or("Unnamed trace");
                hits.push(found(name, "trace", self.trace_href(&trace, None)));
            }
        }
        for ((_, by, ids), kind) in groups.iter().zip(["session", "user"]) {
            if ids.first().is_some_and(|first| first == id) {
                hits.push(found(id, kind, href(base, *by, id)));
            }
        }
        if self.may(DatasetRead)
            && let Some(dataset) = store.catalog.dataset_by_id(project, id).await?
        {
            let dataset = dataset.dataset;
            hits.push(found(&dataset.name, "dataset", self.dataset_href(&dataset.id)));
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
        let run = telemetry.dataset_runs_by_id(project, &[id]).await?.pop();
        Ok(run.map(|run| {
            let dataset = self.dataset_href(&run.dataset_id);
            found(&run.name, "run", format!("{dataset}/runs/{}", encode(&run.id)))
        }))
    }

    /// The page of what a score is about.
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
            Subject::Observation(trace, step) => self.trace_href(trace, Some(step)) + &card,
            Subject::Session(session) => href(&self.base, GroupKey::Session, session) + &card,
            Subject::Experiment(run) => match self.run(run).await? {
                Some(run) => run.href,
                // Known from spans alone: it has no page.
                None => return Ok(None),
            },
        };
        Ok(Some(found(&score.written.name, "score", href)))
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
                found(&one.name, "evaluator", self.row_href("evaluator", one.id.as_str()))
            }));
        }
        if let Ok(id) = RuleId::new(id) {
            let rule = store.catalog.rule(project, &id).await?;
            hits.extend(
                rule.map(|one| found(&one.name, "rule", self.row_href("rule", one.id.as_str()))),
            );
        }
        if let Ok(id) = ExecutionId::new(id)
            && let Some(execution) = store.ledger.execution(project, &id).await?
        {
            let href = match &execution.made.target {
                Target::Trace(trace) => self.trace_href(trace, None),
                Target::Observation(trace, step) => self.trace_href(trace, Some(step)),
                Target::Session(session) => href(&self.base, GroupKey::Session, session.as_str()),
            };
            hits.push(found(id.as_str(), "target of an execution", href));
        }
        Ok(hits)
    }

    /// What has exactly this id, with the observations where nothing else has it.
    async fn add_exact(
        &self,
        text: &str,
        below: Option<i64>,
        exact: &mut Vec<SearchEntry>,
        answer: &mut SearchResults,
    ) -> Result<(), Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let limit = u32::try_from(WANTED).unwrap_or(u32::MAX);
        for id in [Some(text.to_owned()), in_small(text)].into_iter().flatten() {
            let step = ObservationId::new(&id).ok();
            let Some(step) = step.filter(|_| exact.is_empty() && may_be_step(text)) else {
                continue;
            };
            let steps = telemetry.steps_by_id(project, &step, below, limit).await?;
            let hits = steps.found.iter().map(|(trace, name)| {
                let note = format!("observation of trace {trace}");
                found(name, &note, self.trace_href(trace, Some(&step)))
            });
            exact.extend(hits);
            if let (true, Some(below)) = (exact.is_empty(), steps.below) {
                answer.notes.retain(|note| *note != OLDER_TRACES);
                answer.notes.push(OLDER_TRACES);
                let q = encode(text);
                answer.older_href = Some(format!("{}/search?q={q}&below={below}", self.base));
            }
        }
        let group = SearchEntryGroup::new("Exactly this id", exact.clone());
        answer.groups.push(group);
        Ok(())
    }

    /// What people set up, by the beginning of its name.
    async fn add_names(&self, text: &str, answer: &mut SearchResults) -> Result<(), Problem> {
        let (catalog, project) = (&self.app.store.catalog, &self.viewer.project);
        for (label, _, kind, permission) in NAMES {
            if !self.may(permission) {
                continue;
            }
            let names = catalog.names_beginning(project, kind, text, WANTED).await?;
            let hits = names.found.iter().map(|(id, name)| {
                let href = match kind {
                    NamedKind::Evaluator => self.row_href("evaluator", id),
                    NamedKind::Rule => self.row_href("rule", id),
                    NamedKind::Dataset => self.dataset_href(id),
                    NamedKind::Prompt => "/api/reference/prompts".to_owned(),
                };
                let note = match kind {
                    NamedKind::Prompt => "read over the API",
                    _ => "",
                };
                found(name, note, href)
            });
            answer.groups.push(SearchEntryGroup::new(label, hits.collect()));
            if names.is_cut && !answer.notes.contains(&OLDER_NAMES) {
                answer.notes.push(OLDER_NAMES);
            }
        }
        Ok(())
    }

    /// Pages whose name holds the text.
    fn add_pages(&self, text: &str, answer: &mut SearchResults) {
        let text = text.to_lowercase();
        let places = self.viewer.shell(Section::Search).places();
        let hits = places
            .into_iter()
            .filter(|(label, _)| label.to_lowercase().contains(&text))
            .map(|(label, href)| found(label, "", href));
        answer.groups.push(SearchEntryGroup::new("Pages", hits.collect()));
    }

    fn may(&self, permission: Permission) -> bool {
        self.viewer.scope.holds(permission)
    }

    fn trace_href(&self, trace: &TraceId, step: Option<&ObservationId>) -> String {
        let trace = format!("{}/traces/{}", self.base, segment(trace.as_str()));
        match step {
            Some(step) => format!("{trace}?observation={}", encode(step.as_str())),
            None => trace,
        }
    }

    fn dataset_href(&self, id: &str) -> String {
        format!("{}/datasets/{}", self.base, encode(id))
    }

    fn row_href(&self, kind: &str, id: &str) -> String {
        format!("{}/rules#{kind}-{}", self.base, encode(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_capitals_are_known_by_their_length_and_digits() {
        let small = "0af7651916cd43dd8448eb211c80319c";
        let capitals = small.to_ascii_uppercase();
        assert_eq!(in_small(&capitals).as_deref(), Some(small));
        assert_eq!(in_small("00F067AA0BA902B7").as_deref(), Some("00f067aa0ba902b7"));
        for other in [small, "00f067aa0ba902b7", "ABC", "NOT-AN-ID-OF-OT-"] {
            assert_eq!(in_small(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_character_says_what_is_wanted() {
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
