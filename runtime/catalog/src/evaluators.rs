//! Evaluators and their versions.

use perpend_domain::evaluation::{
    Evaluator, EvaluatorVersion, Fingerprint, Mapping, Pause, VersionPolicy,
};
use perpend_domain::ids::{AssignmentId, EvaluatorId, EvaluatorVersionId, ProjectId, RuleId};
use perpend_domain::plugin::{Digest, Grants};
use perpend_domain::slots::Slot;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::revision::{PauseOutcome, raise_from};
use super::row;
use crate::{Catalog, Error, audit};
use perpend_db::{
    Tx, bounds, checked, digest, from_json, in_transaction, query, query_scalar, to_json,
};
use perpend_domain::list::{Cursor, Page};

/// A new evaluator.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvaluator {
    /// Its id.
    pub id: EvaluatorId,
    /// Name; not unique.
    pub name: String,
    /// Description for users.
    pub description: Option<String>,
    /// Version 1.
    pub version: NewVersion,
}

/// A new version. The store assigns its number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVersion {
    /// Its id.
    pub id: EvaluatorVersionId,
    /// Digest of the component.
    pub plugin: Digest,
    /// `vendor/name`.
    pub plugin_name: String,
    /// Semantic version of the plug-in.
    pub plugin_version: String,
    /// Name of the evaluator in the plug-in.
    pub plugin_evaluator: String,
    /// Checked configuration, defaults filled in: a JSON object.
    pub config: Value,
    /// Default mapping.
    pub mapping: Vec<Mapping>,
    /// Granted capabilities.
    pub grants: Grants,
    /// Model slots.
    pub slots: Vec<Slot>,
    /// Digest of everything that affects its scores.
    pub fingerprint: Fingerprint,
}

/// The next version of an evaluator, given its current newest version.
#[derive(Clone, Debug, PartialEq)]
pub struct Successor {
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// Number of the version that it follows.
    pub follows: u32,
    /// The version.
    pub version: NewVersion,
}

/// Evaluator versions used by a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedVersions {
    /// The live version.
    pub live: Evaluator,
    /// The shadow version.
    pub shadow: Option<Evaluator>,
}

/// A use of an evaluator in a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleUse {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The rule.
    pub rule_id: RuleId,
    /// The assignment of the rule.
    pub assignment_id: AssignmentId,
    /// Overrides the default mapping of the version.
    pub mapping: Option<Vec<Mapping>>,
}

perpend_db::record! {
    pub(super) struct EvaluatorRow {
        pub(super) project_id: String,
        id: String,
        name: String,
        description: Option<String>,
        paused_reason: Option<String>,
        paused_message: Option<String>,
        paused_at: Option<i64>,
        paused_until: Option<i64>,
        created_at: i64,
        updated_at: i64,
        version: VersionRow,
    }
}

perpend_db::record! {
    struct VersionRow {
        evaluator_id: String,
        version_id: String,
        number: i32,
        plugin: Vec<u8>,
        plugin_name: String,
        plugin_version: String,
        plugin_evaluator: String,
        config: String,
        mapping: String,
        grants: String,
        slots: String,
        fingerprint: Vec<u8>,
        version_created_at: i64,
    }
}

impl TryFrom<VersionRow> for EvaluatorVersion {
    type Error = Error;

    fn try_from(row: VersionRow) -> Result<Self, Error> {
        Ok(Self {
            id: checked("evaluator version", &row.version_id)?,
            number: row.number.max(0).cast_unsigned(),
            plugin: digest("evaluator version", &row.plugin)?,
            plugin_name: row.plugin_name,
            plugin_version: row.plugin_version,
            plugin_evaluator: row.plugin_evaluator,
            config: from_json("evaluator version", &row.config)?,
            mapping: from_json("evaluator version", &row.mapping)?,
            grants: from_json("evaluator version", &row.grants)?,
            slots: from_json("evaluator version", &row.slots)?,
            fingerprint: digest("evaluator version", &row.fingerprint)?,
            created_at: Timestamp::from_micros(row.version_created_at),
        })
    }
}

impl TryFrom<EvaluatorRow> for Evaluator {
    type Error = Error;

    fn try_from(row: EvaluatorRow) -> Result<Self, Error> {
        Ok(Self {
            id: checked("evaluator", &row.id)?,
            name: row.name,
            description: row.description,
            paused: row::pause(
                row.paused_reason,
                row.paused_message,
                row.paused_at,
                row.paused_until,
            ),
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
            version: row.version.try_into()?,
        })
    }
}

