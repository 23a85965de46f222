//! Lists of prompts: one entry per prompt, over all its versions.

use std::borrow::Cow;
use std::collections::HashMap;

use assay_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use assay_domain::ids::ProjectId;
use assay_domain::prompt::PromptKind;
use assay_domain::time::Timestamp;
use serde_json::Value;

use super::row::labels;
use crate::catalog::{checked, from_json};
use crate::list::{Numbered, Paging};
use crate::pool::on_reader;
use crate::scores::storable;
use crate::{Error, Store};

/// Which prompts: those with a version that meets every condition.
#[derive(Clone, Debug, Default)]
pub struct PromptQuery {
    /// Exactly this name.
    pub name: Option<String>,
    /// A version has this label.
    pub label: Option<String>,
    /// The prompt has this tag.
    pub tag: Option<String>,
    /// Changed at or after.
    pub from: Option<Timestamp>,
    /// Changed before.
    pub to: Option<Timestamp>,
    /// Conditions on [`PromptQuery::COLUMNS`].
    pub filter: Filter,
}

impl PromptQuery {
    /// What a filter may look at.
    pub const COLUMNS: &'static [Column] = &[
        Column::new("id", ColumnKind::Options),
        Column::new("name", ColumnKind::Options),
        Column::new("type", ColumnKind::Options),
        Column::new("version", ColumnKind::Number),
        Column::new("createdAt", ColumnKind::Time),
        Column::new("updatedAt", ColumnKind::Time),
        Column::new("labels", ColumnKind::List),
        Column::new("tags", ColumnKind::List),
        Column::new("config", ColumnKind::Text),
    ];

    fn holds(&self, row: &VersionCells) -> bool {
        self.label
            .as_ref()
            .is_none_or(|label| row.labels.contains(label))
            && self.tag.as_ref().is_none_or(|tag| row.tags.contains(tag))
            && self.from.is_none_or(|from| from <= row.updated_at)
            && self.to.is_none_or(|to| row.updated_at < to)
            && self.filter.matches(row)
    }
}

/// A prompt in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptSummary {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PromptKind,
    /// Numbers of its versions, ascending.
    pub versions: Vec<i64>,
    /// Labels over all versions, sorted.
    pub labels: Vec<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// A version last changed at.
    pub updated_at: Timestamp,
    /// Config of the newest version.
    pub config: Value,
}

/// One version without its body.
#[derive(sqlx::FromRow)]
struct NarrowRow {
    id: String,
    name: String,
    kind: String,
    version: i64,
    created_at: i64,
    updated_at: i64,
    tags: String,
    labels: Option<String>,
    config: String,
}

struct VersionCells {
    id: String,
    name: String,
    kind: PromptKind,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    tags: Vec<String>,
    labels: Vec<String>,
    config: String,
}

impl TryFrom<NarrowRow> for VersionCells {
    type Error = Error;

    fn try_from(row: NarrowRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            kind: checked("prompt", &row.kind)?,
            version: row.version,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
            tags: from_json("prompt", &row.tags)?,
            labels: labels(row.labels.as_deref()),
            config: row.config,
        })
    }
}

impl Row for VersionCells {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "id" => Cell::text(Some(&self.id)),
            "name" => Cell::text(Some(&self.name)),
            "type" => Cell::text(Some(self.kind.as_str())),
            "version" => Cell::Number(self.version as f64),
            "createdAt" => Cell::Time(self.created_at),
            "updatedAt" => Cell::Time(self.updated_at),
            "labels" => Cell::List(Cow::Borrowed(&self.labels)),
            "tags" => Cell::List(Cow::Borrowed(&self.tags)),
            "config" => Cell::text(Some(&self.config)),
            _ => Cell::Null,
        }
    }
}

/// The order does not change while prompts get versions: by when a prompt was made.
const ALL: &str = "
    SELECT v.id, v.name, p.kind, v.version, v.created_at, v.updated_at, p.tags, v.config,
           (SELECT string_agg(l.label, ',') FROM prompt_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM prompts p JOIN prompt_versions v ON v.project_id = p.project_id AND v.name = p.name
     WHERE p.project_id = $1
     ORDER BY p.created_at DESC, p.name, v.version";
const NAMED: &str = "
    SELECT v.id, v.name, p.kind, v.version, v.created_at, v.updated_at, p.tags, v.config,
           (SELECT string_agg(l.label, ',') FROM prompt_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM prompts p JOIN prompt_versions v ON v.project_id = p.project_id AND v.name = p.name
     WHERE p.project_id = $1 AND p.name = $2
     ORDER BY p.created_at DESC, p.name, v.version";

/// The versions of one prompt, ascending, as an entry of the list.
fn summary(versions: &[VersionCells]) -> Option<Result<PromptSummary, Error>> {
    let newest = versions.last()?;
    let mut labels: Vec<String> = versions.iter().flat_map(|row| row.labels.clone()).collect();
    labels.sort_unstable();
    let updated_at = versions.iter().map(|row| row.updated_at).max();
    Some(
        from_json("prompt", &newest.config).map(|config| PromptSummary {
            name: newest.name.clone(),
            kind: newest.kind,
            versions: versions.iter().map(|row| row.version).collect(),
            labels,
            tags: newest.tags.clone(),
            updated_at: updated_at.unwrap_or(newest.updated_at),
            config,
        }),
    )
}

impl Store {
    /// A numbered page, from 1, of the prompts of a project, the newest first. Reads every version
    /// without its body: they are made by people.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prompts(
        &self,
        project: &ProjectId,
        query: &PromptQuery,
        paging: Paging,
    ) -> Result<Numbered<PromptSummary>, Error> {
        let rows: Vec<NarrowRow> = on_reader!(&self.pool, |db| {
            let all = match &query.name {
                Some(name) => sqlx::query_as(NAMED)
                    .bind(project.as_str())
                    .bind(storable(name)),
                None => sqlx::query_as(ALL).bind(project.as_str()),
            };
            all.fetch_all(db).await?
        });
        let mut order: Vec<String> = Vec::new();
        let mut by_name: HashMap<String, Vec<VersionCells>> = HashMap::new();
        for row in rows {
            let row = VersionCells::try_from(row)?;
            if order.last() != Some(&row.name) {
                order.push(row.name.clone());
            }
            by_name.entry(row.name.clone()).or_default().push(row);
        }
        order.retain(|name| by_name[name].iter().any(|row| query.holds(row)));
        let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
        let shown = order.iter().skip(skip).take(paging.limit as usize);
        let items = shown.filter_map(|name| summary(&by_name[name]));
        Ok(Numbered {
            items: items.collect::<Result<_, _>>()?,
            n_total: order.len() as u64,
        })
    }
}
