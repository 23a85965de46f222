//! The query of an address as a struct of its parameters.

use std::collections::HashSet;

use axum::extract::{FromRequestParts, OriginalUri, Query as AxumQuery};
use axum::http::request::Parts;
use perpend_http_kit::problem::Problem;
use perpend_views::Section;
use serde::de::DeserializeOwned;

use crate::request::frame::Frame;
use crate::request::viewer;
use crate::state::App;

const DUPLICATE: &str = "is given more than once";

/// The parameters. One that is given twice is a problem that names it, on a page with its frame.
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
        // Pages for anybody have no guard that tells whose frame it is.
        if let Some(frame) = parts.extensions.get::<Frame>()
            && frame.shell.get().is_none()
        {
            let shell = viewer::shell(app, &parts.headers, (address, Section::Other)).await?;
            let _ = frame.shell.set(shell);
        }
        Err(problem)
    }
}

/// Refuses a query that gives a parameter twice, on a page that reads its parameters elsewhere.
pub(crate) fn unrepeated(query: Option<&str>) -> Result<(), Problem> {
    match repeated(query.unwrap_or_default()) {
        Some(name) => Err(Problem::query(&name, DUPLICATE)),
        None => Ok(()),
    }
}

/// The first parameter that is given twice.
fn repeated(query: &str) -> Option<String> {
    let mut seen = HashSet::new();
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name.into_owned());
    names.find(|name| !seen.insert(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_that_is_given_twice_is_named() {
        assert_eq!(repeated("a=1&b=2&%61=3").as_deref(), Some("a"));
        assert_eq!(repeated("a=1&b=1"), None);
    }
}
