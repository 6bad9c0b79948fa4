//! The rows of a listing: one Arrow schema, whatever they came from.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{new_null_array, Array, ArrayRef, Int64Array, MapArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value as Json;

use crate::actions::Add;
use crate::calendar::date_text;
use crate::error::{fail, shown, Code, Result};
use crate::keys::DeletionVector;
use crate::leaves::{column_at, Leaf};
use crate::values::{count_from_json, Kind, Val};

pub const COLUMNS: [&str; 6] = ["path", "size", "modification_time", "partition_values", "deletion_vector", "num_records"];

fn map_entries() -> Fields {
    vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)].into()
}

fn map_type() -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(map_entries()), false)), false)
}

fn dv_fields() -> Fields {
    vec![
        Field::new("storageType", DataType::Utf8, true),
        Field::new("pathOrInlineDv", DataType::Utf8, true),
        Field::new("offset", DataType::Int32, true),
        Field::new("sizeInBytes", DataType::Int32, true),
        Field::new("cardinality", DataType::Int64, true),
    ]
    .into()
}

/// The columns of a listing, as they are asked for; all if none are named.
pub fn schema_of(columns: Option<&[String]>) -> Result<SchemaRef> {
    let all: Vec<String> = COLUMNS.iter().map(|name| name.to_string()).collect();
    let mut fields: Vec<Field> = Vec::new();
    for name in columns.unwrap_or(&all) {
        let data_type = match name.as_str() {
            "path" => DataType::Utf8,
            "size" | "modification_time" | "num_records" => DataType::Int64,
            "partition_values" => map_type(),
            "deletion_vector" => DataType::Struct(dv_fields()),
            _ => return fail(Code::BadArgument, format!("a listing has no column {}; it has {}", shown(name), COLUMNS.join(", "))),
        };
        if !fields.iter().any(|field| field.name() == name) {
            fields.push(Field::new(name, data_type, true));
        }
    }
    if fields.is_empty() {
        return fail(Code::BadArgument, "the listing has no columns; name at least one, or leave columns out");
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Rows of a core file as rows of the listing, all of them.
pub fn from_core(core: &RecordBatch, schema: &SchemaRef) -> Option<RecordBatch> {
    let rows = core.num_rows();
    let columns: Option<Vec<ArrayRef>> = schema
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "partition_values" => partition_values(core),
            "deletion_vector" => deletion_vectors(core),
            name => match core.column_by_name(name) {
                Some(column) => (column.data_type() == field.data_type()).then(|| column.clone()),
                None => Some(new_null_array(field.data_type(), rows)),
            },
        })
        .collect();
    RecordBatch::try_new(schema.clone(), columns?).ok()
}

fn partition_values(core: &RecordBatch) -> Option<ArrayRef> {
    if let Some(column) = core.column_by_name("partition_values") {
        let map = column.as_map_opt()?;
        let entries = StructArray::try_new(map_entries(), vec![map.keys().clone(), map.values().clone()], None).ok()?;
        let (field, ordered) = map_field();
        return Some(Arc::new(MapArray::try_new(field, map.offsets().clone(), entries, map.nulls().cloned(), ordered).ok()?));
    }
    let rows = core.num_rows();
    let leaves: Vec<(String, Leaf)> = match core.column_by_name("partition").and_then(|column| column.as_struct_opt()) {
        Some(partition) => {
            let named = partition.column_names().into_iter().zip(partition.columns());
            named.map(|(name, column)| Some((name.to_string(), Leaf::new(column.clone())?))).collect::<Option<_>>()?
        }
        None => Vec::new(),
    };
    let texts: ArrayRef = match leaves.as_slice() {
        [(_, leaf)] if leaf.kind == Kind::String => leaf.array.clone(),
        _ => texts_of(&leaves, rows)?,
    };
    let names: Vec<&str> = leaves.iter().map(|(name, _)| name.as_str()).collect();
    let entries = StructArray::try_new(map_entries(), vec![Arc::new(repeated(&names, rows)), texts], None).ok()?;
    let offsets: Vec<i32> = (0..=rows).map(|row| (row * leaves.len()) as i32).collect();
    let (field, ordered) = map_field();
    Some(Arc::new(MapArray::try_new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), entries, None, ordered).ok()?))
}

/// The same names for each row.
fn repeated(names: &[&str], rows: usize) -> StringArray {
    let offsets = OffsetBuffer::from_lengths((0..rows).flat_map(|_| names.iter().map(|name| name.len())));
    StringArray::new(offsets, names.concat().repeat(rows).into_bytes().into(), None)
}

/// The values of all leaves, row by row, as texts.
fn texts_of(leaves: &[(String, Leaf)], rows: usize) -> Option<ArrayRef> {
    let mut values = StringBuilder::with_capacity(rows * leaves.len(), 0);
    for row in 0..rows {
        for (_, leaf) in leaves {
            match (leaf.get(row), leaf.kind) {
                (None, _) => values.append_null(),
                (Some(Val::Bytes(text)), Kind::String) => values.append_value(std::str::from_utf8(&text).ok()?),
                (Some(Val::Int(days)), Kind::Date) => values.append_value(date_text(days)),
                (Some(Val::Int(number)), Kind::Byte | Kind::Short | Kind::Integer | Kind::Long) => values.append_value(number.to_string()),
                _ => return None,
            }
        }
    }
    Some(Arc::new(values.finish()))
}

