//! A small HTTP client for the demo, the plug-in commands and the end-to-end tests.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest response body, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// Bytes of a file that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `null` if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Root certificates are read for `https` only; without any, each server is refused.
fn tls(origin: &str) -> ClientConfig {
    let none = || ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    let roots = match origin.starts_with("https://") {
        true => ClientConfig::builder().with_native_roots().unwrap_or_else(|_| none()),
        false => none(),
    };
    roots.with_no_client_auth()
}

/// A client of one server with one set of credentials.
#[derive(Clone, Debug)]
pub struct Client {
    http: HyperClient<HttpsConnector<HttpConnector>, Body>,
    origin: String,
    authorization: Option<String>,
    headers: Vec<(String, String)>,
    timeout: Duration,
}

impl Client {
    /// A client without credentials. An `https` server is verified with the root certificates of the system.
    #[must_use]
    pub fn new(origin: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(origin))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Self {
            http: HyperClient::builder(TokioExecutor::new()).build(connector),
            origin: origin.trim_end_matches('/').to_owned(),
            authorization: None,
            headers: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    /// Scheme, host and port of the server.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Sets a key pair.
    #[must_use]
    pub fn with_keys(mut self, public_key: &str, secret_key: &str) -> Self {
        let encoded = STANDARD.encode(format!("{public_key}:{secret_key}"));
        self.authorization = Some(format!("Basic {encoded}"));
        self
    }

    /// Sets the `Authorization` header.
    #[must_use]
    pub fn with_authorization(mut self, value: &str) -> Self {
        self.authorization = Some(value.to_owned());
        self
    }

    /// Adds a header to each request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the timeout of each request.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// If the request fails or times out.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> anyhow::Result<Answer> {
        let request = self.request(method, path, headers, body.into())?;
        let exchange = async {
            let (parts, body) = self.http.request(request).await?.into_parts();
            let body = axum::body::to_bytes(Body::new(body), MAX_ANSWER).await?;
            anyhow::Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_vec() })
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered.with_context(|| format!("no response from {path}"))?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> anyhow::Result<Request<Body>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(request.body(body)?)
    }

    /// `POST` with the content of a file, which is read while it is sent.
    ///
    /// # Errors
    /// If the file cannot be read, or the request fails or times out.
    pub async fn post_file(&self, path: &str, file: &Path) -> anyhow::Result<Answer> {
        let open = tokio::fs::File::open(file).await;
        let open = open.with_context(|| format!("{} cannot be read", file.display()))?;
        let n_bytes = open.metadata().await?.len().to_string();
        let pieces = stream::try_unfold(open, |mut file| async move {
            let mut piece = vec![0; PIECE_BYTES];
            let n_read = file.read(&mut piece).await?;
            piece.truncate(n_read);
            Ok::<_, std::io::Error>((0 < n_read).then(|| (Bytes::from(piece), file)))
        });
        let headers = [
            (CONTENT_TYPE.as_str(), "application/octet-stream"),
            (CONTENT_LENGTH.as_str(), n_bytes.as_str()),
        ];
        self.send(Method::POST, path, &headers, Body::from_stream(pieces)).await
    }

    /// `GET` of a body that is written to `out` as it arrives. A response without success is returned instead.
    ///
    /// # Errors
    /// If the request fails or times out, or `out` fails.
    pub async fn download(
        &self,
        path: &str,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Option<Answer>> {
        let request = self.request(Method::GET, path, &[], Body::empty())?;
        let exchange = async {
            let (parts, body) = self.http.request(request).await?.into_parts();
            let body = Body::new(body);
            if !parts.status.is_success() {
                let body = axum::body::to_bytes(body, MAX_ANSWER).await?.to_vec();
                return Ok(Some(Answer { status: parts.status, headers: parts.headers, body }));
            }
            let mut pieces = body.into_data_stream();
            while let Some(piece) = pieces.next().await {
                out.write_all(&piece?)?;
            }
            anyhow::Ok(None)
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered.with_context(|| format!("no response from {path}"))?
    }

    /// `GET`.
    ///
    /// # Errors
    /// If the request fails or times out.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    /// A request with a JSON body.
    ///
    /// # Errors
    /// If the request fails or times out.
    pub async fn json(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let headers = [(CONTENT_TYPE.as_str(), "application/json")];
        self.send(method, path, &headers, body.to_string()).await
    }
}
