//! `POST P/bookmarks` and `POST P/traces/{trace}`: change the bookmark and the tags of a trace with the same function as
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
use crate::request::forms::SubmittedForm;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::{self, TracePath};
use crate::traces::list;

/// A percent-encoded field. Browsers normalize line breaks in fields, so values that may contain them are encoded.
fn decoded(form: &SubmittedForm, field: &str) -> Option<String> {
    let raw = form.fields.text(field)?;
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
        Err(problem) if problem.code() == Code::NotFound => return Err(read::unknown_trace()),
        Err(problem) => return Err(problem),
    }
    Ok(())
}

/// `POST P/bookmarks`: `set` or `clear` is the trace id.
pub(crate) async fn bookmark(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let (is_set, id) = match (decoded(&form, "set"), decoded(&form, "clear")) {
        (Some(id), None) => (true, id),
        (None, Some(id)) => (false, id),
        _ => return Err(Problem::body("set", "exactly one of `set`, `clear` must be a trace id")),
    };
    let trace = TraceId::new(&id).map_err(|_| read::unknown_trace())?;
    let viewer = &form.viewer;
    let act = async {
        let stored = read::trace_without_content(&app, &viewer.project, &trace).await?;
        if stored.ok_or_else(read::unknown_trace)?.bookmarked == is_set {
            return Ok(SubmissionOutcome::new(match is_set {
                true => "The trace is already bookmarked.",
                false => "The trace is not bookmarked.",
            }));
        }
        mark(&app, viewer, &trace, &TraceMarks::bookmark(is_set)).await?;
        let (words, back) = match is_set {
            true => ("Bookmark set.", "clear"),
            false => ("Bookmark removed.", "set"),
        };
        Ok(SubmissionOutcome::new(words).with_undo(Undo {
            action: format!("{}/bookmarks", viewer.base()),
            fields: vec![(back, encode(trace.as_str()))],
        }))
    };
    Box::pin(form.run_once(&app, act)).await
}

/// `POST P/traces/{trace}`: `add` is a typed tag; `remove`, and `again` to undo a removal, are percent-encoded tags.
pub(crate) async fn tag(
    State(app): State<App>,
    Path(path): Path<TracePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let trace = path.id()?;
    let viewer = &form.viewer;
    let typed = form.fields.raw("add").unwrap_or_default().trim();
    let (removed, again) = (decoded(&form, "remove"), decoded(&form, "again"));
    let is_again = again.is_some();
    let (is_added, tag) = match (removed, again) {
        (Some(tag), _) => (false, tag),
        (None, Some(tag)) => (true, tag),
        (None, None) => (true, typed.to_owned()),
    };
    let stored = read::trace_without_content(&app, &viewer.project, &trace).await?;
    let stored = stored.ok_or_else(read::unknown_trace)?.tags;
    let has_it = stored.contains(&tag);
    let fault = match is_added {
        true if !has_it && MAX_TAGS <= stored.len() => {
            Some(format!("a trace has at most {MAX_TAGS} tags; remove one first"))
        }
        // A removed tag may contain characters that cannot be typed.
        true if !has_it && !is_again => TraceMarks::fault_of_tag(&tag),
        _ => None,
    };
    if let Some(fault) = fault {
        let refused =
            RejectedForm { values: vec![("add", tag)], problems: vec![("add", Text::from(fault))] };
        let back = form.return_path();
        return match list::is_at(viewer, &back) {
            true => Box::pin(list::rejected_form_page(&app, viewer, &trace, &back, refused)).await,
            false => page::rejected_form_page(&app, viewer, trace, &back, refused).await,
        };
    }
    let act = async {
        if has_it == is_added {
            let state = if is_added { "already has" } else { "does not have" };
            let tag: String = tag.chars().take(MAX_TAG_CHARS).collect();
            return Ok(SubmissionOutcome::new(format!("The trace {state} the tag {tag}.")));
        }
        mark(&app, viewer, &trace, &TraceMarks::tag(&tag, is_added)).await?;
        let (word, back) = match is_added {
            true => ("added", "remove"),
            false => ("removed", "again"),
        };
        Ok(SubmissionOutcome::new(format!("Tag {tag} {word}.")).with_undo(Undo {
            action: format!("{}/traces/{}", viewer.base(), segment(trace.as_str())),
            fields: vec![(back, encode(&tag))],
        }))
    };
    Box::pin(form.run_once(&app, act)).await
}
