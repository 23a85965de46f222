//! What the first start makes: one organization, one project, one key pair, and the key pair of the
//! organization that the settings give.

use perpend_domain::ids::{IdSource, OrganizationId, ProjectId};
use perpend_domain::time::Timestamp;
use perpend_store::catalog::{Init, KeyOwner, Project};
use perpend_store::{Error, Store};

pub use crate::auth::KeyPair;
use crate::config;

/// Finds the project of this installation, or makes it: the one that the login link opens.
///
/// A key pair from the settings is made sure of at each start; without one, a pair is made only while
/// there is no project. It is shown before it is stored: who is stopped in between makes another at the next
/// start, and no pair is lost.
///
/// # Errors
/// When the database fails.
pub async fn first_start(
    store: &Store,
    init: &config::Init,
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
    init: &config::Init,
    (ids, now): (&dyn IdSource, Timestamp),
    show: fn(&KeyPair),
) -> Result<Project, Error> {
    let given = init.public_key.clone().zip(init.secret_key.clone());
    let (pair, is_made) = match (given, store.first_project().await?) {
        (Some((public_key, secret_key)), _) => (
            KeyPair {
                public_key,
                secret_key,
            },
            false,
        ),
        (None, Some(project)) => {
            return Ok(project);
        }
        (None, None) => (KeyPair::made(ids), true),
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
    let project = store.create_first_project(&new, now).await?;
    match store.api_key(&new.key.public_key).await? {
        Some(known) if !known.made.secret_hash.matches(&pair.secret_key) => Err(Error::Conflict(
            "init.public_key is known with another secret: choose another public key beside the new secret",
        )),
        _ => Ok(project),
    }
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
    init: &config::Init,
    project: &Project,
    (ids, now): (&dyn IdSource, Timestamp),
) -> Result<(), Error> {
    let given = init.org_public_key.clone().zip(init.org_secret_key.clone());
    let Some((public_key, secret_key)) = given else {
        return Ok(());
    };
    let pair = KeyPair {
        public_key,
        secret_key,
    };
    let secret = pair.secret_key.clone();
    let note = Some("made from the settings".to_owned());
    let key = pair.to_key(ids, note, None).map_err(inconsistent)?;
    let owner = KeyOwner::Organization(project.organization.id.clone());
    match store.api_key(&key.public_key).await? {
        Some(known) if known.owner == owner && known.made.secret_hash.matches(&secret) => Ok(()),
        Some(known) if known.owner == owner => Err(Error::Conflict(
            "init.org_public_key is known with another secret: choose another public key beside the new \
             secret",
        )),
        Some(_) => Err(Error::Conflict(
            "init.org_public_key is the public key of a project or of another organization",
        )),
        None => match store.create_key(&owner, &key, now).await {
            // Another node that starts just now made it.
            Err(Error::Conflict(_)) if store.api_key(&key.public_key).await?.is_some() => Ok(()),
            made => made,
        },
    }
}
