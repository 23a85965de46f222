//! Routes. One entry gives the required permission, the handler and the OpenAPI description.
//!
//! Invariants:
//! - **No route without a permission.** Only [`Routes`] adds a route, and it puts the guard in front of the handler.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place where routes are added, each behind its guard"
)]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::{from_fn, map_response};
use axum::routing::{MethodFilter, MethodRouter, on};
use perpend_domain::access::{Permission, Role, Scope};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::answer::{DescribedAnswer as _, DescribedHandler, ResponseSpec};
use crate::auth::{
    AuditClass, AuditedRoute, Authenticator, Guarded, KeyAuth, MetricsTokenAuth, OtlpKeyAuth,
    Requirement,
};
use crate::extract::{Param, readable_path};
use crate::problem::as_rfc9457;
use crate::resource::resource;
use crate::{AppState, compression, edge, otlp};

/// Extension of the document with the permission of an operation.
const PERMISSION: &str = "x-perpend-permission";
/// Extension of the document with the requests that are recorded in the audit trail: `change` or `read`.
const AUDIT: &str = "x-perpend-audit";

/// The description of one operation. Schemas are built on each request for the document, not at startup.
#[derive(Clone, Debug)]
pub struct Operation {
    id: &'static str,
    method: HttpMethod,
    path: &'static str,
    summary: &'static str,
    requirement: Requirement,
    query: &'static [Param],
    body: Option<fn() -> ResponseSpec>,
    /// Status of a response that is not JSON.
    status: u16,
    /// Media type of a response that is not JSON; `None` without a body.
    media_type: Option<&'static str>,
    /// JSON responses, given by the return type of the handler.
    responses: fn() -> Vec<ResponseSpec>,
    /// The response contains a key, or an address that gives access without one.
    is_secret: bool,
    /// Requests that are recorded in the audit trail.
    audit: AuditClass,
}

impl Operation {
    /// An operation. The return type of its handler describes JSON responses; otherwise the response has status 200 and
    /// no body.
    pub fn new(
        method: HttpMethod,
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        let requirement = requirement.into();
        Self {
            audit: AuditClass::of(method == HttpMethod::Get, requirement),
            id,
            method,
            path,
            summary,
            requirement,
            query: &[],
            body: None,
            status: 200,
            media_type: None,
            responses: Vec::new,
            is_secret: false,
        }
    }

    pub fn get(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        Self::new(HttpMethod::Get, id, path, summary, requirement)
    }

    pub fn post(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        Self::new(HttpMethod::Post, id, path, summary, requirement)
    }

    pub fn put(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        Self::new(HttpMethod::Put, id, path, summary, requirement)
    }

    pub fn patch(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        Self::new(HttpMethod::Patch, id, path, summary, requirement)
    }

    pub fn delete(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        requirement: impl Into<Requirement>,
    ) -> Self {
        Self::new(HttpMethod::Delete, id, path, summary, requirement)
    }

    /// The response contains a key, or an address that gives access without one: it is neither cached nor
    /// compressed. Implied for operations of organizations.
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// No request is recorded in the audit trail: it changes no configuration, or bulk data.
    pub fn unrecorded(mut self) -> Self {
        self.audit = AuditClass::Unrecorded;
        self
    }

    /// Each successful request is recorded in the audit trail, although it only reads.
    pub fn recorded_read(mut self) -> Self {
        self.audit = AuditClass::Read;
        self
    }

    pub fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub fn body<T: utoipa::ToSchema>(mut self) -> Self {
        self.body = Some(|| ResponseSpec::of::<T>(0));
        self
    }

    /// The status of a response without a body.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The response is binary.
    pub fn bytes(mut self, media_type: &'static str) -> Self {
        self.media_type = Some(media_type);
        self
    }

    /// Statuses of success with their responses.
    fn successes(&self) -> Vec<(u16, Response)> {
        let response = |media_type, schema: &RefOr<Schema>| {
            let content = ContentBuilder::new().schema(Some(schema.clone())).build();
            let response = ResponseBuilder::new().description(self.summary);
            response.content(media_type, content).build()
        };
        let specs = (self.responses)();
        if !specs.is_empty() {
            let specs = specs.iter();
            return specs
                .map(|spec| (spec.status, response("application/json", &spec.schema)))
                .collect();
        }
        let response = match self.media_type {
            Some(media_type) => response(media_type, &binary()),
            None => ResponseBuilder::new().description(self.summary).build(),
        };
        vec![(self.status, response)]
    }

