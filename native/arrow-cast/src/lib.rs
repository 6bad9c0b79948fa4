//! Stands in for the crate `arrow-cast`, of which the `parquet` crate calls one function: casts between all types of
//! Arrow would be a fifth of the library. When Parquet is read without Arrow's own schema, the casts left are those that
//! keep the bytes and change their meaning: from the integers of Parquet to dates and times. Others are refused.

use arrow_array::{make_array, Array, ArrayRef};
use arrow_schema::{ArrowError, DataType};

/// The array as one of another type.
pub fn cast(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::*;
    match (array.data_type(), to) {
        (from, to) if from == to => Ok(make_array(array.to_data())),
        (Int32, Date32 | Time32(_)) | (Int64, Time64(_) | Timestamp(..)) => Ok(make_array(array.to_data().into_builder().data_type(to.clone()).build()?)),
        (from, to) => Err(ArrowError::NotYetImplemented(format!("a column of {from} cannot be read as {to}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Date32Array, Int32Array, Int64Array, TimestampMicrosecondArray};
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn meanings_of_the_same_bytes() {
        let days: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        assert_eq!(&cast(&days, &DataType::Int32).unwrap(), &days);
        assert_eq!(cast(&days, &DataType::Date32).unwrap().as_any().downcast_ref(), Some(&Date32Array::from(vec![Some(1), None])));
        let moments = Int64Array::from(vec![Some(7), None]);
        let zoned = TimestampMicrosecondArray::from(vec![Some(7), None]).with_timezone("UTC");
        let found = cast(&moments, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))).unwrap();
        assert_eq!(found.as_any().downcast_ref(), Some(&zoned));
    }

    #[test]
    fn others_are_refused() {
        let error = cast(&Int32Array::from(vec![1]), &DataType::Utf8).unwrap_err().to_string();
        assert!(error.contains("Int32 cannot be read as Utf8"), "{error}");
    }
}
