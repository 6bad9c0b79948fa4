//! What is known of the columns of a predicate in a part, a row group, a row of an index or an action of the log.

use std::cell::{Cell, OnceCell};

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray, RecordBatch};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value as Json;

use crate::actions::Add;
use crate::buckets::{buckets_of, derived, Bucket};
use crate::error::Result;
use crate::expression::{columns_of, may_match, Expr, Facts, Source};
use crate::leaves::{column_at, leaf_at, Leaf};
use crate::manifest::Manifest;
use crate::predicate::{bind, position, Condition};
use crate::schema::{Column, Schema};
use crate::values::{bound_from_json, convert, count_from_json, key_value, partition_value, widened, Kind, Partition, Side, Val};

/// A predicate bound to a table, with what follows from it for time buckets.
#[derive(Debug)]
pub struct Predicate {
    pub columns: Vec<Column>,
    expr: Expr,
    follows: Option<Expr>,
    buckets: Vec<BoundBucket>,
}

#[derive(Debug)]
struct BoundBucket {
    bucket: Bucket,
    time: usize,
    columns: Vec<usize>,
}

impl Predicate {
    pub fn new(condition: &Condition, schema: &Schema) -> Result<Predicate> {
        let mut columns = Vec::new();
        let expr = bind(condition, schema, &mut columns)?;
        let found = buckets_of(schema);
        let follows = derived(&expr, &found, &mut columns);
        let mut buckets = Vec::new();
        if follows.is_some() {
            for bucket in found {
                let time = position(bucket.time.clone(), &mut columns);
                let parts = bucket.columns.iter().map(|column| position(column.clone(), &mut columns)).collect();
                buckets.push(BoundBucket { time, columns: parts, bucket });
            }
        }
        Ok(Predicate { columns, expr, follows, buckets })
    }

    fn may(&self, source: &dyn Source, with_buckets: bool) -> bool {
        may_match(&self.expr, source) && (!with_buckets || self.follows.as_ref().is_none_or(|follows| may_match(follows, source)))
    }

    /// Whether the buckets of this schema are those of the schema in the manifest.
    pub fn buckets_hold(&self, manifest: &Schema) -> bool {
        let known = buckets_of(manifest);
        self.buckets.iter().all(|bound| known.contains(&bound.bucket))
    }

    /// Whether the predicate is about data columns whose bounds are in the stats file.
    pub fn needs_stats(&self, time_column: &[String]) -> bool {
        let mut used = Vec::new();
        columns_of(&self.expr, &mut used);
        used.iter().any(|&at| !self.columns[at].is_partition && self.columns[at].physical != time_column)
    }

    /// Whether the predicate is about the time column, whose bounds are in the core file.
    pub fn is_about(&self, time_column: &[String]) -> bool {
        let mut used = Vec::new();
        columns_of(&self.expr, &mut used);
        used.iter().any(|&at| self.columns[at].physical == time_column)
    }
}

/// Bounds of a data column as they are compared.
fn data_facts<'a>(column: &Column, min: Option<Val<'a>>, max: Option<Val<'a>>, nulls: Option<i64>, rows: Option<i64>) -> Facts<'a> {
    let Some(kind) = column.kind else {
        return Facts { rows, ..Facts::default() };
    };
    if !column.only_widened {
        return Facts { may_be_nan: kind.is_floating(), ..Facts::default() };
    }
    let wide = |value: Option<Val<'a>>, side| value.filter(|_| kind.has_bounds()).and_then(|value| widened(value, kind, column.was_float, side));
    Facts { min: wide(min, Side::Min), max: wide(max, Side::Max), nulls, rows, may_be_nan: kind.is_floating(), is_value: false }
}