    /// Named schemas of the request body and the responses.
    fn named_schemas(&self) -> impl Iterator<Item = (String, RefOr<Schema>)> {
        let body = self.body.map(|body| body());
        let specs = body.into_iter().chain((self.responses)());
        specs.flat_map(|spec| spec.named)
    }

    fn description(&self) -> utoipa::openapi::path::Operation {
        let mut operation = OperationBuilder::new()
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .tag(resource(self.path).unwrap_or("api").to_owned());
        for name in self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            operation = operation.parameter(
                ParameterBuilder::new()
                    .name(name)
                    .parameter_in(ParameterIn::Path)
                    .required(Required::True)
                    .schema(Some(ObjectBuilder::new().schema_type(Type::String))),
            );
        }
        for param in self.query {
            operation = operation.parameter(
                ParameterBuilder::new()
                    .name(param.name)
                    .parameter_in(ParameterIn::Query)
                    .required(match param.is_required {
                        true => Required::True,
                        false => Required::False,
                    })
                    .description(Some(param.text))
                    .schema(Some(kind(param.kind))),
            );
        }
        if let Some(body) = &self.body {
            let content = ContentBuilder::new().schema(Some(body().schema)).build();
            let body = RequestBodyBuilder::new().content("application/json", content);
            operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
        }
        let failure =
            ResponseBuilder::new().description("A problem. docs/errors.md lists the codes.");
        for (status, response) in self.successes() {
            operation = operation.response(status.to_string(), response);
        }
        operation = operation.response("default", failure.build());
        with_extensions(operation, self.requirement, self.audit).build()
    }
}

/// Adds the credentials and the permission that an operation requires.
pub fn with_permission(operation: OperationBuilder, requirement: Requirement) -> OperationBuilder {
    with_extensions(operation, requirement, AuditClass::Unrecorded)
}

fn with_extensions(
    operation: OperationBuilder,
    requirement: Requirement,
    audit: AuditClass,
) -> OperationBuilder {
    let schemes = [
        ("basic", Scope::Full),
        ("organization", Scope::Organization),
        ("publicKey", Scope::PublicHalf),
    ];
    let none: [&str; 0] = [];
    let held = schemes.iter().filter(|(_, scope)| requirement.is_held_by(*scope));
    let operation = held.fold(operation, |operation, (name, _)| {
        operation.security(SecurityRequirement::new(*name, none))
    });
    let extensions = ExtensionsBuilder::new().add(PERMISSION, requirement.name());
    let extensions = match audit.name() {
        Some(name) => extensions.add(AUDIT, name),
        None => extensions,
    };
    operation.extensions(Some(extensions.build()))
}

fn binary() -> RefOr<Schema> {
    let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema.format(Some(binary)).build().into()
}

fn kind(name: &str) -> RefOr<Schema> {
    let simple = |schema_type| ObjectBuilder::new().schema_type(schema_type);
    match name {
        "integer" => simple(Type::Integer).build().into(),
        "number" => simple(Type::Number).build().into(),
        "boolean" => simple(Type::Boolean).build().into(),
        "array" => ArrayBuilder::new().items(simple(Type::String)).build().into(),
        "date-time" => simple(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .build()
            .into(),
        _ => simple(Type::String).build().into(),
    }
}

/// A page or a resource of a page.
#[derive(Clone, Debug)]
pub struct PageRoute {
    method: HttpMethod,
    path: Cow<'static, str>,
    requirement: Requirement,
    is_secret: bool,
    audit: AuditClass,
}

impl PageRoute {
    pub fn get(path: impl Into<Cow<'static, str>>, requirement: impl Into<Requirement>) -> Self {
        Self::new(HttpMethod::Get, path.into(), requirement.into())
    }

    pub fn post(path: impl Into<Cow<'static, str>>, requirement: impl Into<Requirement>) -> Self {
        Self::new(HttpMethod::Post, path.into(), requirement.into())
    }

    fn new(method: HttpMethod, path: Cow<'static, str>, requirement: Requirement) -> Self {
        let audit = AuditClass::of(method == HttpMethod::Get, requirement);
        Self { method, path, requirement, is_secret: false, audit }
    }

    /// Each successful request is recorded in the audit trail, although it only reads.
    pub fn recorded_read(mut self) -> Self {
        self.audit = AuditClass::Read;
        self
    }

    /// The response starts or ends a session: it is neither cached nor compressed.
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }
}

/// A route of the server and its permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteEntry {
    /// Path with `{parameters}`.
    pub path: String,
    /// Method in upper case.
    pub method: &'static str,
    /// A permission, two permissions separated by `or`, or `public`.
    pub permission: String,
}

