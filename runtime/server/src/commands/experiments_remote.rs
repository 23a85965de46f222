//! Requests of the commands on experiments.

use perpend_domain::experiment::escaped_run_id;
use perpend_experiments::report::encoded;
use perpend_plugin_cli::{Remote as _, RemoteResponse};
use serde_json::Value;

use super::plugin_remote::ServerRemote;

/// The body of a successful response.
pub(super) fn succeeded(answer: RemoteResponse) -> anyhow::Result<Value> {
    if matches!(answer.status, 200 | 201) {
        return Ok(answer.body);
    }
    let message = answer.body["detail"].as_str().or_else(|| answer.body["message"].as_str());
    anyhow::bail!("the server returned {}: {}", answer.status, message.unwrap_or_default())
}

pub(super) fn get(remote: &ServerRemote, path: &str) -> anyhow::Result<Value> {
    succeeded(remote.send("GET", path, None).map_err(anyhow::Error::msg)?)
}

/// The id of the run with this id, or else of the newest run with this name.
pub(super) fn run_id(remote: &ServerRemote, reference: &str) -> anyhow::Result<String> {
    let path = format!("/api/v1/experiments/{}", encoded(&escaped_run_id(reference)));
    let answer = remote.send("GET", &path, None).map_err(anyhow::Error::msg)?;
    if answer.status != 404 {
        return Ok(succeeded(answer)?["id"].as_str().unwrap_or(reference).to_owned());
    }
    let condition = serde_json::json!([{
        "type": "stringOptions", "column": "name", "operator": "any of", "value": [reference],
    }]);
    let filter = encoded(&condition.to_string());
    let path = format!(
        "/api/public/experiments?fromStartTime=1970-01-01T00:00:00Z&limit=1&filter={filter}"
    );
    let found = get(remote, &path)?;
    let id = found["data"][0]["id"].as_str();
    id.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("unknown run `{reference}`"))
}

/// The id of the project of the key, for links.
pub(super) fn project(remote: &ServerRemote) -> Option<String> {
    let answer = remote.send("GET", "/api/public/projects", None).ok()?;
    answer.body["data"][0]["id"].as_str().map(str::to_owned)
}