fn partition_facts(value: Partition<'_>) -> Facts<'_> {
    match value {
        Partition::Value(Val::Float(v)) if v.is_nan() => Facts { nulls: Some(0), rows: Some(1), ..Facts::default() },
        Partition::Value(value) => {
            Facts { min: Some(value.clone()), max: Some(value), nulls: Some(0), rows: Some(1), may_be_nan: false, is_value: true }
        }
        Partition::Null => Facts { nulls: Some(1), rows: Some(1), ..Facts::default() },
        Partition::Unreadable => Facts { rows: Some(1), ..Facts::default() },
    }
}

// Parts.

/// What the manifest tells of its parts.
pub struct PartFacts<'a> {
    predicate: &'a Predicate,
    manifest: &'a Manifest,
    /// For each column: whether it has the same type in the schema of the manifest.
    same: Vec<bool>,
    part: usize,
}

impl<'a> PartFacts<'a> {
    pub fn new(predicate: &'a Predicate, manifest: &'a Manifest, then: &Schema) -> PartFacts<'a> {
        PartFacts { predicate, manifest, same: same_types(predicate, then), part: 0 }
    }

    pub fn may_match(&mut self, part: usize, buckets_hold: bool) -> bool {
        self.part = part;
        let with_buckets = buckets_hold && self.manifest.parts.off_bucket[part] == 0;
        self.predicate.may(self, with_buckets)
    }
}

/// For each column of the predicate: whether it had the same type in another schema.
pub fn same_types(predicate: &Predicate, then: &Schema) -> Vec<bool> {
    let is_same = |column: &Column| {
        then.by_physical(&column.physical).is_some_and(|old| old.kind == column.kind && old.is_partition == column.is_partition)
    };
    predicate.columns.iter().map(is_same).collect()
}

impl Source for PartFacts<'_> {
    fn facts(&self, at: usize) -> Facts<'_> {
        let column = &self.predicate.columns[at];
        let (parts, part) = (&self.manifest.parts, self.part);
        let Some(kind) = column.kind.filter(|_| self.same[at]) else {
            return Facts { may_be_nan: true, ..Facts::default() };
        };
        let sort = &self.manifest.sort;
        let known = |list: &[Json], unknown: &[i64]| (unknown[part] == 0).then(|| key_value(&list[part], kind)).flatten();
        if column.is_partition {
            let is_key = sort.kind == "partition" && sort.column == column.physical;
            let bound = |list| if is_key { known(list, &parts.key_unknown) } else { None };
            return Facts { min: bound(&parts.key_min), max: bound(&parts.key_max), may_be_nan: kind.is_floating(), ..Facts::default() };
        }
        let (mut min, mut max) = (None, None);
        if self.manifest.time_column == column.physical {
            min = known(&parts.time_min, &parts.time_unknown);
            max = known(&parts.time_max, &parts.time_unknown);
        }
        if sort.kind == "min" && sort.column == column.physical && kind != Kind::Binary {
            min = known(&parts.key_min, &parts.key_unknown).or(min);
        }
        data_facts(column, min, max, None, None)
    }
}

// Row groups.

pub struct GroupFacts<'a> {
    pub predicate: &'a Predicate,
    pub metadata: &'a ParquetMetaData,
    pub same: &'a [bool],
    pub time_column: &'a [String],
    pub group: usize,
}

impl GroupFacts<'_> {
    pub fn may_match(&self, with_buckets: bool) -> bool {
        self.predicate.may(self, with_buckets)
    }

    fn bound(&self, path: &[&str], side: Side, to: Kind) -> Option<Val<'_>> {
        let schema = self.metadata.file_metadata().schema_descr();
        let leaf = (0..schema.num_columns()).find(|&at| schema.column(at).path().parts().iter().map(String::as_str).eq(path.iter().copied()))?;
        let column = schema.column_ptr_kind(leaf)?;
        if path[0] == "partition" && reads_otherwise(column, to) {
            return None;
        }
        let statistics = self.metadata.row_group(self.group).column(leaf).statistics()?;
        if statistics.null_count_opt() != Some(0) || statistics.is_min_max_deprecated() {
            return None;
        }
        convert(statistic(statistics, side, column)?, column, to)
    }
}

/// Whether the text of a partition value may be another value than that of an older type: as a double, the text 0.1
/// is another number than as a float.
fn reads_otherwise(old: Kind, new: Kind) -> bool {
    old == Kind::Float && new == Kind::Double
}

