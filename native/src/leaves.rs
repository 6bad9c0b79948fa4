//! Leaves of the Parquet files of a part as typed values.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, TimeUnit};

use crate::values::{Kind, Val};

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
    array: ArrayRef,
}

impl Leaf {
    pub fn new(array: ArrayRef) -> Option<Leaf> {
        Some(Leaf { kind: kind_of(array.data_type())?, array })
    }

    pub fn get(&self, row: usize) -> Option<Val<'_>> {
        if self.array.is_null(row) {
            return None;
        }
        let array = &self.array;
        Some(match self.kind {
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

    pub fn count(&self, row: usize) -> Option<i64> {
        match self.get(row) {
            Some(Val::Int(count)) if count >= 0 => Some(count),
            _ => None,
        }
    }
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
