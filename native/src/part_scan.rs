//! One part of an index: the row groups that may match, and of each the live rows that may.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::actions::Seen;
use crate::error::{corrupt, Error, Result};
use crate::keys::{has_plain_ends, has_plain_inside, KeyMaker};
use crate::leaves::{column_at, leaf_at};
use crate::manifest::Manifest;
use crate::output::{from_core, vector_of};
use crate::part_file::PartFile;
use crate::pruning::{same_types, GroupFacts, Predicate, RowFacts};
use crate::schema::Schema;
use crate::store::Store;
use crate::values::Val;

/// A local core file up to this many bytes is read whole.
const WHOLE_CORE: u64 = 256 << 10;
/// A stats file up to this many bytes is read whole.
const WHOLE_STATS: u64 = 1 << 20;
pub const BATCH_ROWS: usize = 10_000;

pub type Key = Option<Val<'static>>;
/// Rows of the listing, and their sort keys if these are asked for.
pub type Found = (RecordBatch, Vec<Key>);

pub struct Index {
    pub manifest: Manifest,
    pub directory: String,
    pub schema: Schema,
}

/// What a scan needs besides the index.
pub struct Scene {
    pub store: Arc<Store>,
    pub keys: KeyMaker,
    pub predicate: Option<Arc<Predicate>>,
    pub columns: SchemaRef,
    pub seen: Arc<Seen>,
}

/// How parts are read. Nothing here changes, so that many threads share it.
pub struct PartScan {
    pub index: Arc<Index>,
    pub scene: Arc<Scene>,
    same: Vec<bool>,
    buckets_hold: bool,
    limited: bool,
    with_keys: bool,
}

/// A part whose footer was read.
pub struct Part {
    number: usize,
    file: PartFile,
    leaves: Vec<usize>,
    with_buckets: bool,
    stats: OnceLock<Result<RecordBatch>>,
}

impl Part {
    pub fn group_rows(&self, group: usize) -> usize {
        self.file.group_rows(group)
    }

    /// The bytes that the columns of a row group take, inflated.
    pub fn group_bytes(&self, group: usize) -> u64 {
        let group = self.file.metadata.row_group(group);
        self.leaves.iter().map(|&leaf| group.column(leaf).uncompressed_size().max(0) as u64).sum()
    }