perpend_db::record! {
    struct UseRow {
        evaluator_id: String,
        rule_id: String,
        id: String,
        mapping: Option<String>,
    }
}

macro_rules! version_columns {
    () => {
        "v.evaluator_id, v.id AS version_id, v.number, v.plugin, v.plugin_name, v.plugin_version,
         v.plugin_evaluator, v.config, v.mapping, v.grants, v.slots, v.fingerprint,
         v.created_at AS version_created_at"
    };
}

/// Evaluators with one version each; a condition follows.
macro_rules! select_version {
    ($($rest:literal)+) => {
        concat!(
            "SELECT e.project_id, e.id, e.name, e.description, e.paused_reason, e.paused_message,
                    e.paused_at, e.paused_until, e.created_at, e.updated_at, ",
            version_columns!(),
            " FROM evaluators e
              JOIN evaluator_versions v ON v.project_id = e.project_id AND v.evaluator_id = e.id ",
            $($rest),+
        )
    };
}

/// Evaluators with their newest version; a condition follows.
macro_rules! select {
    ($rest:literal) => {
        select_version!("AND v.number = e.version " $rest)
    };
}

const GET: &str = select!("WHERE e.project_id = $1 AND e.id = $2");
const GET_AT: &str = select_version!("WHERE e.project_id = $1 AND e.id = $2 AND v.number = $3");
const LIST_FIRST: &str =
    select!("WHERE e.project_id = $1 ORDER BY e.created_at DESC, e.id DESC LIMIT $2");
const LIST_AFTER: &str = select!(
    "WHERE e.project_id = $1 AND (e.created_at, e.id) < ($3, $4)
     ORDER BY e.created_at DESC, e.id DESC LIMIT $2"
);
/// Those of enabled rules, of all projects.
pub(super) const IN_USE: &str = select!(
    "WHERE EXISTS (SELECT 1 FROM assignments a
                     JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
                    WHERE a.project_id = e.project_id AND a.evaluator_id = e.id AND r.enabled = 1)"
);
/// Those of enabled rules that name a version, each with the live and shadow versions that differ from the
/// newest.
pub(super) const OLDER_IN_USE: &str = select_version!(
    "JOIN assignments a
       ON a.project_id = e.project_id AND a.evaluator_id = e.id
          AND (a.pinned_version IS NOT NULL OR a.shadow_version IS NOT NULL)
     JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id AND r.enabled = 1
    WHERE v.number <> e.version
      AND (v.number = a.pinned_version OR v.number = a.shadow_version
           OR (a.shadow_version = e.version AND v.number = e.version - 1))"
);
/// The same of one project.
const IN_USE_OF: &str = select!(
    "WHERE e.project_id = $1
       AND EXISTS (SELECT 1 FROM assignments a
                     JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
                    WHERE a.project_id = e.project_id AND a.evaluator_id = e.id AND r.enabled = 1)"
);
const VERSIONS: &str = concat!(
    "SELECT ",
    version_columns!(),
    " FROM evaluator_versions v
     WHERE v.project_id = $1 AND v.evaluator_id = $2 AND v.number < $3
     ORDER BY v.number DESC LIMIT $4"
);
const VERSION: &str = concat!(
    "SELECT ",
    version_columns!(),
    " FROM evaluator_versions v WHERE v.project_id = $1 AND v.id = $2"
);
const USES: &str = "
    SELECT evaluator_id, rule_id, id, mapping
      FROM assignments
     WHERE project_id = $1 AND evaluator_id = $2
     ORDER BY rule_id, place";
const INSERT: &str = "
    INSERT INTO evaluators (project_id, id, name, description, version, created_at, updated_at)
    VALUES ($1, $2, $3, $4, 1, $5, $5)
    ON CONFLICT (project_id, id) DO NOTHING";
