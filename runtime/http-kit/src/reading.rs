//! Limits of read requests: their memory is charged to the budget of all responses, from the first row until the client
//! has received the last byte; statements have a deadline and take turns by project.

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
use crate::admission::{Account, AccountOwner};
use crate::problem::{self, Code};

/// The account of a request in the budget of responses.
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
        self.0.release(n_bytes);
    }

    fn belongs_to(&self, owner: &ProjectId) {
        self.0.belongs_to(AccountOwner::Project(owner.clone()));
    }
}

/// Charges the memory of the current read request to a project.
pub fn belongs_to(project: &ProjectId) {
    if let Some(reading) = Reading::current() {
        reading.belongs_to(project);
    }
}

/// Runs a future with the limits of a read request of this project: for requests that read with another method than GET.
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

/// Layer: limits read requests and charges the response until it has been sent.
pub async fn limit(State(web): State<Web>, request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let path = request.uri().path().to_owned();
    let account = AnswerMemory(web.answers.account());
    let reading = Reading::new(account, web.config.answers.timeout);
    let response = reading.scope(next.run(request)).await;
    let (parts, body) = response.into_parts();
    // The rows are a response body now.
    let length = body.size_hint().exact().unwrap_or_default();
    reading.shrink_to(0);
    if let Err(error) = reading.charge(usize::try_from(length).unwrap_or(usize::MAX)) {
        return problem::respond_for_path(&path, error.into());
    }
    let body = ChargedStream { body, reading, is_sent: false };
    Response::from_parts(parts, Body::new(body))
}

/// A body whose bytes are charged until the client has received them. Each piece is produced within the limits of its
/// request, which are renewed per piece.
struct ChargedStream {
    body: Body,
    reading: Reading,
    /// The last frame was handed over.
    is_sent: bool,
}

impl HttpBody for ChargedStream {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.is_sent) {
            this.reading.renew();
            this.reading.shrink_to(0);
        }
        let poll = || Pin::new(&mut this.body).poll_frame(cx);
        let frame = ready!(this.reading.sync_scope(poll));
        this.is_sent = true;
        let n_bytes = frame.iter().flatten().filter_map(Frame::data_ref);
        let n_bytes = n_bytes.map(Bytes::len).sum();
        // The source of the piece has been released.
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
    async fn a_response_is_charged_until_it_has_been_sent() {
        let answers = Admission::new(8 << 20, 50);
        let account = AnswerMemory(answers.account());
        let reading = Reading::new(account, std::time::Duration::from_secs(600));
        reading.charge(1_000).unwrap();
        let mut body = ChargedStream { body: Body::from(vec![0; 1_000]), reading, is_sent: false };
        body.frame().await.unwrap().unwrap();
        assert_eq!(answers.in_flight_bytes(), 1_000);
        assert!(body.frame().await.is_none());
        assert_eq!(answers.in_flight_bytes(), 0);
    }
}
