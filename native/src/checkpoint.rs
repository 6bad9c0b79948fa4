//! Checkpoints: Parquet files with a column for each kind of action, in one part or several, or V2 with sidecar files.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray, RecordBatch, StructArray};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;

use crate::actions::{lines_of, Add};
use crate::error::{corrupt, Result};
use crate::keys::decoded;
use crate::leaves::{Leaf, TypedStats};
use crate::log::Checkpoint;
use crate::output::vector_of;
use crate::schema::{Metadata, Protocol};
use crate::store::{Store, LOG};
use crate::values::Val;

const ADD: [&str; 6] = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"];

/// What a checkpoint says beside its files.
#[derive(Default)]
pub struct State {
    pub protocol: Option<Protocol>,
    pub metadata: Option<Metadata>,
    sidecars: Vec<String>,
}

/// Protocol, metadata and the names of sidecar files.
pub fn state(store: &Store, checkpoint: &Checkpoint) -> Result<State> {
    let mut state = State::default();
    match checkpoint {
        Checkpoint::Json(path) => {
            for line in lines_of(&store.need(path)?, path) {
                let line = line?;
                state.protocol = line.protocol.or(state.protocol);
                state.metadata = line.meta_data.or(state.metadata);
                state.sidecars.extend(line.sidecar.map(|file| file.path));
            }
        }
        Checkpoint::Parquet(paths) => {
            for path in paths {
                let wanted = |parts: &[String]| ["protocol", "metaData", "sidecar"].contains(&parts[0].as_str());
                for batch in reader(path, store.need(path)?, wanted)?.into_iter().flatten() {
                    add_state(&mut state, &checked(batch, path)?);
                }
            }
        }
    }
    Ok(state)
}

fn checked(batch: std::result::Result<RecordBatch, arrow_schema::ArrowError>, path: &str) -> Result<RecordBatch> {
    batch.or_else(|error| corrupt(format!("{path} cannot be read: {error}")))
}

/// The reader of a file's leaves; None if it has none of them.
fn reader(path: &str, bytes: Bytes, wanted: impl Fn(&[String]) -> bool) -> Result<Option<ParquetRecordBatchReader>> {
    let made = || -> parquet::errors::Result<Option<ParquetRecordBatchReader>> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&bytes, options)?;
        let schema = metadata.metadata().file_metadata().schema_descr();
        let leaves: Vec<usize> = (0..schema.num_columns()).filter(|&at| wanted(schema.column(at).path().parts())).collect();
        if leaves.is_empty() {
            return Ok(None);
        }
        let mask = ProjectionMask::leaves(schema, leaves);
        Ok(Some(ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata).with_projection(mask).with_batch_size(4096).build()?))
    };
    made().or_else(|error| corrupt(format!("{path} cannot be read: {error}")))
}

fn part<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StructArray> {
    batch.column_by_name(name)?.as_struct_opt()
}

fn text(of: &StructArray, name: &str, row: usize) -> Option<String> {
    let column = of.column_by_name(name)?.as_string_opt::<i32>()?;
    column.is_valid(row).then(|| column.value(row).to_string())
}

fn number(of: &StructArray, name: &str, row: usize) -> Option<i64> {
    match Leaf::new(of.column_by_name(name)?.clone())?.get(row)? {
        Val::Int(number) => Some(number),
        _ => None,
    }
}

fn texts(of: &StructArray, name: &str, row: usize) -> Option<Vec<String>> {
    let list = of.column_by_name(name)?.as_list_opt::<i32>()?;
    if list.is_null(row) {
        return None;
    }
    let values = list.value(row);
    let values = values.as_string_opt::<i32>()?;
    Some(values.iter().flatten().map(str::to_string).collect())
}

fn text_map(of: &StructArray, name: &str, row: usize) -> Option<BTreeMap<String, Option<String>>> {
    let map: &MapArray = of.column_by_name(name)?.as_map_opt()?;
    if map.is_null(row) {
        return None;
    }
    let entries = map.value(row);
    let (keys, values) = (entries.column(0).as_string_opt::<i32>()?, entries.column(1).as_string_opt::<i32>()?);
    Some((0..entries.len()).map(|at| (keys.value(at).to_string(), values.is_valid(at).then(|| values.value(at).to_string()))).collect())
}

