//! HTTP requests to user-supplied URLs. The resolved address is checked when a connection is made: private addresses
//! are rejected unless the operator allowed the host or the range. Redirects are not followed here; `post` follows a
//! few.

use std::error::Error as _;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ipnet::IpNet;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Includes reading the response. Long enough for a part of a file over a slow connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Responses of object stores are short: a confirmation or an error.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

type Https = Client<HttpsConnector<HttpConnector<Resolver>>, HttpRequestBody>;

/// HTTP client for user-supplied URLs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OutboundClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Hosts that may resolve to private addresses.
    private_hosts: Vec<String>,
    /// Private ranges that any host may resolve to.
    private_ranges: Arc<[IpNet]>,
    /// Initialized by the first request, because this reads the system's root certificates.
    clients: OnceLock<ClientPair>,
}

#[derive(Debug)]
struct ClientPair {
    to_public: Https,
    to_any: Https,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct MessageError(String);

/// A request ended without a response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The address is private and not allowed.
    Refused(String),
    /// The name has no address.
    Unresolved(String),
    /// No TCP connection, or no TLS session.
    Unconnected(String),
    /// The connection ended before the response head.
    Interrupted(String),
}

impl OutboundClient {
    /// `private` lists hosts, with or without a port, that may resolve to private addresses, and private ranges in CIDR
    /// notation that any host may resolve to. An IPv6 address without a port may be in brackets.
    #[must_use]
    pub fn new(private: &[String]) -> Self {
        let ranges = private.iter().filter_map(|entry| entry.parse().ok());
        Self(Arc::new(Inner {
            private_hosts: private.to_vec(),
            private_ranges: ranges.collect(),
            clients: OnceLock::new(),
        }))
    }

    fn clients(&self) -> &ClientPair {
        self.0.clients.get_or_init(|| {
            let tls = tls();
            ClientPair {
                to_public: client(
                    Resolver::Public(Arc::clone(&self.0.private_ranges)),
                    tls.clone(),
                ),
                to_any: client(Resolver::Any, tls),
            }
        })
    }

    fn is_allowed_private(&self, uri: &Uri) -> bool {
        let Some(host) = uri.host().map(str::to_ascii_lowercase) else {
            return false;
        };
        let is_named = |name: &str| {
            host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let literal = address(&host);
        self.0.private_hosts.iter().any(|allowed| {
            let same_address = literal.is_some() && address(allowed) == literal;
            let port = port(uri).map(|port| format!(":{port}"));
            let name = port.and_then(|port| allowed.strip_suffix(&port));
            same_address || is_named(allowed) || name.is_some_and(is_named)
        })
    }

    /// Returns the complete response, or a timeout error.
    async fn response_within(
        &self,
        timeout: Duration,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        match tokio::time::timeout(timeout, self.response(request)).await {
            Ok(response) => response,
            Err(elapsed) => Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        }
    }

    /// Returns the response with its body unread.
    pub(crate) async fn send(&self, request: HttpRequest) -> Result<Response<Incoming>, SendError> {
        let response = if self.is_allowed_private(request.uri()) {
            self.clients().to_any.request(request).await
        } else {
            // The resolver is not called for literal addresses.
            let literal = request.uri().host().map(|host| host.trim_matches(['[', ']']));
            let literal = literal.and_then(|host| host.parse::<IpAddr>().ok());
            if let Some(address) =
                literal.filter(|address| !is_allowed(*address, &self.0.private_ranges))
            {
                return Err(SendError::Refused(not_public(&address.to_string())));
            }
            self.clients().to_public.request(request).await
        };
        response.map_err(|error| send_error(&error))
    }

    /// Sends a request and reads the complete response, of any status and at most 1 MiB. Redirects are not followed.
    ///
    /// # Errors
    /// When the address is not allowed, or no complete response arrived within `timeout`.
    pub async fn send_within(
        &self,
        timeout: Duration,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, HttpError> {
        let request = request.map(HttpRequestBody::from);
        let (parts, body) = self.response_within(timeout, request).await?.into_parts();
        Ok(Response::from_parts(parts, body.bytes().await?))
    }

    async fn response(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |kind, text: String| HttpError::new(kind, MessageError(text));
        let response = self.send(request).await;
        let (parts, body) = response
            .map_err(|error| match error {
                SendError::Refused(text) => failed(HttpErrorKind::Unknown, text),
                SendError::Unresolved(text) | SendError::Unconnected(text) => {
                    failed(HttpErrorKind::Connect, text)
                }
                SendError::Interrupted(text) => failed(HttpErrorKind::Request, text),
            })?
            .into_parts();
        // The body is read here because the timeout applies here.
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| {
            let kind = match error.is::<LengthLimitError>() {
                true => HttpErrorKind::Decode,
                false => HttpErrorKind::Interrupted,
            };
            failed(kind, error.to_string())
        })?;
        Ok(HttpResponse::from_parts(parts, body.to_bytes().into()))
    }
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    })
}

/// Verifies servers with the system's root certificates. Without any, only plain HTTP works.
fn tls() -> ClientConfig {
    let roots = ClientConfig::builder().with_native_roots();
    let roots = roots.unwrap_or_else(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "no root certificates found: requests to https URLs will fail");
        ClientConfig::builder().with_root_certificates(RootCertStore::empty())
    });
    roots.with_no_client_auth()
}

