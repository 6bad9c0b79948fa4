//! The live files of an index, the greatest keys first: parts, row groups and rows that cannot match are left out.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::actions::Seen;
use crate::error::{corrupt, Result};
use crate::keys::KeyMaker;
use crate::leaves::{column_at, leaf_at};
use crate::manifest::Manifest;
use crate::output::{from_core, vector_of};
use crate::part_file::PartFile;
use crate::pruning::{same_types, GroupFacts, PartFacts, Predicate, RowFacts};
use crate::schema::Schema;
use crate::store::Store;
use crate::values::{key_value, Kind, Val};

/// A local core file up to this many bytes is read whole.
const WHOLE_CORE: u64 = 256 << 10;
/// A stats file up to this many bytes is read whole.
const WHOLE_STATS: u64 = 1 << 20;
/// Parts of an object store fetched at once, at most.
const AHEAD: usize = 3;
const BATCH_ROWS: usize = 10_000;

type Key = Option<Val<'static>>;

pub struct Index {
    pub manifest: Manifest,
    pub directory: String,
    pub schema: Schema,
}

/// What a scan needs besides the index.
pub struct Scene<'a> {
    pub store: &'a Store,
    pub keys: &'a KeyMaker,
    pub predicate: Option<&'a Predicate>,
    pub columns: &'a SchemaRef,
    pub seen: &'a Seen,
}

/// How a scan reads: in the order of keys and not more than needed, if it has a limit.
#[derive(Clone, Copy)]
pub struct Manner {
    pub limited: bool,
    pub memory_budget: u64,
}

pub enum IndexScan {
    InTurn(InTurn),
    Merged(Merged),
}

impl IndexScan {
    pub fn new(index: Arc<Index>, predicate: Option<&Predicate>, manner: Manner) -> IndexScan {
        let parts = chosen(&index, predicate);
        if manner.limited && overlap(&index, &parts) {
            return IndexScan::Merged(Merged { index, parts: parts.into(), open: Vec::new(), manner });
        }
        IndexScan::InTurn(InTurn::new(index, parts, predicate, manner, false))
    }

    pub fn next(&mut self, scene: &Scene<'_>) -> Result<Option<RecordBatch>> {
        match self {
            IndexScan::InTurn(scan) => Ok(scan.next(scene)?.map(|(batch, _)| batch)),
            IndexScan::Merged(scan) => scan.next(scene),
        }
    }
}

fn chosen(index: &Index, predicate: Option<&Predicate>) -> Vec<usize> {
    let parts = &index.manifest.parts;
    let filled = (0..parts.len()).filter(|&part| parts.rows[part] > 0);
    match predicate {
        None => filled.collect(),
        Some(predicate) => {
            let buckets_hold = predicate.buckets_hold(&index.schema);
            let mut facts = PartFacts::new(predicate, &index.manifest, &index.schema);
            filled.filter(|&part| facts.may_match(part, buckets_hold)).collect()
        }
    }
}

fn key_kind(index: &Index) -> Option<Kind> {
    match index.manifest.sort.kind.as_str() {
        "modification_time" => Some(Kind::Long),
        _ => index.schema.by_physical(&index.manifest.sort.column)?.kind,
    }
}

fn greatest_key(index: &Index, part: usize) -> Key {
    key_value(&index.manifest.parts.key_max[part], key_kind(index)?)
}