fn add_state(state: &mut State, batch: &RecordBatch) {
    for row in 0..batch.num_rows() {
        if let Some(protocol) = part(batch, "protocol").filter(|p| p.is_valid(row)) {
            if let Some(version) = number(protocol, "minReaderVersion", row) {
                state.protocol = Some(Protocol {
                    min_reader_version: version,
                    min_writer_version: number(protocol, "minWriterVersion", row),
                    reader_features: texts(protocol, "readerFeatures", row),
                    writer_features: texts(protocol, "writerFeatures", row),
                });
            }
        }
        if let Some(metadata) = part(batch, "metaData").filter(|m| m.is_valid(row)) {
            if let Some(schema_string) = text(metadata, "schemaString", row) {
                state.metadata = Some(Metadata {
                    id: text(metadata, "id", row),
                    schema_string,
                    partition_columns: texts(metadata, "partitionColumns", row),
                    configuration: text_map(metadata, "configuration", row),
                });
            }
        }
        if let Some(sidecar) = part(batch, "sidecar").filter(|s| s.is_valid(row)) {
            state.sidecars.extend(text(sidecar, "path", row));
        }
    }
}

/// The files of a checkpoint, a batch of them at a time. One file of it is in memory at once.
pub struct Adds {
    /// The physical paths of the columns whose typed bounds are read.
    bounds: Vec<Vec<String>>,
    files: VecDeque<Checkpoint>,
    open: Option<(String, ParquetRecordBatchReader)>,
}

impl Adds {
    pub fn new(checkpoint: &Checkpoint, state: &State, bounds: Vec<Vec<String>>) -> Adds {
        let mut files: VecDeque<Checkpoint> = match checkpoint {
            Checkpoint::Json(path) => [Checkpoint::Json(path.clone())].into(),
            Checkpoint::Parquet(paths) => paths.iter().map(|path| Checkpoint::Parquet(vec![path.clone()])).collect(),
        };
        for sidecar in &state.sidecars {
            let name = String::from_utf8_lossy(&decoded(sidecar)).into_owned();
            let name = name.rsplit('/').next().unwrap_or_default().to_string();
            files.push_back(Checkpoint::Parquet(vec![format!("{LOG}/_sidecars/{name}")]));
        }
        Adds { bounds, files, open: None }
    }

    pub fn next(&mut self, store: &Store) -> Result<Option<Vec<Add>>> {
        loop {
            if let Some((path, reader)) = &mut self.open {
                match reader.next() {
                    Some(batch) => {
                        let batch = checked(batch, path)?;
                        return adds_of(&batch, path).map(Some);
                    }
                    None => self.open = None,
                }
            }
            match self.files.pop_front() {
                None => return Ok(None),
                Some(Checkpoint::Json(path)) => {
                    let bytes = store.need(&path)?;
                    let adds: Result<Vec<Option<Add>>> = lines_of(&bytes, &path).map(|line| line.map(|line| line.add)).collect();
                    return Ok(Some(adds?.into_iter().flatten().collect()));
                }
                Some(Checkpoint::Parquet(paths)) => {
                    let path = paths[0].clone();
                    let reader = reader(&path, store.need(&path)?, |leaf| is_wanted(leaf, &self.bounds))?;
                    self.open = reader.map(|reader| (path, reader));
                }
            }
        }
    }
}

fn is_wanted(leaf: &[String], bounds: &[Vec<String>]) -> bool {
    let name = |at: usize| leaf.get(at).map_or("", String::as_str);
    name(0) == "add"
        && match (name(1), name(2)) {
            ("stats_parsed", "numRecords") => true,
            ("stats_parsed", "minValues" | "maxValues" | "nullCount") => bounds.iter().any(|path| path == &leaf[3..]),
            (other, _) => ADD.contains(&other),
        }
}

fn adds_of(batch: &RecordBatch, path: &str) -> Result<Vec<Add>> {
    let Some(adds) = part(batch, "add") else { return Ok(Vec::new()) };
    let typed = adds.column_by_name("stats_parsed").and_then(|stats| stats.as_struct_opt()).map(|stats| Arc::new(stats.clone()));
    let mut found = Vec::new();
    for row in (0..batch.num_rows()).filter(|&row| adds.is_valid(row)) {
        let Some(file) = text(adds, "path", row) else {
            return corrupt(format!("{path} has a file without a path"));
        };
        found.push(Add {
            path: file,
            partition_values: text_map(adds, "partitionValues", row),
            size: number(adds, "size", row),
            modification_time: number(adds, "modificationTime", row),
            stats: text(adds, "stats", row),
            deletion_vector: adds.column_by_name("deletionVector").and_then(|dv| dv.as_struct_opt()).and_then(|dv| vector_of(dv, row)),
            typed: typed.as_ref().map(|rows| TypedStats { rows: rows.clone(), row }),
        });
    }
    Ok(found)
}