fn client(names: Resolver, tls: ClientConfig) -> Https {
    let mut connector = HttpConnector::new_with_resolver(names);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)
}

/// Classifies an error of the client. A failure of the resolver is in the source chain.
fn send_error(error: &hyper_util::client::legacy::Error) -> SendError {
    let mut source = error.source();
    while let Some(cause) = source {
        match cause.downcast_ref::<ResolveError>() {
            Some(ResolveError::NotPublic(name)) => return SendError::Refused(not_public(name)),
            Some(unresolved) => return SendError::Unresolved(unresolved.to_string()),
            None => source = cause.source(),
        }
    }
    match error.is_connect() {
        true => SendError::Unconnected(error_chain(error)),
        false => SendError::Interrupted(error_chain(error)),
    }
}

/// The messages of the error and its sources.
fn error_chain(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a `String` cannot fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

fn not_public(name: &str) -> String {
    format!(
        "{name} is not a public address; add it to the setting exports.private_endpoints to allow it"
    )
}

/// Parses an IP address, with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    address.ok().map(|address| address.to_canonical())
}

/// Whether an address is public or in an allowed range.
fn is_allowed(address: IpAddr, ranges: &[IpNet]) -> bool {
    let address = address.to_canonical();
    is_public(address) || ranges.iter().any(|range| range.contains(&address))
}

/// Whether an address is globally reachable.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || 224 <= a
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0))
}

/// Public addresses are in 2000::/3, without the ranges that embed IPv4 addresses and those for documentation.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    match address.segments() {
        [0x2001, 0 | 0xdb8, ..] | [0x2002, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Resolves host names.
#[derive(Clone, Debug)]
enum Resolver {
    /// Returns only public addresses and those in these ranges.
    Public(Arc<[IpNet]>),
    Any,
}

#[derive(Debug, thiserror::Error)]
enum ResolveError {
    #[error("{0} does not resolve to a public address")]
    NotPublic(String),
    #[error("cannot resolve {name}: {error}")]
    Unresolved { name: String, error: io::Error },
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map_err(|error| ResolveError::Unresolved {
                name: name.as_str().to_owned(),
                error,
            })?;
            let is_allowed = |at: &SocketAddr| match &resolver {
                Self::Any => true,
                Self::Public(ranges) => self::is_allowed(at.ip(), ranges),
            };
            let allowed: Vec<_> = found.filter(is_allowed).collect();
            match allowed.is_empty() {
                true => Err(ResolveError::NotPublic(name.as_str().to_owned())),
                false => Ok(allowed.into_iter()),
            }
        })
    }
}

type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for OutboundClient {
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> ResponseFuture<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(self.response_within(REQUEST_TIMEOUT, request))
    }
}

impl object_store::client::HttpConnector for OutboundClient {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.170",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["52.216.0.1", "100.128.0.1", "2a00:1450:4001::1", "::ffff:8.8.8.8"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[tokio::test]
    async fn only_listed_hosts_may_have_private_addresses() {
        let private = ["minio:9000".to_owned(), "store.lan".to_owned()];
        let outbound = OutboundClient::new(&private);
        let may = |uri: &'static str| outbound.is_allowed_private(&Uri::from_static(uri));
        assert!(may("http://minio:9000/b") && may("http://bucket.minio:9000/"));
        assert!(may("https://store.lan/b") && may("https://Store.lan:1/b"));
        for other in
            ["http://minio/b", "http://minio:9001/", "http://evilstore.lan/", "http://lan/"]
        {
            assert!(!may(other), "{other}");
        }
        for uri in ["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/"] {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = Uri::from_static(uri);
            let refused = outbound.response(request).await.unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("is not a public address"), "{uri}: {text}");
        }
    }

    #[tokio::test]
    async fn any_host_may_have_an_address_in_a_listed_range() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let refused = async |outbound: &OutboundClient, host: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = format!("http://{host}:{port}/").parse().unwrap();
            // Nothing accepts: an allowed request ends with the timeout.
            let timeout = Duration::from_millis(300);
            let error = outbound.response_within(timeout, request).await.unwrap_err();
            error.to_string().contains("is not a public address")
        };
        let near = OutboundClient::new(&["127.0.0.0/8".to_owned(), "10.0.0.0/24".to_owned()]);
        let far = OutboundClient::new(&["10.0.0.0/24".to_owned()]);
        for named in ["::1", "[::1]", "0:0:0:0:0:0:0:1", "::1/128"] {
            let near = OutboundClient::new(&[named.to_owned()]);
            assert!(!refused(&near, "[::1]").await, "{named}");
            assert!(refused(&near, "127.0.0.2").await, "{named}");
        }
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            assert!(!refused(&near, host).await, "{host}");
            assert!(refused(&far, host).await, "{host}");
        }
    }

    #[tokio::test]
    async fn a_response_body_that_stalls_ends_with_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The client rejects a response that precedes its request.
            let n_read = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(0 < n_read);
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
            stream.write_all(head).await.unwrap();
            // Keeps the connection open until the client closes it.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let outbound = OutboundClient::new(&["127.0.0.1".to_owned()]);
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = format!("http://{at}/").parse().unwrap();
        let timeout = Duration::from_millis(300);
        let error = outbound.response_within(timeout, request).await.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout);
        serving.await.unwrap();
    }
}
