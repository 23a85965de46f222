//! Scores, corrections and comments by people on a trace or one of its observations, for the detail pane.

use std::collections::{BTreeSet, HashMap};

use perpend_catalog::comments::CommentQuery;
use perpend_domain::access::Permission::{CommentRead, CommentWrite, ScoreDelete, ScoreWrite};
use perpend_domain::evaluation::Target;
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::score::{Score, ScoreSource};
use perpend_http_kit::problem::Problem;
use perpend_views::{AnnotatedScore, AnnotationsInput, CommentLine, RejectedForm, segment};

use crate::authors::author_names;
use crate::request::viewer::Viewer;
use crate::state::App;

/// The annotations of a trace or an observation; absent for another target. `about` are its scores.
pub(crate) async fn annotations(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    about: &[Score],
    rejected_form: &RejectedForm,
) -> Result<Option<AnnotationsInput>, Problem> {
    let Some(trace) = target.trace() else {
        return Ok(None);
    };
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let observation = target.observation().map(|id| id.as_str());
    let query = CommentQuery {
        object_type: Some(object_type(observation).to_owned()),
        object_id: Some(observation.unwrap_or(trace.as_str()).to_owned()),
        trace_id: observation.map(|_| trace.to_string()),
        author_user_id: None,
    };
    let comments = match viewer.may(CommentRead) {
        true => catalog.comments(project, &query, Paging::default()).await?,
        false => NumberedPage::empty(),
    };
    let configs = catalog.score_configs(project, Paging::default()).await?;
    let scores = about.iter().filter(|score| score.written.source == ScoreSource::Annotation);
    let scores: Vec<&Score> = scores.collect();
    let of_scores = scores.iter().filter_map(|score| score.written.author_user_id.as_deref());
    let of_comments = comments.items.iter().filter_map(|one| one.author_user_id.as_deref());
    let ids: BTreeSet<&str> = of_scores.chain(of_comments).collect();
    let names = author_names(app, viewer, ids).await?;
    let lines = comments.items.iter().rev().map(|one| {
        let author = shown_name(&names, one.author_user_id.as_deref());
        CommentLine::new(&one.id, &one.content, author, one.created_at)
    });
    Ok(Some(AnnotationsInput {
        base: format!("{}/traces/{}", viewer.base(), segment(trace.as_str())),
        observation: observation.map(str::to_owned),
        has_more_configs: (configs.items.len() as u64) < configs.n_total,
        configs: configs.items.into_iter().filter(|config| !config.is_archived).collect(),
        scores: scores
            .into_iter()
            .map(|score| {
                let author = score.written.author_user_id.as_deref();
                AnnotatedScore {
                    score: score.clone(),
                    author: shown_name(&names, author).map(str::to_owned),
                    may_change: viewer.may_change_of(author),
                }
            })
            .collect(),
        n_earlier_comments: comments.n_total.saturating_sub(comments.items.len() as u64),
        comments: lines.collect(),
        may_score: viewer.may(ScoreWrite),
        may_delete_scores: viewer.may(ScoreDelete),
        may_comment: viewer.may(CommentWrite),
        rejected_form: rejected_form.clone(),
    }))
}

/// The name of an author, or else the id.
fn shown_name<'n>(names: &'n HashMap<String, String>, id: Option<&'n str>) -> Option<&'n str> {
    id.map(|id| names.get(id).map_or(id, String::as_str))
}

/// The type of a commented object.
pub(crate) const fn object_type(observation: Option<&str>) -> &'static str {
    match observation {
        Some(_) => "OBSERVATION",
        None => "TRACE",
    }
}
