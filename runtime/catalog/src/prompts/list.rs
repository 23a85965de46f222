//! Lists of prompts: one entry per prompt, over all its versions.

use std::borrow::Cow;
use std::collections::HashMap;

use perpend_domain::accumulated::heap_bytes;
use perpend_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::PromptKind;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use super::row::labels;
use crate::{Catalog, Error};
use perpend_db::{Arg, Scratch, Sql, checked, from_json, value_list};
use perpend_domain::list::{NumberedPage, Paging};

/// Filter of prompts: those with a version that meets every condition.
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
    /// Columns of the filter.
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
        self.label.as_ref().is_none_or(|label| row.labels.contains(label))
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
    /// Time of the last change of a version.
    pub updated_at: Timestamp,
    /// Config of the newest version.
    pub config: Value,
}

perpend_db::record! {
    /// One version without its body.
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

/// Prompts that are read at a time.
const PER_READ: usize = 200;
/// Names per statement.
const PER_STATEMENT: usize = 100;

/// Versions of the prompts named from the second placeholder on.
fn versions_sql(n_names: usize, config: &str) -> String {
    format!(
        "SELECT v.id, v.name, p.kind, v.version, v.created_at, v.updated_at, p.tags, {config} AS config,
                (SELECT string_agg(l.label, ',') FROM prompt_labels l
                  WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version)
                AS labels
           FROM prompts p JOIN prompt_versions v ON v.project_id = p.project_id AND v.name = p.name
          WHERE p.project_id = $1 AND p.name IN ({})
          ORDER BY v.name, v.version",
        value_list(n_names, 2)
    )
}

/// The config of the newest version only: those of the others are not shown.
const NEWEST_CONFIG: &str = "CASE WHEN v.version = (SELECT MAX(n.version) FROM prompt_versions n
      WHERE n.project_id = v.project_id AND n.name = v.name) THEN v.config ELSE '' END";

/// The list entry of one prompt from its versions, ascending; with a label only the versions that have it are
/// listed.
fn summary(
    versions: &[VersionCells],
    label: Option<&String>,
) -> Option<Result<PromptSummary, Error>> {
    let newest = versions.last()?;
    let mut labels: Vec<String> = versions.iter().flat_map(|row| row.labels.clone()).collect();
    labels.sort_unstable();
    let updated_at = versions.iter().map(|row| row.updated_at).max();
    Some(from_json("prompt", &newest.config).map(|config| {
        PromptSummary {
            name: newest.name.clone(),
            kind: newest.kind,
            versions: versions
                .iter()
                .filter(|row| label.is_none_or(|label| row.labels.contains(label)))
                .map(|row| row.version)
                .collect(),
            labels,
            tags: newest.tags.clone(),
            updated_at: updated_at.unwrap_or(newest.updated_at),
            config,
        }
    }))
}

/// The conditions of a query that are tested in SQL: a version meets all of them.
fn conditions(project: &ProjectId, query: &PromptQuery) -> Sql {
    let mut sql = Sql::default();
    let project = sql.bind_text(project.as_str());
    sql.push(&format!("FROM prompts p WHERE p.project_id = {project}"));
    if let Some(name) = &query.name {
        let name = sql.bind_text(name);
        sql.push(&format!(" AND p.name = {name}"));
    }
    if query.label.is_none() && query.from.is_none() && query.to.is_none() {
        return sql;
    }
    sql.push(
        " AND EXISTS (SELECT 1 FROM prompt_versions v WHERE v.project_id = p.project_id AND v.name = p.name",
    );
    for (sign, at) in [(">=", query.from), ("<", query.to)] {
        if let Some(at) = at {
            let at = sql.bind(at.as_micros().into());
            sql.push(&format!(" AND v.updated_at {sign} {at}"));
        }
    }
    if let Some(label) = &query.label {
        let label = sql.bind_text(label);
        sql.push(&format!(
            " AND EXISTS (SELECT 1 FROM prompt_labels l WHERE l.project_id = v.project_id \
             AND l.name = v.name AND l.version = v.version AND l.label = {label})"
        ));
    }
    // The limit keeps SQLite from rewriting the condition as a join, in which an offset would count matching
    // versions instead of prompts.
    sql.push(" LIMIT 1)");
    sql
}

