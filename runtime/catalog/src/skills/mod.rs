//! Skills: folders of text files in numbered versions, with labels that move.
//!
//! Invariants:
//! - **A version is immutable** except for its labels; a label is on one version of a skill.
//! - **`latest` is not stored.** It is the version with the highest number.
//! - **The hash identifies the text.** Each text is stored once per project, and stays after the deletion of
//!   its versions: clients hold hashes.

#[cfg(test)]
mod tests;
mod write;

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::LATEST;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Catalog, Error};
use perpend_db::{Arg, from_json, value_list};
use perpend_domain::list::{NumberedPage, Paging};

pub use write::NewSkill;

/// A version of a skill, with the fields of the skill as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// Id of the version.
    pub id: String,
    /// Name of the skill.
    pub name: String,
    /// Number of the version, from 1.
    pub version: i64,
    /// Purpose of the skill.
    pub description: String,
    /// Front matter of its main file.
    pub frontmatter: Value,
    /// Labels of this version, sorted.
    pub labels: Vec<String>,
    /// Tags of the skill.
    pub tags: Vec<String>,
    /// Note about the version.
    pub commit_message: Option<String>,
    /// Author of the version.
    pub created_by: String,
    /// Its files, by path.
    pub files: Vec<SkillFile>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change of labels.
    pub updated_at: Timestamp,
}

/// A file without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFile {
    /// Its id.
    pub id: String,
    /// Path in the folder.
    pub path: String,
    /// Base64 of the SHA-256 of its text.
    pub sha256: String,
    /// Size of its text, bytes.
    pub size: u64,
}

/// List entry of a skill, with fields of its newest version.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillSummary {
    /// Its name.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Number of the newest version.
    pub latest: i64,
    /// Time of creation of the newest version.
    pub created_at: Timestamp,
    /// Time of the last change of labels of the newest version.
    pub updated_at: Timestamp,
    /// The version with the label `production`.
    pub production: Option<i64>,
}

/// Filter of skills; absent fields match all.
#[derive(Clone, Debug, Default)]
pub struct SkillQuery {
    /// Exactly this name.
    pub name: Option<String>,
    /// Name or description contains this text, in any case.
    pub search: Option<String>,
    /// The skill has this tag.
    pub tag: Option<String>,
    /// The newest version changed at or after.
    pub from: Option<Timestamp>,
    /// The newest version changed before.
    pub to: Option<Timestamp>,
}

impl SkillQuery {
    fn holds(&self, skill: &SkillSummary) -> bool {
        let contains = |text: &str, part: &String| text.to_lowercase().contains(part);
        let search = self.search.as_ref().map(|part| part.to_lowercase());
        self.name.as_ref().is_none_or(|name| *name == skill.name)
            && search.is_none_or(|part| {
                contains(&skill.name, &part) || contains(&skill.description, &part)
            })
            && self.tag.as_ref().is_none_or(|tag| skill.tags.contains(tag))
            && self.from.is_none_or(|from| from <= skill.updated_at)
            && self.to.is_none_or(|to| skill.updated_at < to)
    }
}

