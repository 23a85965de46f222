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

/// The file that is written to check settings before they are saved.
const PROBE: &str = "perpend-may-write-here.txt";
/// Maximum length of an error text of a provider.
const MAX_SHOWN: usize = 600;

/// Retries of a request that the provider could not answer. None while a user waits.
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

/// The explicit endpoint, if there is one: with the bucket in the host for virtual-hosted addresses.
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

/// Opens a bucket without sending a request.
///
/// # Errors
/// When the settings or the secret are invalid.
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

/// The path of the files of a project.
///
/// # Errors
/// When the prefix has parts that a file name cannot have.
pub fn path(
    settings: &ExportSettings,
    project: &ProjectId,
    name: &str,
) -> Result<Path, object_store::path::Error> {
    Path::parse(format!("{}{project}/{name}", settings.prefix))
}

/// Writes a small file to check the permission.
///
/// # Errors
/// When the write fails.
pub async fn probe(
    settings: &ExportSettings,
    project: &ProjectId,
    bucket: &dyn ObjectStore,
) -> object_store::Result<()> {
    let path = path(settings, project, PROBE)?;
    bucket.put(&path, "Exports are written here.\n".into()).await?;
    Ok(())
}

/// The error text of a provider, shortened for display.
pub fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(clean).take(MAX_SHOWN).collect()
}