/// The type of a leaf of a Parquet schema.
trait LeafKind {
    fn column_ptr_kind(&self, leaf: usize) -> Option<Kind>;
}

impl LeafKind for parquet::schema::types::SchemaDescriptor {
    fn column_ptr_kind(&self, leaf: usize) -> Option<Kind> {
        parquet_kind(&self.column(leaf))
    }
}

fn parquet_kind(column: &ColumnDescriptor) -> Option<Kind> {
    match (column.logical_type_ref(), column.converted_type(), column.physical_type()) {
        (Some(LogicalType::Integer { bit_width: 8, is_signed: true }), ..) => Some(Kind::Byte),
        (Some(LogicalType::Integer { bit_width: 16, is_signed: true }), ..) => Some(Kind::Short),
        (Some(LogicalType::Integer { bit_width: 32, is_signed: true }), ..) => Some(Kind::Integer),
        (Some(LogicalType::Integer { bit_width: 64, is_signed: true }), ..) => Some(Kind::Long),
        (Some(LogicalType::String), ..) => Some(Kind::String),
        (Some(LogicalType::Date), ..) => Some(Kind::Date),
        (Some(LogicalType::Timestamp { is_adjusted_to_u_t_c, unit: TimeUnit::MICROS }), ..) => {
            Some(if *is_adjusted_to_u_t_c { Kind::Timestamp } else { Kind::TimestampNtz })
        }
        (Some(LogicalType::Decimal { precision, scale }), ..) if *precision > 0 && *scale >= 0 => Some(Kind::Decimal(*precision as u32, *scale as u32)),
        (Some(_), ..) => None,
        (None, ConvertedType::NONE, Physical::INT32) => Some(Kind::Integer),
        (None, ConvertedType::NONE, Physical::INT64) => Some(Kind::Long),
        (None, ConvertedType::NONE, Physical::FLOAT) => Some(Kind::Float),
        (None, ConvertedType::NONE, Physical::DOUBLE) => Some(Kind::Double),
        (None, ConvertedType::UTF8, _) => Some(Kind::String),
        (None, ConvertedType::DATE, _) => Some(Kind::Date),
        _ => None,
    }
}

fn statistic<'a>(statistics: &'a Statistics, side: Side, kind: Kind) -> Option<Val<'a>> {
    macro_rules! of {
        ($typed:expr) => {
            match side {
                Side::Min => $typed.min_opt(),
                Side::Max => $typed.max_opt(),
            }
        };
    }
    let number = |value: i64| if matches!(kind, Kind::Decimal(..)) { Val::Dec(value.into()) } else { Val::Int(value) };
    Some(match statistics {
        Statistics::Int32(typed) => number((*of!(typed)?).into()),
        Statistics::Int64(typed) => number(*of!(typed)?),
        Statistics::Float(typed) => Val::Float((*of!(typed)?).into()),
        Statistics::Double(typed) => Val::Float(*of!(typed)?),
        Statistics::ByteArray(typed) if kind == Kind::String => Val::Bytes(of!(typed)?.data().into()),
        Statistics::FixedLenByteArray(typed) if matches!(kind, Kind::Decimal(..)) => {
            let bytes = of!(typed)?.data();
            if bytes.is_empty() || bytes.len() > 16 {
                return None;
            }
            let sign = if bytes[0] & 0x80 == 0 { 0i128 } else { -1 };
            Val::Dec(bytes.iter().fold(sign, |value, &byte| (value << 8) | i128::from(byte)))
        }
        _ => return None,
    })
}

impl Source for GroupFacts<'_> {
    fn facts(&self, at: usize) -> Facts<'_> {
        let column = &self.predicate.columns[at];
        let nothing = Facts { may_be_nan: true, ..Facts::default() };
        let Some(kind) = column.kind.filter(|_| self.same[at]) else { return nothing };
        if column.is_partition {
            if matches!(kind, Kind::Boolean | Kind::Binary) {
                return nothing;
            }
            let path = ["partition", column.physical[0].as_str()];
            let bound = |side| self.bound(&path, side, kind).filter(|v| !matches!(v, Val::Float(f) if f.is_nan()));
            return Facts { min: bound(Side::Min), max: bound(Side::Max), may_be_nan: kind.is_floating(), ..Facts::default() };
        }
        if column.physical != self.time_column {
            return nothing;
        }
        data_facts(column, self.bound(&["time_min"], Side::Min, kind), self.bound(&["time_max"], Side::Max, kind), None, None)
    }
}

