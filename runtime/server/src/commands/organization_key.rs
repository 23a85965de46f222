//! `perpend organization-key`: a key pair of an organization, made and taken away by whoever may open the database.

use std::process::ExitCode;

use anyhow::Context as _;
use perpend_catalog::{KeyOwner, Organization};
use perpend_config::{Config, SettingArgs};
use perpend_db::{DatabaseUrl, Error};
use perpend_domain::ids::PublicKey;
use perpend_domain::time::Clock as _;
use perpend_http_kit::auth::{KEPT_MS, KeyPair};
use perpend_storage::Store;

use super::kit::{load, say};
use super::serve;
use crate::{RandomIds, SystemClock};

/// Organizations that are looked through and listed.
const MAX_ORGANIZATIONS: u32 = 1_000;

pub(super) fn make(
    settings: &SettingArgs,
    wanted: Option<&str>,
    note: Option<String>,
) -> anyhow::Result<ExitCode> {
    let config = load(settings)?;
    serve::runtime()?.block_on(async {
        let store = open(&config).await?;
        let made = make_in(&store, wanted, note).await;
        store.close().await;
        let (organization, pair) = made?;
        say(&format!(
            "This key pair manages the organization {:?}: its projects, their keys and its members.",
            organization.name
        ));
        say("It opens no project. The secret is shown only now.");
        say(&format!("  public key  {}", pair.public_key));
        say(&format!("  secret key  {}", pair.secret_key));
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
        say(&format!(
            "The key pair {public_key} is deleted, and its public key is never given out again."
        ));
        say(&format!("A server that runs refuses it within {} seconds.", KEPT_MS / 1_000));
        if config.init.org_public_key.as_deref() == Some(public_key) {
            say("It is still in the settings: the next start warns and does not make it again.");
            say("Remove init.org_public_key and init.org_secret_key, or set a new pair.");
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn revoke_in(store: &Store, public_key: &str) -> anyhow::Result<()> {
    // What no key can be called is as unknown as what none is called.
    let deleted = match PublicKey::new(public_key) {
        Ok(key) => store.catalog.delete_organization_key(&key).await,
        Err(_) => Err(Error::NotFound),
    };
    match deleted {
        Err(Error::NotFound) => anyhow::bail!(
            "--revoke has to name the public key of an organization, and no organization has {public_key:?}; \
             keys of projects are taken away with DELETE /api/public/projects/{{projectId}}/apiKeys/{{apiKeyId}}"
        ),
        deleted => Ok(deleted?),
    }
}

/// The database of a server, for a command of its operator. The server may be an older one, so that it is not migrated.
pub(super) async fn open(config: &Config) -> anyhow::Result<Store> {
    let url = config.database();
    if let DatabaseUrl::Sqlite(path) = &url {
        anyhow::ensure!(
            path.exists(),
            "there is no database {} (--data-dir): start the server once, it makes the database",
            path.display()
        );
    }
    let options = perpend_db::Options {
        n_readers: 1,
        wait: config.database_wait,
        ..perpend_db::Options::default()
    };
    Store::open_beside_server(&url, &options)
        .await
        .with_context(|| format!("cannot open the database {url} (--database-url)"))
}

async fn make_in(
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
        anyhow::bail!(
            "--organization has to name one of the organizations, by name or id: {}",
            names.join(", ")
        );
    };
    let pair = KeyPair::random(&RandomIds);
    let note = note.or_else(|| Some("made by perpend organization-key".to_owned()));
    let key = pair.to_key(&RandomIds, note, None)?;
    let owner = KeyOwner::Organization(organization.id.clone());
    store.catalog.create_key(&owner, &key, SystemClock.now()).await?;
    Ok((organization.clone(), pair))
}
