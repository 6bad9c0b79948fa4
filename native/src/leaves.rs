//! Leaves of the Parquet files of a part, and of the typed statistics of a checkpoint, as typed values.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, TimeUnit};

use crate::values::{convert, Kind, Side, Val};

/// The type of a column of the table that an Arrow type stands for.
pub fn kind_of(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Int8 => Kind::Byte,
        DataType::Int16 => Kind::Short,
        DataType::Int32 => Kind::Integer,
        DataType::Int64 => Kind::Long,
        DataType::Float32 => Kind::Float,
        DataType::Float64 => Kind::Double,
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 => Kind::String,
        DataType::Binary => Kind::Binary,
        DataType::Date32 => Kind::Date,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => if zone.is_some() { Kind::Timestamp } else { Kind::TimestampNtz },
        DataType::Decimal128(p, s) if *s >= 0 => Kind::Decimal((*p).into(), *s as u32),
        _ => return None,
    })
}

#[derive(Clone, Debug)]
pub struct Leaf {
    pub kind: Kind,
    pub array: ArrayRef,
}

impl Leaf {
    pub fn new(array: ArrayRef) -> Option<Leaf> {
        Some(Leaf { kind: kind_of(array.data_type())?, array })
    }

    pub fn get(&self, row: usize) -> Option<Val<'_>> {
        value_at(&self.array, self.kind, row)
    }

    pub fn count(&self, row: usize) -> Option<i64> {
        match self.get(row) {
            Some(Val::Int(count)) if count >= 0 => Some(count),
            _ => None,
        }
    }
}

/// The value of a row; null is None.
fn value_at(array: &ArrayRef, kind: Kind, row: usize) -> Option<Val<'_>> {
    if array.is_null(row) {
        return None;
    }
    Some(match kind {
        Kind::Byte => Val::Int(array.as_primitive::<Int8Type>().value(row).into()),
        Kind::Short => Val::Int(array.as_primitive::<Int16Type>().value(row).into()),
        Kind::Integer => Val::Int(array.as_primitive::<Int32Type>().value(row).into()),
        Kind::Long => Val::Int(array.as_primitive::<Int64Type>().value(row)),
        Kind::Float => Val::Float(array.as_primitive::<Float32Type>().value(row).into()),
        Kind::Double => Val::Float(array.as_primitive::<Float64Type>().value(row)),
        Kind::Boolean => Val::Int(array.as_boolean().value(row).into()),
        Kind::String => Val::Bytes(Cow::Borrowed(array.as_string::<i32>().value(row).as_bytes())),
        Kind::Binary => Val::Bytes(Cow::Borrowed(array.as_binary::<i32>().value(row))),
        Kind::Date => Val::Int(array.as_primitive::<Date32Type>().value(row).into()),
        Kind::Timestamp | Kind::TimestampNtz => Val::Int(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        Kind::Decimal(..) => Val::Dec(array.as_primitive::<Decimal128Type>().value(row)),
    })
}

/// The column at a path of names, from the top down.
pub fn column_at<'a>(batch: &'a RecordBatch, path: &[&str]) -> Option<&'a ArrayRef> {
    let mut found = batch.column_by_name(path.first()?)?;
    for name in &path[1..] {
        found = found.as_any().downcast_ref::<StructArray>()?.column_by_name(name)?;
    }
    Some(found)
}

pub fn leaf_at(batch: &RecordBatch, path: &[&str]) -> Option<Leaf> {
    Leaf::new(column_at(batch, path)?.clone())
}

/// One row of a checkpoint's typed statistics.
#[derive(Clone, Debug)]
pub struct TypedStats {
    pub rows: Arc<StructArray>,
    pub row: usize,
}

impl TypedStats {
    fn array(&self, top: &str, path: &[String]) -> Option<&ArrayRef> {
        let mut found = self.rows.column_by_name(top)?;
        for name in path {
            if found.is_null(self.row) {
                return None;
            }
            found = found.as_any().downcast_ref::<StructArray>()?.column_by_name(name)?;
        }
        (self.rows.is_valid(self.row) && found.is_valid(self.row)).then_some(found)
    }

    pub fn count(&self, top: &str, path: &[String]) -> Option<i64> {
        let array = self.array(top, path)?;
        match value_at(array, kind_of(array.data_type())?, self.row)? {
            Val::Int(count) if count >= 0 => Some(count),
            _ => None,
        }
    }

    /// A bound as a value of the column's type, not widened; None is unknown.
    pub fn bound(&self, top: &str, path: &[String], to: Kind, side: Side) -> Option<Val<'_>> {
        let array = self.array(top, path)?;
        if let DataType::Timestamp(unit, zone) = array.data_type() {
            return moment(array, self.row, *unit, zone.is_some(), to, side).map(Val::Int);
        }
        let from = kind_of(array.data_type())?;
        let value = value_at(array, from, self.row).filter(|value| !matches!(value, Val::Float(float) if float.is_nan()))?;
        convert(value, from, to)
    }
}

/// A time in microseconds, cut outwards. Nanoseconds without a zone may be INT96, which wraps around, so they tell
/// nothing; an instant may be stored without a zone, a wall clock not with one.
fn moment(array: &ArrayRef, row: usize, unit: TimeUnit, zoned: bool, to: Kind, side: Side) -> Option<i64> {
    if !to.is_time() || (zoned && to == Kind::TimestampNtz) {
        return None;
    }
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1_000),
        TimeUnit::Microsecond => Some(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        TimeUnit::Nanosecond if zoned => {
            let nanos = array.as_primitive::<TimestampNanosecondType>().value(row);
            let up = side == Side::Max && nanos.rem_euclid(1_000) != 0;
            Some(nanos.div_euclid(1_000) + i64::from(up))
        }
        TimeUnit::Nanosecond => None,
    }
}
