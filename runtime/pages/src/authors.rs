//! Names of the authors of scores and comments.

use std::collections::{BTreeSet, HashMap};

use perpend_catalog::KeyOwner;
use perpend_domain::ids::{PublicKey, UserId};
use perpend_http_kit::problem::Problem;

use crate::request::viewer::Viewer;
use crate::state::App;

/// The names of authors by id: those of members, and of key pairs of the project with a note. Other authors are absent.
pub(crate) async fn author_names(
    app: &App,
    viewer: &Viewer,
    ids: BTreeSet<&str>,
) -> Result<HashMap<String, String>, Problem> {
    let mut names = HashMap::new();
    if ids.is_empty() {
        return Ok(names);
    }
    let catalog = &app.store.catalog;
    let project = catalog.project(&viewer.project).await?;
    for id in ids {
        let person = match (&project, UserId::new(id)) {
            (Some(project), Ok(user)) => catalog.user(&project.organization.id, &user).await?,
            _ => None,
        };
        let name = match person {
            Some(person) => Some(person.made.name),
            None => name_of_key(app, viewer, id).await?,
        };
        names.extend(name.map(|name| (id.to_owned(), name)));
    }
    Ok(names)
}

/// The note of a key pair of the project, with its public key.
async fn name_of_key(app: &App, viewer: &Viewer, id: &str) -> Result<Option<String>, Problem> {
    let Ok(public_key) = PublicKey::new(id) else {
        return Ok(None);
    };
    let key = app.store.catalog.api_key(&public_key).await?;
    let key = key.filter(|key| key.owner == KeyOwner::Project(viewer.project.clone()));
    let note = key.and_then(|key| key.made.note).filter(|note| !note.is_empty());
    Ok(note.map(|note| format!("{note} ({id})")))
}
