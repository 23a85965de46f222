//! `POST P/bookmarks` and `POST P/traces/{trace}`: what people change of a trace, by the function behind
//! `PATCH /api/v1/traces/{traceId}`.

use axum::extract::{Path, State};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use perpend_domain::fold::MAX_TAGS;
use perpend_domain::ids::TraceId;
use perpend_domain::marks::{MAX_TAG_CHARS, TraceMarks};
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{RejectedForm, Text, Undo, encode, segment};

use crate::read;
use crate::request::forms::Sent;
use crate::request::submissions::Done;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::{OfTrace, tried};
use crate::traces::list;

/// A field whose value is escaped: browsers write line breaks of forms in their own way.
fn decoded(sent: &Sent, field: &str) -> Option<String> {
    let raw = sent.fields.text(field)?;
    Some(percent_decode_str(raw).decode_utf8_lossy().into_owned())
}

/// Changes the marks of a trace.
async fn mark(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    marks: &TraceMarks,
) -> Result<(), Problem> {
    let change = (app.web.ids.uuid().to_string(), app.web.clock.now());
    let telemetry = &app.store.telemetry;
    let marked = telemetry.mark_trace(&viewer.project, trace, marks, change);
    match marked.await.map_err(Problem::from) {
        Ok(()) => app.scheduler.wake(),
        Err(problem) if problem.code() == Code::NotFound => return Err(read::unknown()),
        Err(problem) => return Err(problem),
    }
    Ok(())
}

/// `POST P/bookmarks`: `set` or `clear` names the trace.
pub(crate) async fn bookmark(State(app): State<App>, sent: Sent) -> Result<Response, Problem> {
    let (is_set, id) = match (decoded(&sent, "set"), decoded(&sent, "clear")) {
        (Some(id), None) => (true, id),
        (None, Some(id)) => (false, id),
        _ => return Err(Problem::body("set", "either set or clear names a trace")),
    };
    let trace = TraceId::new(&id).map_err(|_| read::unknown())?;
    let viewer = &sent.viewer;
    let act = async {
        let known = read::narrow(&app, &viewer.project, &trace).await?;
        if known.ok_or_else(read::unknown)?.bookmarked == is_set {
            return Ok(Done::new(match is_set {
                true => "The trace is already bookmarked.",
                false => "The trace is not bookmarked.",
            }));
        }
        mark(&app, viewer, &trace, &TraceMarks::bookmark(is_set)).await?;
        let (words, back) = match is_set {
            true => ("Bookmark set.", "clear"),
            false => ("Bookmark removed.", "set"),
        };
        Ok(Done {
            words: words.to_owned(),
            undo: Some(Undo {
                action: format!("{}/bookmarks", viewer.base()),
                fields: vec![(back, encode(trace.as_str()))],
            }),
        })
    };
    Box::pin(sent.once(&app, act)).await
}

/// `POST P/traces/{trace}`: `add` is a tag as it is typed; `remove`, and `again` for one that was removed, are escaped.
pub(crate) async fn tag(
    State(app): State<App>,
    Path(of): Path<OfTrace>,
    sent: Sent,
) -> Result<Response, Problem> {
    let trace = of.id()?;
    let viewer = &sent.viewer;
    let typed = sent.fields.raw("add").unwrap_or_default().trim();
    let (removed, again) = (decoded(&sent, "remove"), decoded(&sent, "again"));
    let is_again = again.is_some();
    let (is_added, tag) = match (removed, again) {
        (Some(tag), _) => (false, tag),
        (None, Some(tag)) => (true, tag),
        (None, None) => (true, typed.to_owned()),
    };
    let known = read::narrow(&app, &viewer.project, &trace).await?;
    let known = known.ok_or_else(read::unknown)?.tags;
    let has_it = known.contains(&tag);
    let fault = match is_added {
        true if !has_it && MAX_TAGS <= known.len() => {
            Some(format!("a trace has at most {MAX_TAGS} tags: remove one first"))
        }
        // A tag that was removed may have been sent with what people cannot type.
        true if !has_it && !is_again => TraceMarks::fault_of_tag(&tag),
        _ => None,
    };
    if let Some(fault) = fault {
        let refused =
            RejectedForm { typed: vec![("add", tag)], problems: vec![("add", Text::from(fault))] };
        let back = sent.back();
        return match list::is_at(viewer, &back) {
            true => Box::pin(list::tried(&app, viewer, &trace, &back, refused)).await,
            false => tried(&app, viewer, trace, &back, refused).await,
        };
    }
    let act = async {
        if has_it == is_added {
            let state = if is_added { "already has" } else { "does not have" };
            let tag: String = tag.chars().take(MAX_TAG_CHARS).collect();
            return Ok(Done::new(format!("The trace {state} the tag {tag}.")));
        }
        mark(&app, viewer, &trace, &TraceMarks::tag(&tag, is_added)).await?;
        let (word, back) = match is_added {
            true => ("added", "remove"),
            false => ("removed", "again"),
        };
        Ok(Done {
            words: format!("Tag {tag} {word}."),
            undo: Some(Undo {
                action: format!("{}/traces/{}", viewer.base(), segment(trace.as_str())),
                fields: vec![(back, encode(&tag))],
            }),
        })
    };
    Box::pin(sent.once(&app, act)).await
}