/// Known keys before unknown ones, the greatest first.
fn before(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.order(a).unwrap_or(Ordering::Equal),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Whether the keys of some parts lie within each other.
fn overlap(index: &Index, parts: &[usize]) -> bool {
    let manifest = &index.manifest.parts;
    parts.windows(2).any(|two| {
        let least = key_kind(index).and_then(|kind| key_value(&manifest.key_min[two[0]], kind));
        let next = greatest_key(index, two[1]);
        let has_unknown = manifest.key_unknown[two[0]] > 0;
        next.is_some() && (has_unknown || least.is_none() || before(&least, &next) == Ordering::Greater)
    })
}

/// Parts one after another.
pub struct InTurn {
    index: Arc<Index>,
    parts: VecDeque<usize>,
    fetched: VecDeque<(usize, Bytes)>,
    open: Option<OpenPart>,
    same: Vec<bool>,
    buckets_hold: bool,
    manner: Manner,
    with_keys: bool,
    fetches: usize,
}

struct OpenPart {
    part: usize,
    file: PartFile,
    groups: VecDeque<usize>,
    leaves: Vec<usize>,
    reader: Option<ParquetRecordBatchReader>,
    /// The row of the part at which the next batch begins.
    row: usize,
    with_buckets: bool,
    stats: Option<RecordBatch>,
}

impl InTurn {
    fn new(index: Arc<Index>, parts: Vec<usize>, predicate: Option<&Predicate>, manner: Manner, with_keys: bool) -> InTurn {
        let same = predicate.map_or_else(Vec::new, |predicate| same_types(predicate, &index.schema));
        let buckets_hold = predicate.is_some_and(|predicate| predicate.buckets_hold(&index.schema));
        InTurn { index, parts: parts.into(), fetched: VecDeque::new(), open: None, same, buckets_hold, manner, with_keys, fetches: 0 }
    }

    /// The next rows of the listing, and their sort keys if these are asked for.
    fn next(&mut self, scene: &Scene<'_>) -> Result<Option<(RecordBatch, Vec<Key>)>> {
        loop {
            if self.open.is_none() && !self.open_next(scene)? {
                return Ok(None);
            }
            match self.next_core(scene)? {
                None => self.open = None,
                Some((core, first)) => {
                    if let Some(found) = self.kept(scene, &core, first)? {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.index.directory)
    }

    fn open_next(&mut self, scene: &Scene<'_>) -> Result<bool> {
        let index = self.index.clone();
        let parts = &index.manifest.parts;
        let part = match scene.store.is_local() {
            true => self.parts.pop_front(),
            false => {
                self.fetch(scene.store)?;
                self.fetched.front().map(|(part, _)| *part)
            }
        };
        let Some(part) = part else { return Ok(false) };
        let (path, entry, rows) = (self.path(&parts.core_name(part)), parts.core(part), parts.rows[part]);
        let by_ranges = scene.predicate.is_some() || self.manner.limited;
        let file = match self.fetched.pop_front() {
            Some((_, bytes)) => PartFile::whole(&path, bytes, entry, rows)?,
            None if by_ranges && entry.size > WHOLE_CORE && !parts.is_single(part) => PartFile::by_ranges(scene.store, &path, entry, rows)?,
            None => PartFile::whole(&path, scene.store.need(&path)?, entry, rows)?,
        };
        let with_buckets = self.buckets_hold && parts.off_bucket[part] == 0;
        let groups = (0..file.metadata.num_row_groups()).filter(|&group| match scene.predicate {
            None => true,
            Some(predicate) => {
                let time_column = &self.index.manifest.time_column;
                GroupFacts { predicate, metadata: &file.metadata, same: &self.same, time_column, group }.may_match(with_buckets)
            }
        });
        let groups: VecDeque<usize> = groups.collect();
        let leaves = file.leaves_where(|path| self.is_needed(scene, path));
        self.open = Some(OpenPart { part, groups, leaves, reader: None, row: 0, with_buckets, stats: None, file });
        Ok(true)
    }

    /// Fetch some of the next parts at once: more when a listing goes on.
    fn fetch(&mut self, store: &Store) -> Result<()> {
        if !self.fetched.is_empty() || self.parts.is_empty() {
            return Ok(());
        }
        let most = if self.manner.limited && self.fetches == 0 { 1 } else { AHEAD };
        self.fetches += 1;
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(&part) = self.parts.front() {
            bytes += self.index.manifest.parts.core(part).size;
            if taken.len() == most || (!taken.is_empty() && bytes > self.manner.memory_budget) {
                break;
            }
            taken.push(part);
            self.parts.pop_front();
        }
        let paths: Vec<String> = taken.iter().map(|&part| self.path(&self.index.manifest.parts.core_name(part))).collect();
        for ((part, path), answer) in taken.into_iter().zip(&paths).zip(store.get_all(&paths)) {
            match answer? {
                Some(bytes) => self.fetched.push_back((part, bytes)),
                None => return corrupt(format!("{path} is missing")),
            }
        }
        Ok(())
    }

    fn is_needed(&self, scene: &Scene<'_>, path: &[String]) -> bool {
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
                let asked = |predicate: &Predicate| predicate.columns.iter().any(|column| column.is_partition && column.physical == path[1..]);
                listed("partition_values") || scene.predicate.is_some_and(asked) || (self.with_keys && sort.kind == "partition" && sort.column == path[1..])
            }
            "time_min" | "time_max" => {
                let time = &self.index.manifest.time_column;
                scene.predicate.is_some_and(|predicate| predicate.is_about(time)) || (self.with_keys && sort.column == *time)
            }
            _ => false,
        }
    }

    /// The next rows of the core file, and the row of the part at which they begin.
    fn next_core(&mut self, scene: &Scene<'_>) -> Result<Option<(RecordBatch, usize)>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        loop {
            if let Some(reader) = &mut open.reader {
                match reader.next() {
                    Some(Ok(batch)) => {
                        let first = open.row;
                        open.row += batch.num_rows();
                        return Ok(Some((batch, first)));
                    }
                    Some(Err(error)) => return open.file.damaged(error),
                    None => open.reader = None,
                }
            }
            let Some(group) = open.groups.pop_front() else { return Ok(None) };
            open.row = (0..group).map(|earlier| open.file.group_rows(earlier)).sum();
            open.reader = Some(open.file.read(scene.store, &[group], &open.leaves, BATCH_ROWS)?);
        }
    }

    /// The live rows of a batch that may match; None if there are none.
    fn kept(&mut self, scene: &Scene<'_>, core: &RecordBatch, first: usize) -> Result<Option<(RecordBatch, Vec<Key>)>> {
        let Some(paths) = core.column_by_name("path").and_then(|paths| paths.as_string_opt::<i32>()) else {
            return corrupt("a core file has no column path");
        };
        if paths.null_count() > 0 {
            return corrupt("a core file has a row without a path");
        }
        let mut keep = vec![true; core.num_rows()];
        if let Some(predicate) = scene.predicate {
            self.prune(scene, predicate, core, first, &mut keep)?;
        }
        if !scene.seen.is_empty() {
            let vectors = core.column_by_name("dv").and_then(|vectors| vectors.as_struct_opt());
            for (row, keep) in keep.iter_mut().enumerate().filter(|(_, keep)| **keep) {
                let vector = vectors.and_then(|vectors| vector_of(vectors, row));
                *keep = !scene.seen.contains(scene.keys.key(paths.value(row), vector.as_ref()).as_ref());
            }
        }
        if !keep.contains(&true) {
            return Ok(None);
        }
        let Some(rows) = from_core(core, scene.columns) else {
            return corrupt("a core file has columns of other types than those of an index");
        };
        let keys = if self.with_keys { self.keys(scene, core, first, &keep)? } else { Vec::new() };
        if !keep.contains(&false) {
            return Ok(Some((rows, keys)));
        }
        match filter_record_batch(&rows, &BooleanArray::from(keep)) {
            Ok(rows) => Ok(Some((rows, keys))),
            Err(error) => corrupt(format!("rows of an index cannot be chosen: {error}")),
        }
    }

    fn prune(&mut self, scene: &Scene<'_>, predicate: &Predicate, core: &RecordBatch, first: usize, keep: &mut [bool]) -> Result<()> {
        let index = self.index.clone();
        let time = &index.manifest.time_column;
        let with_buckets = self.open.as_ref().is_some_and(|open| open.with_buckets);
        let by_core = RowFacts::new(predicate, core, None, time);
        for (row, keep) in keep.iter_mut().enumerate() {
            *keep = by_core.may_match(row, with_buckets);
        }
        // The time column's null counts are no reason to open a stats file; a part of one file has them at hand.
        let single = self.open.as_ref().is_some_and(|open| index.manifest.parts.is_single(open.part));
        if !keep.contains(&true) || !(predicate.needs_stats(time) || (single && predicate.is_about(time))) {
            return Ok(());
        }
        let stats = self.stats(scene)?;
        let by_stats = RowFacts::new(predicate, core, Some((&stats, first)), time);
        for (row, keep) in keep.iter_mut().enumerate() {
            *keep = *keep && by_stats.may_match(row, with_buckets);
        }
        Ok(())
    }

    /// The bounds and null counts of a part that the predicate or the sort key needs, all rows of it.
    fn stats(&mut self, scene: &Scene<'_>) -> Result<RecordBatch> {
        let Some(open) = &mut self.open else { return corrupt("no part is open") };
        if let Some(stats) = &open.stats {
            return Ok(stats.clone());
        }
        let index = self.index.clone();
        let (parts, part) = (&index.manifest.parts, open.part);
        let single = parts.is_single(part);
        let name = if single { parts.core_name(part) } else { parts.stats_name(part) };
        let path = format!("{}/{name}", index.directory);
        let (entry, rows) = (if single { parts.core(part) } else { parts.stats(part) }, parts.rows[part]);
        let mut file = match () {
            _ if single || entry.size <= WHOLE_STATS => PartFile::whole(&path, scene.store.need(&path)?, entry, rows)?,
            _ => PartFile::by_ranges(scene.store, &path, entry, rows)?,
        };
        let sort = &index.manifest.sort;
        let leaves = file.leaves_where(|path| {
            let (top, rest) = (path[0].as_str(), &path[1..]);
            let asked = scene.predicate.is_some_and(|p| p.columns.iter().any(|column| !column.is_partition && column.physical == rest));
            (asked && matches!(top, "min" | "max" | "null_count")) || (top == "min" && sort.kind == "min" && sort.column == rest)
        });
        let groups: Vec<usize> = (0..file.metadata.num_row_groups()).collect();
        let stats = if leaves.is_empty() {
            RecordBatch::new_empty(arrow_schema::Schema::empty().into())
        } else {
            let reader = file.read(scene.store, &groups, &leaves, BATCH_ROWS)?;
            let batches = file.batches(reader)?;
            let Some(first) = batches.first() else { return file.damaged("it has no rows") };
            let all = concat_batches(&first.schema(), &batches).or_else(|error| file.damaged(error))?;
            if all.num_rows() as i64 != rows {
                return file.damaged("its rows are not as many as those of the core file");
            }
            all
        };
        open.stats = Some(stats.clone());
        Ok(stats)
    }

    fn keys(&mut self, scene: &Scene<'_>, core: &RecordBatch, first: usize, keep: &[bool]) -> Result<Vec<Key>> {
        let index = self.index.clone();
        let sort = &index.manifest.sort;
        let (leaf, offset) = match sort.kind.as_str() {
            "partition" => (sort.column.first().and_then(|name| leaf_at(core, &["partition", name])), 0),
            "modification_time" => (leaf_at(core, &["modification_time"]), 0),
            _ if sort.column == index.manifest.time_column => (leaf_at(core, &["time_min"]), 0),
            _ => {
                let path: Vec<&str> = std::iter::once("min").chain(sort.column.iter().map(String::as_str)).collect();
                (column_at(&self.stats(scene)?, &path).cloned().and_then(crate::leaves::Leaf::new), first)
            }
        };
        let rows = keep.iter().enumerate().filter(|(_, keep)| **keep);
        let key = |row: usize| leaf.as_ref()?.get(offset + row).map(Val::owned).filter(|v| !matches!(v, Val::Float(f) if f.is_nan()));
        Ok(rows.map(|(row, _)| key(row)).collect())
    }
}

/// Rows of parts whose keys overlap, in the order of their keys.
pub struct Merged {
    index: Arc<Index>,
    parts: VecDeque<usize>,
    open: Vec<Cursor>,
    manner: Manner,
}

struct Cursor {
    scan: InTurn,
    rows: RecordBatch,
    keys: Vec<Key>,
    at: usize,
}

impl Cursor {
    fn key(&self) -> &Key {
        &self.keys[self.at]
    }
}

impl Merged {
    /// Some rows in order. They are few: a limit follows.
    fn next(&mut self, scene: &Scene<'_>) -> Result<Option<RecordBatch>> {
        const MOST: usize = 256;
        let (mut sources, mut picks): (Vec<RecordBatch>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let mut source_of: Vec<Option<usize>> = vec![None; self.open.len()];
        while picks.len() < MOST {
            self.open_parts(scene)?;
            source_of.resize(self.open.len(), None);
            let Some(best) = (0..self.open.len()).min_by(|&a, &b| before(self.open[a].key(), self.open[b].key())) else { break };
            let cursor = &mut self.open[best];
            let source = *source_of[best].get_or_insert_with(|| {
                sources.push(cursor.rows.clone());
                sources.len() - 1
            });
            picks.push((source, cursor.at));
            cursor.at += 1;
            if cursor.at == cursor.keys.len() {
                source_of[best] = None;
                match cursor.scan.next(scene)? {
                    Some((rows, keys)) => (cursor.rows, cursor.keys, cursor.at) = (rows, keys, 0),
                    None => {
                        self.open.remove(best);
                        source_of.remove(best);
                    }
                }
            }
        }
        if picks.is_empty() {
            return Ok(None);
        }
        let sources: Vec<&RecordBatch> = sources.iter().collect();
        match interleave_record_batch(&sources, &picks) {
            Ok(rows) => Ok(Some(rows)),
            Err(error) => corrupt(format!("rows of an index cannot be merged: {error}")),
        }
    }

    /// Open every part that may hold the next row.
    fn open_parts(&mut self, scene: &Scene<'_>) -> Result<()> {
        while let Some(&part) = self.parts.front() {
            let next = greatest_key(&self.index, part);
            let best = self.open.iter().map(Cursor::key).min_by(|a, b| before(a, b));
            if best.is_some_and(|best| before(best, &next) == Ordering::Less) {
                return Ok(());
            }
            self.parts.pop_front();
            let mut scan = InTurn::new(self.index.clone(), vec![part], scene.predicate, self.manner, true);
            if let Some((rows, keys)) = scan.next(scene)? {
                self.open.push(Cursor { scan, rows, keys, at: 0 });
            }
        }
        Ok(())
    }
}
