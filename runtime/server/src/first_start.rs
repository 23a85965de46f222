//! Initialization on the first start: an organization, a project, a key pair, and the configured key pair of the organization.

use perpend_catalog::{ACCOUNT_EXISTS, ApiKey, Init, KeyOwner, NewAccount, Project};
use perpend_db::Error;
use perpend_domain::ids::{IdSource, OrganizationId, ProjectId, PublicKey, UserId};
use perpend_domain::time::Timestamp;
use perpend_storage::Store;

pub use perpend_http_kit::auth::KeyPair;
use perpend_http_kit::auth::{Passwords, STRONG_CHARS, canonical_email, is_email};

/// Returns the project of this installation, which the login link opens, or creates it.
///
/// A configured key pair is created at each start if it is missing, unless it was deleted. Without one, a key pair is generated
/// together with the first project. It is printed before it is stored, so that no stored secret is unknown if the process is
/// killed in between.
///
/// # Errors
/// If the database fails or a configured key pair conflicts with a stored one.
pub async fn first_start(
    store: &Store,
    init: &perpend_config::Init,
    ids: &dyn IdSource,
    now: Timestamp,
    show: fn(&KeyPair),
) -> Result<Project, Error> {
    let project = project_and_key(store, init, (ids, now), show).await?;
    ensure_organization_key(store, init, &project, (ids, now)).await?;
    Ok(project)
}

/// Whether the configured key pair is one of this project. Without one, the oldest project may belong to any tenant, if the first
/// project was deleted.
pub(crate) async fn is_configured(
    store: &Store,
    init: &perpend_config::Init,
    project: &ProjectId,
) -> Result<bool, Error> {
    let Some(public_key) = &init.public_key else {
        return Ok(false);
    };
    let public_key = PublicKey::to_store(public_key).map_err(inconsistent)?;
    let key = store.catalog.api_key(&public_key).await?;
    Ok(key.is_some_and(|key| key.owner == KeyOwner::Project(project.clone())))
}

async fn project_and_key(
    store: &Store,
    init: &perpend_config::Init,
    (ids, now): (&dyn IdSource, Timestamp),
    show: fn(&KeyPair),
) -> Result<Project, Error> {
    let names = "PERPEND_INIT_PUBLIC_KEY and PERPEND_INIT_SECRET_KEY";
    let configured = configured_pair(store, (&init.public_key, &init.secret_key), names).await?;
    let (pair, is_made) = match (configured, store.catalog.first_project().await?) {
        (Some(pair), _) => (pair, false),
        (None, Some(project)) => {
            return Ok(project);
        }
        (None, None) => (KeyPair::random(ids), true),
    };
    let note = Some("created by the first start".to_owned());
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
        Some(stored) if !is_secret_of(&stored, &pair, names) => Err(Error::Conflict(
            "init.public_key exists with another secret; choose another public key for the new secret",
        )),
        _ => Ok(project),
    }
}

/// The configured key pair, unless it was deleted.
///
/// A deleted pair is not created again, because its secret may have leaked and the settings of a deployment may still contain
/// it. It does not prevent the start either, because deleting a pair would then stop the server at its next restart. Instead the
/// server logs which settings to change.
async fn configured_pair(
    store: &Store,
    (public_key, secret_key): (&Option<String>, &Option<String>),
    names: &'static str,
) -> Result<Option<KeyPair>, Error> {
    let Some((public_key, secret_key)) = public_key.clone().zip(secret_key.clone()) else {
        return Ok(None);
    };
    let id = PublicKey::to_store(&public_key).map_err(inconsistent)?;
    // In this order, because another node may store the pair and mark its public key as used at the same time.
    if store.catalog.is_public_key_used(&id).await? && store.catalog.api_key(&id).await?.is_none() {
        tracing::warn!(
            public_key,
            "the key pair of {names} was deleted and is not created again, so its requests are rejected; remove the \
             two settings, or set a new pair"
        );
        return Ok(None);
    }
    if secret_key.chars().count() < STRONG_CHARS {
        tracing::warn!(
            public_key,
            "the secret of {names} has fewer than {STRONG_CHARS} characters and can be guessed; set a longer one with \
             another public key"
        );
    }
    Ok(Some(KeyPair { public_key, secret_key }))
}

