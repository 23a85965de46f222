//! `GET P/scores`: the scores of a project, the newest first, and the same list as a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perpend_domain::filter::Filter;
use perpend_domain::ids::{TraceId, UserId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::score::{Score, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::{ScorePage, ScoresFrom};
use perpend_views::{
    ApiRequest, ListDeclaration, ListNote, ListView, Parameter, SCORE_ROWS, ScoreLine, ScoreRow,
    ScoreSetup, Text, count, run_href, segment,
};

use crate::list::source::{ListBounds, ListConditions, ListSource, OwnParameters};
use crate::read;
use crate::reference;
use crate::request::cursor::ListLinks;
use crate::request::viewer::Viewer;
use crate::scores::filter::narrow;
use crate::scores::views::OriginNames;
use crate::setup;
use crate::state::App;

/// Scores that are counted.
const MAX_COUNTED: u32 = 10_000;

/// The scores of a project.
pub(crate) struct Scores {
    app: App,
    viewer: Viewer,
    /// Conditions of the parameters of this list.
    own: ScoreQuery,
    /// Whether each score is followed by those that it superseded.
    shows_older: bool,
    /// Labels and values of these conditions, with their parameters.
    narrowed: Vec<(&'static str, Text, &'static str)>,
    /// The valid parameters.
    parameters: Vec<Parameter>,
}

/// A position after the last score.
fn from_end() -> ScoresFrom {
    ScoresFrom::Before(Cursor { at: Timestamp::from_micros(i64::MIN), id: String::new() })
}

fn cursor_of(at: ScoresFrom) -> Cursor {
    let (ScoresFrom::After(cursor) | ScoresFrom::Before(cursor)) = at;
    cursor
}

impl Scores {
    /// Adds a valid parameter, or a notice about an invalid one.
    fn take(
        &mut self,
        (name, value): (&'static str, &str),
        is_valid: bool,
        (fault, notices): (&str, &mut Vec<Text>),
    ) {
        match (value.is_empty(), is_valid) {
            (true, _) => {}
            (false, true) => {
                self.narrowed.push((name, Text::from(value), name));
                self.parameters.push((name.into(), value.to_owned()));
            }
            (false, false) => notices.push(Text::from(fault)),
        }
    }

    /// The query of these conditions.
    fn query(&self, conditions: &ListConditions) -> ScoreQuery {
        let (from, to) = conditions.range;
        let own = match conditions.with_own {
            true => self.own.clone(),
            false => ScoreQuery::default(),
        };
        let mut query =
            ScoreQuery { from, to, environments: conditions.environments.clone(), ..own };
        // `new` has added the notices.
        narrow(&mut query, conditions.filter.clone(), &mut Vec::new());
        query
    }
}

/// Names of the objects that scores reference by id.
#[derive(Default)]
struct ScoreReferences {
    origins: OriginNames,
    people: HashMap<String, String>,
    configs: HashMap<String, String>,
    /// Names of targets, and of the traces that executions recorded, by trace id.
    traces: BTreeMap<String, String>,
    /// Ids of existing runs.
    runs: BTreeSet<String>,
}

impl ScoreReferences {
    async fn read(app: &App, viewer: &Viewer, scores: &[&Score]) -> Result<Self, Problem> {
        let (store, project) = (&app.store, &viewer.project);
        let (mut authors, mut configs) = (BTreeSet::new(), BTreeSet::new());
        let (mut origins, mut traces) = (Vec::new(), BTreeSet::new());
        let mut runs: BTreeSet<&str> = BTreeSet::new();
        for score in scores {
            let written = &score.written;
            if let Some(origin) = &written.origin {
                origins.push(origin);
                traces.insert(origin.execution_id.as_str());
            }
            authors.extend(written.author_user_id.as_deref());
            configs.extend(written.config_id.clone());
            match &written.subject {
                Subject::Trace(trace) | Subject::Observation(trace, _) => {
                    traces.insert(trace.as_str());
                }
                Subject::Experiment(run) => {
                    runs.insert(run.as_str());
                }
                Subject::Session(_) => {}
            }
        }
        let runs: Vec<&str> = runs.into_iter().collect();
        let mut references = Self {
            origins: OriginNames::read(app, viewer, origins.into_iter()).await?,
            traces: store.telemetry.trace_names(project, &traces).await?,
            ..Self::default()
        };
        references.runs = store.telemetry.runs_by_id(project, &runs).await?.into_keys().collect();
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

    fn row(&self, score: &Score, base: &str) -> ScoreRow {
        let written = &score.written;
        let author = written.author_user_id.as_ref().and_then(|id| self.people.get(id));
        let config = written.config_id.as_ref().and_then(|id| self.configs.get(id));
        let (author, config) = (author.cloned(), config.cloned());
        ScoreRow { score: score.clone(), line: self.line(score, base), author, config }
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
            Subject::Experiment(run) if self.runs.contains(run) => line.of_run(run_href(base, run)),
            Subject::Experiment(_) => line,
            Subject::Trace(trace) | Subject::Observation(trace, _) => {
                match self.traces.get(trace.as_str()) {
                    Some(name) if !name.is_empty() => line.in_trace(name),
                    _ => line,
                }
            }
            Subject::Session(_) => line,
        };
        match origin.map(|origin| origin.execution_id.as_str()) {
            Some(id) if self.traces.contains_key(id) => {
                line.traced(format!("{base}/traces/{}", segment(id)))
            }
            _ => line,
        }
    }
}

impl ListSource for Scores {
    type Item = Score;
    type Row = ScoreRow;

    const PARAMETERS: &'static [&'static str] =
        &["name", "fingerprint", "trace", "own", "superseded"];
    const MAX_TESTED: u64 = 10_000;

    fn declaration() -> &'static ListDeclaration<ScoreRow> {
        &SCORE_ROWS
    }

    fn new(
        (app, viewer): (&App, &Viewer),
        own: &OwnParameters,
        filter: &Filter,
        notices: &mut Vec<Text>,
    ) -> Self {
        let value = |name: &str| own.get(name).map_or("", |value| value.trim());
        let mut source = Self {
            app: app.clone(),
            viewer: viewer.clone(),
            own: ScoreQuery::default(),
            shows_older: value("superseded") == "1",
            narrowed: Vec::new(),
            parameters: Vec::new(),
        };
        let [name, fingerprint, trace] = ["name", "fingerprint", "trace"].map(value);
        source.own.names.extend((!name.is_empty()).then(|| name.to_owned()));
        source.own.fingerprint = fingerprint.parse().ok();
        source.own.trace_ids.extend(TraceId::new(trace).ok());
        let is_print = source.own.fingerprint.is_some();
        let is_trace = !source.own.trace_ids.is_empty();
        source.take(("name", name), true, ("", &mut *notices));
        let fault = "`fingerprint` must have 64 hexadecimal digits; ignored.";
        source.take(("fingerprint", fingerprint), is_print, (fault, &mut *notices));
        let fault = "`trace` must be a trace id; ignored.";
        source.take(("trace", trace), is_trace, (fault, &mut *notices));
        if value("own") == "0" {
            source.own.other_than_environments =
                read::INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec();
            let excluded = Text::from("evaluations and experiments");
            source.narrowed.push(("without", excluded, "own"));
            source.parameters.push(("own".into(), "0".to_owned()));
        }
        if source.shows_older {
            source.parameters.push(("superseded".into(), "1".to_owned()));
        } else if !matches!(value("superseded"), "" | "0") {
            notices.push(Text::from("`superseded` must be 0 or 1; ignored."));
        }
        narrow(&mut ScoreQuery::default(), filter.clone(), notices);
        source
    }

    async fn read(
        &self,
        conditions: &ListConditions,
        position: &ListPosition,
        bounds: ListBounds,
    ) -> Result<BidirectionalPage<Score>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let query = self.query(conditions);
        let from = match (position.cursor.clone(), position.is_backwards) {
            (cursor, false) => cursor.map(ScoresFrom::After),
            (cursor, true) => Some(cursor.map_or_else(from_end, ScoresFrom::Before)),
        };
        let bounds = (bounds.limit, bounds.max_tested);
        let page = telemetry.scores_from(project, &query, from.as_ref(), bounds).await?;
        let ScorePage { items, first, last, stopped } = page;
        let is_last = position.is_backwards && position.cursor.is_none();
        Ok(BidirectionalPage {
            items,
            newer: first,
            older: last.filter(|_| !is_last),
            stopped: stopped.map(cursor_of),
            n_tested: None,
            total: None,
        })
    }

    async fn rows(&self, items: Vec<Score>) -> Result<Vec<ScoreRow>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let older = match self.shows_older {
            true => telemetry.scores_superseded_by(project, &items).await?.of_each,
            false => Vec::new(),
        };
        let all: Vec<&Score> = items.iter().chain(older.iter().flatten()).collect();
        let references = ScoreReferences::read(&self.app, &self.viewer, &all).await?;
        let base = self.viewer.base();
        let mut rows = Vec::with_capacity(all.len());
        for (at, score) in items.iter().enumerate() {
            let row = references.row(score, &base);
            let newer = row.line.clone();
            rows.push(row);
            for score in older.get(at).into_iter().flatten() {
                let row = references.row(score, &base);
                rows.push(ScoreRow { line: row.line.superseded_by(&newer), ..row });
            }
        }
        Ok(rows)
    }

    fn time_of(item: &Score) -> Timestamp {
        item.written.timestamp
    }

    fn api(
        &self,
        conditions: &ListConditions,
        _: &[Score],
        (n, is_later): (u32, bool),
    ) -> Vec<ApiRequest> {
        let query = self.query(conditions);
        let page = (n, is_later, self.shows_older);
        let request = reference::equivalent_requests::scores(&self.viewer, &query, page);
        request.into_iter().collect()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn narrowed(&self) -> Vec<(&'static str, Text, &'static str)> {
        self.narrowed.clone()
    }

    /// The number of superseded scores, with the link that shows or hides them.
    async fn notes(
        &self,
        items: &[Score],
        (links, position): (&ListLinks, &ListPosition),
    ) -> Result<Vec<ListNote>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let older = telemetry.scores_superseded_by(project, items).await?;
        let n: usize = older.of_each.iter().map(Vec::len).sum();
        if n == 0 && !self.shows_older {
            return Ok(Vec::new());
        }
        let mut pairs = links.pairs.clone();
        pairs.retain(|(name, _)| *name != "superseded");
        if !self.shows_older {
            pairs.push(("superseded".into(), "1".to_owned()));
        }
        let toggled = ListLinks { path: links.path.clone(), pairs };
        let more = if older.is_cut { "+" } else { "" };
        let scores = if n == 1 { "score" } else { "scores" };
        let (state, label) = match self.shows_older {
            true => ("shown", "hide"),
            false => ("hidden", "show"),
        };
        let n = count(n as u64);
        Ok(vec![ListNote {
            text: format!("{n}{more} superseded {scores} {state}"),
            label,
            href: match &position.cursor {
                Some(cursor) => toggled.at(cursor, position.is_backwards),
                None if position.is_backwards => toggled.last(),
                None => toggled.first(),
            },
        }])
    }

    /// Without a filter, scores are counted; with one, the number is known only if the page has all matches.
    async fn total(
        &self,
        conditions: &ListConditions,
        page: &BidirectionalPage<Score>,
        is_later: bool,
    ) -> Result<Option<BoundedCount>, Problem> {
        let n = page.items.len() as u64;
        if !is_later && page.older.is_none() && page.stopped.is_none() {
            return Ok(Some(BoundedCount { n, is_more: false }));
        }
        let query = self.query(conditions);
        let in_focus = ScoreQuery {
            from: query.from,
            to: query.to,
            environments: query.environments.clone(),
            ..ScoreQuery::default()
        };
        if query != in_focus {
            return Ok(None);
        }
        let ever = (Timestamp::from_micros(i64::MIN), MAX_COUNTED);
        let telemetry = &self.app.store.telemetry;
        let found = telemetry.scores_since(&self.viewer.project, &query, ever);
        let (n, is_more) = found.await?;
        // Beyond the limit, the count may include other times and environments.
        let is_exact = !is_more || in_focus == ScoreQuery::default();
        Ok(is_exact.then_some(BoundedCount { n, is_more }))
    }

    async fn complete(&self, view: ListView) -> Result<ListView, Problem> {
        if !view.is_bare() {
            return Ok(view);
        }
        let origin = self.viewer.origin.clone();
        let setup = setup::guide_at(&self.app, &self.viewer.project, origin).await?;
        Ok(ListView { setup: ScoreSetup { setup }.html(), ..view })
    }
}
