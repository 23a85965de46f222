//! Plug-ins: components and the names under which projects may use them.

use std::cmp::Ordering;
use std::collections::HashMap;

use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::plugin::{Digest, PluginInfo, is_first_party_name};
use perpend_domain::time::Timestamp;
use semver::Version;
use serde_json::json;

use crate::{Catalog, Error, audit};
use perpend_db::in_transaction;
use perpend_db::{checked, digest, from_json, to_json};
use perpend_db::{query, query_scalar};

/// A registered plug-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Digest of its component.
    pub digest: Digest,
    /// The project that registered it; `None` for plug-ins of the server.
    pub owner: Option<ProjectId>,
    /// Description from the component.
    pub info: PluginInfo,
    /// Size of the component, bytes.
    pub size_bytes: u64,
    /// Time of registration.
    pub created_at: Timestamp,
}

/// An evaluator with versions that use a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUser {
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// Its name.
    pub name: String,
    /// These versions, oldest first.
    pub versions: Vec<u32>,
    /// Whether its newest version is among them.
    pub is_current: bool,
}

perpend_db::record! {
    struct PluginUserRow {
        id: String,
        name: String,
        newest: i32,
        number: i32,
    }
}

perpend_db::record! {
    struct PluginRow {
        owner: String,
        digest: Vec<u8>,
        info: String,
        size_bytes: i64,
        created_at: i64,
    }
}

impl TryFrom<PluginRow> for Plugin {
    type Error = Error;

    fn try_from(row: PluginRow) -> Result<Self, Error> {
        let owner = match row.owner.as_str() {
            "" => None,
            id => Some(checked("plug-in", id)?),
        };
        Ok(Self {
            digest: digest("plug-in", &row.digest)?,
            owner,
            info: from_json("plug-in", &row.info)?,
            size_bytes: row.size_bytes.max(0).cast_unsigned(),
            created_at: Timestamp::from_micros(row.created_at),
        })
    }
}

impl Plugin {
    /// Whether `name` refers to this plug-in. A first-party name refers to a plug-in of the server only:
    /// older releases let projects register plug-ins under such names.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.info.name == name && (self.owner.is_none() || !is_first_party_name(name))
    }

    /// Order of lists: by name, then the newest version first.
    #[must_use]
    pub fn by_name_and_newest(a: &Self, b: &Self) -> Ordering {
        let version = |plugin: &Self| Version::parse(&plugin.info.version).ok();
        let order = a.info.name.cmp(&b.info.name);
        let order = order.then_with(|| version(b).cmp(&version(a)));
        order.then_with(|| b.created_at.cmp(&a.created_at))
    }

    /// Order of the candidates for one name: releases before pre-releases, then by version, then the last
    /// registered one.
    fn rank(&self) -> (bool, Option<Version>, Timestamp) {
        let version = Version::parse(&self.info.version).ok();
        let released = version.as_ref().is_some_and(|v| v.pre.is_empty());
        (released, version, self.created_at)
    }
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "plugin";
const VISIBLE: &str = "
    SELECT owner, digest, info, size_bytes, created_at
      FROM plugins
     WHERE owner IN ('', $1)
     ORDER BY name, version, created_at, digest";
const BY_NAME: &str = "
    SELECT owner, digest, info, size_bytes, created_at
      FROM plugins
     WHERE owner IN ('', $1) AND name = $2";
const BY_DIGEST: &str = "
    SELECT owner, digest, info, size_bytes, created_at
      FROM plugins
     WHERE owner IN ('', $1) AND digest = $2
     ORDER BY owner, created_at DESC
     LIMIT 1";
