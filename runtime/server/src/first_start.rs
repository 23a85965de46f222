//! What the first start makes: one organization, one project, one key pair.

use assay_domain::ids::{IdSource, ProjectId, PublicKey};
use assay_domain::time::Timestamp;
use assay_store::catalog::{Init, NewApiKey, Project, Rights, SecretHash};
use assay_store::{Error, Store};

use crate::config;

/// A key pair that nobody can look up again.
#[derive(Clone)]
pub struct KeyPair {
    /// Sent in the clear.
    pub public_key: String,
    /// Kept by the client only.
    pub secret_key: String,
}

// The secret does not reach a log by way of `{:?}`.
impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair")
            .field("public_key", &self.public_key)
            .finish_non_exhaustive()
    }
}

/// What was found or made.
#[derive(Debug)]
pub struct FirstStart {
    /// The project that the login link opens.
    pub project: Project,
    /// Set when this start made the pair itself: it is shown once.
    pub made: Option<KeyPair>,
}

/// Finds the project of this installation, or makes it.
///
/// A key pair from the settings is made sure of at each start; without one, a pair is made only while
/// there is no project.
///
/// # Errors
/// When the database fails.
pub async fn first_start(
    store: &Store,
    init: &config::Init,
    ids: &dyn IdSource,
    now: Timestamp,
) -> Result<FirstStart, Error> {
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
            return Ok(FirstStart {
                project,
                made: None,
            });
        }
        (None, None) => (made_pair(ids), true),
    };
    let inconsistent = |_| Error::Inconsistent {
        what: "key pair",
        detail: "the public key is longer than 800 characters".to_owned(),
    };
    let key = NewApiKey {
        id: ids.uuid().to_string(),
        public_key: PublicKey::new(&pair.public_key).map_err(inconsistent)?,
        secret_hash: SecretHash::new(&pair.secret_key, ids.uuid().into_bytes()),
        secret_hint: hint(&pair.secret_key),
        rights: Rights::Full,
        note: Some("made by the first start".to_owned()),
    };
    let project_id = ids.uuid().to_string();
    let new = Init {
        organization_id: ids.uuid().to_string(),
        organization_name: init.org_name.clone(),
        project_id: ProjectId::new(&project_id).map_err(inconsistent)?,
        project_name: init.project_name.clone(),
        key,
    };
    let project = store.create_first_project(&new, now).await?;
    let made = is_made.then_some(pair);
    Ok(FirstStart { project, made })
}

fn made_pair(ids: &dyn IdSource) -> KeyPair {
    KeyPair {
        public_key: format!("pk-assay-{}", ids.uuid()),
        secret_key: format!("sk-assay-{}", ids.uuid()),
    }
}

/// Enough of a secret to recognise it: its end, and never more than a quarter of it.
fn hint(secret: &str) -> String {
    let n_chars = secret.chars().count();
    let tail: String = secret
        .chars()
        .skip(n_chars - (n_chars / 4).min(4))
        .collect();
    format!("…{tail}")
}
