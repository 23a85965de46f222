//! An export of arbitrary items imports equal.

use std::io::Cursor;

use perpend_domain::dataset::{DatasetItem, ItemPatch, ItemStatus};
use perpend_domain::dataset_import::{
    DuplicatePolicy, EXPORT_COLUMNS, FileFormat, ImportSettings, ImportedItem, guessed_mapping,
};
use perpend_domain::time::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::rows::{RowContent, RowReader};
use crate::datasets::export::{Serializer, push_header};

fn json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), Just("=1+1".to_owned()), Just("'".to_owned())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// An id: printable characters, some of which mark formulas.
fn id() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>().prop_filter("no control character", |c| !c.is_control()),
        prop::sample::select(vec!['=', '+', '-', '@', '\'', '"', ',', ' ']),
    ];
    prop::collection::vec(character, 1..10).prop_map(String::from_iter)
}

fn item() -> impl Strategy<Value = DatasetItem> {
    let status = prop::sample::select(vec![ItemStatus::Active, ItemStatus::Archived]);
    let source = (prop::option::of(id()), prop::option::of(id()));
    (id(), json(), json(), json(), status, source).prop_map(
        |(id, input, expected_output, metadata, status, (trace, observation))| DatasetItem {
            id,
            dataset_id: "d".to_owned(),
            dataset_name: "d".to_owned(),
            status,
            input,
            expected_output,
            metadata,
            source_trace_id: trace,
            source_observation_id: observation,
            created_at: Timestamp::from_micros(0),
            valid_from: Timestamp::from_micros(0),
        },
    )
}

fn exported(item: &DatasetItem) -> ImportedItem {
    ImportedItem {
        id: Some(item.id.clone()),
        patch: ItemPatch {
            status: Some(item.status),
            input: Some(item.input.clone()),
            expected_output: Some(item.expected_output.clone()),
            metadata: Some(item.metadata.clone()),
            source_trace_id: item.source_trace_id.clone(),
            source_observation_id: item.source_observation_id.clone(),
        },
    }
}

/// The items of a file.
fn imported(format: FileFormat, file: Vec<u8>) -> Vec<ImportedItem> {
    let columns = match format.is_table() {
        true => EXPORT_COLUMNS.map(str::to_owned),
        false => [
            "id",
            "input",
            "expectedOutput",
            "metadata",
            "status",
            "sourceTraceId",
            "sourceObservationId",
        ]
        .map(str::to_owned),
    };
    let settings = ImportSettings {
        format,
        encoding: "utf-8".to_owned(),
        delimiter: if format == FileFormat::Tsv { '\t' } else { ',' },
        has_header: true,
        is_marked: format.is_table(),
        mapping: guessed_mapping(format, &columns),
        duplicates: DuplicatePolicy::Update,
        is_of_traces: false,
    };
    let mut reader = RowReader::over(Box::new(Cursor::new(file)), &settings).unwrap();
    let mut items = Vec::new();
    while let Some(row) = reader.next_row().unwrap() {
        let item = match row.content {
            RowContent::Cells(cells) => settings.item(|column| {
                let at = reader.columns().iter().position(|name| name == column)?;
                Some(Value::from(cells[at].as_str()))
            }),
            RowContent::Members(members) => settings.item(|column| members.get(column).cloned()),
            RowContent::Broken(reason) => panic!("row {}: {reason}", row.number),
        };
        items.push(item.unwrap());
    }
    items
}

proptest! {
    #[test]
    fn every_format_gives_the_same_items(items in prop::collection::vec(item(), 1..4)) {
        let expected: Vec<ImportedItem> = items.iter().map(exported).collect();
        for format in FileFormat::ALL.iter().copied() {
            let mut file = Vec::new();
            push_header(&mut file, format);
            let mut serializer = Serializer::new(format);
            for item in &items {
                serializer.push(&mut file, item).unwrap();
            }
            serializer.end(&mut file);
            prop_assert_eq!(&imported(format, file), &expected, "{}", format);
        }
    }
}
