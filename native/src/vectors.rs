//! The vectors of `docs/spec/vectors`, each by the module that has the rule.

use crate::buckets::{Bucket, Form, Grain};
use crate::expression::{may_match, Facts, Source};
use crate::keys::{DeletionVector, KeyMaker};
use crate::manifest;
use crate::predicate::{bind, parse};
use crate::schema::{Column, Metadata, Protocol, Schema};
use crate::values::{bound_from_json, key_value, partition_value, widened, Kind, Partition, Side, Val};
use serde_json::{json, Value as Json};

fn document(name: &str) -> Json {
    let path = format!("{}/../docs/spec/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(name: &str) -> Vec<Json> {
    document(name)["cases"].as_array().unwrap().clone()
}

fn kind(case: &Json) -> Option<Kind> {
    Kind::parse(case["type"].as_str().unwrap())
}

fn schema(fields: Json) -> Schema {
    let protocol: Protocol = serde_json::from_value(json!({"minReaderVersion": 1, "minWriterVersion": 4})).unwrap();
    let text = json!({"type": "struct", "fields": fields}).to_string();
    let metadata: Metadata = serde_json::from_value(json!({"schemaString": text})).unwrap();
    Schema::new(&protocol, &metadata).unwrap()
}

/// A key value of the vectors; a minimum of a binary column is the log's text.
fn expected(json: &Json, kind: Option<Kind>) -> Option<Val<'static>> {
    match (json, kind) {
        (Json::Null, _) | (_, None) => None,
        (json, Some(kind)) => Some(key_value(json, kind).unwrap_or_else(|| panic!("{json} is no key value of {kind:?}"))),
    }
}

#[test]
fn canonical_paths() {
    for case in cases("canonical_paths") {
        let table = case["table"].as_str().unwrap();
        assert_eq!(maker(table).printed(case["path"].as_str().unwrap()), case["canonical"].as_str().unwrap(), "{case}");
    }
    let all = cases("canonical_paths");
    for one in &all {
        for other in all.iter().filter(|other| other["table"] == one["table"]) {
            let maker = maker(one["table"].as_str().unwrap());
            let (a, b) = (one["path"].as_str().unwrap(), other["path"].as_str().unwrap());
            assert_eq!(maker.key(a, None) == maker.key(b, None), one["canonical"] == other["canonical"], "{a} {b}");
        }
    }
    for pair in document("canonical_paths")["pairs"].as_array().unwrap() {
        let maker = maker(pair["table"].as_str().unwrap());
        let same = maker.key(pair["a"].as_str().unwrap(), None) == maker.key(pair["b"].as_str().unwrap(), None);
        assert_eq!(same, pair["equal"].as_bool().unwrap(), "{pair}");
    }
}

fn maker(table: &str) -> KeyMaker {
    match crate::keys::split(table) {
        Some((scheme, authority, _)) => KeyMaker::new(scheme, authority),
        None => KeyMaker::new("file", ""),
    }
}

#[test]
fn deletion_vector_ids() {
    for case in cases("deletion_vector_ids") {
        let dv: Option<DeletionVector> = serde_json::from_value(case["deletionVector"].clone()).unwrap();
        assert_eq!(dv.map(|dv| dv.id()).unwrap_or_default(), case["id"].as_str().unwrap());
    }
}

#[test]
fn bounds() {
    for case in cases("bounds") {
        let side = if case["side"] == "min" { Side::Min } else { Side::Max };
        let metadata = case.get("metadata").cloned().unwrap_or(json!({}));
        let column = schema(json!([{"name": "x", "type": case["type"], "nullable": true, "metadata": metadata}])).column(&["x".into()]).unwrap();
        let json: Json = serde_json::from_str(case["json"].as_str().unwrap()).unwrap_or(Json::Null);
        let value = column.kind.and_then(|kind| bound_from_json(&json, kind, side).map(Val::owned));
        assert_eq!(value, expected(&case["value"], column.kind), "{case}");
        let wide = value.and_then(|value| widened(value, column.kind.unwrap(), column.was_float, side));
        assert_eq!(wide, expected(&case["widened"], column.kind), "{case}");
    }
}

