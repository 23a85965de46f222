//! Routes: what each needs, where it leads, what is said of it. One entry makes all three.
//!
//! Invariants:
//! - **No route without a permission.** [`Routes`] is the only way to serve something, and puts the guard in front.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place where routes are added, each behind its guard"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::{from_fn, map_response};
use axum::routing::{MethodFilter, MethodRouter, on};
use perpend_domain::access::{Permission, Scope};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::answer::{Answers as _, Handles, Said};
use crate::auth::{ByKey, ByKeyOfSender, Guarded, Needs, Way};
use crate::extract::{Param, readable_path};
use crate::problem::as_rfc9457;
use crate::resource::resource;
use crate::{Room, compression, edge, otlp};

/// The permission that an operation needs, in the document.
const PERMISSION: &str = "x-perpend-permission";

/// The description of one operation. Schemas are made when the document is asked for: a server that is never asked
/// holds none of them in memory.
#[derive(Clone, Debug)]
pub struct Operation {
    id: &'static str,
    method: HttpMethod,
    path: &'static str,
    summary: &'static str,
    needs: Needs,
    query: &'static [Param],
    body: Option<fn() -> Said>,
    status: u16,
    /// Further ones of success.
    also: &'static [u16],
    /// Of the answer; nothing when it has no body.
    media_type: Option<&'static str>,
    answer: fn() -> RefOr<Schema>,
    /// What the type of the handler says of its answers. It goes before what is said here.
    said: fn() -> Vec<Said>,
    /// The answer holds a key, or an address that opens something without one.
    is_secret: bool,
}

impl Operation {
    /// An operation that answers 200 with some JSON.
    pub fn new(
        method: HttpMethod,
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self {
            id,
            method,
            path,
            summary,
            needs: needs.into(),
            query: &[],
            body: None,
            status: 200,
            also: &[],
            media_type: Some("application/json"),
            answer: object,
            said: Vec::new,
            is_secret: false,
        }
    }

    pub fn get(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self::new(HttpMethod::Get, id, path, summary, needs)
    }

    pub fn post(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self::new(HttpMethod::Post, id, path, summary, needs)
    }

    pub fn put(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self::new(HttpMethod::Put, id, path, summary, needs)
    }

    pub fn patch(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self::new(HttpMethod::Patch, id, path, summary, needs)
    }

    pub fn delete(
        id: &'static str,
        path: &'static str,
        summary: &'static str,
        needs: impl Into<Needs>,
    ) -> Self {
        Self::new(HttpMethod::Delete, id, path, summary, needs)
    }

    /// The answer holds a key, or an address that opens something without one: no cache keeps it and it is
    /// not compressed. Needless for what is about an organization: keys and people throughout.
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub fn body<T: utoipa::ToSchema>(mut self) -> Self {
        self.body = Some(|| Said::of::<T>(0));
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        match status {
            204 => self.empty(),
            _ => self,
        }
    }

    /// The answer has no body.
    pub fn empty(mut self) -> Self {
        self.media_type = None;
        self
    }

    /// The answer is bytes.
    pub fn bytes(mut self, media_type: &'static str) -> Self {
        self.media_type = Some(media_type);
        self.answer = binary;
        self
    }

    /// Statuses of success besides the one.
    pub fn also(mut self, statuses: &'static [u16]) -> Self {
        self.also = statuses;
        self
    }

    /// Statuses of success, each with its answer.
    fn successes(&self) -> Vec<(u16, Response)> {
        let answer = |media_type, schema: &RefOr<Schema>| {
            let content = ContentBuilder::new().schema(Some(schema.clone())).build();
            let answer = ResponseBuilder::new().description(self.summary);
            answer.content(media_type, content).build()
        };
        let said = (self.said)();
        if !said.is_empty() {
            let said = said.iter();
            return said
                .map(|said| (said.status, answer("application/json", &said.schema)))
                .collect();
        }
        let answer = match self.media_type {
            Some(media_type) => answer(media_type, &(self.answer)()),
            None => ResponseBuilder::new().description(self.summary).build(),
        };
        let statuses = self.also.iter().chain([&self.status]);
        statuses.map(|status| (*status, answer.clone())).collect()
    }

    /// What its schemas refer to by name.
    fn named(&self) -> impl Iterator<Item = (String, RefOr<Schema>)> {
        let body = self.body.map(|body| body());
        let said = body.into_iter().chain((self.said)());
        said.flat_map(|said| said.named)
    }