/// Collects routes and their descriptions.
#[derive(Debug)]
pub struct Routes<S> {
    public: Router<S>,
    own: Router<S>,
    otlp: Router<S>,
    pages: Router<S>,
    description: ApiDescription,
}

impl<S: AppState> Default for Routes<S> {
    fn default() -> Self {
        Self {
            public: Router::new(),
            own: Router::new(),
            otlp: Router::new(),
            pages: Router::new(),
            description: ApiDescription::default(),
        }
    }
}

fn filter(method: &HttpMethod) -> (MethodFilter, &'static str) {
    match method {
        HttpMethod::Post => (MethodFilter::POST, "POST"),
        HttpMethod::Put => (MethodFilter::PUT, "PUT"),
        HttpMethod::Patch => (MethodFilter::PATCH, "PATCH"),
        HttpMethod::Delete => (MethodFilter::DELETE, "DELETE"),
        _ => (MethodFilter::GET, "GET"),
    }
}

impl<S: AppState> Routes<S> {
    /// The handler with its guard.
    fn guarded<W, H, T>(
        &mut self,
        (method, path): (&HttpMethod, &str),
        requirement: Requirement,
        (authenticator, audited): (W, Option<AuditedRoute>),
        handler: H,
    ) -> MethodRouter<S>
    where
        W: Authenticator<S>,
        H: Handler<T, S>,
        T: 'static,
    {
        let (filter, method) = filter(method);
        self.description.routes.push(RouteEntry {
            path: path.to_owned(),
            method,
            permission: requirement.name(),
        });
        on(filter, Guarded { requirement, authenticator, handler, audited })
    }

    /// Adds one operation of the API.
    pub fn add<H, T, Args>(&mut self, mut operation: Operation, handler: H)
    where
        H: Handler<T, S> + DescribedHandler<Args>,
        T: 'static,
    {
        operation.responses = H::Answer::response_specs;
        let route = (&operation.method, operation.path);
        let audited = (operation.audit != AuditClass::Unrecorded).then(|| AuditedRoute {
            operation: operation.id.into(),
            path: operation.path.into(),
            class: operation.audit,
        });
        let mut route = self.guarded(route, operation.requirement, (KeyAuth, audited), handler);
        if operation.is_secret || operation.requirement.is_of_organization() {
            route = route.route_layer(map_response(compression::keep_secret));
        }
        let is_own = operation.path.starts_with("/api/v1/");
        let router = if is_own { &mut self.own } else { &mut self.public };
        *router = mem::take(router).route(operation.path, route);
        self.description.operations.push(operation);
    }

    /// Adds an OTLP path, with and without a trailing slash.
    pub fn otlp<H, T>(&mut self, path: &str, handler: H)
    where
        H: Handler<T, S>,
        T: 'static,
    {
        for path in [path.to_owned(), format!("{path}/")] {
            let requirement = Requirement::One(Permission::IngestWrite);
            let route = (&HttpMethod::Post, path.as_str());
            let route = self.guarded(route, requirement, (OtlpKeyAuth, None), handler.clone());
            let route = route.fallback(otlp::method_not_allowed);
            self.otlp = mem::take(&mut self.otlp).route(&path, route);
        }
    }

    /// Adds a page.
    pub fn page<W, H, T>(&mut self, authenticator: W, page: PageRoute, handler: H)
    where
        W: Authenticator<S>,
        H: Handler<T, S>,
        T: 'static,
    {
        let route = (&page.method, &*page.path);
        let audited = (page.audit != AuditClass::Unrecorded).then(|| AuditedRoute {
            operation: format!("{} {}", filter(&page.method).1, page.path).into(),
            path: page.path.clone(),
            class: page.audit,
        });
        let mut route = self.guarded(route, page.requirement, (authenticator, audited), handler);
        if page.is_secret {
            route = route.route_layer(map_response(compression::keep_secret));
        }
        self.pages = mem::take(&mut self.pages).route(&page.path, route);
    }

    /// Adds a public route that is neither an operation nor a page.
    pub fn open<H, T>(&mut self, path: &str, handler: H)
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let route = (&HttpMethod::Get, path);
        let route = self.guarded(route, Requirement::Public, (KeyAuth, None), handler);
        self.public = mem::take(&mut self.public).route(path, route);
    }

    /// Adds the route of the metrics, for callers with the token of `metrics.token`.
    pub fn metrics<H, T>(&mut self, path: &str, handler: H)
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let route = (&HttpMethod::Get, path);
        let route =
            self.guarded(route, Requirement::MetricsToken, (MetricsTokenAuth, None), handler);
        self.public = mem::take(&mut self.public).route(path, route);
    }

    /// The router, with the error format of each kind of route, and the description.
    pub fn into_parts(self) -> (Router<S>, ApiDescription) {
        let own = self.own.layer(from_fn(readable_path));
        let api = self
            .public
            .layer(from_fn(readable_path))
            .merge(own.layer(from_fn(as_rfc9457)))
            .method_not_allowed_fallback(edge::method_not_allowed);
        (self.otlp.merge(api).merge(self.pages), self.description)
    }
}