#[test]
fn partition_values() {
    for case in cases("partition_values") {
        let Some(kind) = kind(&case) else {
            assert_ne!(case["state"], "value", "{case}");
            continue;
        };
        match (partition_value(case["text"].as_str(), kind), case["state"].as_str().unwrap()) {
            (Partition::Null, "null") | (Partition::Unreadable, "unreadable") => {}
            (Partition::Value(Val::Float(v)), "value") if v.is_nan() => assert_eq!(case["value"], "NaN", "{case}"),
            (Partition::Value(value), "value") => assert_eq!(Some(value), expected(&case["value"], Some(kind)), "{case}"),
            (found, _) => panic!("{found:?}: {case}"),
        }
    }
}

#[test]
fn key_values() {
    for case in cases("key_values") {
        let kind = kind(&case).unwrap();
        let read = partition_value(case["text"].as_str(), kind);
        assert_eq!(read, Partition::Value(key_value(&case["key_value"], kind).unwrap()), "{case}");
    }
}

#[test]
fn manifest_checksums() {
    for case in cases("manifest_checksums") {
        assert_eq!(manifest::inner(case["file"].as_str().unwrap().as_bytes()).is_some(), case["ok"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn bucket_intervals() {
    for case in cases("bucket_intervals") {
        let time_type = case["time_type"].as_str().unwrap();
        let column = |name: &str, kind: Kind| Column { name: name.into(), physical: vec![name.into()], kind: Some(kind), is_partition: true, was_float: false, only_widened: true };
        let form = match case["form"].as_str().unwrap() {
            "text" => Form::Text { grain: Grain::parse(case["granularity"].as_str().unwrap()).unwrap(), exact: case["exact"].as_bool().unwrap() },
            "date" => Form::Date,
            _ => Form::Units,
        };
        let values: Vec<Val<'static>> = case["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| match value {
                Json::String(text) if form == Form::Date => key_value(value, Kind::Date).unwrap_or_else(|| match partition_value(Some(text), Kind::Date) {
                    Partition::Value(value) => value.owned(),
                    other => panic!("{other:?}"),
                }),
                Json::String(_) => key_value(value, Kind::String).unwrap(),
                value => key_value(value, Kind::Long).unwrap(),
            })
            .collect();
        let bucket = Bucket { time: column("t", Kind::parse(time_type).unwrap()), columns: vec![column("b", Kind::String)], form };
        let found = bucket.interval(&values).map_or(Json::Null, |(start, end)| json!([start, end]));
        assert_eq!(found.to_string(), case["interval"].to_string(), "{case}");
    }
}

struct One<'a>(Facts<'a>);

impl Source for One<'_> {
    fn facts(&self, _: usize) -> Facts<'_> {
        self.0.clone()
    }
}

#[test]
fn pruning() {
    for case in cases("pruning") {
        let kind = kind(&case).unwrap();
        let schema = schema(json!([{"name": "x", "type": case["type"], "nullable": true, "metadata": {}}]));
        let facts = || {
            One(Facts {
                min: expected(&case["min"], Some(kind)),
                max: expected(&case["max"], Some(kind)),
                nulls: case["nulls"].as_i64(),
                rows: case["rows"].as_i64(),
                may_be_nan: kind.is_floating(),
                is_value: false,
            })
        };
        let mut columns = Vec::new();
        let asked = |predicate: &Json, columns: &mut Vec<Column>| bind(&parse(predicate).unwrap(), &schema, columns).unwrap();
        let yes = asked(&case["predicate"], &mut columns);
        let no = asked(&json!({"op": "not", "term": case["predicate"]}), &mut columns);
        assert_eq!(may_match(&yes, &facts()), case["may_be_true"].as_bool().unwrap(), "{case}");
        assert_eq!(may_match(&no, &facts()), case["may_be_false"].as_bool().unwrap(), "{case}");
    }
}
