//! `GET P/scores`: the scores of a project, the newest first, and the same list as a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perpend_domain::evaluation::Fingerprint;
use perpend_domain::filter::Filter;
use perpend_domain::ids::TraceId;
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_domain::score::{Score, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, ListDeclaration, ListNote, ListView, SCORE_ROWS, ScoreLine, ScoreRow, ScoreSetup,
    Text, count, run_href, segment,
};

use crate::authors::author_names;
use crate::list::source::{
    ListConditions, ListQuery, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters,
    PageResult, ShownPage, ViewResult, is,
};
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
#[derive(Default)]
pub(crate) struct Scores {
    own: OwnParameters,
    /// Conditions of these parameters.
    query: ScoreQuery,
    /// Whether each score is followed by those that it superseded.
    shows_older: bool,
}

impl Scores {
    /// The query of these conditions.
    fn query(&self, conditions: &ListConditions) -> ScoreQuery {
        let (from, to) = conditions.range;
        let own = match conditions.with_own {
            true => self.query.clone(),
            false => ScoreQuery::default(),
        };
        let mut query =
            ScoreQuery { from, to, environments: conditions.environments.clone(), ..own };
        // `apply` has added the notices.
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
        references.people = author_names(app, viewer, authors).await?;
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

    const LIST: &'static ListDeclaration<ScoreRow> = &SCORE_ROWS;
    const PARAMETERS: &'static [OwnParameter] = &[
        OwnParameter::new("name", "", |_| true),
        OwnParameter::new("fingerprint", "64 hexadecimal digits", is::<Fingerprint>),
        OwnParameter::new("trace", "a trace id", is::<TraceId>),
        OwnParameter::new("own", "", |own| own == "0"),
        OwnParameter::new("superseded", "0 or 1", |raw| matches!(raw, "0" | "1")),
    ];
    const NEWS_PARAMETERS: &'static [&'static str] = &["own"];
    const MAX_TESTED: u64 = 10_000;

    fn apply(&mut self, own: &OwnParameters, filter: &Filter, notices: &mut Vec<Text>) {
        self.shows_older = own.text("superseded") == "1";
        self.query.names.extend(own.parsed::<String>("name"));
        self.query.fingerprint = own.parsed("fingerprint");
        self.query.trace_ids.extend(own.parsed::<TraceId>("trace"));
        if own.text("own") == "0" {
            self.query.other_than_environments =
                read::INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec();
        }
        self.own = own.clone();
        narrow(&mut ScoreQuery::default(), filter.clone(), notices);
    }

    async fn read(&self, scope: &ListScope, page: ListQuery<'_>) -> PageResult<Score> {
        let (telemetry, project) = scope.telemetry();
        let query = self.query(page.conditions);
        let bounds = (page.limit, page.max_tested);
        Ok(telemetry.scores_from(project, &query, page.position, bounds).await?)
    }

    async fn rows(&self, scope: &ListScope, items: Vec<Score>) -> Result<Vec<ScoreRow>, Problem> {
        let (telemetry, project) = scope.telemetry();
        let older = match self.shows_older {
            true => telemetry.scores_superseded_by(project, &items).await?.of_each,
            false => Vec::new(),
        };
        let all: Vec<&Score> = items.iter().chain(older.iter().flatten()).collect();
        let references = ScoreReferences::read(&scope.app, &scope.viewer, &all).await?;
        let base = scope.viewer.base();
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

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, Score>) -> Vec<ApiRequest> {
        let query = self.query(page.conditions);
        let page = (page.n, page.is_later, self.shows_older);
        reference::equivalent_requests::scores(viewer, &query, page).into_iter().collect()
    }

    async fn count_new(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
        since: (Timestamp, u32),
    ) -> Result<(u64, bool), Problem> {
        let (telemetry, project) = scope.telemetry();
        let query = ScoreQuery {
            names: Vec::new(),
            trace_ids: Vec::new(),
            fingerprint: None,
            ..self.query(&ListConditions { filter: Filter::default(), ..conditions.clone() })
        };
        Ok(telemetry.scores_since(project, &query, since).await?)
    }

    fn narrowed(&self) -> Vec<(&'static str, Text, &'static str)> {
        let of = |name: &'static str| {
            let value = self.own.text(name);
            (!value.is_empty()).then(|| (name, Text::from(value), name))
        };
        let all = ["name", "fingerprint", "trace"].map(of).into_iter().flatten();
        let excluded = || ("without", Text::from("evaluations and experiments"), "own");
        all.chain((!self.own.text("own").is_empty()).then(excluded)).collect()
    }

    /// The number of superseded scores, with the link that shows or hides them.
    async fn notes(
        &self,
        scope: &ListScope,
        items: &[Score],
        (links, position): (&ListLinks, &ListPosition),
    ) -> Result<Vec<ListNote>, Problem> {
        let (telemetry, project) = scope.telemetry();
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
        let toggled = links.with_pairs(pairs);
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
            href: toggled.page(position),
        }])
    }

    /// Without a filter, scores are counted; with one, the number is known only if the page has all matches.
    async fn total(
        &self,
        scope: &ListScope,
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
        let (telemetry, project) = scope.telemetry();
        let (n, is_more) = telemetry.scores_since(project, &query, ever).await?;
        // Beyond the limit, the count may include other times and environments.
        let is_exact = !is_more || in_focus == ScoreQuery::default();
        Ok(is_exact.then_some(BoundedCount { n, is_more }))
    }

    async fn complete(&self, request: &ListRequest<Self>, view: ListView) -> ViewResult {
        if !view.is_bare() {
            return Ok(view);
        }
        let ListScope { app, viewer } = &request.scope;
        let setup = setup::guide_at(app, &viewer.project, viewer.origin.clone()).await?;
        Ok(ListView { setup: ScoreSetup { setup }.html(), ..view })
    }
}
