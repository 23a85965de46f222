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
mod per_key;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::auth::{self, CountedKey};
use crate::client_address::ClientAddress;
use crate::problem::{self, Problem};
use crate::routes::resource;
use crate::{Web, otlp};

pub use bucket::Buckets;
use bucket::Standing;
pub use failures::Failures;
use perpend_config::RateLimits;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Endpoints that are counted together. Prompts are in none: applications read them as they serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Ingestion,
    Datasets,
    Metrics,
    Api,
}

impl Group {
    /// The group of an endpoint; none where nothing is counted.
    fn of(method: &Method, path: &str) -> Option<Self> {
        if otlp::is_otlp(path) {
            return Some(Self::Ingestion);
        }
        let resource = resource(path)?;
        let writes = method == Method::POST || method == Method::PATCH;
        match resource {
            "health" | "ready" | "prompts" => None,
            "ingestion" => Some(Self::Ingestion),
            "scores" | "traces" | "spans" | "generations" | "events" if writes => {
                Some(Self::Ingestion)
            }
            "datasets" | "dataset-items" | "dataset-run-items" => Some(Self::Datasets),
            "metrics" => Some(Self::Metrics),
            _ => Some(Self::Api),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ingestion => "ingestion",
            Self::Datasets => "datasets",
            Self::Metrics => "metrics",
            Self::Api => "public-api",
        }
    }

    /// Requests a minute; 0: any number.
    const fn limit(self, limits: &RateLimits) -> u32 {
        match self {
            Self::Ingestion => limits.ingestion,
            Self::Datasets => limits.datasets,
            Self::Metrics => limits.metrics,
            Self::Api => limits.api,
        }
    }
}

/// What every key has used up.
#[derive(Debug, Default)]
pub struct Limits(Buckets<(Group, CountedKey)>);

/// Whether anything is limited at all.
pub fn are_on(limits: &RateLimits) -> bool {
    let groups = [
        Group::Ingestion,
        Group::Datasets,
        Group::Metrics,
        Group::Api,
    ];
    groups.iter().any(|group| group.limit(limits) > 0)
}

/// Layer: counts requests, answers those that are too many with 429, and says on the others what is left.
pub async fn keep(State(web): State<Web>, request: Request, next: Next) -> Response {
    let group = Group::of(request.method(), request.uri().path());
    let limits = &web.config.limits;
    let Some((group, limit)) = group
        .map(|group| (group, group.limit(limits)))
        .filter(|(_, limit)| *limit > 0)
    else {
        return next.run(request).await;
    };
    let client = ClientAddress::in_request(request.extensions());
    // Without a valid key the handler says what is wrong with it.
    let Some(key) = auth::counted_key(&web, client, request.headers()).await else {
        return next.run(request).await;
    };
    let now = web.clock.now();
    let taken = web
        .limits
        .0
        .take((group, key), limit, now, |(group, _)| group.limit(limits));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_counted_in_the_group_of_their_resource() {
        for (method, path, group) in [
            (Method::POST, "/v1/traces", Some(Group::Ingestion)),
            (
                Method::POST,
                "/api/public/otel/v1/traces",
                Some(Group::Ingestion),
            ),
            (
                Method::POST,
                "/api/public/ingestion",
                Some(Group::Ingestion),
            ),
            (Method::POST, "/api/public/scores", Some(Group::Ingestion)),
            (Method::PATCH, "/api/public/spans", Some(Group::Ingestion)),
            (Method::GET, "/api/public/v3/scores", Some(Group::Api)),
            (Method::GET, "/api/public/traces/a", Some(Group::Api)),
            (
                Method::POST,
                "/api/public/v2/datasets",
                Some(Group::Datasets),
            ),
            (
                Method::GET,
                "/api/public/datasets/a/runs",
                Some(Group::Datasets),
            ),
            (
                Method::GET,
                "/api/public/dataset-items",
                Some(Group::Datasets),
            ),
            (Method::GET, "/api/public/v2/metrics", Some(Group::Metrics)),
            (
                Method::GET,
                "/api/public/metrics/daily",
                Some(Group::Metrics),
            ),
            (
                Method::GET,
                "/api/public/unstable/dashboards",
                Some(Group::Api),
            ),
            (Method::GET, "/api/v1/plugins", Some(Group::Api)),
            (Method::GET, "/api/public/v2/prompts/a%2Fb", None),
            (Method::GET, "/api/v1/prompts/protected-labels", None),
            (Method::GET, "/api/public/health", None),
            (Method::GET, "/api/openapi.json", None),
            (Method::GET, "/traces", None),
        ] {
            assert_eq!(Group::of(&method, path), group, "{method} {path}");
        }
    }
}
