//! HTTP to addresses that users name. Where they lead is checked when a connection is made: an address that
//! only this machine or its neighbours can reach is not spoken to, unless its host is one that the operator
//! named. Redirects are not followed here; `post` follows a few.

use std::error::Error as _;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Response, Uri};
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

/// Longest time to make a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for one request, to the end of its answer: a part of a file over a slow line.
const REQUEST: Duration = Duration::from_secs(120);
/// Largest answer: they say whether a part was taken, or why not.
const MAX_ANSWER: usize = 1 << 20;

type Https = Client<HttpsConnector<HttpConnector<Names>>, HttpRequestBody>;

/// The way out, cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbound(Arc<Clients>);

#[derive(Debug)]
struct Clients {
    private: Vec<String>,
    /// Private addresses that any host may have.
    ranges: Arc<[IpNet]>,
    /// Opened by the first request, because that reads the certificates of this machine.
    ways: OnceLock<Ways>,
}

#[derive(Debug)]
struct Ways {
    to_public: Https,
    to_any: Https,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The address is not public and was not named.
    Refused(String),
    /// The name has no address.
    Unresolved(String),
    /// No connection, or no TLS on it.
    Unconnected(String),
    /// The connection ended before the head of an answer.
    Interrupted(String),
}

impl Outbound {
    /// `private` are hosts, each with a port or without, that may have any address, and ranges of addresses in CIDR notation that
    /// any host may have. An IPv6 address without a port may be in brackets.
    #[must_use]
    pub fn new(private: &[String]) -> Self {
        let ranges = private.iter().filter_map(|named| named.parse().ok());
        Self(Arc::new(Clients {
            private: private.to_vec(),
            ranges: ranges.collect(),
            ways: OnceLock::new(),
        }))
    }

    fn ways(&self) -> &Ways {
        self.0.ways.get_or_init(|| {
            let tls = tls();
            Ways {
                to_public: client(Names::Public(Arc::clone(&self.0.ranges)), tls.clone()),
                to_any: client(Names::Any, tls),
            }
        })
    }

    fn may_be_private(&self, uri: &Uri) -> bool {
        let Some(host) = uri.host().map(str::to_ascii_lowercase) else {
            return false;
        };
        let is_named = |name: &str| {
            host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let literal = address(&host);
        self.0.private.iter().any(|allowed| {
            let same_address = literal.is_some() && address(allowed) == literal;
            let port = port(uri).map(|port| format!(":{port}"));
            let name = port.and_then(|port| allowed.strip_suffix(&port));
            same_address || is_named(allowed) || name.is_some_and(is_named)
        })
    }

    /// The whole answer, or a failure once it took longer.
    async fn answer_within(
        &self,
        longest: Duration,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        match tokio::time::timeout(longest, self.answer(request)).await {
            Ok(answered) => answered,
            Err(late) => Err(HttpError::new(HttpErrorKind::Timeout, late)),
        }
    }

    /// The head of the answer; its body has not been read.
    pub(crate) async fn send(&self, request: HttpRequest) -> Result<Response<Incoming>, Unsent> {
        let answered = if self.may_be_private(request.uri()) {
            self.ways().to_any.request(request).await
        } else {
            // Literal addresses are not looked up.
            let literal = request.uri().host().map(|host| host.trim_matches(['[', ']']));
            let literal = literal.and_then(|host| host.parse::<IpAddr>().ok());
            if let Some(address) = literal.filter(|address| !is_open(*address, &self.0.ranges)) {
                return Err(Unsent::Refused(not_public(&address.to_string())));
            }
            self.ways().to_public.request(request).await
        };
        answered.map_err(|error| unsent(&error))
    }

    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |kind, text: String| HttpError::new(kind, Failed(text));
        let answered = self.send(request).await;
        let (parts, body) = answered
            .map_err(|error| match error {
                Unsent::Refused(text) => failed(HttpErrorKind::Unknown, text),
                Unsent::Unresolved(text) | Unsent::Unconnected(text) => {
                    failed(HttpErrorKind::Connect, text)
                }
                Unsent::Interrupted(text) => failed(HttpErrorKind::Request, text),
            })?
            .into_parts();
        // Read here, where the time is limited: whoever sends a head may be silent after it.
        let body = Limited::new(body, MAX_ANSWER).collect().await;
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

/// By whom it speaks to is told by the certificates of this machine. Without any, plain HTTP is left.
fn tls() -> ClientConfig {
    let roots = ClientConfig::builder().with_native_roots();
    let roots = roots.unwrap_or_else(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(
            error,
            "this machine has no root certificates: no https endpoint is trusted"
        );
        ClientConfig::builder().with_root_certificates(RootCertStore::empty())
    });
    roots.with_no_client_auth()
}

fn client(names: Names, tls: ClientConfig) -> Https {
    let mut connector = HttpConnector::new_with_resolver(names);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)
}