    fn described(&self) -> utoipa::openapi::path::Operation {
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
                    .required(match param.is_needed {
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
            ResponseBuilder::new().description("A problem; docs/errors.md lists the codes.");
        for (status, answer) in self.successes() {
            operation = operation.response(status.to_string(), answer);
        }
        operation = operation.response("default", failure.build());
        with_permission(operation, self.needs).build()
    }
}

/// Says what a caller must show, and the permission that decides.
pub fn with_permission(operation: OperationBuilder, needs: Needs) -> OperationBuilder {
    let schemes = [
        ("basic", Scope::Full),
        ("organization", Scope::Organization),
        ("publicKey", Scope::PublicHalf),
    ];
    let none: [&str; 0] = [];
    let held = schemes.iter().filter(|(_, scope)| needs.is_held_by(*scope));
    let operation = held.fold(operation, |operation, (name, _)| {
        operation.security(SecurityRequirement::new(*name, none))
    });
    let name = needs.name();
    operation.extensions(Some(ExtensionsBuilder::new().add(PERMISSION, name).build()))
}

fn object() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).build().into()
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

/// A page, or what a page loads.
#[derive(Clone, Debug)]
pub struct Page {
    method: HttpMethod,
    path: &'static str,
    needs: Needs,
    is_secret: bool,
}

impl Page {
    pub fn get(path: &'static str, needs: impl Into<Needs>) -> Self {
        Self { method: HttpMethod::Get, path, needs: needs.into(), is_secret: false }
    }

    pub fn post(path: &'static str, needs: impl Into<Needs>) -> Self {
        Self { method: HttpMethod::Post, ..Self::get(path, needs) }
    }

    /// The answer begins or ends a session: no cache keeps it and it is not compressed.
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }
}

/// A route of the server and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// With `{names}`.
    pub path: String,
    /// Upper case.
    pub method: &'static str,
    /// A permission, two with `or` between them, or `nobody`.
    pub needs: String,
}

/// Collects the routes of a room and what is said about them.
#[derive(Debug)]
pub struct Routes<S> {
    public: Router<S>,
    own: Router<S>,
    otlp: Router<S>,
    pages: Router<S>,
    described: Described,
}

impl<S: Room> Default for Routes<S> {
    fn default() -> Self {
        Self {
            public: Router::new(),
            own: Router::new(),
            otlp: Router::new(),
            pages: Router::new(),
            described: Described::default(),
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

impl<S: Room> Routes<S> {
    /// The handler behind its guard.
    fn guarded<W, H, T>(
        &mut self,
        (method, path): (&HttpMethod, &str),
        needs: Needs,
        way: W,
        handler: H,
    ) -> MethodRouter<S>
    where
        W: Way<S>,
        H: Handler<T, S>,
        T: 'static,
    {
        let (filter, method) = filter(method);
        self.described.served.push(Served { path: path.to_owned(), method, needs: needs.name() });
        on(filter, Guarded { needs, way, handler })
    }

    /// Adds one operation of the API.
    pub fn add<H, T, Args>(&mut self, mut operation: Operation, handler: H)
    where
        H: Handler<T, S> + Handles<Args>,
        T: 'static,
    {
        operation.said = H::Answer::said;
        let place = (&operation.method, operation.path);
        let mut route = self.guarded(place, operation.needs, ByKey, handler);
        if operation.is_secret || operation.needs.is_of_organization() {
            route = route.route_layer(map_response(compression::keep_secret));
        }
        let is_own = operation.path.starts_with("/api/v1/");
        let router = if is_own { &mut self.own } else { &mut self.public };
        *router = mem::take(router).route(operation.path, route);
        self.described.operations.push(operation);
    }

    /// Adds an OTLP path, with and without a slash at its end.
    pub fn otlp<H, T>(&mut self, path: &str, handler: H)
    where
        H: Handler<T, S>,
        T: 'static,
    {
        for path in [path.to_owned(), format!("{path}/")] {
            let needs = Needs::One(Permission::IngestWrite);
            let place = (&HttpMethod::Post, path.as_str());
            let route = self.guarded(place, needs, ByKeyOfSender, handler.clone());
            let route = route.fallback(otlp::method_not_allowed);
            self.otlp = mem::take(&mut self.otlp).route(&path, route);
        }
    }

    /// Adds a page.
    pub fn page<W, H, T>(&mut self, way: W, page: Page, handler: H)
    where
        W: Way<S>,
        H: Handler<T, S>,
        T: 'static,
    {
        let place = (&page.method, page.path);
        let mut route = self.guarded(place, page.needs, way, handler);
        if page.is_secret {
            route = route.route_layer(map_response(compression::keep_secret));
        }
        self.pages = mem::take(&mut self.pages).route(page.path, route);
    }

    /// Adds what is neither an operation nor a page, and is everybody's.
    pub fn open<H, T>(&mut self, path: &str, handler: H)
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let place = (&HttpMethod::Get, path);
        let route = self.guarded(place, Needs::Nobody, ByKey, handler);
        self.public = mem::take(&mut self.public).route(path, route);
    }

    /// What answers them, each kind in its form, and what is said of them.
    pub fn into_parts(self) -> (Router<S>, Described) {
        let own = self.own.layer(from_fn(readable_path));
        let api = self
            .public
            .layer(from_fn(readable_path))
            .merge(own.layer(from_fn(as_rfc9457)))
            .method_not_allowed_fallback(edge::method_not_allowed);
        (self.otlp.merge(api).merge(self.pages), self.described)
    }
}

/// What is said of routes.
#[derive(Clone, Debug, Default)]
pub struct Described {
    operations: Vec<Operation>,
    served: Vec<Served>,
}

impl Described {
    /// These and others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.operations.extend(others.operations);
        self.served.extend(others.served);
        self
    }

    /// What is served, in the order of paths.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        let mut served = self.served.clone();
        served.sort_unstable();
        served
    }

