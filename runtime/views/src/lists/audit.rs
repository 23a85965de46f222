//! The columns of the audit trail.

use perpend_domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::Section;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn};
use crate::lists::declaration::{ListDeclaration, ListTexts};

/// A record of the audit trail.
#[derive(Clone, Debug)]
pub struct AuditRow {
    /// Time.
    pub at: Timestamp,
    /// Position in the chain of the organization.
    pub seq: i64,
    /// Kind of the credentials.
    pub actor_kind: String,
    /// Member or public key, if known.
    pub actor: Option<String>,
    /// Its name.
    pub actor_name: Option<String>,
    /// Id of the operation.
    pub operation: String,
    /// Kind of the changed object.
    pub object_kind: String,
    /// Its id.
    pub object_id: Option<String>,
    /// `done` or `denied`.
    pub result: &'static str,
    /// Address of the client.
    pub address: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Changed members before the change.
    pub before: Option<Value>,
    /// The same after it.
    pub after: Option<Value>,
    /// Hash of the record.
    pub hash: String,
}

/// The audit trail.
pub static AUDIT_ROWS: ListDeclaration<AuditRow> = ListDeclaration::new(TEXTS, &COLUMNS, cell);

const TEXTS: ListTexts = ListTexts::new(
    ("records", "record"),
    "Audit trail",
    Section::Audit,
    "Each change of the configuration leaves a record: who changed what, when, and from where. The list is empty while nothing \
     was changed.",
    ("", ""),
)
.at("settings/audit");

fn cell(_: &'static str, row: &AuditRow, _: &CellContext<'_>) -> Cell {
    let name = row.actor_name.as_ref().or(row.actor.as_ref());
    Cell::text(name.unwrap_or(&row.actor_kind).as_str())
}

fn members(state: Option<&Value>) -> Option<&Map<String, Value>> {
    state.and_then(Value::as_object)
}

/// The changed members with their values before and after the change.
fn change(row: &AuditRow) -> Value {
    let (before, after) = (members(row.before.as_ref()), members(row.after.as_ref()));
    let value = |of: Option<&Map<String, Value>>, name: &str| {
        of.and_then(|of| of.get(name)).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let names = before.into_iter().flat_map(Map::keys);
    let mut names: Vec<&String> = names.collect();
    names.extend(
        after
            .into_iter()
            .flat_map(Map::keys)
            .filter(|name| before.is_none_or(|before| !before.contains_key(name.as_str()))),
    );
    let line = |name: &String| match (value(before, name), value(after, name)) {
        (Some(before), Some(after)) => format!("{name}: {before} → {after}"),
        (Some(before), None) => format!("{name}: {before} → none"),
        (None, after) => format!("{name}: {}", after.unwrap_or_default()),
    };
    names.into_iter().map(line).collect::<Vec<_>>().join("; ").into()
}

type Column = ListColumn<AuditRow>;

static COLUMNS: [Column; 12] = [
    Column::time(("at", "Time"), |row| Some(row.at)).usual().ordering(),
    Column::declared(("actor", "Actor"), CellLayout::Plain, |row| row.actor.clone().into())
        .usual()
        .with(&[
            ("actorName", "Name of actor", |row| row.actor_name.clone().into()),
            ("actorKind", "Kind of actor", |row| row.actor_kind.as_str().into()),
        ]),
    Column::plain(("operation", "Operation"), |row| row.operation.as_str().into()).usual(),
    Column::plain(("objectKind", "Object"), |row| row.object_kind.as_str().into()).usual(),
    Column::plain(("objectId", "Id of object"), |row| row.object_id.clone().into()).usual(),
    Column::plain(("change", "Change"), change).usual().with(&[
        ("before", "Before", |row| row.before.clone().unwrap_or_default()),
        ("after", "After", |row| row.after.clone().unwrap_or_default()),
    ]),
    Column::plain(("result", "Result"), |row| row.result.into()).usual(),
    Column::plain(("address", "Address"), |row| row.address.clone().into()).usual(),
    Column::plain(("kind", "Kind of actor"), |row| row.actor_kind.as_str().into()),
    Column::plain(("requestId", "Request"), |row| row.request_id.clone().into()),
    Column::figure(("seq", "Number"), |row| row.seq.into()),
    Column::plain(("hash", "Hash"), |row| row.hash.as_str().into()),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_names_each_member_with_both_values() {
        let row = AuditRow {
            at: Timestamp::from_millis(0),
            seq: 1,
            actor_kind: "key".to_owned(),
            actor: None,
            actor_name: None,
            operation: "updateRule".to_owned(),
            object_kind: "evaluation-rule".to_owned(),
            object_id: None,
            result: "done",
            address: None,
            request_id: None,
            before: Some(json!({ "enabled": true, "cron": "0 6 * * *" })),
            after: Some(json!({ "enabled": false, "name": "b" })),
            hash: String::new(),
        };
        let wanted = "enabled: true → false; cron: 0 6 * * * → none; name: b";
        assert_eq!(change(&row), wanted);
        assert_eq!(change(&AuditRow { before: None, after: None, ..row }), "");
    }
}
