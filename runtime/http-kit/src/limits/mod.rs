//! Rate limits: how many requests a minute a key may make of each group of endpoints.
//!
//! Invariants:
//! - **Off unless configured.** Without a limit no layer stands in the way of a request.
//! - **Only valid keys are counted.** Made-up keys take no memory here (wrong secrets have a limit of their
//!   own, see `auth::throttle`), and whoever knows no more than a public
//!   key uses up nothing of the pair it belongs to.
//! - **A refusal is cheap.** It is made from the head of a request; no body is read.
//!
//! Buckets and their arithmetic are our own: what the crates for this offer brings a clock of its own or
//! does not say what is left and when all is back, which the answers have to.

mod bucket;
mod failures;
mod group;
mod per_key;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use crate::auth;
use crate::client_address::ClientAddress;
use crate::problem::{self, Problem};
use crate::{Web, otlp};
use bucket::Standing;
use group::Group;

pub use bucket::Buckets;
pub use group::{Limits, are_on};

pub use failures::Failures;
pub(crate) use per_key::PerKey;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Layer: counts requests, answers those that are too many with 429, and says on the others what is left.
pub async fn keep(State(web): State<Web>, request: Request, next: Next) -> Response {
    let group = Group::of(request.method(), request.uri().path());
    let limits = &web.config.limits;
    let Some((group, limit)) =
        group.map(|group| (group, group.limit(limits))).filter(|(_, limit)| *limit > 0)
    else {
        return next.run(request).await;
    };
    let client = ClientAddress::in_request(request.extensions());
    // Without a valid key the handler says what is wrong with it.
    let Some(key) = auth::counted_key(&web, client, request.headers()).await else {
        return next.run(request).await;
    };
    let now = web.clock.now();
    let taken = web.limits.0.take((group, key), limit, now, |(group, _)| group.limit(limits));
    let mut response = match taken.retry_after_seconds {
        None => next.run(request).await,
        Some(seconds) => refuse(&request, refusal(group, &taken, seconds)),
    };
    let headers = response.headers_mut();
    let reset_at = taken.reset_at.as_micros().max(0).unsigned_abs();
    headers.insert(LIMIT, taken.limit.into());
    headers.insert(REMAINING, taken.remaining.into());
    headers.insert(RESET, HeaderValue::from(reset_at.div_ceil(1_000_000)));
    response
}

fn refusal(group: Group, standing: &Standing, seconds: u64) -> Problem {
    let message = format!(
        "more than {} requests a minute to the group {:?}; the next one fits in {seconds} s",
        standing.limit,
        group.name()
    );
    Problem::rate_limited(message, seconds)
        .with("limit", standing.limit)
        .with("remaining", standing.remaining)
        .with("resetAt", standing.reset_at.to_string())
}

/// The refusal in the form that the path answers in.
fn refuse(request: &Request, problem: Problem) -> Response {
    let path = request.uri().path();
    if otlp::is_otlp(path) {
        return otlp::refuse(request.headers(), &problem);
    }
    problem::in_the_form_of(path, problem)
}
