//! Writes of versions of items, one or many in a transaction.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::ItemVersion;
use crate::Error;
use perpend_db::{Arg, Sized, Tx, query, to_json, value_rows};

const TAKE_TURN: &str = "
    UPDATE datasets SET items_revision = items_revision + 1
     WHERE project_id = $1 AND id = $2 AND schema_revision = $3";
const END: &str = "
    UPDATE dataset_items SET valid_to = $4
     WHERE project_id = $1 AND id = $2 AND valid_from = $3 AND valid_to IS NULL";
static INSERT: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO dataset_items
             (project_id, id, valid_from, is_deleted, dataset_id, status, input, expected_output, metadata,
              source_trace_id, source_observation_id, created_at)
         VALUES {} ON CONFLICT DO NOTHING",
        value_rows(n, 12, 1)
    )
});

/// A version of an item to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewItemVersion {
    /// The version.
    pub version: ItemVersion,
    /// Start of the version that it succeeds; absent for the first version of an item.
    pub seen: Option<Timestamp>,
}

/// A version with its values as JSON.
struct NewRow<'v> {
    project: &'v ProjectId,
    version: &'v ItemVersion,
    input: String,
    expected_output: String,
    metadata: String,
}

impl<'v> NewRow<'v> {
    fn of(project: &'v ProjectId, version: &'v ItemVersion) -> Result<Self, Error> {
        Ok(Self {
            project,
            version,
            input: to_json("dataset item", &version.item.input)?,
            expected_output: to_json("dataset item", &version.item.expected_output)?,
            metadata: to_json("dataset item", &version.item.metadata)?,
        })
    }

    fn push<'r>(args: &mut Vec<Arg<'r>>, row: &'r Self) {
        let item = &row.version.item;
        args.extend([
            Arg::from(row.project.as_str()),
            item.id.as_str().into(),
            item.valid_from.as_micros().into(),
            row.version.is_deleted.into(),
            item.dataset_id.as_str().into(),
            item.status.as_str().into(),
            row.input.as_str().into(),
            row.expected_output.as_str().into(),
            row.metadata.as_str().into(),
            item.source_trace_id.as_deref().into(),
            item.source_observation_id.as_deref().into(),
            item.created_at.as_micros().into(),
        ]);
    }
}

/// Writes versions of different items of a dataset that were checked against the schemas of
/// `schema_revision`, inside the transaction of the caller. `false` if the schemas or one of the items have
/// changed since: the caller rolls back.
///
/// # Errors
/// When the database fails.
pub async fn put_items(
    tx: &mut Tx,
    project: &ProjectId,
    dataset_id: &str,
    new: &[NewItemVersion],
    schema_revision: i64,
) -> Result<bool, Error> {
    let n_turns = query(TAKE_TURN)
        .bind(project.as_str())
        .bind(dataset_id)
        .bind(schema_revision)
        .execute(tx)
        .await?;
    if n_turns == 0 {
        return Ok(false);
    }
    for NewItemVersion { version, seen } in new {
        let Some(seen) = seen else { continue };
        let n_ended = query(END)
            .bind(project.as_str())
            .bind(&version.item.id)
            .bind(seen.as_micros())
            .bind(version.item.valid_from.as_micros())
            .execute(tx)
            .await?;
        if n_ended == 0 {
            return Ok(false);
        }
    }
    let rows = new.iter().map(|new| NewRow::of(project, &new.version));
    let rows: Vec<NewRow<'_>> = rows.collect::<Result<_, _>>()?;
    let n_made = tx.execute_for(&INSERT, &rows, NewRow::push).await?;
    Ok(n_made == rows.len() as u64)
}
