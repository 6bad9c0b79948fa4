//! Protocol and metadata of a table, and the columns of its schema by logical and physical names.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::{corrupt, fail, Code, Result};
use crate::values::{widens, Kind};

const KNOWN_FEATURES: [&str; 11] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
    "variantType",
    "variantType-preview",
    "variantShredding",
    "variantShredding-preview",
];

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    pub min_reader_version: i64,
    #[serde(default)]
    pub min_writer_version: Option<i64>,
    #[serde(default)]
    pub reader_features: Option<Vec<String>>,
    #[serde(default)]
    pub writer_features: Option<Vec<String>>,
}

impl Protocol {
    /// An error that names what this reader does not know.
    pub fn check(&self) -> Result<()> {
        let version = self.min_reader_version;
        if !(1..=3).contains(&version) {
            return fail(Code::Unsupported, format!("the table needs reader version {version}; this reader knows 1, 2 and 3"));
        }
        if version == 3 {
            let Some(features) = &self.reader_features else {
                return fail(Code::Unsupported, "the protocol has reader version 3 and no list of reader features");
            };
            if let Some(name) = features.iter().find(|name| !KNOWN_FEATURES.contains(&name.as_str())) {
                return fail(Code::Unsupported, format!("the table needs the reader feature {name}, which this reader does not know"));
            }
        }
        Ok(())
    }

    fn maps_columns(&self) -> bool {
        let listed = self.reader_features.iter().flatten().any(|name| name == "columnMapping");
        self.min_reader_version == 2 || (self.min_reader_version == 3 && listed)
    }

    pub fn has_generated_columns(&self) -> bool {
        let listed = self.writer_features.iter().flatten().any(|name| name == "generatedColumns");
        listed || matches!(self.min_writer_version, Some(4..=6))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    pub id: Option<String>,
    pub schema_string: String,
    #[serde(default)]
    pub partition_columns: Option<Vec<String>>,
    #[serde(default)]
    pub configuration: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Plain(Kind),
    Struct(Vec<Field>),
    Other(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub physical: String,
    pub ty: Type,
    /// Of a double column: it was a float, or that cannot be told.
    pub was_float: bool,
    /// All changes of its type are widenings.
    pub only_widened: bool,
    pub generation: Option<String>,
}

/// The schema of a version: fields from the top, and the logical names of partition columns.
#[derive(Clone, Debug)]
pub struct Schema {
    pub fields: Vec<Field>,
    pub partition_columns: Vec<String>,
    pub has_generated: bool,
}

/// A column of a predicate: what is needed to find and read its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub physical: Vec<String>,
    /// None: a struct, array, map or a type that is not known.
    pub kind: Option<Kind>,
    pub is_partition: bool,
    pub was_float: bool,
    pub only_widened: bool,
}

impl Schema {
    pub fn new(protocol: &Protocol, metadata: &Metadata) -> Result<Schema> {
        let Ok(json) = serde_json::from_str::<Json>(&metadata.schema_string) else {
            return corrupt("the table's schema is not JSON");
        };
        let mode = metadata.configuration.as_ref().and_then(|c| c.get("delta.columnMapping.mode").cloned().flatten());
        let mapped = protocol.maps_columns() && matches!(mode.as_deref(), Some("name" | "id"));
        let Some(fields) = fields_of(&json, mapped) else {
            return corrupt("the table's schema is not a struct of named fields");
        };
        Ok(Schema {
            fields,
            partition_columns: metadata.partition_columns.clone().unwrap_or_default(),
            has_generated: protocol.has_generated_columns(),
        })
    }

    /// The column of these names: exactly, or without case where no name matches exactly.
    pub fn column(&self, names: &[String]) -> Result<Column> {
        let mut fields = &self.fields;
        let mut physical = Vec::new();
        let shown = crate::error::shown(&names.join("."));
        for (depth, name) in names.iter().enumerate() {
            let exact = fields.iter().find(|f| f.name == *name);
            let near: Vec<&Field> = fields.iter().filter(|f| f.name.to_lowercase() == name.to_lowercase()).collect();
            let found = match (exact, near.as_slice()) {
                (Some(field), _) => field,
                (None, [field]) => field,
                (None, []) => return fail(Code::BadPredicate, format!("the table has no column {shown}")),
                _ => return fail(Code::BadPredicate, format!("the name {shown} means several columns; write its exact case")),
            };
            physical.push(found.physical.clone());
            if depth + 1 == names.len() {
                let kind = match found.ty {
                    Type::Plain(kind) => Some(kind),
                    _ => None,
                };
                return Ok(Column {
                    name: shown,
                    physical,
                    kind,
                    is_partition: depth == 0 && self.partition_columns.contains(&found.name),
                    was_float: found.was_float,
                    only_widened: found.only_widened,
                });
            }
            match &found.ty {
                Type::Struct(inner) => fields = inner,
                _ => return fail(Code::BadPredicate, format!("the table has no column {shown}")),
            }
        }
        fail(Code::BadPredicate, "a column of the predicate has no name")
    }

    /// The column with this path of physical names.
    pub fn by_physical(&self, path: &[String]) -> Option<Column> {
        let mut fields = &self.fields;
        let mut names = Vec::new();
        for (depth, name) in path.iter().enumerate() {
            let found = fields.iter().find(|f| f.physical == *name)?;
            names.push(found.name.clone());
            if depth + 1 == path.len() {
                return self.column(&names).ok();
            }
            match &found.ty {
                Type::Struct(inner) => fields = inner,
                _ => return None,
            }
        }
        None
    }
}

fn fields_of(json: &Json, mapped: bool) -> Option<Vec<Field>> {
    json.get("fields")?.as_array()?.iter().map(|field| field_of(field, mapped)).collect()
}

fn field_of(json: &Json, mapped: bool) -> Option<Field> {
    let name = json.get("name")?.as_str()?.to_string();
    let metadata = json.get("metadata");
    let note = |key: &str| metadata.and_then(|m| m.get(key));
    let given = note("delta.columnMapping.physicalName").and_then(Json::as_str);
    let physical = if mapped { given.map_or_else(|| name.clone(), str::to_string) } else { name.clone() };
    let ty = match json.get("type")? {
        Json::String(text) => Kind::parse(text).map_or_else(|| Type::Other(text.clone()), Type::Plain),
        object if object.get("type").and_then(Json::as_str) == Some("struct") => Type::Struct(fields_of(object, mapped)?),
        _ => Type::Other("nested".into()),
    };
    let (was_float, only_widened) = type_changes(note("delta.typeChanges"));
    let generation = note("delta.generationExpression").and_then(Json::as_str).map(str::to_string);
    Some(Field { name, physical, ty, was_float, only_widened, generation })
}

/// Whether the column was a float (or that cannot be told), and whether all changes are widenings.
fn type_changes(json: Option<&Json>) -> (bool, bool) {
    let entries = match json {
        None | Some(Json::Null) => return (false, true),
        Some(Json::Array(entries)) => entries,
        Some(_) => return (true, true),
    };
    let (mut was_float, mut only_widened) = (false, true);
    for entry in entries {
        let text = |key: &str| entry.get(key).and_then(Json::as_str);
        was_float |= !entry.is_object() || text("fromType") == Some("float");
        if let (Some(from), Some(to)) = (text("fromType"), text("toType")) {
            let known = Kind::parse(from).zip(Kind::parse(to)).is_some_and(|(from, to)| widens(from, to));
            only_widened &= from == to || known;
        }
    }
    (was_float, only_widened)
}
