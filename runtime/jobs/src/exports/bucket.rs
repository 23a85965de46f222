//! The bucket of an export.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, RetryConfig};
use perpend_catalog::blob_exports::{BucketKind, ExportSettings};
use perpend_domain::ids::ProjectId;
use perpend_http_client::OutboundClient;

/// What is tried to be written before settings are taken.
const PROBE: &str = "perpend-may-write-here.txt";
/// Longest text shown of what a provider says.
const MAX_SHOWN: usize = 600;

/// How often a request is repeated that a provider could not answer: never while somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    None,
    Some,
}

fn retries(retries: Retries) -> RetryConfig {
    RetryConfig {
        max_retries: match retries {
            Retries::None => 0,
            Retries::Some => 3,
        },
        retry_timeout: Duration::from_secs(60),
        ..RetryConfig::default()
    }
}

/// Where one is given: with the bucket in the host where its users want it there.
pub fn endpoint_of(settings: &ExportSettings) -> Option<String> {
    let endpoint = settings.endpoint.as_ref()?;
    let has_host = matches!(settings.kind, BucketKind::S3 | BucketKind::S3Compatible);
    let with_host = || {
        let (scheme, rest) = endpoint.split_once("://")?;
        Some(format!("{scheme}://{}.{rest}", settings.bucket))
    };
    match has_host && !settings.force_path_style {
        true => with_host(),
        false => Some(endpoint.clone()),
    }
}

/// Opens it; nothing is sent yet.
///
/// # Errors
/// When the settings or the secret cannot be right.
pub fn open(
    settings: &ExportSettings,
    secret: &str,
    outbound: &OutboundClient,
    again: Retries,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let key = settings.access_key_id.as_deref().unwrap_or_default();
    Ok(match settings.kind {
        BucketKind::S3 | BucketKind::S3Compatible => {
            let region = match settings.region.as_str() {
                "" => "us-east-1",
                region => region,
            };
            let mut builder = AmazonS3Builder::new()
                .with_bucket_name(&settings.bucket)
                .with_region(region)
                .with_access_key_id(key)
                .with_secret_access_key(secret)
                .with_virtual_hosted_style_request(!settings.force_path_style)
                .with_allow_http(true)
                .with_http_connector(outbound.clone())
                .with_retry(retries(again));
            if let Some(endpoint) = endpoint_of(settings) {
                builder = builder.with_endpoint(endpoint);
            }
            Arc::new(builder.build()?)
        }
        BucketKind::AzureBlobStorage => {
            let mut builder = MicrosoftAzureBuilder::new()
                .with_container_name(&settings.bucket)
                .with_account(key)
                .with_access_key(secret)
                .with_allow_http(true)
                .with_http_connector(outbound.clone())
                .with_retry(retries(again));
            if let Some(endpoint) = endpoint_of(settings) {
                builder = builder.with_endpoint(endpoint);
            }
            Arc::new(builder.build()?)
        }
        BucketKind::GoogleCloudStorage => {
            let mut builder = GoogleCloudStorageBuilder::new()
                .with_bucket_name(&settings.bucket)
                .with_service_account_key(secret)
                .with_http_connector(outbound.clone())
                .with_retry(retries(again));
            if let Some(endpoint) = endpoint_of(settings) {
                builder = builder.with_base_url(&endpoint);
            }
            Arc::new(builder.build()?)
        }
    })
}

/// Where a project's files stand.
///
/// # Errors
/// When the prefix has parts that no name of a file has.
pub fn path(
    settings: &ExportSettings,
    project: &ProjectId,
    name: &str,
) -> Result<Path, object_store::path::Error> {
    Path::parse(format!("{}{project}/{name}", settings.prefix))
}

/// Writes a small file, to see whether that may be done.
///
/// # Errors
/// When it may not.
pub async fn probe(
    settings: &ExportSettings,
    project: &ProjectId,
    bucket: &dyn ObjectStore,
) -> object_store::Result<()> {
    let path = path(settings, project, PROBE)?;
    bucket.put(&path, "Exports are written here.\n".into()).await?;
    Ok(())
}

/// What a provider says, for people.
pub fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(clean).take(MAX_SHOWN).collect()
}