fn map_field() -> (Arc<Field>, bool) {
    match map_type() {
        DataType::Map(field, ordered) => (field, ordered),
        _ => unreachable!("the type of a map is a map"),
    }
}

fn deletion_vectors(core: &RecordBatch) -> Option<ArrayRef> {
    let rows = core.num_rows();
    let Some(kinds) = column_at(core, &["dv", "storageType"]) else {
        return Some(new_null_array(&DataType::Struct(dv_fields()), rows));
    };
    let valid: NullBuffer = (0..rows).map(|row| kinds.is_valid(row)).collect();
    let columns: Option<Vec<ArrayRef>> = dv_fields()
        .iter()
        .map(|field| match column_at(core, &["dv", field.name()]) {
            Some(column) => (column.data_type() == field.data_type()).then(|| column.clone()),
            None => Some(new_null_array(field.data_type(), rows)),
        })
        .collect();
    Some(Arc::new(StructArray::try_new(dv_fields(), columns?, Some(valid)).ok()?))
}

pub fn vector_of(vectors: &StructArray, row: usize) -> Option<DeletionVector> {
    let text = |name: &str| {
        let column = vectors.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(row).then(|| column.value(row).to_string())
    };
    let number = |name: &str| match Leaf::new(vectors.column_by_name(name)?.clone())?.get(row)? {
        Val::Int(number) => Some(number),
        _ => None,
    };
    if vectors.is_null(row) {
        return None;
    }
    Some(DeletionVector {
        storage_type: text("storageType")?,
        path_or_inline_dv: text("pathOrInlineDv").unwrap_or_default(),
        offset: number("offset").and_then(|n| n.try_into().ok()),
        size_in_bytes: number("sizeInBytes").and_then(|n| n.try_into().ok()),
        cardinality: number("cardinality"),
    })
}

/// Actions of the log as rows of the listing.
pub fn from_adds(adds: &[&Add], schema: &SchemaRef) -> Result<RecordBatch> {
    let numbers = |of: &dyn Fn(&Add) -> Option<i64>| -> ArrayRef { Arc::new(adds.iter().map(|add| of(add)).collect::<Int64Array>()) };
    let columns: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "path" => Arc::new(adds.iter().map(|add| Some(add.path.as_str())).collect::<StringArray>()) as ArrayRef,
            "size" => numbers(&|add| add.size),
            "modification_time" => numbers(&|add| add.modification_time),
            "num_records" => numbers(&records_of),
            "partition_values" => maps_of(adds),
            _ => vectors_of(adds),
        })
        .collect();
    RecordBatch::try_new(schema.clone(), columns).or_else(|error| fail(Code::Internal, format!("the rows of a commit do not fit: {error}")))
}

fn records_of(add: &Add) -> Option<i64> {
    let typed = add.typed.as_ref().and_then(|typed| typed.count("numRecords", &[]));
    typed.or_else(|| count_from_json(serde_json::from_str::<Records>(add.stats.as_deref()?).ok()?.0.as_ref()))
}

/// `numRecords` of the stats, and nothing else of them: bounds are many, and would all be kept.
struct Records(Option<Json>);

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Records, D::Error> {
        deserializer.deserialize_map(Records(None))
    }
}

impl<'de> Visitor<'de> for Records {
    type Value = Records;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> std::result::Result<Records, M::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == "numRecords" {
                self.0 = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self)
    }
}

fn maps_of(adds: &[&Add]) -> ArrayRef {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for add in adds {
        for (name, value) in add.partition_values.iter().flatten() {
            builder.keys().append_value(name);
            builder.values().append_option(value.as_deref());
        }
        let _ = builder.append(true);
    }
    Arc::new(builder.finish())
}

fn vectors_of(adds: &[&Add]) -> ArrayRef {
    let (mut kinds, mut paths) = (StringBuilder::new(), StringBuilder::new());
    let (mut offsets, mut sizes, mut counts) = (Int32Builder::new(), Int32Builder::new(), Int64Builder::new());
    for add in adds {
        let dv = add.deletion_vector.as_ref();
        kinds.append_option(dv.map(|dv| dv.storage_type.as_str()));
        paths.append_option(dv.map(|dv| dv.path_or_inline_dv.as_str()));
        offsets.append_option(dv.and_then(|dv| dv.offset));
        sizes.append_option(dv.and_then(|dv| dv.size_in_bytes));
        counts.append_option(dv.and_then(|dv| dv.cardinality));
    }
    let valid: NullBuffer = adds.iter().map(|add| add.deletion_vector.is_some()).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(kinds.finish()), Arc::new(paths.finish()), Arc::new(offsets.finish()), Arc::new(sizes.finish()), Arc::new(counts.finish())];
    Arc::new(StructArray::new(dv_fields(), columns, Some(valid)))
}