/// Description of routes.
#[derive(Clone, Debug, Default)]
pub struct ApiDescription {
    operations: Vec<Operation>,
    routes: Vec<RouteEntry>,
}

impl ApiDescription {
    /// Both descriptions.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.operations.extend(others.operations);
        self.routes.extend(others.routes);
        self
    }

    /// All routes, sorted by path.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteEntry> {
        let mut routes = self.routes.clone();
        routes.sort_unstable();
        routes
    }

    /// Names of two different schemas.
    #[must_use]
    pub fn ambiguous_schemas(&self) -> BTreeSet<String> {
        let mut schemas = BTreeMap::new();
        let mut ambiguous = BTreeSet::new();
        for (name, schema) in self.operations.iter().flat_map(Operation::named_schemas) {
            let first = schemas.entry(name.clone()).or_insert_with(|| schema.clone());
            if *first != schema {
                ambiguous.insert(name);
            }
        }
        ambiguous
    }

    /// The OpenAPI document of all operations and of `more` paths.
    #[must_use]
    pub fn openapi(&self, more: impl IntoIterator<Item = (&'static str, PathItem)>) -> OpenApi {
        let mut paths = PathsBuilder::new();
        for operation in &self.operations {
            let item = PathItem::new(operation.method.clone(), operation.description());
            paths = paths.path(operation.path, item);
        }
        for (path, item) in more {
            paths = paths.path(path, item);
        }
        let scheme = |scheme| SecurityScheme::Http(HttpBuilder::new().scheme(scheme).build());
        let organization = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some("A key pair of an organization. Key pairs of projects are refused."));
        let named = self.operations.iter().flat_map(Operation::named_schemas);
        let components = ComponentsBuilder::new()
            .schemas_from_iter(named)
            .security_scheme("basic", scheme(HttpAuthScheme::Basic))
            .security_scheme("organization", SecurityScheme::Http(organization.build()))
            .security_scheme("publicKey", scheme(HttpAuthScheme::Bearer));
        let info = InfoBuilder::new()
            .title("Perpend")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some("Traces in, explained scores out."));
        OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build()
    }
}

/// `docs/access.md`.
#[must_use]
pub fn markdown(description: &ApiDescription) -> String {
    let mut page = String::from(
        "# Access\n\n\
         Printed by `perpend docs access`; do not edit by hand.\n\n\
         Each route requires one permission; the table below shows which keys and roles hold it. Without credentials the status is \
         401; with credentials that lack the permission it is 403 `access_denied`, and `details.permission` names \
         the missing permission. A resource of another project gives the same response as one that does not exist.\n\n\
         A browser session of an account has in each project the permissions of the person's role there: the role in the project \
         where one is set, otherwise the role in the organization; an owner of the organization is owner of each project. Changed \
         roles apply from the next request on. Pages also check the role for permissions of the organization. Before the first \
         account, a session has the permissions of the key pair that it was started with, and ends with it; a session that was \
         started with the printed token ends when the server restarts. A browser can then be logged in to 12 projects at once, \
         with one session each; logging out ends all of them. The administrator key has the permissions of a key pair of the named \
         project. A route of `public` requires no credentials; `metrics.token` is the token of this setting.\n\n| permission | allows |",
    );
    for scope in Scope::ALL {
        let _ = write!(page, " {} |", scope.title());
    }
    for role in Role::ALL {
        let _ = write!(page, " `{role}` |");
    }
    page.push_str("\n|---|---|");
    page.push_str(&"---|".repeat(Scope::ALL.len() + Role::ALL.len()));
    page.push('\n');
    for permission in Permission::ALL {
        let _ = write!(page, "| `{permission}` | {} |", permission.covers());
        for scope in Scope::ALL {
            page.push_str(match scope.holds(*permission) {
                true => " yes |",
                false => " – |",
            });
        }
        for role in Role::ALL {
            page.push_str(match role.holds(*permission) {
                true => " yes |",
                false => " – |",
            });
        }
        page.push('\n');
    }
    page.push_str("\n## Routes\n\n| route | permission |\n|---|---|\n");
    for route in description.routes() {
        let _ = writeln!(page, "| `{} {}` | `{}` |", route.method, route.path, route.permission);
    }
    page
}