// Rows of an index.

enum Reader {
    Partition { leaf: Option<Leaf>, name: String },
    /// `in_core`: the bounds are those of the time column, which have the rows of the core file.
    Data { min: Option<Leaf>, max: Option<Leaf>, nulls: Option<Leaf>, in_core: bool },
}

/// The rows of a batch of core columns, with those of the stats file from `offset` on.
pub struct RowFacts<'a> {
    predicate: &'a Predicate,
    readers: Vec<Reader>,
    rows: Option<Leaf>,
    texts: Option<&'a MapArray>,
    row: Cell<usize>,
    offset: usize,
}

impl<'a> RowFacts<'a> {
    pub fn new(predicate: &'a Predicate, core: &'a RecordBatch, stats: Option<(&RecordBatch, usize)>, time_column: &[String]) -> RowFacts<'a> {
        let in_stats = |top: &str, path: &[String]| {
            let names: Vec<&str> = std::iter::once(top).chain(path.iter().map(String::as_str)).collect();
            leaf_at(stats?.0, &names)
        };
        let readers = predicate.columns.iter().map(|column| {
            if column.is_partition {
                let name = column.physical[0].clone();
                return Reader::Partition { leaf: leaf_at(core, &["partition", &name]), name };
            }
            let nulls = in_stats("null_count", &column.physical);
            if column.physical == time_column {
                return Reader::Data { min: leaf_at(core, &["time_min"]), max: leaf_at(core, &["time_max"]), nulls, in_core: true };
            }
            Reader::Data { min: in_stats("min", &column.physical), max: in_stats("max", &column.physical), nulls, in_core: false }
        });
        let texts = column_at(core, &["partition_values"]).and_then(|column| column.as_map_opt());
        let offset = stats.map_or(0, |(_, offset)| offset);
        RowFacts { predicate, readers: readers.collect(), rows: leaf_at(core, &["num_records"]), texts, row: Cell::new(0), offset }
    }

    pub fn may_match(&self, row: usize, with_buckets: bool) -> bool {
        self.row.set(row);
        self.predicate.may(self, with_buckets)
    }

    fn text(&self, name: &str) -> Option<&str> {
        let texts = self.texts?;
        let row = self.row.get();
        if texts.is_null(row) {
            return None;
        }
        let (from, to) = (texts.value_offsets()[row] as usize, texts.value_offsets()[row + 1] as usize);
        let (keys, values) = (texts.keys().as_string_opt::<i32>()?, texts.values().as_string_opt::<i32>()?);
        let found = (from..to).rev().find(|&at| keys.value(at) == name)?;
        values.is_valid(found).then(|| values.value(found))
    }
}

impl Source for RowFacts<'_> {
    fn facts(&self, at: usize) -> Facts<'_> {
        let (column, row) = (&self.predicate.columns[at], self.row.get());
        match &self.readers[at] {
            Reader::Partition { leaf, name } => {
                let Some(kind) = column.kind else { return Facts::default() };
                match leaf.as_ref().and_then(|leaf| leaf.get(row).map(|value| (value, leaf.kind))) {
                    Some((value, from)) if !reads_otherwise(from, kind) => match convert(value, from, kind) {
                        Some(value) => partition_facts(Partition::Value(value)),
                        None => Facts { rows: Some(1), ..Facts::default() },
                    },
                    _ => partition_facts(partition_value(self.text(name), kind)),
                }
            }
            Reader::Data { min, max, nulls, in_core } => {
                let Some(kind) = column.kind else { return Facts { rows: self.records(row), ..Facts::default() } };
                let place = if *in_core { row } else { self.offset + row };
                let nulls = nulls.as_ref().and_then(|leaf| leaf.count(self.offset + row));
                data_facts(column, converted(min, place, kind), converted(max, place, kind), nulls, self.records(row))
            }
        }
    }
}