const INSERT_VERSION: &str = "
    INSERT INTO evaluator_versions
        (project_id, evaluator_id, number, id, plugin, plugin_name, plugin_version, plugin_evaluator,
         config, mapping, grants, slots, fingerprint, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const NEXT_NUMBER: &str = "
    UPDATE evaluators SET version = version + 1, updated_at = $3
     WHERE project_id = $1 AND id = $2
    RETURNING version";
const NEXT_NUMBER_AFTER: &str = "
    UPDATE evaluators SET version = version + 1, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND version = $4
    RETURNING version";
const RENAME: &str = "
    UPDATE evaluators SET name = COALESCE($3, name), updated_at = $4
     WHERE project_id = $1 AND id = $2";
const DESCRIBE: &str = "
    UPDATE evaluators SET description = $3, updated_at = $4
     WHERE project_id = $1 AND id = $2";
pub(super) const PAUSE: &str = "
    UPDATE evaluators
       SET paused_reason = $3, paused_message = $4, paused_at = $5, paused_until = $6, updated_at = $5
     WHERE project_id = $1 AND id = $2 AND paused_at IS NULL";
pub(super) const UNPAUSE: &str = "
    UPDATE evaluators
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND paused_at IS NOT NULL";
const DELETE: &str = "DELETE FROM evaluators WHERE project_id = $1 AND id = $2";
const DELETE_BUDGET: &str =
    "DELETE FROM budgets WHERE project_id = $1 AND scope = 'evaluator' AND scope_id = $2";
/// A rule without evaluators does nothing and must not appear enabled.
const DISABLE_EMPTY: &str = "
    UPDATE rules SET enabled = 0, updated_at = $2
     WHERE project_id = $1 AND enabled = 1
       AND NOT EXISTS (SELECT 1 FROM assignments a
                        WHERE a.project_id = rules.project_id AND a.rule_id = rules.id)";

async fn insert_version(
    tx: &mut Tx,
    project: &ProjectId,
    evaluator: &EvaluatorId,
    number: i32,
    version: &NewVersion,
    now: Timestamp,
) -> Result<(), Error> {
    let n_held: i64 = query_scalar(super::plugins::N_COMPONENTS)
        .bind(version.plugin.as_bytes().as_slice())
        .fetch_one(&mut *tx)
        .await?;
    if n_held == 0 {
        return Err(Error::Conflict("the plug-in was deleted"));
    }
    query(INSERT_VERSION)
        .bind(project.as_str())
        .bind(evaluator.as_str())
        .bind(number)
        .bind(version.id.as_str())
        .bind(version.plugin.as_bytes().as_slice())
        .bind(&version.plugin_name)
        .bind(&version.plugin_version)
        .bind(&version.plugin_evaluator)
        .bind(to_json("evaluator version", &version.config)?)
        .bind(to_json("evaluator version", &version.mapping)?)
        .bind(to_json("evaluator version", &version.grants)?)
        .bind(to_json("evaluator version", &version.slots)?)
        .bind(version.fingerprint.as_bytes().as_slice())
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "evaluator";
const NAMES: &str =
    "SELECT name, description, version FROM evaluators WHERE project_id = $1 AND id = $2";

/// The recorded state of an evaluator; `None` if it does not exist.
async fn names(tx: &mut Tx, project: &ProjectId, id: &EvaluatorId) -> Result<Option<Value>, Error> {
    let found: Option<(String, Option<String>, i32)> =
        query(NAMES).bind(project.as_str()).bind(id.as_str()).fetch_optional(tx).await?;
    Ok(found.map(|(name, description, version)| {
        json!({ "name": name, "description": description, "version": version })
    }))
}

/// Bytes of a page of evaluators; the page ends early if they are large.
const PAGE_BYTES: usize = 4 << 20;

impl Catalog {
    /// The evaluator with its newest version.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
    ) -> Result<Option<Evaluator>, Error> {
        let row: Option<EvaluatorRow> =
            query(GET).bind(project.as_str()).bind(id.as_str()).fetch_optional(&self.pool).await?;
        row.map(TryInto::try_into).transpose()
    }

    /// The evaluator with the version of this number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_at(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        number: u32,
    ) -> Result<Option<Evaluator>, Error> {
        let row: Option<EvaluatorRow> = query(GET_AT)
            .bind(project.as_str())
            .bind(id.as_str())
            .bind(i32::try_from(number).unwrap_or(i32::MAX))
            .fetch_optional(&self.pool)
            .await?;
        row.map(TryInto::try_into).transpose()
    }

    /// An evaluator, given with its newest version, with the versions of a policy; `None` if the live version
    /// does not exist.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn used_versions(
        &self,
        project: &ProjectId,
        newest: Evaluator,
        policy: VersionPolicy,
    ) -> Result<Option<UsedVersions>, Error> {
        let (id, number) = (newest.id.clone(), newest.version.number);
        let shadow = match policy.shadow() {
            Some(shadow) => self.evaluator_at(project, &id, shadow).await?,
            None => None,
        };
        let live = match policy.live(number) {
            live if live == number => Some(newest),
            live => self.evaluator_at(project, &id, live).await?,
        };
        Ok(live.map(|live| UsedVersions { live, shadow }))
    }

    /// The evaluators of a project, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluators(
        &self,
        project: &ProjectId,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Evaluator>, Error> {
        let n_wanted = i64::from(limit) + 1;
        let (at, id) = bounds(after);
        let list = match after {
            Some(_) => query(LIST_AFTER).bind(project.as_str()).bind(n_wanted).bind(at).bind(id),
            None => query(LIST_FIRST).bind(project.as_str()).bind(n_wanted),
        };
        let (rows, is_cut): (Vec<EvaluatorRow>, bool) =
            list.fetch_up_to(&self.pool, PAGE_BYTES).await?;
        let items: Result<Vec<Evaluator>, Error> =
            rows.into_iter().map(TryInto::try_into).collect();
        Ok(Page::part(items?, is_cut, limit, |evaluator| {
            Cursor::new(evaluator.created_at, evaluator.id.to_string())
        }))
    }

    /// The versions of an evaluator below number `before`, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such evaluator.
    pub async fn evaluator_versions(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<Vec<EvaluatorVersion>, Error> {
        self.evaluator(project, id).await?.ok_or(Error::NotFound)?;
        let below = before.map_or(i32::MAX, |n| i32::try_from(n).unwrap_or(i32::MAX));
        let rows: Vec<VersionRow> = query(VERSIONS)
            .bind(project.as_str())
            .bind(id.as_str())
            .bind(below)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// One version with its evaluator, as referenced by scores.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_version(
        &self,
        project: &ProjectId,
        id: &EvaluatorVersionId,
    ) -> Result<Option<(EvaluatorId, EvaluatorVersion)>, Error> {
        let row: Option<VersionRow> = query(VERSION)
            .bind(project.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await?;
        let pair = |row: VersionRow| {
            let evaluator = checked("evaluator version", &row.evaluator_id)?;
            Ok((evaluator, row.try_into()?))
        };
        row.map(pair).transpose()
    }

    /// The rules that use an evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_uses(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
    ) -> Result<Vec<RuleUse>, Error> {
        let rows: Vec<UseRow> =
            query(USES).bind(project.as_str()).bind(id.as_str()).fetch_all(&self.pool).await?;
        let of_row = |row: UseRow| {
            let mapping = row.mapping.map(|raw| from_json("assignment", &raw));
            Ok(RuleUse {
                evaluator_id: checked("assignment", &row.evaluator_id)?,
                rule_id: checked("assignment", &row.rule_id)?,
                assignment_id: checked("assignment", &row.id)?,
                mapping: mapping.transpose()?,
            })
        };
        rows.into_iter().map(of_row).collect()
    }

    /// Creates an evaluator with its first version.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the project has an evaluator with this id.
    pub async fn create_evaluator(
        &self,
        project: &ProjectId,
        new: &NewEvaluator,
        now: Timestamp,
    ) -> Result<Evaluator, Error> {
        in_transaction!(&self.pool, |tx| {
            query(super::revision::RAISE).execute(&mut tx).await?;
            let n_made = query(INSERT)
                .bind(project.as_str())
                .bind(new.id.as_str())
                .bind(&new.name)
                .bind(&new.description)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_made == 0 {
                return Err(Error::Conflict("an evaluator with this id exists"));
            }
            insert_version(&mut tx, project, &new.id, 1, &new.version, now).await?;
            let mut after = audit::objects::evaluator_version(1, &new.version);
            after["name"] = new.name.as_str().into();
            audit::note(AUDITED, new.id.as_str(), None, Some(after));
        });
        self.evaluator(project, &new.id).await?.ok_or(Error::NotFound)
    }

    /// Adds a version, which becomes the current one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such evaluator.
    pub async fn add_evaluator_version(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        version: &NewVersion,
        now: Timestamp,
    ) -> Result<Evaluator, Error> {
        in_transaction!(&self.pool, |tx| {
            query(super::revision::RAISE).execute(&mut tx).await?;
            let number: Option<i32> = query_scalar(NEXT_NUMBER)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(now.as_micros())
                .fetch_optional(&mut tx)
                .await?;
            let number = number.ok_or(Error::NotFound)?;
            insert_version(&mut tx, project, id, number, version, now).await?;
            let after = audit::objects::evaluator_version(number.into(), version);
            audit::note(AUDITED, id.as_str(), Some(json!({ "version": number - 1 })), Some(after));
        });
        self.evaluator(project, id).await?.ok_or(Error::NotFound)
    }

    /// Adds versions to evaluators and resumes paused ones among them: all of them or none. Returns the
    /// numbers of the versions in the same order.
    ///
    /// # Errors
    /// [`Error::Conflict`] if one of them has a newer version or was deleted.
    pub async fn add_successors(
        &self,
        project: &ProjectId,
        successors: &[Successor],
        now: Timestamp,
    ) -> Result<Vec<u32>, Error> {
        let mut numbers = Vec::with_capacity(successors.len());
        in_transaction!(&self.pool, |tx| {
            // Concurrent writers wait here, so that there is no deadlock.
            query(super::revision::RAISE).execute(&mut tx).await?;
            for Successor { evaluator, follows, version } in successors {
                let follows = i32::try_from(*follows).unwrap_or(i32::MAX);
                let number: Option<i32> = query_scalar(NEXT_NUMBER_AFTER)
                    .bind(project.as_str())
                    .bind(evaluator.as_str())
                    .bind(now.as_micros())
                    .bind(follows)
                    .fetch_optional(&mut tx)
                    .await?;
                let number = number.ok_or(Error::Conflict(
                    "an evaluator got another version or was deleted meanwhile: nothing was changed, look \
                     at the evaluators again",
                ))?;
                insert_version(&mut tx, project, evaluator, number, version, now).await?;
                let after = audit::objects::evaluator_version(number.into(), version);
                let before = json!({ "version": follows });
                audit::note(AUDITED, evaluator.as_str(), Some(before), Some(after));
                query(UNPAUSE)
                    .bind(project.as_str())
                    .bind(evaluator.as_str())
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
                numbers.push(number.max(0).cast_unsigned());
            }
        });
        Ok(numbers)
    }

    /// Changes name and description if given; the version is unchanged.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such evaluator.
    pub async fn rename_evaluator(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        name: Option<&str>,
        description: Option<Option<&str>>,
        now: Timestamp,
    ) -> Result<Evaluator, Error> {
        in_transaction!(&self.pool, |tx| {
            query(super::revision::RAISE).execute(&mut tx).await?;
            let before = names(&mut tx, project, id).await?;
            let n_changed = query(RENAME)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(name)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_changed == 0 {
                return Err(Error::NotFound);
            }
            if let Some(description) = description {
                query(DESCRIBE)
                    .bind(project.as_str())
                    .bind(id.as_str())
                    .bind(description)
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
            }
            let after = names(&mut tx, project, id).await?;
            audit::note(AUDITED, id.as_str(), before, after);
        });
        self.evaluator(project, id).await?.ok_or(Error::NotFound)
    }

    /// The evaluators of a project that enabled rules use.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluators_in_use(&self, project: &ProjectId) -> Result<Vec<Evaluator>, Error> {
        let rows: Vec<EvaluatorRow> =
            query(IN_USE_OF).bind(project.as_str()).fetch_all(&self.pool).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Pauses an evaluator. With a revision in `seen`, only if it is still the revision of the catalog: a
    /// later change may have fixed the failure.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn pause_evaluator(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        pause: &Pause,
        seen: Option<i64>,
    ) -> Result<PauseOutcome, Error> {
        let n_paused = in_transaction!(&self.pool, |tx| {
            if !raise_from(&mut tx, seen).await? {
                return Ok(PauseOutcome::Outdated);
            }
            query(PAUSE)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(&pause.reason)
                .bind(&pause.message)
                .bind(pause.at.as_micros())
                .bind(pause.until.map(Timestamp::as_micros))
                .execute(&mut tx)
                .await?
        });
        Ok(PauseOutcome::of(n_paused))
    }

    /// Resumes a paused evaluator. `true` for the one caller that changed it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn unpause_evaluator(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let n_unpaused = in_transaction!(&self.pool, |tx| {
            query(super::revision::RAISE).execute(&mut tx).await?;
            query(UNPAUSE)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?
        });
        Ok(n_unpaused == 1)
    }

    /// Deletes an evaluator with its versions and assignments. Its scores stay. A rule without a remaining
    /// evaluator is disabled.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such evaluator.
    pub async fn delete_evaluator(
        &self,
        project: &ProjectId,
        id: &EvaluatorId,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(super::revision::RAISE).execute(&mut tx).await?;
            let before = names(&mut tx, project, id).await?;
            audit::note(AUDITED, id.as_str(), before, None);
            let n_gone =
                query(DELETE).bind(project.as_str()).bind(id.as_str()).execute(&mut tx).await?;
            if n_gone == 0 {
                return Err(Error::NotFound);
            }
            query(DELETE_BUDGET).bind(project.as_str()).bind(id.as_str()).execute(&mut tx).await?;
            query(DISABLE_EMPTY)
                .bind(project.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }
}
