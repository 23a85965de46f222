//! `GET P/scores`: the scores of a project, the newest first.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::ids::TraceId;
use perpend_domain::score::Score;
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;
use perpend_ui::{Focus, FocusView, ScoreLine, ScoresPage, Section, Text, Ways, with_query};
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::query::Query;
use crate::state::App;
use crate::trace::Names;
use crate::viewer::Viewer;
use crate::{api, cursor, read, setup};

const PER_PAGE: u32 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    name: String,
    fingerprint: String,
    trace: String,
    /// `0`: without the environments of evaluations and experiments.
    own: String,
    after: String,
}

/// What the list is narrowed to.
struct Narrowed {
    query: ScoreQuery,
    shown: Vec<(&'static str, Text)>,
    /// The parameters of an address that say it, beside those of the focus.
    kept: Vec<(&'static str, String)>,
    notices: Vec<Text>,
}

impl Narrowed {
    fn new(asked: &Asked, viewer: &Viewer, now: Timestamp) -> Self {
        let (from, to) = viewer.focus.range(now);
        let mut narrowed = Self {
            query: ScoreQuery {
                from,
                to,
                environments: viewer.focus.environments.clone(),
                ..ScoreQuery::default()
            },
            shown: Vec::new(),
            kept: Vec::new(),
            notices: viewer.faults.clone(),
        };
        let query = &mut narrowed.query;
        let is_without_own = asked.own == "0";
        if is_without_own {
            query.other_than_environments = read::OWN.map(str::to_owned).to_vec();
        }
        let name = asked.name.trim();
        query
            .names
            .extend((!name.is_empty()).then(|| name.to_owned()));
        query.fingerprint = asked.fingerprint.trim().parse().ok();
        query
            .trace_ids
            .extend(TraceId::new(asked.trace.trim()).ok());
        let (by_print, by_trace) = (query.fingerprint.is_some(), !query.trace_ids.is_empty());
        narrowed.take("name", name, true, "");
        let fault = "fingerprint: it must have 64 hexadecimal digits; it is left out.";
        narrowed.take("fingerprint", asked.fingerprint.trim(), by_print, fault);
        let fault = "trace: this is no id; it is left out.";
        narrowed.take("trace", asked.trace.trim(), by_trace, fault);
        if is_without_own {
            let said = Text::from("evaluations and experiments");
            narrowed.shown.push(("without", said));
            narrowed.kept.push(("own", asked.own.clone()));
        }
        narrowed
    }

    fn take(&mut self, name: &'static str, value: &str, is_read: bool, fault: &str) {
        match (value.is_empty(), is_read) {
            (true, _) => {}
            (false, true) => {
                self.shown.push((name, Text::from(value)));
                self.kept.push((name, value.to_owned()));
            }
            (false, false) => self.notices.push(Text::from(fault)),
        }
    }
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let Narrowed {
        query,
        shown: narrowed,
        kept,
        mut notices,
    } = Narrowed::new(&asked, &viewer, app.web.clock.now());
    let after = cursor::asked("after", &asked.after, &mut notices);
    let telemetry = &app.store.telemetry;
    let found = telemetry.scores(&viewer.project, &query, after.as_ref(), PER_PAGE);
    let found = found.await?;
    let origins = found.items.iter();
    let origins = origins.filter_map(|score| score.written.origin.as_ref());
    let names = Names::read(&app, &viewer, origins).await?;
    let base = viewer.base();
    let path = format!("{base}/scores");
    let address = |after: Option<String>| {
        let mut pairs = [viewer.focus.pairs(), kept.clone()].concat();
        pairs.extend(after.map(|after| ("after", after)));
        with_query(&path, &pairs)
    };
    let line = |score: &Score| {
        let origin = score.written.origin.as_ref();
        ScoreLine::new(score, origin.map(|origin| names.origin(origin)), &base)
    };
    let is_later = after.is_some();
    let is_whole = narrowed.is_empty() && viewer.focus == Focus::default();
    let setup = match found.items.is_empty() && is_whole && !is_later {
        true => Some(setup::of(&app, &viewer.project, &headers).await?),
        false => None,
    };
    let view = ScoresPage {
        setup,
        shell: viewer.shell(Section::Scores).with_api(api::scores(
            &viewer,
            &query,
            (PER_PAGE, is_later),
        )),
        focus: FocusView::new(
            &viewer.focus,
            (path.clone(), kept.clone()),
            ("All time", true),
        ),
        name: Text::from(asked.name.trim()),
        kept: kept
            .iter()
            .filter(|(name, _)| *name != "name")
            .cloned()
            .collect(),
        narrowed,
        notices,
        lines: found.items.iter().map(line).collect(),
        ways: Ways {
            before: after.map(|_| ("Newest", address(None))),
            behind: found.next.map(|next| {
                let after = Some(cursor::written(&next));
                ("Older", address(after))
            }),
            ..Ways::default()
        },
    };
    page(StatusCode::OK, &view)
}
