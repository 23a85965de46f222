//! Rate limits: requests per minute and key for each group of endpoints.
//!
//! Invariants:
//! - **Off unless configured.** Without a limit the layer is not installed.
//! - **Only valid keys are counted.** Unknown keys take no memory here (wrong secrets have a limit of their
//!   own, see `auth::throttle`), and a caller with only a public
//!   key uses up nothing of the limit of its pair.
//! - **A refusal is cheap.** It needs the head of a request only; no body is read.
//!
//! Buckets and their arithmetic are our own: existing crates have their own clock or
//! do not report the remaining requests and the time of the reset, which responses contain.

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
use bucket::RateStatus;
use group::Group;

pub use bucket::Buckets;
pub use group::{Limits, are_on};

pub use failures::Failures;
pub(crate) use per_key::PerKey;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Layer: counts requests, responds to excess ones with 429, and reports the remaining number in headers.
pub async fn keep(State(web): State<Web>, request: Request, next: Next) -> Response {
    let group = Group::of(request.method(), request.uri().path());
    let limits = &web.config.limits;
    let Some((group, limit)) =
        group.map(|group| (group, group.limit(limits))).filter(|(_, limit)| *limit > 0)
    else {
        return next.run(request).await;
    };
    let client = ClientAddress::in_request(request.extensions());
    // Without a valid key the guard of the handler refuses the request.
    let Some(key) = auth::metered_key(&web, client, request.headers()).await else {
        return next.run(request).await;
    };
    let now = web.clock.now();
    let status = web.limits.0.take((group, key), limit, now, |(group, _)| group.limit(limits));
    let mut response = match status.retry_after_seconds {
        None => next.run(request).await,
        Some(seconds) => refuse(&request, refusal(group, &status, seconds)),
    };
    let headers = response.headers_mut();
    let reset_at = status.reset_at.as_micros().max(0).unsigned_abs();
    headers.insert(LIMIT, status.limit.into());
    headers.insert(REMAINING, status.remaining.into());
    headers.insert(RESET, HeaderValue::from(reset_at.div_ceil(1_000_000)));
    response
}

fn refusal(group: Group, status: &RateStatus, seconds: u64) -> Problem {
    let message = format!(
        "at most {} requests per minute are accepted for the group {:?}; the next one is accepted in {seconds} s",
        status.limit,
        group.name()
    );
    Problem::rate_limited(message, seconds)
        .with("limit", status.limit)
        .with("remaining", status.remaining)
        .with("resetAt", status.reset_at.to_string())
}

/// The refusal in the format of the path.
fn refuse(request: &Request, problem: Problem) -> Response {
    let path = request.uri().path();
    if otlp::is_otlp(path) {
        return otlp::refuse(request.headers(), &problem);
    }
    problem::respond_for_path(path, problem)
}