/// Which failure it is: what the lookup of the name said lies below what the client says.
fn unsent(error: &hyper_util::client::legacy::Error) -> Unsent {
    let mut source = error.source();
    while let Some(cause) = source {
        match cause.downcast_ref::<NameError>() {
            Some(NameError::NotPublic(name)) => return Unsent::Refused(not_public(name)),
            Some(unresolved) => return Unsent::Unresolved(unresolved.to_string()),
            None => source = cause.source(),
        }
    }
    match error.is_connect() {
        true => Unsent::Unconnected(whole_text(error)),
        false => Unsent::Interrupted(whole_text(error)),
    }
}

/// An error and what it came from: the outer text alone says little.
fn whole_text(error: &hyper_util::client::legacy::Error) -> String {
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
        "{name} is not a public address, and the setting exports.private_endpoints does not name it"
    )
}

/// A text that is an IP address, perhaps in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    address.ok().map(|address| address.to_canonical())
}

/// Whether an address may be spoken to: one of the open internet, or in a range that was named.
fn is_open(address: IpAddr, ranges: &[IpNet]) -> bool {
    let address = address.to_canonical();
    is_public(address) || ranges.iter().any(|range| range.contains(&address))
}

/// Whether an address is one of the open internet.
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

/// Of what is allotted, 2000::/3, all but the parts that carry an address of the other kind and those for
/// examples.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    match address.segments() {
        [0x2001, 0 | 0xdb8, ..] | [0x2002, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Looks names up.
#[derive(Clone, Debug)]
enum Names {
    /// Knows public addresses only, and those in these ranges.
    Public(Arc<[IpNet]>),
    Any,
}

#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("{0} has no public address")]
    NotPublic(String),
    #[error("{name} cannot be resolved: {error}")]
    Unresolved { name: String, error: io::Error },
}

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = NameError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, NameError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NameError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let names = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found
                .map_err(|error| NameError::Unresolved { name: name.as_str().to_owned(), error })?;
            let is_known = |at: &SocketAddr| match &names {
                Self::Any => true,
                Self::Public(ranges) => is_open(at.ip(), ranges),
            };
            let known: Vec<_> = found.filter(is_known).collect();
            match known.is_empty() {
                true => Err(NameError::NotPublic(name.as_str().to_owned())),
                false => Ok(known.into_iter()),
            }
        })
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Outbound {
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> Answering<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(self.answer_within(REQUEST, request))
    }
}

impl object_store::client::HttpConnector for Outbound {
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
    fn addresses_of_this_machine_and_its_neighbours_are_not_public() {
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
    async fn only_hosts_that_were_named_may_lie_anywhere() {
        let private = ["minio:9000".to_owned(), "store.lan".to_owned()];
        let outbound = Outbound::new(&private);
        let may = |uri: &'static str| outbound.may_be_private(&Uri::from_static(uri));
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
            let refused = outbound.answer(request).await.unwrap_err();
            let text = whole(&refused);
            assert!(text.contains("is not a public address"), "{uri}: {text}");
        }
    }

    #[tokio::test]
    async fn any_host_may_lie_in_a_range_that_was_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let refused = async |outbound: &Outbound, host: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = format!("http://{host}:{port}/").parse().unwrap();
            // Nobody answers: what is let through ends with the time.
            let longest = Duration::from_millis(300);
            let error = outbound.answer_within(longest, request).await.unwrap_err();
            whole(&error).contains("is not a public address")
        };
        let near = Outbound::new(&["127.0.0.0/8".to_owned(), "10.0.0.0/24".to_owned()]);
        let far = Outbound::new(&["10.0.0.0/24".to_owned()]);
        for named in ["::1", "[::1]", "0:0:0:0:0:0:0:1", "::1/128"] {
            let near = Outbound::new(&[named.to_owned()]);
            assert!(!refused(&near, "[::1]").await, "{named}");
            assert!(refused(&near, "127.0.0.2").await, "{named}");
        }
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            assert!(!refused(&near, host).await, "{host}");
            assert!(refused(&far, host).await, "{host}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_is_silent_after_its_head_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The request; answers to none are refused.
            let n_read = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(0 < n_read);
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
            stream.write_all(head).await.unwrap();
            // Open until the other side goes away.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let outbound = Outbound::new(&["127.0.0.1".to_owned()]);
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = format!("http://{at}/").parse().unwrap();
        let longest = Duration::from_millis(300);
        let given_up = outbound.answer_within(longest, request).await.unwrap_err();
        assert_eq!(given_up.kind(), HttpErrorKind::Timeout);
        serving.await.unwrap();
    }

    fn whole(error: &HttpError) -> String {
        format!("{error}")
    }
}
