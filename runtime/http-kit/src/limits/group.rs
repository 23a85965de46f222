//! Groups of endpoints with a common rate limit.

use axum::http::Method;
use perpend_config::RateLimits;

use super::bucket::Buckets;
use crate::auth::MeteredKey;
use crate::otlp;
use crate::resource::resource;

/// Endpoints that are counted together. Prompts are unlimited: applications read them while they serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Ingestion,
    Datasets,
    Metrics,
    Api,
}

impl Group {
    /// The group of an endpoint; `None` for an unlimited one.
    pub(super) fn of(method: &Method, path: &str) -> Option<Self> {
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

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ingestion => "ingestion",
            Self::Datasets => "datasets",
            Self::Metrics => "metrics",
            Self::Api => "public-api",
        }
    }

    /// Requests per minute; 0 for no limit.
    pub(super) const fn limit(self, limits: &RateLimits) -> u32 {
        match self {
            Self::Ingestion => limits.ingestion,
            Self::Datasets => limits.datasets,
            Self::Metrics => limits.metrics,
            Self::Api => limits.api,
        }
    }
}

/// The rate limits of all keys.
#[derive(Debug, Default)]
pub struct Limits(pub(super) Buckets<(Group, MeteredKey)>);

/// Whether any rate limit is configured.
pub fn are_on(limits: &RateLimits) -> bool {
    let groups = [Group::Ingestion, Group::Datasets, Group::Metrics, Group::Api];
    groups.iter().any(|group| group.limit(limits) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_counted_in_the_group_of_their_resource() {
        for (method, path, group) in [
            (Method::POST, "/v1/traces", Some(Group::Ingestion)),
            (Method::POST, "/api/public/otel/v1/traces", Some(Group::Ingestion)),
            (Method::POST, "/api/public/ingestion", Some(Group::Ingestion)),
            (Method::POST, "/api/public/scores", Some(Group::Ingestion)),
            (Method::PATCH, "/api/public/spans", Some(Group::Ingestion)),
            (Method::GET, "/api/public/v3/scores", Some(Group::Api)),
            (Method::GET, "/api/public/traces/a", Some(Group::Api)),
            (Method::POST, "/api/public/v2/datasets", Some(Group::Datasets)),
            (Method::GET, "/api/public/datasets/a/runs", Some(Group::Datasets)),
            (Method::GET, "/api/public/dataset-items", Some(Group::Datasets)),
            (Method::GET, "/api/public/v2/metrics", Some(Group::Metrics)),
            (Method::GET, "/api/public/metrics/daily", Some(Group::Metrics)),
            (Method::GET, "/api/public/unstable/dashboards", Some(Group::Api)),
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