fn converted(leaf: &Option<Leaf>, row: usize, to: Kind) -> Option<Val<'_>> {
    let leaf = leaf.as_ref()?;
    convert(leaf.get(row)?, leaf.kind, to)
}

impl RowFacts<'_> {
    fn records(&self, row: usize) -> Option<i64> {
        self.rows.as_ref().and_then(|leaf| leaf.count(row))
    }
}

// Actions of the log.

/// An `add`, and its stats once something asks for them: most files are left out by their partition.
pub struct AddFacts<'a> {
    predicate: &'a Predicate,
    add: &'a Add,
    stats: OnceCell<Option<Json>>,
}

impl<'a> AddFacts<'a> {
    pub fn may_match(predicate: &'a Predicate, add: &'a Add) -> bool {
        let facts = AddFacts { predicate, add, stats: OnceCell::new() };
        let with_buckets = predicate.follows.is_some() && !predicate.buckets.iter().any(|bound| facts.contradicts(bound));
        predicate.may(&facts, with_buckets)
    }

    fn stats(&self) -> Option<&Json> {
        self.stats.get_or_init(|| serde_json::from_str::<Json>(self.add.stats.as_deref()?).ok().filter(Json::is_object)).as_ref()
    }

    fn in_stats(&self, top: &str, path: &[String]) -> Option<&Json> {
        path.iter().try_fold(self.stats()?.get(top)?, |json, name| json.get(name))
    }

    fn text(&self, column: &Column) -> Option<&'a str> {
        self.add.partition_values.as_ref()?.get(&column.physical[0])?.as_deref()
    }

    /// A bound that is not widened: typed where there is one, else from the text.
    fn bound(&self, column: &Column, kind: Kind, side: Side) -> Option<Val<'_>> {
        let top = match side {
            Side::Min => "minValues",
            Side::Max => "maxValues",
        };
        let typed = self.add.typed.as_ref().and_then(|typed| typed.bound(top, &column.physical, kind, side));
        typed.or_else(|| self.in_stats(top, &column.physical).and_then(|json| bound_from_json(json, kind, side)))
    }

    fn count(&self, top: &str, path: &[String]) -> Option<i64> {
        let typed = self.add.typed.as_ref().and_then(|typed| typed.count(top, path));
        typed.or_else(|| count_from_json(self.in_stats(top, path)))
    }

    fn contradicts(&self, bound: &BoundBucket) -> bool {
        let time = &self.predicate.columns[bound.time];
        let kind = time.kind.unwrap_or(Kind::Timestamp);
        let moment = |side| match self.bound(time, kind, side) {
            Some(Val::Int(moment)) => Some(moment),
            _ => None,
        };
        let values: Vec<std::result::Result<Option<Val<'_>>, ()>> = bound
            .columns
            .iter()
            .map(|&at| {
                let column = &self.predicate.columns[at];
                match partition_value(self.text(column), column.kind.unwrap_or(Kind::String)) {
                    Partition::Value(value) => Ok(Some(value)),
                    Partition::Null => Ok(None),
                    Partition::Unreadable => Err(()),
                }
            })
            .collect();
        let nulls = self.count("nullCount", &time.physical);
        bound.bucket.is_contradicted(&values, moment(Side::Min), moment(Side::Max), nulls)
    }
}

impl Source for AddFacts<'_> {
    fn facts(&self, at: usize) -> Facts<'_> {
        let column = &self.predicate.columns[at];
        if column.is_partition {
            return column.kind.map_or_else(Facts::default, |kind| partition_facts(partition_value(self.text(column), kind)));
        }
        let rows = self.count("numRecords", &[]);
        let Some(kind) = column.kind else {
            return Facts { rows, ..Facts::default() };
        };
        let nulls = self.count("nullCount", &column.physical);
        data_facts(column, self.bound(column, kind, Side::Min), self.bound(column, kind, Side::Max), nulls, rows)
    }
}