impl Catalog {
    /// A numbered page, from 1, of the prompts of a project, newest first: new versions do not change the
    /// order. Prompts outside the page are read only for a filter or a tag, and in bounded batches.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prompts(
        &self,
        project: &ProjectId,
        query: &PromptQuery,
        paging: Paging,
    ) -> Result<NumberedPage<PromptSummary>, Error> {
        if query.tag.is_some() || !query.filter.conditions.is_empty() {
            return self.filtered_prompts(project, query, paging).await;
        }
        let sql = conditions(project, query);
        let counted: Vec<(i64,)> =
            self.pool.select(&format!("SELECT COUNT(*) {}", sql.text), &sql.args).await?;
        let page = format!(
            "SELECT p.name {} ORDER BY p.created_at DESC, p.name LIMIT {} OFFSET {}",
            sql.text,
            paging.limit,
            paging.offset()
        );
        let names: Vec<(String,)> = self.pool.select(&page, &sql.args).await?;
        let names: Vec<String> = names.into_iter().map(|(name,)| name).collect();
        let mut versions = self.versions(project, &names, NEWEST_CONFIG).await?;
        let found = names.iter().filter_map(|name| versions.remove(name));
        let items = found.filter_map(|versions| summary(&versions, query.label.as_ref()));
        Ok(NumberedPage {
            items: items.collect::<Result<_, _>>()?,
            n_total: counted.first().map_or(0, |(n,)| n.unsigned_abs()),
        })
    }

    async fn filtered_prompts(
        &self,
        project: &ProjectId,
        query: &PromptQuery,
        paging: Paging,
    ) -> Result<NumberedPage<PromptSummary>, Error> {
        let shown = paging.offset()..paging.offset() + u64::from(paging.limit);
        let mut page = NumberedPage::empty();
        let mut after: Option<(i64, String)> = None;
        loop {
            let mut scratch = Scratch::begin();
            let mut sql = conditions(project, query);
            if let Some((at, name)) = &after {
                let at = sql.bind((*at).into());
                let name = sql.bind_text(name);
                sql.push(&format!(
                    " AND p.created_at <= {at} AND (p.created_at < {at} OR p.name > {name})"
                ));
            }
            let some = format!(
                "SELECT p.created_at, p.name {} ORDER BY p.created_at DESC, p.name LIMIT {PER_READ}",
                sql.text
            );
            let some: Vec<(i64, String)> = self.pool.select(&some, &sql.args).await?;
            let is_last = some.len() < PER_READ;
            after = some.last().cloned();
            let names: Vec<String> = some.into_iter().map(|(_, name)| name).collect();
            let mut versions = self.versions(project, &names, "v.config").await?;
            for versions in names.iter().filter_map(|name| versions.remove(name)) {
                if !versions.iter().any(|row| query.holds(row)) {
                    continue;
                }
                if shown.contains(&page.n_total)
                    && let Some(summary) = summary(&versions, query.label.as_ref())
                {
                    let summary = summary?;
                    scratch.keep(heap_bytes(&summary.config));
                    page.items.push(summary);
                }
                page.n_total += 1;
            }
            if is_last {
                return Ok(page);
            }
        }
    }

    /// The versions of these prompts, ascending.
    async fn versions(
        &self,
        project: &ProjectId,
        names: &[String],
        config: &str,
    ) -> Result<HashMap<String, Vec<VersionCells>>, Error> {
        let mut by_name: HashMap<String, Vec<VersionCells>> = HashMap::new();
        for some in names.chunks(PER_STATEMENT) {
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|name| Arg::from(name.as_str())));
            let sql = versions_sql(some.len(), config);
            for row in self.pool.select::<NarrowRow>(&sql, &args).await? {
                let row = VersionCells::try_from(row)?;
                by_name.entry(row.name.clone()).or_default().push(row);
            }
        }
        Ok(by_name)
    }
}