    /// The bytes of the file that are kept while its row groups are read.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

/// A row group that is read batch by batch.
pub struct Reading {
    part: Arc<Part>,
    reader: ParquetRecordBatchReader,
    /// The row of the part at which the next batch begins.
    row: usize,
}

impl PartScan {
    pub fn new(index: Arc<Index>, scene: Arc<Scene>, limited: bool, with_keys: bool) -> PartScan {
        let predicate = scene.predicate.as_deref();
        let same = predicate.map_or_else(Vec::new, |predicate| same_types(predicate, &index.schema));
        let buckets_hold = predicate.is_some_and(|predicate| predicate.buckets_hold(&index.schema));
        PartScan { index, scene, same, buckets_hold, limited, with_keys }
    }

    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.index.directory)
    }

    /// Open a part, whose bytes may be at hand: the row groups of it that may match.
    pub fn open(&self, number: usize, bytes: Option<Bytes>) -> Result<(Part, VecDeque<usize>)> {
        let (scene, parts) = (&self.scene, &self.index.manifest.parts);
        let (path, entry, rows) = (self.path(&parts.core_name(number)), parts.core(number), parts.rows[number]);
        let by_ranges = scene.predicate.is_some() || self.limited;
        let file = match bytes {
            Some(bytes) => PartFile::whole(&path, bytes, entry, rows)?,
            None if by_ranges && entry.size > WHOLE_CORE && !parts.is_single(number) => PartFile::by_ranges(&scene.store, &path, entry, rows)?,
            None => PartFile::whole(&path, scene.store.need(&path)?, entry, rows)?,
        };
        let with_buckets = self.buckets_hold && parts.off_bucket[number] == 0;
        let groups = (0..file.metadata.num_row_groups()).filter(|&group| match &scene.predicate {
            None => true,
            Some(predicate) => {
                let time_column = &self.index.manifest.time_column;
                GroupFacts { predicate, metadata: &file.metadata, same: &self.same, time_column, group }.may_match(with_buckets)
            }
        });
        let groups = groups.collect();
        let leaves = file.leaves_where(|path| self.is_needed(path));
        Ok((Part { number, leaves, with_buckets, stats: OnceLock::new(), file }, groups))
    }

    pub fn begin(&self, part: Arc<Part>, group: usize) -> Result<Reading> {
        let reader = part.file.read(&self.scene.store, &[group], &part.leaves, BATCH_ROWS)?;
        let row = (0..group).map(|earlier| part.file.group_rows(earlier)).sum();
        Ok(Reading { part, reader, row })
    }

    /// The next rows of a row group that are live and may match; None at its end.
    pub fn next(&self, reading: &mut Reading) -> Result<Option<Found>> {
        while let Some(core) = reading.reader.next() {
            let core = core.or_else(|error| reading.part.file.damaged(error))?;
            let first = reading.row;
            reading.row += core.num_rows();
            if let Some(found) = self.kept(&reading.part, &core, first)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// All such rows of a row group.
    pub fn all(&self, part: Arc<Part>, group: usize) -> Result<Vec<Found>> {
        let mut reading = self.begin(part, group)?;
        std::iter::from_fn(|| self.next(&mut reading).transpose()).collect()
    }

    fn is_needed(&self, path: &[String]) -> bool {
        let scene = &self.scene;
        let listed = |name: &str| scene.columns.column_with_name(name).is_some();
        let sort = &self.index.manifest.sort;
        match path[0].as_str() {
            "path" | "dv" => true,
            "size" | "num_records" if scene.predicate.is_none() => listed(&path[0]),
            "modification_time" => listed(&path[0]) || (self.with_keys && sort.kind == "modification_time"),
            "size" => listed("size"),
            "num_records" => true,
            "partition_values" => listed("partition_values") || scene.predicate.is_some(),
            "partition" => {
                let asked = |predicate: &Arc<Predicate>| predicate.columns.iter().any(|column| column.is_partition && column.physical == path[1..]);
                listed("partition_values") || scene.predicate.as_ref().is_some_and(asked) || (self.with_keys && sort.kind == "partition" && sort.column == path[1..])
            }
            "time_min" | "time_max" => {
                let time = &self.index.manifest.time_column;
                scene.predicate.as_ref().is_some_and(|predicate| predicate.is_about(time)) || (self.with_keys && sort.column == *time)
            }
            _ => false,
        }
    }

    /// The live rows of a batch that may match; None if there are none.
    fn kept(&self, part: &Part, core: &RecordBatch, first: usize) -> Result<Option<Found>> {
        let scene = &self.scene;
        let Some(paths) = core.column_by_name("path").and_then(|paths| paths.as_string_opt::<i32>()) else {
            return corrupt("a core file has no column path");
        };
        if paths.null_count() > 0 {
            return corrupt("a core file has a row without a path");
        }
        let mut keep = vec![true; core.num_rows()];
        if let Some(predicate) = &scene.predicate {
            self.prune(part, predicate, core, first, &mut keep)?;
        }
        if !scene.seen.is_empty() {
            let vectors = core.column_by_name("dv").and_then(|vectors| vectors.as_struct_opt());
            let offsets = paths.value_offsets();
            let all_plain = has_plain_inside(&paths.value_data()[offsets[0] as usize..offsets[paths.len()] as usize]);
            for (row, keep) in keep.iter_mut().enumerate().filter(|(_, keep)| **keep) {
                let path = paths.value(row);
                *keep = match vectors.and_then(|vectors| vector_of(vectors, row)) {
                    None if all_plain && has_plain_ends(path) => !scene.seen.contains(path.as_bytes()),
                    vector => !scene.seen.contains(scene.keys.key(path, vector.as_ref()).as_ref()),
                };
            }
        }
        if !keep.contains(&true) {
            return Ok(None);
        }
        let Some(rows) = from_core(core, &scene.columns) else {
            return corrupt("a core file has columns of other types than those of an index");
        };
        let keys = if self.with_keys { self.keys(part, core, first, &keep)? } else { Vec::new() };
        if !keep.contains(&false) {
            return Ok(Some((rows, keys)));
        }
        match filter_record_batch(&rows, &BooleanArray::from(keep)) {
            Ok(rows) => Ok(Some((rows, keys))),
            Err(error) => corrupt(format!("rows of an index cannot be chosen: {error}")),
        }
    }

    fn prune(&self, part: &Part, predicate: &Predicate, core: &RecordBatch, first: usize, keep: &mut [bool]) -> Result<()> {
        let (time, with_buckets) = (&self.index.manifest.time_column, part.with_buckets);
        let by_core = RowFacts::new(predicate, core, None, time);
        for (row, keep) in keep.iter_mut().enumerate() {
            *keep = by_core.may_match(row, with_buckets);
        }
        // The time column's null counts are no reason to open a stats file; a part of one file has them at hand.
        let single = self.index.manifest.parts.is_single(part.number);
        if !keep.contains(&true) || !(predicate.needs_stats(time) || (single && predicate.is_about(time))) {
            return Ok(());
        }
        let stats = self.stats(part)?;
        let by_stats = RowFacts::new(predicate, core, Some((stats, first)), time);
        for (row, keep) in keep.iter_mut().enumerate() {
            *keep = *keep && by_stats.may_match(row, with_buckets);
        }
        Ok(())
    }

    /// The bounds and null counts of a part that the predicate or the sort key needs, all rows of it. They are read once for all threads.
    fn stats<'a>(&self, part: &'a Part) -> Result<&'a RecordBatch> {
        part.stats.get_or_init(|| self.read_stats(part.number)).as_ref().map_err(Error::clone)
    }

    fn read_stats(&self, part: usize) -> Result<RecordBatch> {
        let (index, scene, parts) = (&self.index, &self.scene, &self.index.manifest.parts);
        let single = parts.is_single(part);
        let name = if single { parts.core_name(part) } else { parts.stats_name(part) };
        let path = format!("{}/{name}", index.directory);
        let (entry, rows) = (if single { parts.core(part) } else { parts.stats(part) }, parts.rows[part]);
        let file = match () {
            _ if single || entry.size <= WHOLE_STATS => PartFile::whole(&path, scene.store.need(&path)?, entry, rows)?,
            _ => PartFile::by_ranges(&scene.store, &path, entry, rows)?,
        };
        let sort = &index.manifest.sort;
        let leaves = file.leaves_where(|path| {
            let (top, rest) = (path[0].as_str(), &path[1..]);
            let asked = scene.predicate.as_ref().is_some_and(|p| p.columns.iter().any(|column| !column.is_partition && column.physical == rest));
            (asked && matches!(top, "min" | "max" | "null_count")) || (top == "min" && sort.kind == "min" && sort.column == rest)
        });
        let groups: Vec<usize> = (0..file.metadata.num_row_groups()).collect();
        if leaves.is_empty() {
            return Ok(RecordBatch::new_empty(arrow_schema::Schema::empty().into()));
        }
        let reader = file.read(&scene.store, &groups, &leaves, BATCH_ROWS)?;
        let batches = file.batches(reader)?;
        let Some(first) = batches.first() else { return file.damaged("it has no rows") };
        let all = concat_batches(&first.schema(), &batches).or_else(|error| file.damaged(error))?;
        if all.num_rows() as i64 != rows {
            return file.damaged("its rows are not as many as those of the core file");
        }
        Ok(all)
    }

    fn keys(&self, part: &Part, core: &RecordBatch, first: usize, keep: &[bool]) -> Result<Vec<Key>> {
        let index = &self.index;
        let sort = &index.manifest.sort;
        let (leaf, offset) = match sort.kind.as_str() {
            "partition" => (sort.column.first().and_then(|name| leaf_at(core, &["partition", name])), 0),
            "modification_time" => (leaf_at(core, &["modification_time"]), 0),
            _ if sort.column == index.manifest.time_column => (leaf_at(core, &["time_min"]), 0),
            _ => {
                let path: Vec<&str> = std::iter::once("min").chain(sort.column.iter().map(String::as_str)).collect();
                (column_at(self.stats(part)?, &path).cloned().and_then(crate::leaves::Leaf::new), first)
            }
        };
        let rows = keep.iter().enumerate().filter(|(_, keep)| **keep);
        let key = |row: usize| leaf.as_ref()?.get(offset + row).map(Val::owned).filter(|v| !matches!(v, Val::Float(f) if f.is_nan()));
        Ok(rows.map(|(row, _)| key(row)).collect())
    }
}
