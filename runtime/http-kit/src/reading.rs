//! Limits of requests that read: their memory is charged to a budget of all answers, from the first row until the client
//! has taken the last byte; statements have a deadline and take turns by project.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
pub use perpend_db::apart;
use perpend_db::{Memory, OutOfMemory, Reading};
use perpend_domain::ids::ProjectId;

use crate::Web;
use crate::admission::{Account, Holder};
use crate::problem::{self, Code};

/// The account of a request in the budget of answers.
#[derive(Debug)]
struct AnswerMemory(Account);

impl Memory for AnswerMemory {
    fn take(&self, n_bytes: usize) -> Result<(), OutOfMemory> {
        self.0.take(n_bytes).map_err(|problem| match problem.code() {
            Code::TooLarge => OutOfMemory::TooLarge,
            _ => OutOfMemory::Busy,
        })
    }

    fn give_back(&self, n_bytes: usize) {
        self.0.give_back(n_bytes);
    }

    fn belongs_to(&self, owner: &ProjectId) {
        self.0.belongs_to(Holder::Project(owner.clone()));
    }
}

/// Sets the owner of what the present request reads.
pub fn belongs_to(project: &ProjectId) {
    if let Some(reading) = Reading::current() {
        reading.belongs_to(project);
    }
}

/// Runs a future with the limits of a request of this project that reads: for one that is not a GET and changes nothing.
pub fn limited<F: Future>(
    web: &Web,
    project: &ProjectId,
    future: F,
) -> impl Future<Output = F::Output> {
    let account = AnswerMemory(web.answers.account());
    let reading = Reading::new(account, web.config.answers.timeout);
    reading.belongs_to(project);
    let future = Box::pin(future);
    async move { reading.scope(future).await }
}

/// Layer: limits what a request reads that changes nothing, and counts its answer until it was taken.
pub async fn limit(State(web): State<Web>, request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let path = request.uri().path().to_owned();
    let account = AnswerMemory(web.answers.account());
    let reading = Reading::new(account, web.config.answers.timeout);
    let response = reading.scope(next.run(request)).await;
    let (parts, body) = response.into_parts();
    // What was read is an answer now.
    let length = body.size_hint().exact().unwrap_or_default();
    reading.shrink_to(0);
    if let Err(error) = reading.charge(usize::try_from(length).unwrap_or(usize::MAX)) {
        return problem::in_the_form_of(&path, error.into());
    }
    let body = Counted { body, reading, is_taken: false };
    Response::from_parts(parts, Body::new(body))
}

/// A body whose bytes are charged until the client has taken them. It is made within the limits of its request, which
/// hold for each piece anew.
struct Counted {
    body: Body,
    reading: Reading,
    /// The last frame was taken.
    is_taken: bool,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.is_taken) {
            this.reading.renew();
            this.reading.shrink_to(0);
        }
        let poll = || Pin::new(&mut this.body).poll_frame(cx);
        let frame = ready!(this.reading.sync_scope(poll));
        this.is_taken = true;
        let n_bytes = frame.iter().flatten().filter_map(Frame::data_ref);
        let n_bytes = n_bytes.map(Bytes::len).sum();
        // What the piece was made of is gone.
        this.reading.shrink_to(0);
        match this.reading.charge(n_bytes) {
            Ok(()) => Poll::Ready(frame),
            Err(error) => Poll::Ready(Some(Err(axum::Error::new(error)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::admission::Admission;

    #[tokio::test]
    async fn an_answer_is_charged_until_it_was_taken() {
        let answers = Admission::new(8 << 20, 50);
        let account = AnswerMemory(answers.account());
        let reading = Reading::new(account, std::time::Duration::from_secs(600));
        reading.charge(1_000).unwrap();
        let mut body = Counted { body: Body::from(vec![0; 1_000]), reading, is_taken: false };
        body.frame().await.unwrap().unwrap();
        assert_eq!(answers.in_flight_bytes(), 1_000);
        assert!(body.frame().await.is_none());
        assert_eq!(answers.in_flight_bytes(), 0);
    }
}
