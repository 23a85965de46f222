//! Routes with their descriptions: one entry makes both.

use axum::Router;
use axum::handler::Handler;
use axum::middleware::map_response;
use axum::routing::{MethodFilter, on};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::extract::Param;
use crate::{App, compression, ingress};

/// What a caller must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Anyone,
    /// A key pair.
    KeyPair,
    /// A key pair, that of a key which may only send telemetry too.
    Ingest,
    /// As `Ingest`, or a public key alone.
    PublicKey,
    /// A key pair of an organization.
    Organization,
}

/// Marks the operations that keys for telemetry may call.
pub(crate) const INGEST_KEYS: &str = "x-perpend-ingest-keys";

/// The description of one operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    method: HttpMethod,
    path: &'static str,
    summary: &'static str,
    access: Access,
    query: &'static [Param],
    body: Option<RefOr<Schema>>,
    status: u16,
    /// Further ones of success.
    also: &'static [u16],
    /// Of the answer; nothing when it has no body.
    media_type: Option<&'static str>,
    answer: RefOr<Schema>,
    /// What the two refer to by name.
    named: Vec<(String, RefOr<Schema>)>,
    /// The answer holds a key, or an address that opens something without one.
    is_secret: bool,
}

impl Operation {
    /// An operation that answers 200 with some JSON.
    pub(crate) fn new(method: HttpMethod, path: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            summary,
            access: Access::KeyPair,
            query: &[],
            body: None,
            status: 200,
            also: &[],
            media_type: Some("application/json"),
            answer: object(),
            named: Vec::new(),
            is_secret: false,
        }
    }

    pub(crate) fn get(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Get, path, summary)
    }

    pub(crate) fn post(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Post, path, summary)
    }

    pub(crate) fn put(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Put, path, summary)
    }

    pub(crate) fn patch(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Patch, path, summary)
    }

    pub(crate) fn delete(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Delete, path, summary)
    }

    pub(crate) fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// The answer holds a key, or an address that opens something without one: no cache keeps it and it is
    /// not compressed. Needless for [`Access::Organization`], which is about keys and people throughout.
    pub(crate) fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub(crate) fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn body<T: utoipa::ToSchema>(mut self) -> Self {
        self.body = Some(T::schema());
        T::schemas(&mut self.named);
        self
    }

    pub(crate) fn answers<T: utoipa::ToSchema>(mut self) -> Self {
        self.answer = T::schema();
        T::schemas(&mut self.named);
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        match status {
            204 => self.empty(),
            _ => self,
        }
    }

    /// The answer has no body.
    pub(crate) fn empty(mut self) -> Self {
        self.media_type = None;
        self
    }

    /// The answer is bytes.
    pub(crate) fn bytes(mut self, media_type: &'static str) -> Self {
        self.media_type = Some(media_type);
        let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
        let schema = ObjectBuilder::new().schema_type(Type::String);
        self.answer = schema.format(Some(binary)).build().into();
        self
    }

    /// Statuses of success besides the one.
    pub(crate) fn also(mut self, statuses: &'static [u16]) -> Self {
        self.also = statuses;
        self
    }

    fn filter(&self) -> MethodFilter {
        match self.method {
            HttpMethod::Post => MethodFilter::POST,
            HttpMethod::Put => MethodFilter::PUT,
            HttpMethod::Patch => MethodFilter::PATCH,
            HttpMethod::Delete => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        }
    }

    fn success(&self) -> Response {
        let answer = ResponseBuilder::new().description(self.summary);
        let Some(media_type) = self.media_type else {
            return answer.build();
        };
        let content = ContentBuilder::new()
            .schema(Some(self.answer.clone()))
            .build();
        answer.content(media_type, content).build()
    }

    fn described(&self) -> utoipa::openapi::path::Operation {
        let mut operation = OperationBuilder::new()
            .summary(Some(self.summary))
            .tag(resource(self.path).unwrap_or("api").to_owned());
        for name in self
            .path
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split('}').next())
        {
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
            let content = ContentBuilder::new().schema(Some(body.clone())).build();
            let body = RequestBodyBuilder::new().content("application/json", content);
            operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
        }
        let answer = self.success();
        let failure =
            ResponseBuilder::new().description("A problem; docs/errors.md lists the codes.");
        for status in self.also {
            operation = operation.response(status.to_string(), answer.clone());
        }
        operation = operation
            .response(self.status.to_string(), answer)
            .response("default", failure.build());
        let pair = match self.access {
            Access::Anyone => None,
            Access::Organization => Some("organization"),
            _ => Some("basic"),
        };
        if let Some(pair) = pair {
            let none: [&str; 0] = [];
            operation = operation.security(SecurityRequirement::new(pair, none));
        }
        if self.access == Access::PublicKey {
            let none: [&str; 0] = [];
            operation = operation.security(SecurityRequirement::new("publicKey", none));
        }
        if matches!(self.access, Access::Ingest | Access::PublicKey) {
            let mark = ExtensionsBuilder::new().add(INGEST_KEYS, true).build();
            operation = operation.extensions(Some(mark));
        }
        operation.build()
    }
}