const HELD_BY_SERVER: &str = "SELECT COUNT(*) FROM plugins WHERE owner = '' AND name = $1";
const INSERT_COMPONENT: &str = "
    INSERT INTO components (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
const INSERT: &str = "
    INSERT INTO plugins (owner, name, version, digest, info, size_bytes, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING";
/// Makes a former component of the same version current again.
const REVIVE: &str = "
    UPDATE plugins SET created_at = $5
     WHERE owner = $1 AND name = $2 AND version = $3 AND digest = $4
       AND EXISTS (SELECT 1 FROM plugins later
                    WHERE later.owner = $1 AND later.name = $2 AND later.version = $3
                      AND later.digest <> $4 AND plugins.created_at <= later.created_at)";
const STANDING: &str = "
    SELECT digest FROM plugins WHERE owner = $1 AND name = $2 AND version = $3 AND digest = $4";
const USERS: &str = "
    SELECT e.id, e.name, e.version AS newest, v.number
      FROM evaluator_versions v
      JOIN evaluators e ON e.project_id = v.project_id AND e.id = v.evaluator_id
     WHERE v.project_id = $1 AND v.plugin = $2
     ORDER BY e.created_at, e.id, v.number";
const USER_COUNTS: &str = "
    SELECT plugin_name, COUNT(DISTINCT evaluator_id) FROM evaluator_versions
     WHERE project_id = $1 GROUP BY plugin_name";
const N_USERS: &str = "
    SELECT COUNT(*) FROM evaluator_versions WHERE project_id = $1 AND plugin = $2";
const DELETE: &str = "DELETE FROM plugins WHERE owner = $1 AND digest = $2";
/// Deletes components without a registration and without an evaluator version.
const DELETE_COMPONENT: &str = "
    DELETE FROM components
     WHERE digest = $1
       AND NOT EXISTS (SELECT 1 FROM plugins WHERE digest = $1)
       AND NOT EXISTS (SELECT 1 FROM evaluator_versions WHERE plugin = $1)";
/// Read when a version is written: a component found then stays, because a deletion finds the version.
pub(super) const N_COMPONENTS: &str = "SELECT COUNT(*) FROM components WHERE digest = $1";
const COMPONENT: &str = "SELECT bytes FROM components WHERE digest = $1";
const DIGESTS: &str = "SELECT digest FROM components";

impl Catalog {
    /// Registers a component under its own name and version; repeating it is a no-op. `owner` is `None` for
    /// plug-ins of the server, which are visible to all projects.
    ///
    /// A name and version of a project always refer to one digest. Those of the server refer to the last
    /// registered digest: a rebuilt server may contain another component with the same version. Existing
    /// evaluators keep the former one, because versions refer to digests.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the project has this name and version with another digest, or if the name is
    /// reserved ([`is_first_party_name`]) or used by the server.
    pub async fn put_plugin(
        &self,
        owner: Option<&ProjectId>,
        info: &PluginInfo,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<Digest, Error> {
        if owner.is_some() && is_first_party_name(&info.name) {
            return Err(Error::Conflict(
                "the vendor name perpend is reserved for plug-ins of the server",
            ));
        }
        let digest = Digest::of(bytes);
        let json = to_json("plug-in", info)?;
        let name = owner.map_or("", ProjectId::as_str);
        in_transaction!(&self.pool, |tx| {
            // Deletions wait here, so that none removes the component in between.
            query(super::revision::RAISE).execute(&mut tx).await?;
            if owner.is_some() {
                let n_held: i64 =
                    query_scalar(HELD_BY_SERVER).bind(&info.name).fetch_one(&mut tx).await?;
                if 0 < n_held {
                    return Err(Error::Conflict("a plug-in of the server has this name"));
                }
            }
            query(INSERT_COMPONENT)
                .bind(digest.as_bytes().as_slice())
                .bind(bytes)
                .execute(&mut tx)
                .await?;
            query(INSERT)
                .bind(name)
                .bind(&info.name)
                .bind(&info.version)
                .bind(digest.as_bytes().as_slice())
                .bind(json)
                .bind(bytes.len() as i64)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            query(REVIVE)
                .bind(name)
                .bind(&info.name)
                .bind(&info.version)
                .bind(digest.as_bytes().as_slice())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let existing: Option<Vec<u8>> = query_scalar(STANDING)
                .bind(name)
                .bind(&info.name)
                .bind(&info.version)
                .bind(digest.as_bytes().as_slice())
                .fetch_optional(&mut tx)
                .await?;
            if existing.is_none() {
                return Err(Error::Conflict("this name and version refer to another component"));
            }
            let after = json!({ "name": info.name, "version": info.version });
            audit::note(AUDITED, &digest.to_string(), None, Some(after));
        });
        Ok(digest)
    }

    /// The plug-ins a project may use, by name and version.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn plugins(&self, project: &ProjectId) -> Result<Vec<Plugin>, Error> {
        let rows: Vec<PluginRow> =
            query(VISIBLE).bind(project.as_str()).fetch_all(&self.pool).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The plug-in of this digest, when the project may use it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn plugin(
        &self,
        project: &ProjectId,
        digest: &Digest,
    ) -> Result<Option<Plugin>, Error> {
        let row: Option<PluginRow> = query(BY_DIGEST)
            .bind(project.as_str())
            .bind(digest.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await?;
        row.map(TryInto::try_into).transpose()
    }

    /// The plug-in to which `reference` refers in this project: `name@version`, `name` for its newest
    /// release, or a digest with or without the prefix `sha256:`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resolve_plugin(
        &self,
        project: &ProjectId,
        reference: &str,
    ) -> Result<Option<Plugin>, Error> {
        let hex = reference.strip_prefix("sha256:").unwrap_or(reference);
        if let Ok(digest) = hex.parse::<Digest>() {
            return self.plugin(project, &digest).await;
        }
        let (name, version) = match reference.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (reference, None),
        };
        let rows: Vec<PluginRow> =
            query(BY_NAME).bind(project.as_str()).bind(name).fetch_all(&self.pool).await?;
        let found: Result<Vec<Plugin>, Error> = rows.into_iter().map(TryInto::try_into).collect();
        let wanted = |plugin: &Plugin| {
            plugin.is_named(name) && version.is_none_or(|v| v == plugin.info.version)
        };
        Ok(found?.into_iter().filter(wanted).max_by_key(Plugin::rank))
    }

    /// The evaluators of a project with versions that use a component.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn plugin_users(
        &self,
        project: &ProjectId,
        digest: &Digest,
    ) -> Result<Vec<PluginUser>, Error> {
        let rows: Vec<PluginUserRow> = query(USERS)
            .bind(project.as_str())
            .bind(digest.as_bytes().as_slice())
            .fetch_all(&self.pool)
            .await?;
        let mut users: Vec<PluginUser> = Vec::new();
        for row in rows {
            let evaluator = checked("evaluator", &row.id)?;
            let number = row.number.max(0).cast_unsigned();
            let is_current = row.number == row.newest;
            match users.last_mut().filter(|user| user.evaluator == evaluator) {
                Some(user) => {
                    user.versions.push(number);
                    user.is_current |= is_current;
                }
                None => users.push(PluginUser {
                    evaluator,
                    name: row.name,
                    versions: vec![number],
                    is_current,
                }),
            }
        }
        Ok(users)
    }

    /// Number of evaluators of a project with versions that use a plug-in, by its name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn plugin_user_counts(
        &self,
        project: &ProjectId,
    ) -> Result<HashMap<String, u64>, Error> {
        let args = [project.as_str().into()];
        let rows: Vec<(String, i64)> = self.pool.select(USER_COUNTS, &args).await?;
        Ok(rows.into_iter().map(|(name, n)| (name, n.unsigned_abs())).collect())
    }

    /// Removes a plug-in from the project that registered it. Its component is deleted with the last
    /// reference.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the project did not register it, [`Error::Conflict`] if an evaluator has a
    /// version that uses it: old versions can be run again too.
    pub async fn delete_plugin(&self, project: &ProjectId, digest: &Digest) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            // Writers of evaluator versions raise it too, so that the count is stable.
            query(super::revision::RAISE).execute(&mut tx).await?;
            let n_deleted = query(DELETE)
                .bind(project.as_str())
                .bind(digest.as_bytes().as_slice())
                .execute(&mut tx)
                .await?;
            if n_deleted == 0 {
                return Err(Error::NotFound);
            }
            let n_users: i64 = query_scalar(N_USERS)
                .bind(project.as_str())
                .bind(digest.as_bytes().as_slice())
                .fetch_one(&mut tx)
                .await?;
            if 0 < n_users {
                return Err(Error::Conflict("evaluators use this plug-in"));
            }
            audit::note(AUDITED, &digest.to_string(), None, None);
            query(DELETE_COMPONENT).bind(digest.as_bytes().as_slice()).execute(&mut tx).await?;
        });
        Ok(())
    }

    /// The digests of all components. Crosses tenants: for caches outside the database.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn component_digests(&self) -> Result<Vec<Digest>, Error> {
        let rows: Vec<Vec<u8>> = query_scalar(DIGESTS).fetch_all(&self.pool).await?;
        rows.iter().map(|bytes| digest("component", bytes)).collect()
    }

    /// The bytes of a component, for the workers. Crosses tenants: digests come from evaluator versions,
    /// which were checked against the plug-ins of their project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn component(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        query_scalar(COMPONENT).bind(digest.as_bytes().as_slice()).fetch_optional(&self.pool).await
    }
}