/// Whether the configured secret is that of the stored key pair, or may have been before a rotation. A rotated pair does not
/// prevent the start, because rotating it would then stop the server at its next restart.
fn is_secret_of(stored: &ApiKey, configured: &KeyPair, names: &'static str) -> bool {
    if stored.made.secret_hash.matches(&configured.secret_key) {
        return true;
    }
    if stored.rotation.is_some() {
        tracing::warn!(
            public_key = configured.public_key.as_str(),
            "the secret of {names} was rotated and the settings do not have the current one; set the new secret, or \
             remove the two settings"
        );
    }
    stored.rotation.is_some()
}

fn inconsistent(_: perpend_domain::ids::InvalidId) -> Error {
    Error::Inconsistent {
        what: "key pair",
        detail: "the public key is longer than 800 characters".to_owned(),
    }
}

/// Creates the configured first account if no account exists. Afterwards the settings have no effect.
///
/// # Errors
/// If the database fails, or the e-mail address or the password is not allowed.
pub(crate) async fn ensure_first_account(
    store: &Store,
    init: &perpend_config::Init,
    organization: &OrganizationId,
    (ids, now): (&dyn IdSource, Timestamp),
) -> anyhow::Result<()> {
    let Some((email, password)) = init.user_email.as_ref().zip(init.user_password.as_ref()) else {
        return Ok(());
    };
    let email = canonical_email(email);
    if store.catalog.has_accounts().await? {
        if store.catalog.account_by_email(&email).await?.is_none() {
            tracing::warn!(
                "init.user_email has no effect, because the installation has accounts; invite the person on the page of \
                 members"
            );
        }
        return Ok(());
    }
    anyhow::ensure!(is_email(&email), "init.user_email must be an e-mail address, got {email:?}");
    let name = init.user_name.clone().unwrap_or_else(|| email.clone());
    let hashed =
        Passwords::default().hash_new(password, &[email.as_str(), name.as_str()], ids).await;
    let password_hash = hashed.map_err(|problem| {
        let body = problem.rfc9457_body();
        let message = body["issues"][0]["message"].as_str().unwrap_or_default();
        anyhow::anyhow!("init.user_password {message}")
    })?;
    let account = NewAccount { id: ids.uuid().to_string(), email, name, password_hash };
    let user = UserId::new(&ids.uuid().to_string())?;
    match store.catalog.create_first_account(organization, &account, (&user, now)).await {
        // Another node created it at the same time.
        Err(Error::Conflict(ACCOUNT_EXISTS)) => Ok(()),
        created => Ok(created?),
    }
}

/// Creates the configured key pair of the organization if it is missing.
async fn ensure_organization_key(
    store: &Store,
    init: &perpend_config::Init,
    project: &Project,
    (ids, now): (&dyn IdSource, Timestamp),
) -> Result<(), Error> {
    let names = "PERPEND_INIT_ORG_PUBLIC_KEY and PERPEND_INIT_ORG_SECRET_KEY";
    let settings = (&init.org_public_key, &init.org_secret_key);
    let Some(pair) = configured_pair(store, settings, names).await? else {
        return Ok(());
    };
    let note = Some("created from the settings".to_owned());
    let key = pair.to_key(ids, note, None).map_err(inconsistent)?;
    let owner = KeyOwner::Organization(project.organization.id.clone());
    match store.catalog.api_key(&key.public_key).await? {
        Some(stored) if stored.owner == owner && is_secret_of(&stored, &pair, names) => Ok(()),
        Some(stored) if stored.owner == owner => Err(Error::Conflict(
            "init.org_public_key exists with another secret; choose another public key for the new secret",
        )),
        Some(_) => Err(Error::Conflict(
            "init.org_public_key is the public key of a project or of another organization",
        )),
        None => match store.catalog.create_key(&owner, &key, now).await {
            // Another node created it at the same time.
            Err(Error::Conflict(_)) if store.catalog.api_key(&key.public_key).await?.is_some() => {
                Ok(())
            }
            created => created,
        },
    }
}