/// What a path of the API is about: its first part that is neither prefix nor version.
pub(crate) fn resource(path: &str) -> Option<&str> {
    let mut parts = path.strip_prefix("/api/")?.split('/');
    let is_public = parts.next() == Some("public");
    let is_prefix = |part: &&str| is_public && matches!(*part, "v1" | "v2" | "v3" | "unstable");
    parts.find(|part| !is_prefix(part))
}

fn object() -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .build()
        .into()
}

fn kind(name: &str) -> RefOr<Schema> {
    let simple = |schema_type| ObjectBuilder::new().schema_type(schema_type);
    match name {
        "integer" => simple(Type::Integer).build().into(),
        "number" => simple(Type::Number).build().into(),
        "boolean" => simple(Type::Boolean).build().into(),
        "array" => ArrayBuilder::new()
            .items(simple(Type::String))
            .build()
            .into(),
        "date-time" => simple(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .build()
            .into(),
        _ => simple(Type::String).build().into(),
    }
}

/// Collects routes and what is said about them.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    public: Router<App>,
    own: Router<App>,
    operations: Vec<Operation>,
}

impl Routes {
    /// Adds one operation.
    pub(crate) fn add<H, T>(&mut self, operation: Operation, handler: H)
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let mut route = on(operation.filter(), handler);
        if operation.is_secret || operation.access == Access::Organization {
            route = route.route_layer(map_response(compression::keep_secret));
        }
        let is_own = operation.path.starts_with("/api/v1/");
        let router = if is_own {
            &mut self.own
        } else {
            &mut self.public
        };
        *router = std::mem::take(router).route(operation.path, route);
        self.operations.push(operation);
    }

    /// The routers of the compat API and of our own.
    pub(crate) fn into_routers(self) -> (Router<App>, Router<App>) {
        (self.public, self.own)
    }

    /// The description of everything that was added.
    pub(crate) fn openapi(&self) -> OpenApi {
        let mut paths = PathsBuilder::new();
        for operation in &self.operations {
            let item = PathItem::new(operation.method.clone(), operation.described());
            paths = paths.path(operation.path, item);
        }
        for (path, item) in ingress::paths() {
            paths = paths.path(path, item);
        }
        let scheme = |scheme| SecurityScheme::Http(HttpBuilder::new().scheme(scheme).build());
        let organization = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some(
                "A key pair of an organization; those of projects do not do.",
            ));
        let named = self.operations.iter().flat_map(|each| &each.named);
        let components = ComponentsBuilder::new()
            .schemas_from_iter(named.cloned())
            .security_scheme("basic", scheme(HttpAuthScheme::Basic))
            .security_scheme("organization", SecurityScheme::Http(organization.build()))
            .security_scheme("publicKey", scheme(HttpAuthScheme::Bearer));
        let info = InfoBuilder::new()
            .title("Perpend")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some("Traces in, explained scores out."));
        OpenApiBuilder::new()
            .info(info)
            .paths(paths)
            .components(Some(components.build()))
            .build()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_document_refers_to_is_in_it() {
        let document = serde_json::to_value(crate::api::openapi()).unwrap();
        let text = document.to_string();
        let mut n_refs = 0;
        for (at, start) in text.match_indices("\"$ref\":\"#") {
            let pointer = text[at + start.len()..].split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
            n_refs += 1;
        }
        assert!(0 < n_refs, "nothing is referred to");
    }
}
