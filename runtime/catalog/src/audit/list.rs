//! Reads of records.

use perpend_db::{Arg, checked, digest, from_json};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::time::Timestamp;

use super::chain::RecordRow;
use super::{AuditActor, AuditObject, AuditRecord, AuditResult};
use crate::{Catalog, Error, KeyOwner};

/// Selects records. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Name of the actor.
    pub actor: Option<String>,
    /// Start of the id of the operation.
    pub operation: Option<String>,
    /// Kind of the object.
    pub object_kind: Option<String>,
    /// Id of the object.
    pub object_id: Option<String>,
    /// Outcome.
    pub result: Option<AuditResult>,
    /// From this time on.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub to: Option<Timestamp>,
}

impl TryFrom<RecordRow> for AuditRecord {
    type Error = Error;

    fn try_from(row: RecordRow) -> Result<Self, Error> {
        const WHAT: &str = "audit record";
        let state = |raw: Option<String>| raw.map(|raw| from_json(WHAT, &raw)).transpose();
        let result = AuditResult::from_name(&row.result).ok_or_else(|| Error::Inconsistent {
            what: WHAT,
            detail: format!("unknown result {}", row.result),
        })?;
        Ok(Self {
            organization: checked(WHAT, &row.organization)?,
            seq: row.seq,
            at: Timestamp::from_micros(row.recorded_at),
            project: row.project.map(|project| checked(WHAT, &project)).transpose()?,
            actor: AuditActor { kind: row.actor_kind, name: row.actor },
            address: row.address,
            request_id: row.request_id,
            operation: row.operation,
            object: AuditObject { kind: row.object_kind, id: row.object_id },
            result,
            before: state(row.state_before)?,
            after: state(row.state_after)?,
            hash: digest(WHAT, &row.hash)?,
        })
    }
}

/// Conditions with the values of their placeholders.
struct Conditions<'a> {
    sql: String,
    args: Vec<Arg<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds `left $n`.
    fn and(&mut self, left: &str, value: Arg<'a>) {
        self.args.push(value);
        self.sql.push_str(&format!(" AND {left} ${}", self.args.len()));
    }
}

fn conditions<'a>(
    owner: &'a KeyOwner,
    filter: &'a AuditQuery,
    position: &'a ListPosition,
) -> Conditions<'a> {
    let (column, id) = match owner {
        KeyOwner::Project(project) => ("project", project.as_str()),
        KeyOwner::Organization(organization) => ("organization", organization.as_str()),
    };
    let mut all = Conditions { sql: format!("{column} = $1"), args: vec![id.into()] };
    let texts = [
        ("actor =", &filter.actor),
        ("object_kind =", &filter.object_kind),
        ("object_id =", &filter.object_id),
    ];
    for (left, value) in texts {
        if let Some(value) = value {
            all.and(left, value.into());
        }
    }
    if let Some(prefix) = &filter.operation {
        let left = format!("SUBSTR(operation, 1, {}) =", prefix.chars().count());
        all.and(&left, prefix.into());
    }
    if let Some(result) = filter.result {
        all.and("result =", result.name().into());
    }
    if let Some(from) = filter.from {
        all.and("recorded_at >=", from.as_micros().into());
    }
    if let Some(to) = filter.to {
        all.and("recorded_at <", to.as_micros().into());
    }
    let seq = position.cursor.as_ref().and_then(|cursor| cursor.id.parse::<i64>().ok());
    if let Some(seq) = seq {
        all.and(if position.is_backwards { "seq >" } else { "seq <" }, seq.into());
    }
    all
}

/// The position of a record in lists.
fn cursor(record: &AuditRecord) -> Cursor {
    Cursor::new(record.at, record.seq.to_string())
}

impl Catalog {
    /// A page of at most `limit` records of a project or an organization, newest first. Those of an organization contain
    /// those of its projects.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn audit_records(
        &self,
        owner: &KeyOwner,
        filter: &AuditQuery,
        position: &ListPosition,
        limit: u32,
    ) -> Result<BidirectionalPage<AuditRecord>, Error> {
        let Conditions { sql, args } = conditions(owner, filter, position);
        let order = if position.is_backwards { "seq" } else { "seq DESC" };
        let n_wanted = u64::from(limit) + 1;
        let sql =
            format!("SELECT * FROM audit_records WHERE {sql} ORDER BY {order} LIMIT {n_wanted}");
        let rows: Vec<RecordRow> = self.pool.select(&sql, &args).await?;
        let rows = rows.into_iter().map(TryInto::try_into);
        let mut items = rows.collect::<Result<Vec<AuditRecord>, Error>>()?;
        let has_more = (limit as usize) < items.len();
        items.truncate(limit as usize);
        Ok(BidirectionalPage::read(items, position, has_more, cursor))
    }
}
