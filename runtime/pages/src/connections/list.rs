//! `GET P/settings/connections`: the connections of the project and its default evaluation model.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::ConnectionWrite;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, ConnectionLine, ConnectionsPage, DefaultModelForm, RejectedForm, Section, Text,
    count, plural,
};
use serde_json::Value;

use super::usage::{ConnectionUsage, connection_href, newest};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

/// `GET P/settings/connections`
pub(crate) async fn list_page(State(app): State<App>, viewer: Viewer) -> Result<Response, Problem> {
    let view = view(&app, &viewer, RejectedForm::default()).await?;
    page(StatusCode::OK, &view)
}

pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    rejected_form: RejectedForm,
) -> Result<ConnectionsPage, Problem> {
    let (connections, has_more) = newest(app, viewer).await?;
    let setup = match connections.is_empty() {
        true => Some(setup::guide_at(app, &viewer.project, viewer.origin.clone()).await?),
        false => None,
    };
    let api = ApiRequest::new(&viewer.origin, "/api/v1/llm-connections");
    Ok(ConnectionsPage {
        shell: viewer.shell(Section::Connections).with_api([api]),
        default_model: default_model(app, viewer, &connections, &rejected_form).await?,
        connections: connections.iter().map(|usage| line(viewer, usage)).collect(),
        has_more,
        may_write: viewer.may(ConnectionWrite),
        rejected_form,
        setup,
    })
}

fn line(viewer: &Viewer, usage: &ConnectionUsage) -> ConnectionLine {
    let connection = &usage.connection;
    let n_paused = usage.evaluators.iter().filter(|one| one.paused.is_some()).count() as u64;
    ConnectionLine {
        name: Text::from(connection.provider.as_str()),
        href: connection_href(viewer, &connection.id),
        adapter: Text::from(connection.adapter.as_str()),
        address: connection.base_url.as_deref().map(Text::from),
        key: connection.key(),
        default_model: usage.default_model.as_ref().map(|choice| Text::from(choice.model.as_str())),
        calls: count(usage.costs.call_count),
        failed: usage.costs.failed(),
        cost: usage.costs.cost(),
        evaluators: plural(usage.evaluators.len() as u64, "evaluator"),
        paused: (0 < n_paused).then(|| format!("{} paused", count(n_paused))),
    }
}

/// The sent values of the form, or the stored default evaluation model.
async fn default_model(
    app: &App,
    viewer: &Viewer,
    connections: &[ConnectionUsage],
    rejected: &RejectedForm,
) -> Result<DefaultModelForm, Problem> {
    let stored = app.store.catalog.default_model(&viewer.project).await?;
    let sent = |name: &str| {
        let found = rejected.values.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.clone())
    };
    let provider = sent("provider");
    let provider = provider.or_else(|| stored.as_ref().map(|choice| choice.provider.clone()));
    let providers = connections.iter().map(|usage| {
        let name = &usage.connection.provider;
        (name.clone(), provider.as_ref() == Some(name))
    });
    let params = stored.as_ref().filter(|choice| !choice.params.is_empty());
    let params = params.map(|choice| Value::Object(choice.params.clone()).to_string());
    Ok(DefaultModelForm {
        providers: providers.collect(),
        model: sent("model")
            .or_else(|| stored.as_ref().map(|choice| choice.model.clone()))
            .unwrap_or_default(),
        params: sent("params").or(params).unwrap_or_default(),
        is_set: stored.is_some(),
    })
}
