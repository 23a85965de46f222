//! An S3 server of the test's own.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;
use axum::http::Method;
use perpend_server::client::Client;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A server that speaks S3 and keeps everything in memory.
#[derive(Debug)]
pub struct S3 {
    /// Where it listens.
    pub origin: String,
    http: Client,
    _process: Child,
}

impl S3 {
    /// Inside the folder of the client.
    pub(crate) const PROGRAM: &'static str = "bin/moto_server";

    pub(crate) async fn start(client: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(client.join(Self::PROGRAM))
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stderr.take().context("it says nothing")?;
        let mut output = BufReader::new(output).lines();
        let origin = loop {
            let line = output.next_line().await?;
            let line = line.context("the S3 server did not start")?;
            if let Some((_, origin)) = line.split_once("Running on ") {
                break origin.trim().to_owned();
            }
        };
        // Its output is read to the end, or the process would block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
        // Signatures are required but not verified.
        let http = Client::new(&origin).with_authorization(
            "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
        );
        Ok(Self { origin, http, _process: process })
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn make_bucket(&self, bucket: &str) -> anyhow::Result<()> {
        self.ask(Method::PUT, &format!("/{bucket}")).await?;
        Ok(())
    }

    /// Deletes a bucket with all that is in it.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn delete_bucket(&self, bucket: &str) -> anyhow::Result<()> {
        for name in self.names(bucket).await? {
            self.ask(Method::DELETE, &format!("/{bucket}/{name}")).await?;
        }
        self.ask(Method::DELETE, &format!("/{bucket}")).await?;
        Ok(())
    }

    /// Names of the files in a bucket.
    ///
    /// # Errors
    /// When there is no such bucket.
    pub async fn names(&self, bucket: &str) -> anyhow::Result<Vec<String>> {
        let listed = self.ask(Method::GET, &format!("/{bucket}?list-type=2")).await?;
        let listed = String::from_utf8(listed)?;
        let names = listed.split("<Key>").skip(1);
        Ok(names.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect())
    }

    /// A file, decompressed according to its extension.
    ///
    /// # Errors
    /// When there is no such file.
    pub async fn text(&self, bucket: &str, name: &str) -> anyhow::Result<String> {
        let bytes = self.ask(Method::GET, &format!("/{bucket}/{name}")).await?;
        if !name.ends_with(".gz") {
            return Ok(String::from_utf8(bytes)?);
        }
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?;
        Ok(text)
    }

    async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Vec<u8>> {
        let answer = self.http.send(method, path, &[], "").await?;
        let status = answer.status;
        anyhow::ensure!(status.is_success(), "{path}: {status} {}", answer.text());
        Ok(answer.body)
    }
}
