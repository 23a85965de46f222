//! `perpend organization-key`: creates and revokes key pairs of an organization, with direct access to the database.

use std::process::ExitCode;

use anyhow::Context as _;
use perpend_catalog::{ApiKey, KeyOwner, Organization};
use perpend_config::{Config, SettingArgs};
use perpend_db::DatabaseUrl;
use perpend_domain::ids::PublicKey;
use perpend_domain::time::Clock as _;
use perpend_http_kit::auth::{KEPT_MS, KeyPair};
use perpend_storage::Store;

use super::common::{load, print_line, recorded_change};
use super::serve;
use crate::{RandomIds, SystemClock};

/// Organizations that are searched.
pub(super) const MAX_ORGANIZATIONS: u32 = 1_000;

pub(super) fn create(
    settings: &SettingArgs,
    wanted: Option<&str>,
    note: Option<String>,
) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    serve::runtime()?.block_on(async {
        let store = open(&config).await?;
        let created = create_in(&store, wanted, note).await;
        store.close().await;
        let (organization, pair) = created?;
        print_line(&format!(
            "This key pair manages the organization {:?}: its projects, their keys and its members.",
            organization.name
        ));
        print_line("It does not give access to the data of projects. The secret is not shown again.");
        print_line(&format!("  public key  {}", pair.public_key));
        print_line(&format!("  secret key  {}", pair.secret_key));
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn revoke(settings: &SettingArgs, public_key: &str) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    serve::runtime()?.block_on(async {
        let store = open(&config).await?;
        let revoked = revoke_in(&store, public_key).await;
        store.close().await;
        revoked?;
        print_line(&format!(
            "The key pair {public_key} was deleted. Its public key cannot be used again."
        ));
        print_line(&format!("A running server rejects it within {} seconds.", KEPT_MS / 1_000));
        if config.init.org_public_key.as_deref() == Some(public_key) {
            print_line("It is still in the settings. The next start logs a warning and does not create it again.");
            print_line("Remove init.org_public_key and init.org_secret_key, or set a new pair.");
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn revoke_in(store: &Store, public_key: &str) -> anyhow::Result<()> {
    // An invalid public key gives the same error as an unknown one.
    let found = match PublicKey::new(public_key) {
        Ok(key) => store.catalog.api_key(&key).await?,
        Err(_) => None,
    };
    let is_of_organization = |key: &ApiKey| matches!(key.owner, KeyOwner::Organization(_));
    let Some(key) = found.filter(is_of_organization) else {
        anyhow::bail!(
            "--revoke must be the public key of an organization, got {public_key:?}; `perpend keys revoke` deletes \
             keys of projects"
        );
    };
    let delete = store.catalog.delete_organization_key(&key.made.public_key);
    recorded_change(store, &key.owner, "perpend organization-key --revoke", delete).await?;
    Ok(())
}

/// Opens the database for a command without migrating it, because the running server may be older.
pub(super) async fn open(config: &Config) -> anyhow::Result<Store> {
    let url = config.database();
    if let DatabaseUrl::Sqlite(path) = &url {
        anyhow::ensure!(
            path.exists(),
            "the database {} does not exist (--data-dir); start the server once to create it",
            path.display()
        );
    }
    let options = perpend_db::Options {
        n_readers: 1,
        wait: config.database_wait,
        ..perpend_db::Options::default()
    };
    Store::open_next_to_server(&url, &options)
        .await
        .with_context(|| format!("cannot open the database {url} (--database-url)"))
}

async fn create_in(
    store: &Store,
    wanted: Option<&str>,
    note: Option<String>,
) -> anyhow::Result<(Organization, KeyPair)> {
    let all = store.catalog.organizations(MAX_ORGANIZATIONS).await?;
    let mut matching = all.iter().filter(|organization| {
        wanted
            .is_none_or(|wanted| wanted == organization.name || wanted == organization.id.as_str())
    });
    let (Some(organization), None) = (matching.next(), matching.next()) else {
        let names: Vec<String> = all
            .iter()
            .take(20)
            .map(|organization| format!("{:?} ({})", organization.name, organization.id))
            .collect();
        anyhow::bail!("--organization must be the name or id of one of: {}", names.join(", "));
    };
    let pair = KeyPair::random(&RandomIds);
    let note = note.or_else(|| Some("created by perpend organization-key".to_owned()));
    let key = pair.to_key(&RandomIds, note, None)?;
    let owner = KeyOwner::Organization(organization.id.clone());
    let create = store.catalog.create_key(&owner, &key, SystemClock.now());
    recorded_change(store, &owner, "perpend organization-key", create).await?;
    Ok((organization.clone(), pair))
}