/// Texts per statement.
const PER_STATEMENT: usize = 100;
/// `$1` project, `$2` name, `$3` version.
const GET: &str = "
    SELECT v.id, v.name, v.version, v.description, v.frontmatter, v.files, v.commit_message, v.created_by,
           v.created_at, v.updated_at, s.tags,
           (SELECT MAX(n.version) FROM skill_versions n
             WHERE n.project_id = v.project_id AND n.name = v.name) AS newest,
           (SELECT string_agg(l.label, ',') FROM skill_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM skill_versions v JOIN skills s ON s.project_id = v.project_id AND s.name = v.name
     WHERE v.project_id = $1 AND v.name = $2 AND v.version = $3";
const OF_LABEL: &str = "
    SELECT version FROM skill_labels WHERE project_id = $1 AND name = $2 AND label = $3";
const NEWEST: &str = "
    SELECT version FROM skill_versions WHERE project_id = $1 AND name = $2
     ORDER BY version DESC LIMIT 1";
/// Ordered by the creation of the skill, so that new versions do not change the order.
const LIST: &str = "
    SELECT s.name, s.tags, v.version, v.description, v.created_at, v.updated_at,
           (SELECT l.version FROM skill_labels l
             WHERE l.project_id = s.project_id AND l.name = s.name AND l.label = 'production')
             AS production
      FROM skills s JOIN skill_versions v ON v.project_id = s.project_id AND v.name = s.name
     WHERE s.project_id = $1
       AND v.version = (SELECT MAX(n.version) FROM skill_versions n
                         WHERE n.project_id = s.project_id AND n.name = s.name)
     ORDER BY s.created_at DESC, s.name";

perpend_db::record! {
    struct SkillRow {
        id: String,
        name: String,
        version: i64,
        description: String,
        frontmatter: String,
        files: String,
        commit_message: Option<String>,
        created_by: String,
        created_at: i64,
        updated_at: i64,
        tags: String,
        newest: Option<i64>,
        labels: Option<String>,
    }
}

impl TryFrom<SkillRow> for Skill {
    type Error = Error;

    fn try_from(row: SkillRow) -> Result<Self, Error> {
        // Labels are stored as one text; none of them has a comma.
        let labels = row.labels.unwrap_or_default();
        let labels = labels.split(',').filter(|label| !label.is_empty());
        let mut labels: Vec<String> = labels.map(str::to_owned).collect();
        if row.newest == Some(row.version) {
            labels.push(LATEST.to_owned());
        }
        labels.sort_unstable();
        Ok(Self {
            id: row.id,
            name: row.name,
            version: row.version,
            description: row.description,
            frontmatter: from_json("skill", &row.frontmatter)?,
            labels,
            tags: from_json("skill", &row.tags)?,
            commit_message: row.commit_message,
            created_by: row.created_by,
            files: from_json("skill", &row.files)?,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

perpend_db::record! {
    struct SummaryRow {
        name: String,
        tags: String,
        version: i64,
        description: String,
        created_at: i64,
        updated_at: i64,
        production: Option<i64>,
    }
}

impl TryFrom<SummaryRow> for SkillSummary {
    type Error = Error;

    fn try_from(row: SummaryRow) -> Result<Self, Error> {
        Ok(Self {
            name: row.name,
            description: row.description,
            tags: from_json("skill", &row.tags)?,
            latest: row.version,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
            production: row.production,
        })
    }
}

/// A statement on the texts with these hashes.
fn of_hashes<'a>(
    what: &str,
    project: &'a ProjectId,
    hashes: &'a [String],
) -> (String, Vec<Arg<'a>>) {
    let sql = format!(
        "SELECT sha256, {what} FROM skill_contents WHERE project_id = $1 AND sha256 IN ({})",
        value_list(hashes.len(), 2)
    );
    let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
    args.extend(hashes.iter().map(|hash| Arg::from(hash.as_str())));
    (sql, args)
}

impl Catalog {
    /// A version of a skill.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skill(
        &self,
        project: &ProjectId,
        name: &str,
        which: &VersionSelector,
    ) -> Result<Option<Skill>, Error> {
        let named: [Arg<'_>; 2] = [project.as_str().into(), name.into()];
        let version = match which {
            VersionSelector::Version(version) => Some(*version),
            VersionSelector::Label(label) => {
                let rows: Vec<(i64,)> = if label == LATEST {
                    self.pool.select(NEWEST, &named).await?
                } else {
                    let [project, name] = named.clone();
                    self.pool.select(OF_LABEL, &[project, name, label.as_str().into()]).await?
                };
                rows.first().map(|(version,)| *version)
            }
        };
        let Some(version) = version else {
            return Ok(None);
        };
        let [project, name] = named;
        let mut rows: Vec<SkillRow> =
            self.pool.select(GET, &[project, name, version.into()]).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// A numbered page of the skills of a project, newest first. Reads the newest version of each, without
    /// texts: their number is small.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skills(
        &self,
        project: &ProjectId,
        query: &SkillQuery,
        paging: Paging,
    ) -> Result<NumberedPage<SkillSummary>, Error> {
        let rows: Vec<SummaryRow> = self.pool.select(LIST, &[project.as_str().into()]).await?;
        let all = rows.into_iter().map(SkillSummary::try_from);
        let mut all = all.collect::<Result<Vec<_>, Error>>()?;
        all.retain(|skill| query.holds(skill));
        let n_total = all.len() as u64;
        let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
        let items = all.into_iter().skip(skip).take(paging.limit as usize);
        Ok(NumberedPage { items: items.collect(), n_total })
    }

    /// The texts of the project among these hashes, as pairs of hash and text.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skill_contents(
        &self,
        project: &ProjectId,
        hashes: &[String],
    ) -> Result<Vec<(String, String)>, Error> {
        let mut found = Vec::new();
        for chunk in hashes.chunks(PER_STATEMENT) {
            let (sql, args) = of_hashes("content", project, chunk);
            found.extend(self.pool.select::<(String, String)>(&sql, &args).await?);
        }
        Ok(found)
    }

    /// Sizes of the texts of the project among these hashes, by hash.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skill_sizes(
        &self,
        project: &ProjectId,
        hashes: &[String],
    ) -> Result<HashMap<String, u64>, Error> {
        let mut found = HashMap::new();
        for chunk in hashes.chunks(PER_STATEMENT) {
            let (sql, args) = of_hashes("CAST(octet_length(content) AS BIGINT)", project, chunk);
            let rows: Vec<(String, i64)> = self.pool.select(&sql, &args).await?;
            let sizes = rows.into_iter();
            found.extend(sizes.map(|(hash, n_bytes)| (hash, n_bytes.unsigned_abs())));
        }
        Ok(found)
    }
}
