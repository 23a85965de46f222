//! Azure OpenAI: the bodies of OpenAI, with one URL for each deployment.

use serde_json::{Map, Value, json};
use url::Url;

use super::openai;
use super::wire::{self, CompletionSpec, EncodedRequest};
use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};

const API_VERSION: &str = "2025-02-01-preview";

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    Ok(EncodedRequest {
        url: address(endpoint, spec.model, &["chat", "completions"])?.into(),
        headers: key(endpoint),
        body: openai::body(spec, None, true)?,
    })
}

pub(super) fn embed(
    endpoint: &Endpoint,
    model: &str,
    texts: &[String],
    rest: &Map<String, Value>,
) -> Result<EncodedRequest, Failure> {
    Ok(EncodedRequest {
        url: address(endpoint, model, &["embeddings"])?.into(),
        headers: key(endpoint),
        body: wire::body(&json!({ "input": texts }), rest),
    })
}

fn key(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    vec![("api-key", endpoint.key.expose().to_owned())]
}

/// Builds the URL. The base URL may include `/openai`, `/deployments` and a deployment; the prefix of a proxy is preserved.
fn address(endpoint: &Endpoint, model: &str, ending: &[&str]) -> Result<Url, Failure> {
    if endpoint.base_url.is_none() {
        let message = "a connection to Azure requires the base URL of its resource";
        return Err(Failure::new(ErrorClass::ModelConfigInvalid, message));
    }
    let mut url = wire::base(endpoint, "", model)?;
    let mut path = wire::segments(&url);
    if let Some(at) = path.iter().position(|segment| segment == "deployments") {
        path.truncate(at);
    }
    path.pop_if(|last| last == "openai");
    path.extend(["openai", "deployments", model].map(str::to_owned));
    path.extend(ending.iter().map(|&segment| segment.to_owned()));
    let (mut others, mut version) = (Vec::new(), None);
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "api-version" => version = Some(value.into_owned()),
            _ => others.push((name.into_owned(), value.into_owned())),
        }
    }
    let version = endpoint.api_version.as_ref().or(version.as_ref());
    let version = version.map_or(API_VERSION, String::as_str).to_owned();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair("api-version", &version);
    Ok(wire::with_path(url, &path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Protocol, Secret};

    fn endpoint(base: &str) -> Endpoint {
        Endpoint {
            connection_id: "c".to_owned(),
            saved_at: 0,
            provider: "azure".to_owned(),
            protocol: Protocol::Azure,
            base_url: Some(base.to_owned()),
            key: Secret::new("k"),
            headers: Vec::new(),
            use_responses_api: false,
            api_version: None,
            max_in_flight: 8,
            config: None,
        }
    }

    #[test]
    fn all_spellings_of_a_base_url_give_the_same_url() {
        let expected = "https://r.openai.azure.com/openai/deployments/gpt%204/chat/completions?api-version=2025-02-01-preview";
        for base in [
            "https://r.openai.azure.com",
            "https://r.openai.azure.com/",
            "https://r.openai.azure.com/openai",
            "https://r.openai.azure.com/openai/",
            "https://r.openai.azure.com/openai/deployments",
            "https://r.openai.azure.com/openai/deployments/other",
            "https://r.openai.azure.com/openai/deployments/{model}/chat/completions",
        ] {
            let at = address(&endpoint(base), "gpt 4", &["chat", "completions"]);
            assert_eq!(at.unwrap().as_str(), expected, "{base}");
        }
    }

    #[test]
    fn the_prefix_and_query_of_a_proxy_are_preserved_and_the_version_can_be_set() {
        let base = "http://proxy/eu/openai/deployments/x?tenant=1&api-version=2024-10-21";
        let mut endpoint = endpoint(base);
        let at = |endpoint: &Endpoint| address(endpoint, "m", &["embeddings"]).unwrap();
        assert_eq!(
            at(&endpoint).as_str(),
            "http://proxy/eu/openai/deployments/m/embeddings?tenant=1&api-version=2024-10-21"
        );
        endpoint.api_version = Some("v9".to_owned());
        assert!(at(&endpoint).as_str().ends_with("?tenant=1&api-version=v9"));
        endpoint.base_url = None;
        let failure = address(&endpoint, "m", &[]).unwrap_err();
        assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
    }
}
