//! What the first start makes: one organization, one project, one key pair, and the key pair of the
//! organization that the settings give.

use perpend_catalog::{Init, KeyOwner, Project};
use perpend_db::Error;
use perpend_domain::ids::{IdSource, OrganizationId, ProjectId, PublicKey};
use perpend_domain::time::Timestamp;
use perpend_storage::Store;

pub use perpend_http_kit::auth::KeyPair;
use perpend_http_kit::auth::STRONG_CHARS;

/// Finds the project of this installation, or makes it: the one that the login link opens.
///
/// A key pair from the settings is made sure of at each start, unless it was deleted; without one, a pair is made only while
/// there is no project. It is shown before it is stored: who is stopped in between makes another at the next
/// start, and no pair is lost.
///
/// # Errors
/// When the database fails.
pub async fn first_start(
    store: &Store,
    init: &perpend_config::Init,
    ids: &dyn IdSource,
    now: Timestamp,
    show: fn(&KeyPair),
) -> Result<Project, Error> {
    let project = project_and_key(store, init, (ids, now), show).await?;
    organization_key(store, init, &project, (ids, now)).await?;
    Ok(project)
}

async fn project_and_key(
    store: &Store,
    init: &perpend_config::Init,
    (ids, now): (&dyn IdSource, Timestamp),
    show: fn(&KeyPair),
) -> Result<Project, Error> {
    let names = "PERPEND_INIT_PUBLIC_KEY and PERPEND_INIT_SECRET_KEY";
    let given = pair_in_force(store, (&init.public_key, &init.secret_key), names).await?;
    let (pair, is_made) = match (given, store.catalog.first_project().await?) {
        (Some(pair), _) => (pair, false),
        (None, Some(project)) => {
            return Ok(project);
        }
        (None, None) => (KeyPair::random(ids), true),
    };
    let note = Some("made by the first start".to_owned());
    let key = pair.to_key(ids, note, None).map_err(inconsistent)?;
    let project_id = ids.uuid().to_string();
    let organization_id = ids.uuid().to_string();
    let new = Init {
        organization_id: OrganizationId::new(&organization_id).map_err(inconsistent)?,
        organization_name: init.org_name.clone(),
        project_id: ProjectId::new(&project_id).map_err(inconsistent)?,
        project_name: init.project_name.clone(),
        key,
    };
    if is_made {
        show(&pair);
    }
    let project = store.catalog.create_first_project(&new, now).await?;
    match store.catalog.api_key(&new.key.public_key).await? {
        Some(known) if !known.made.secret_hash.matches(&pair.secret_key) => Err(Error::Conflict(
            "init.public_key is known with another secret: choose another public key beside the new secret",
        )),
        _ => Ok(project),
    }
}

/// The key pair of two settings, unless it was deleted.
///
/// A deleted pair is not made again: it may have been deleted because its secret leaked, and the variables of a
/// deployment outlive that. Nor does it stop the start: deleting a pair would then take the whole server down at
/// its next restart, hours or weeks later. So the start goes on without the pair and says which settings to change.
async fn pair_in_force(
    store: &Store,
    (public_key, secret_key): (&Option<String>, &Option<String>),
    names: &'static str,
) -> Result<Option<KeyPair>, Error> {
    let Some((public_key, secret_key)) = public_key.clone().zip(secret_key.clone()) else {
        return Ok(None);
    };
    let id = PublicKey::to_store(&public_key).map_err(inconsistent)?;
    // In this order: a public key is noted as used together with its pair, also by another node just now.
    if store.catalog.is_public_key_used(&id).await? && store.catalog.api_key(&id).await?.is_none() {
        tracing::warn!(
            public_key,
            "the key pair of {names} was deleted and is not made again; its requests are refused: remove the \
             two settings, or set a new pair"
        );
        return Ok(None);
    }
    if secret_key.chars().count() < STRONG_CHARS {
        tracing::warn!(
            public_key,
            "the secret of {names} has fewer than {STRONG_CHARS} characters and can be guessed: set a longer one beside \
             another public key"
        );
    }
    Ok(Some(KeyPair { public_key, secret_key }))
}

fn inconsistent(_: perpend_domain::ids::InvalidId) -> Error {
    Error::Inconsistent {
        what: "key pair",
        detail: "the public key is longer than 800 characters".to_owned(),
    }
}

/// Makes sure that the key pair of the settings opens the organization of this project; again is a no-op.
async fn organization_key(
    store: &Store,
    init: &perpend_config::Init,
    project: &Project,
    (ids, now): (&dyn IdSource, Timestamp),
) -> Result<(), Error> {
    let names = "PERPEND_INIT_ORG_PUBLIC_KEY and PERPEND_INIT_ORG_SECRET_KEY";
    let given = (&init.org_public_key, &init.org_secret_key);
    let Some(pair) = pair_in_force(store, given, names).await? else {
        return Ok(());
    };
    let secret = pair.secret_key.clone();
    let note = Some("made from the settings".to_owned());
    let key = pair.to_key(ids, note, None).map_err(inconsistent)?;
    let owner = KeyOwner::Organization(project.organization.id.clone());
    match store.catalog.api_key(&key.public_key).await? {
        Some(known) if known.owner == owner && known.made.secret_hash.matches(&secret) => Ok(()),
        Some(known) if known.owner == owner => Err(Error::Conflict(
            "init.org_public_key is known with another secret: choose another public key beside the new \
             secret",
        )),
        Some(_) => Err(Error::Conflict(
            "init.org_public_key is the public key of a project or of another organization",
        )),
        None => match store.catalog.create_key(&owner, &key, now).await {
            // Another node that starts just now made it.
            Err(Error::Conflict(_)) if store.catalog.api_key(&key.public_key).await?.is_some() => {
                Ok(())
            }
            made => made,
        },
    }
}
