//! `GET P/scores`: the scores of a project, the newest first.

use std::collections::{BTreeSet, HashMap};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::filter::{SCORES, Test};
use perpend_domain::ids::{TraceId, UserId};
use perpend_domain::list::Cursor;
use perpend_domain::query::{Parsed, parse};
use perpend_domain::score::{Score, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::{ScorePage, ScoresFrom, SupersededScores};
use perpend_views::{
    EmptyListCounts, FilterView, Focus, FocusView, PageLinks, Pager, Parameter, ScoreLine,
    ScoresPage, Section, StoppedSearch, TermChip, Text, count, encode, segment,
};
use serde::Deserialize;

use crate::read;
use crate::reference;
use crate::request::cursor::{self, ListLinks};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::scores::filter::{OF_SCORES, narrow};
use crate::scores::views::OriginNames;
use crate::setup;
use crate::state::App;
use crate::traces::terms::terms;

/// Scores tested for one page if no index covers the filter.
pub(crate) const MAX_TESTED: u64 = 10_000;
/// Terms whose matches are counted individually, and limits of such a count: matches and tested scores.
const MAX_COUNTED_TERMS: usize = 10;
const TERM_COUNT_LIMITS: (u32, u64) = (100, 2_000);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScoreListParams {
    q: String,
    name: String,
    fingerprint: String,
    trace: String,
    /// `0` excludes internal environments.
    own: String,
    /// `1` includes superseded scores.
    superseded: String,
    after: String,
    before: String,
    pub(crate) n: String,
    pub(crate) sort: String,
    pub(crate) cols: String,
}

/// The query of the list and its parts for the page.
pub(crate) struct ScoreListQuery {
    /// The filter as text.
    q: String,
    pub(crate) query: ScoreQuery,
    pub(crate) parsed: Parsed,
    pub(crate) shows_older: bool,
    shown: Vec<(&'static str, Text)>,
    /// Query parameters other than the filter and the focus, for links.
    kept: Vec<Parameter>,
    pub(crate) notices: Vec<Text>,
}

impl ScoreListQuery {
    pub(crate) fn new(params: &ScoreListParams, viewer: &Viewer, now: Timestamp) -> Self {
        let (from, to) = viewer.focus.range(now);
        let mut notices = viewer.faults.clone();
        let q = crate::traces::params::filter(&params.q, &mut notices);
        let parsed = parse(&q, SCORES);
        let mut list_query = Self {
            q,
            query: ScoreQuery {
                from,
                to,
                environments: viewer.focus.environments.clone(),
                ..ScoreQuery::default()
            },
            shows_older: params.superseded == "1",
            shown: Vec::new(),
            kept: Vec::new(),
            notices,
            parsed,
        };
        let query = &mut list_query.query;
        let is_without_own = params.own == "0";
        if is_without_own {
            query.other_than_environments = read::INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec();
        }
        let name = params.name.trim();
        query.names.extend((!name.is_empty()).then(|| name.to_owned()));
        query.fingerprint = params.fingerprint.trim().parse().ok();
        query.trace_ids.extend(TraceId::new(params.trace.trim()).ok());
        let (by_print, by_trace) = (query.fingerprint.is_some(), !query.trace_ids.is_empty());
        list_query.take("name", name, true, "");
        let fault = "`fingerprint` must have 64 hexadecimal digits; ignored.";
        list_query.take("fingerprint", params.fingerprint.trim(), by_print, fault);
        let fault = "`trace` must be a trace id; ignored.";
        list_query.take("trace", params.trace.trim(), by_trace, fault);
        if is_without_own {
            let excluded = Text::from("evaluations and experiments");
            list_query.shown.push(("without", excluded));
            list_query.kept.push(("own".into(), params.own.clone()));
        }
        if list_query.shows_older {
            list_query.kept.push(("superseded".into(), "1".to_owned()));
        } else if !matches!(params.superseded.as_str(), "" | "0") {
            let fault = "`superseded` must be 0 or 1; ignored.";
            list_query.notices.push(Text::from(fault));
        }
        let filter = list_query.parsed.filter.clone();
        narrow(&mut list_query.query, filter, &mut list_query.notices);
        list_query
    }

    fn take(&mut self, name: &'static str, value: &str, is_read: bool, fault: &str) {
        match (value.is_empty(), is_read) {
            (true, _) => {}
            (false, true) => {
                self.shown.push((name, Text::from(value)));
                self.kept.push((name.into(), value.to_owned()));
            }
            (false, false) => self.notices.push(Text::from(fault)),
        }
    }
}

/// URL of the page that shows or hides superseded scores.
fn toggle_superseded_url(
    links: &ListLinks,
    shows_older: bool,
    (place, is_backwards): (Option<&Cursor>, bool),
) -> String {
    let mut pairs = links.pairs.clone();
    pairs.retain(|(name, _)| *name != "superseded");
    if !shows_older {
        pairs.push(("superseded".into(), "1".to_owned()));
    }
    let path = links.path.clone();
    let toggled = ListLinks { path, pairs };
    match place {
        Some(place) => toggled.at(place, is_backwards),
        None if is_backwards => toggled.last(),
        None => toggled.first(),
    }
}

/// Text about superseded scores; absent if there are none and they are not requested.
fn superseded_note(older: &SupersededScores, shows_older: bool) -> Option<String> {
    let n: usize = older.of_each.iter().map(Vec::len).sum();
    if n == 0 && !shows_older {
        return None;
    }
    let more = if older.is_cut { "+" } else { "" };
    let scores = if n == 1 { "score" } else { "scores" };
    let state = if shows_older { "shown" } else { "hidden" };
    let n = count(n as u64);
    Some(format!("{n}{more} superseded {scores} {state}"))
}

/// Names of the objects that scores reference by id.
#[derive(Default)]
pub(crate) struct ScoreReferences {
    pub(crate) origins: OriginNames,
    pub(crate) people: HashMap<String, String>,
    pub(crate) configs: HashMap<String, String>,
    /// Ids of executions that recorded a trace.
    traced: BTreeSet<String>,
    /// Dataset ids by run id.
    datasets: HashMap<String, String>,
}

impl ScoreReferences {
    pub(crate) async fn read(
        app: &App,
        viewer: &Viewer,
        scores: &[&Score],
    ) -> Result<Self, Problem> {
        let (store, project) = (&app.store, &viewer.project);
        let (mut authors, mut configs) = (BTreeSet::new(), BTreeSet::new());
        let (mut origins, mut executions) = (Vec::new(), BTreeSet::new());
        let mut runs: BTreeSet<&str> = BTreeSet::new();
        for score in scores {
            let written = &score.written;
            if let Some(origin) = &written.origin {
                origins.push(origin);
                executions.insert(origin.execution_id.as_str());
            }
            authors.extend(written.author_user_id.as_deref());
            configs.extend(written.config_id.clone());
            if let Subject::Experiment(run) = &written.subject {
                runs.insert(run.as_str());
            }
        }
        let runs: Vec<&str> = runs.into_iter().collect();
        let mut references = Self {
            origins: OriginNames::read(app, viewer, origins.into_iter()).await?,
            traced: store.telemetry.traces_among(project, &executions).await?,
            ..Self::default()
        };
        for run in store.telemetry.dataset_runs_by_id(project, &runs).await? {
            references.datasets.insert(run.id, run.dataset_id);
        }
        let configs: Vec<String> = configs.into_iter().collect();
        for config in store.catalog.score_configs_by_id(project, &configs).await? {
            references.configs.insert(config.id, config.name);
        }
        let owner = match authors.is_empty() {
            true => None,
            false => store.catalog.project(project).await?,
        };
        if let Some(owner) = owner {
            for author in authors {
                let Ok(id) = UserId::new(author) else {
                    continue;
                };
                if let Some(person) = store.catalog.user(&owner.organization.id, &id).await? {
                    references.people.insert(author.to_owned(), person.made.name);
                }
            }
        }
        Ok(references)
    }

    fn line(&self, score: &Score, base: &str) -> ScoreLine {
        let written = &score.written;
        let origin = written.origin.as_ref();
        let name = |names: &HashMap<String, String>, id: Option<&str>| {
            let name = names.get(id?);
            name.filter(|name| !name.is_empty()).cloned()
        };
        let author = name(&self.people, written.author_user_id.as_deref());
        let config = name(&self.configs, written.config_id.as_deref());
        let line = ScoreLine::new(score, origin.map(|origin| self.origins.origin(origin)), base)
            .named(author.as_deref(), config.as_deref());
        let line = match &written.subject {
            Subject::Experiment(run) => match self.datasets.get(run) {
                Some(dataset) => {
                    line.of_run(format!("{base}/datasets/{}/runs/{}", encode(dataset), encode(run)))
                }
                None => line,
            },
            _ => line,
        };
        match origin.map(|origin| origin.execution_id.as_str()) {
            Some(id) if self.traced.contains(id) => {
                line.traced(format!("{base}/traces/{}", segment(id)))
            }
            _ => line,
        }
    }
}

/// Counts matching scores within the limits.
async fn count_matches(
    app: &App,
    viewer: &Viewer,
    query: &ScoreQuery,
) -> Result<BoundedCount, Problem> {
    let telemetry = &app.store.telemetry;
    let part = telemetry.scores_from(&viewer.project, query, None, TERM_COUNT_LIMITS);
    let part = part.await?;
    Ok(BoundedCount {
        n: part.items.len() as u64,
        is_more: part.last.is_some() || part.stopped.is_some(),
    })
}

/// A position after the last score.
fn from_end() -> ScoresFrom {
    ScoresFrom::Before(Cursor { at: Timestamp::from_micros(i64::MIN), id: String::new() })
}

/// Links to other pages of the list.
fn page_links(
    links: &ListLinks,
    (place, is_backwards): (Option<&Cursor>, bool),
    part: &ScorePage,
) -> PageLinks {
    let is_last = is_backwards && place.is_none();
    let ends = [part.first.as_ref(), part.last.as_ref().filter(|_| !is_last)];
    let stopped = part.stopped.as_ref().map(cursor_of);
    PageLinks {
        first: (is_backwards || place.is_some()).then(|| links.first()),
        ..links.ways(ends, stopped, is_backwards)
    }
}

const fn cursor_of(at: &ScoresFrom) -> &Cursor {
    let (ScoresFrom::After(cursor) | ScoresFrom::Before(cursor)) = at;
    cursor
}

/// Scores that are counted.
const MAX_COUNTED: u32 = 10_000;

/// The position of the page in the list, with the total number if it is known or can be counted. With a filter, it is known only
/// if the page has all matches.
async fn position(
    app: &App,
    viewer: &Viewer,
    query: &ScoreQuery,
    (part, is_later): (&ScorePage, bool),
) -> Result<String, Problem> {
    let n = part.items.len() as u64;
    let is_whole = !is_later && part.last.is_none() && part.stopped.is_none();
    let in_focus = ScoreQuery {
        from: query.from,
        to: query.to,
        environments: query.environments.clone(),
        ..ScoreQuery::default()
    };
    let total = if is_whole {
        let is_more = false;
        Some(BoundedCount { n, is_more })
    } else if *query != in_focus {
        None
    } else {
        let ever = (Timestamp::from_micros(i64::MIN), MAX_COUNTED);
        let telemetry = &app.store.telemetry;
        let found = telemetry.scores_since(&viewer.project, query, ever);
        let (n, is_more) = found.await?;
        // Beyond the limit, the count may include other times and environments.
        let is_exact = !is_more || in_focus == ScoreQuery::default();
        is_exact.then_some(BoundedCount { n, is_more })
    };
    Ok(Pager::of_page(!is_later, n, total).position())
}

/// Times of the first and the last match outside of the selected time range.
async fn elsewhere(
    app: &App,
    viewer: &Viewer,
    query: &ScoreQuery,
) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
    let anytime = ScoreQuery { from: None, to: None, ..query.clone() };
    let beginning = from_end();
    let end = async |from: Option<&ScoresFrom>| {
        let telemetry = &app.store.telemetry;
        let part = telemetry.scores_from(&viewer.project, &anytime, from, (1, MAX_TESTED));
        let part = part.await?;
        Ok::<_, Problem>(part.items.first().map(|score| score.written.timestamp))
    };
    Ok(end(Some(&beginning)).await?.zip(end(None).await?))
}

/// For an empty list, counts the matches of each of the first terms, of the time range and of the environments individually.
async fn why(
    app: &App,
    viewer: &Viewer,
    (query, parsed): (&ScoreQuery, &Parsed),
    chips: &mut [TermChip],
) -> Result<EmptyListCounts, Problem> {
    let mut why = EmptyListCounts::default();
    for (chip, term) in chips.iter_mut().zip(&parsed.terms).take(MAX_COUNTED_TERMS) {
        if term.outcome.is_ok() {
            let mut alone = ScoreQuery::default();
            let filter = parse(&term.text, SCORES).filter;
            narrow(&mut alone, filter, &mut Vec::new());
            chip.alone = Some(count_matches(app, viewer, &alone).await?);
        }
    }
    let (from, to) = viewer.focus.range(app.web.clock.now());
    let in_time = ScoreQuery { from, to, ..ScoreQuery::default() };
    let in_environments =
        ScoreQuery { environments: viewer.focus.environments.clone(), ..ScoreQuery::default() };
    for (alone, query) in why.by_focus.iter_mut().zip([in_time, in_environments]) {
        if query != ScoreQuery::default() {
            *alone = Some(count_matches(app, viewer, &query).await?);
        }
    }
    let conditions = &parsed.filter.conditions;
    let has_own = conditions.iter().any(|condition| matches!(condition.test, Test::Time(..)));
    if viewer.focus.has_time() && !has_own {
        why.other_times = elsewhere(app, viewer, query).await?;
    }
    Ok(why)
}

/// The rows of a page, each followed by the scores that it superseded, if these are shown.
async fn lines(
    app: &App,
    viewer: &Viewer,
    scores: &[Score],
    older: Option<&SupersededScores>,
) -> Result<Vec<ScoreLine>, Problem> {
    let of_each = older.map(|older| older.of_each.as_slice());
    let of_each = of_each.unwrap_or_default();
    let all: Vec<&Score> = scores.iter().chain(of_each.iter().flatten()).collect();
    let references = ScoreReferences::read(app, viewer, &all).await?;
    let base = viewer.base();
    let mut lines = Vec::with_capacity(all.len());
    for (at, score) in scores.iter().enumerate() {
        let line = references.line(score, &base);
        let superseded = of_each.get(at).into_iter().flatten();
        let superseded: Vec<ScoreLine> =
            superseded.map(|score| references.line(score, &base).superseded_by(&line)).collect();
        lines.push(line);
        lines.extend(superseded);
    }
    Ok(lines)
}

pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(params): Query<ScoreListParams>,
) -> Result<Response, Problem> {
    let ScoreListQuery { q, query, parsed, shows_older, shown: conditions, mut kept, mut notices } =
        ScoreListQuery::new(&params, &viewer, read::start_of_minute(app.web.clock.now()));
    let of_table = (&*params.n, &*params.sort, &*params.cols);
    let (n, rows) = cursor::page_size(of_table, "the newest", &mut notices);
    let (place, is_backwards) = cursor::parse_position(&params.after, &params.before, &mut notices);
    let from = match (place.clone(), is_backwards) {
        (place, false) => place.map(ScoresFrom::After),
        (place, true) => Some(place.map_or_else(from_end, ScoresFrom::Before)),
    };
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let part = telemetry.scores_from(project, &query, from.as_ref(), (n, MAX_TESTED));
    let part = part.await?;
    let older = telemetry.scores_superseded_by(project, &part.items).await?;
    let base = viewer.base();
    kept.extend(rows);
    let in_form = [viewer.parameters(), kept.clone()].concat();
    let filter = (!q.is_empty()).then(|| ("q".into(), q.clone()));
    let filter: Vec<Parameter> = filter.into_iter().collect();
    let links = ListLinks {
        path: format!("{base}/scores"),
        pairs: [in_form.clone(), filter.clone()].concat(),
    };
    let is_later = is_backwards || place.is_some();
    let is_whole = conditions.is_empty() && q.is_empty() && viewer.focus == Focus::default();
    let request =
        reference::equivalent_requests::scores(&viewer, &query, (n, is_later, shows_older));
    let mut chips = terms(&q, &parsed);
    let is_empty = part.items.is_empty() && !is_later && part.stopped.is_none();
    let why = match is_empty && !is_whole {
        true => why(&app, &viewer, (&query, &parsed), &mut chips).await?,
        false => EmptyListCounts::default(),
    };
    let setup = match is_empty && is_whole {
        true => Some(setup::setup_guide(&app, project, &headers).await?),
        false => None,
    };
    let of_focus = (links.path.clone(), [kept, filter, viewer.unknown_parameters()].concat());
    let toggle = if shows_older { "hide" } else { "show" };
    let other = toggle_superseded_url(&links, shows_older, (place.as_ref(), is_backwards));
    let view = ScoresPage {
        setup,
        shell: viewer.shell(Section::Scores).with_api(request),
        focus: FocusView::new(&viewer.focus, of_focus, ("All time", true)).in_all_environments(),
        filter: FilterView {
            of: &OF_SCORES,
            terms: chips,
            q,
            other_parameters: in_form,
            sorts: Vec::new(),
            empty_counts: why,
            base,
        },
        narrowed: conditions,
        notices,
        stopped: part.stopped.as_ref().map(|at| StoppedSearch {
            n_tested: MAX_TESTED,
            n_found: part.items.len() as u64,
            next_href: Some(links.at(cursor_of(at), is_backwards)),
        }),
        older: superseded_note(&older, shows_older).map(|note| (note, toggle, other)),
        lines: lines(&app, &viewer, &part.items, shows_older.then_some(&older)).await?,
        position: position(&app, &viewer, &query, (&part, is_later)).await?,
        page_links: page_links(&links, (place.as_ref(), is_backwards), &part),
        is_later,
    };
    page(StatusCode::OK, &view)
}
