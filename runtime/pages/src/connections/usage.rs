//! The responses of the API operations of connections.

use axum::http::Method;
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{ConnectionsPage, Text, count, dollars, encode, segment};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::request::operations::{call, parsed};
use crate::request::viewer::Viewer;
use crate::state::App;

const OPERATION: &str = "/api/v1/llm-connections";

/// The path of a connection.
#[derive(Debug, Deserialize)]
pub(crate) struct ConnectionPath {
    connection: String,
}

impl ConnectionPath {
    /// Path of an operation on the connection; `rest` begins with a slash unless it is empty.
    pub(super) fn operation(&self, rest: &str) -> String {
        let id = perpend_views::decode_segment(&self.connection);
        format!("{OPERATION}/{}{rest}", segment(id))
    }

    /// The connection with its use.
    pub(super) async fn usage(
        &self,
        app: &App,
        viewer: &Viewer,
    ) -> Result<ConnectionUsage, Problem> {
        let path = self.operation("/usage");
        parsed(call(app, viewer, (Method::GET, &path), &json!({})).await?)
    }
}

/// URL of the list of connections.
pub(super) fn list_href(viewer: &Viewer) -> String {
    format!("{}/settings/connections", viewer.base())
}

/// URL of a connection.
pub(crate) fn connection_href(viewer: &Viewer, id: &str) -> String {
    format!("{}/{}", list_href(viewer), encode(id))
}

/// A connection with its use.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConnectionUsage {
    pub(super) connection: StoredConnection,
    pub(super) default_model: Option<ModelChoice>,
    pub(super) costs: Costs,
    pub(super) models: Vec<UsedModel>,
    pub(super) evaluators: Vec<UsingEvaluator>,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
    pub(super) closed_until: Option<Timestamp>,
    pub(super) failures: Vec<FailedCall>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredConnection {
    pub(super) id: String,
    pub(super) provider: String,
    pub(super) adapter: String,
    pub(super) display_secret_key: String,
    #[serde(rename = "baseURL")]
    pub(super) base_url: Option<String>,
    pub(super) custom_models: Vec<String>,
    pub(super) with_default_models: bool,
    pub(super) extra_header_keys: Vec<String>,
    pub(super) config: Option<Value>,
    pub(super) max_in_flight: u32,
    pub(super) use_responses_api: bool,
    /// As the API returned it.
    pub(super) updated_at: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Costs {
    pub(super) call_count: u64,
    pub(super) failed_count: u64,
    pub(super) unpriced_count: u64,
    pub(super) cached_count: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_usd: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct UsedModel {
    pub(super) model: String,
    pub(super) costs: Costs,
    pub(super) learned: Option<Learned>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Learned {
    method: Option<String>,
    deviations: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsingEvaluator {
    pub(super) evaluator_id: String,
    pub(super) name: String,
    pub(super) models: Vec<String>,
    pub(super) uses_default: bool,
    pub(super) paused: Option<Pause>,
    pub(super) waiting: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pause {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Timestamp,
    pub(super) is_of_connection: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FailedCall {
    pub(super) model: String,
    pub(super) at: Timestamp,
    pub(super) error_class: String,
    pub(super) error_message: String,
}

impl StoredConnection {
    /// End of the key; absent without a key.
    pub(super) fn key(&self) -> Option<Text> {
        let key = self.display_secret_key.as_str();
        (!key.is_empty()).then(|| Text::from(key))
    }
}

impl ConnectionUsage {
    /// Evaluators that resume when the connection works again.
    pub(super) fn n_resumable(&self) -> u64 {
        let pauses = self.evaluators.iter().filter_map(|evaluator| evaluator.paused.as_ref());
        pauses.filter(|pause| pause.is_of_connection).count() as u64
    }
}

impl Costs {
    /// The cost: at least the sum of the known ones if some prices are unknown, `?` if all are.
    pub(super) fn cost(&self) -> String {
        let n_answered = self.call_count.saturating_sub(self.failed_count);
        match self.unpriced_count {
            0 => dollars(self.cost_usd),
            n if n_answered <= n && self.cost_usd == 0.0 => "?".to_owned(),
            _ => format!("≥ {}", dollars(self.cost_usd)),
        }
    }

    /// Such as `2 failed`; absent if none failed.
    pub(super) fn failed(&self) -> Option<String> {
        (0 < self.failed_count).then(|| format!("{} failed", count(self.failed_count)))
    }
}

impl Learned {
    /// A sentence about the model.
    pub(super) fn words(&self) -> Text {
        let method = match self.method.as_deref() {
            Some("json_schema") => "enforces JSON schemas",
            Some("tool") => "structured replies as tool calls",
            Some("json_mode") => "enforces JSON, the schema is in the prompt",
            Some("prompt") => "the schema is in the prompt",
            _ => "no structured reply yet",
        };
        let deviations = self.deviations.iter().map(|name| match name.as_str() {
            "other_output_limit_name" => "other name of the output limit",
            "no_seed" => "no seed",
            "no_logprobs" => "no log-probabilities",
            other => other,
        });
        let parts: Vec<&str> = std::iter::once(method).chain(deviations).collect();
        Text::from(parts.join("; "))
    }
}

/// The newest connections with their use, and whether there are more.
pub(super) async fn newest(
    app: &App,
    viewer: &Viewer,
) -> Result<(Vec<ConnectionUsage>, bool), Problem> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<ConnectionUsage>,
        meta: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        total_items: u64,
    }
    let path = format!("{OPERATION}?limit={}", ConnectionsPage::LIMIT);
    let list: List = parsed(call(app, viewer, (Method::GET, &path), &json!({})).await?)?;
    let has_more = u64::from(ConnectionsPage::LIMIT) < list.meta.total_items;
    Ok((list.data, has_more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_without_all_prices_is_a_lower_bound_or_unknown() {
        let cost = |call_count, failed_count, unpriced_count, cost_usd| {
            let (cached_count, input_tokens, output_tokens) = (0, 0, 0);
            Costs {
                call_count,
                failed_count,
                unpriced_count,
                cached_count,
                input_tokens,
                output_tokens,
                cost_usd,
            }
            .cost()
        };
        assert_eq!(cost(3, 1, 0, 1.15), "$1.15");
        assert_eq!(cost(3, 1, 1, 1.15), "≥ $1.15");
        assert_eq!(cost(3, 1, 2, 0.0), "?");
    }

    #[test]
    fn what_is_known_about_a_model_is_a_sentence() {
        let learned = |method: Option<&str>, deviations: &[&str]| Learned {
            method: method.map(str::to_owned),
            deviations: deviations.iter().map(|name| (*name).to_owned()).collect(),
        };
        let words = learned(Some("json_schema"), &["no_seed"]).words();
        assert_eq!(words.raw(), "enforces JSON schemas; no seed");
        assert_eq!(learned(None, &[]).words().raw(), "no structured reply yet");
    }
}