    /// Names of bodies that stand for two different ones.
    #[must_use]
    pub fn ambiguous_bodies(&self) -> BTreeSet<String> {
        let mut bodies = BTreeMap::new();
        let mut ambiguous = BTreeSet::new();
        for (name, schema) in self.operations.iter().flat_map(Operation::named) {
            let first = bodies.entry(name.clone()).or_insert_with(|| schema.clone());
            if *first != schema {
                ambiguous.insert(name);
            }
        }
        ambiguous
    }

    /// The OpenAPI document of all of it, and of `more` paths.
    #[must_use]
    pub fn openapi(&self, more: impl IntoIterator<Item = (&'static str, PathItem)>) -> OpenApi {
        let mut paths = PathsBuilder::new();
        for operation in &self.operations {
            let item = PathItem::new(operation.method.clone(), operation.described());
            paths = paths.path(operation.path, item);
        }
        for (path, item) in more {
            paths = paths.path(path, item);
        }
        let scheme = |scheme| SecurityScheme::Http(HttpBuilder::new().scheme(scheme).build());
        let organization = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some("A key pair of an organization; those of projects do not do."));
        let named = self.operations.iter().flat_map(Operation::named);
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
pub fn markdown(described: &Described) -> String {
    let mut page = String::from(
        "# Access\n\n\
         Printed by `perpend docs access`; do not edit by hand.\n\n\
         Each route needs one permission, and what holds it is decided by one table. Without credentials the answer is \
         401; with credentials that do not hold the permission it is 403 `access_denied`, and `details.permission` names \
         what is missing. What belongs to another project answers like what does not exist.\n\n\
         A session of the pages holds what the key pair holds that began it, and ends with it; one that the printed token \
         began ends when the server starts again. A browser can be logged in to 12 projects at once, each by a session of its own; \
         logging out ends all of them. The administrator's key holds what a key pair of the named project holds.\n\n| permission | what it lets do |",
    );
    for scope in Scope::ALL {
        let _ = write!(page, " {} |", scope.title());
    }
    page.push_str("\n|---|---|");
    page.push_str(&"---|".repeat(Scope::ALL.len()));
    page.push('\n');
    for permission in Permission::ALL {
        let _ = write!(page, "| `{permission}` | {} |", permission.covers());
        for scope in Scope::ALL {
            page.push_str(match scope.holds(*permission) {
                true => " yes |",
                false => " – |",
            });
        }
        page.push('\n');
    }
    page.push_str("\n## Routes\n\n| route | needs |\n|---|---|\n");
    for route in described.served() {
        let _ = writeln!(page, "| `{} {}` | `{}` |", route.method, route.path, route.needs);
    }
    page
}
