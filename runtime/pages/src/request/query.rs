//! Extractor of query parameters.

use std::collections::HashSet;

use axum::extract::{FromRequestParts, OriginalUri, Query as AxumQuery};
use axum::http::request::Parts;
use perpend_http_kit::problem::Problem;
use perpend_views::Section;
use serde::de::DeserializeOwned;

use crate::request::frame::Frame;
use crate::request::viewer;
use crate::state::App;

const DUPLICATE: &str = "must not be repeated";

/// Query parameters of a page. A repeated parameter is an error that names it.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let address = parts.extensions.get::<OriginalUri>();
        let address = address.map_or(&parts.uri, |address| &address.0);
        let rejection = match AxumQuery::<T>::try_from_uri(address) {
            Ok(AxumQuery(params)) => return Ok(Self(params)),
            Err(rejection) => rejection,
        };
        let problem = match repeated(address.query().unwrap_or_default()) {
            Some(name) => Problem::query(&name, DUPLICATE),
            None => Problem::query("", rejection.body_text()),
        };
        // Public pages have no authenticator that sets the shell.
        if let Some(frame) = parts.extensions.get::<Frame>()
            && frame.shell.get().is_none()
        {
            let shell = viewer::shell(app, &parts.headers, (address, Section::Other)).await?;
            let _ = frame.shell.set(shell);
        }
        Err(problem)
    }
}

/// Rejects a repeated parameter, for handlers that parse the query themselves.
pub(crate) fn reject_repeated(query: Option<&str>) -> Result<(), Problem> {
    match repeated(query.unwrap_or_default()) {
        Some(name) => Err(Problem::query(&name, DUPLICATE)),
        None => Ok(()),
    }
}

/// The first repeated parameter.
fn repeated(query: &str) -> Option<String> {
    let mut seen = HashSet::new();
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name.into_owned());
    names.find(|name| !seen.insert(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repeated_parameter_is_named() {
        assert_eq!(repeated("a=1&b=2&%61=3").as_deref(), Some("a"));
        assert_eq!(repeated("a=1&b=1"), None);
    }
}
