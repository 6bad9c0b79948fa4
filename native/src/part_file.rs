//! A Parquet file of a part: its footer and the chunks that are read, each with its checksum.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ProjectionMask;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{corrupt, Result};
use crate::manifest::FileEntry;
use crate::store::Store;

/// The pieces of a file that were read.
#[derive(Clone, Default)]
struct Pieces {
    size: u64,
    pieces: Vec<(u64, Bytes)>,
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Pieces {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let found = self.pieces.iter().find(|(at, bytes)| *at <= start && start < at + bytes.len() as u64);
        let Some((at, bytes)) = found else {
            return Err(ParquetError::General(format!("no bytes were read at {start}")));
        };
        Ok(std::io::Cursor::new(bytes.slice((start - at) as usize..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start + length as u64;
        let found = self.pieces.iter().find(|(at, bytes)| *at <= start && end <= at + bytes.len() as u64);
        let Some((at, bytes)) = found else {
            return Err(ParquetError::General(format!("no bytes were read from {start} to {end}")));
        };
        Ok(bytes.slice((start - at) as usize..(end - at) as usize))
    }
}

pub struct PartFile {
    path: String,
    pieces: Pieces,
    /// Checksums of column chunks; None if the whole file was checked.
    chunk_crcs: Option<Vec<u32>>,
    pub metadata: Arc<ParquetMetaData>,
    arrow: ArrowReaderMetadata,
}

impl PartFile {
    /// A file of which all bytes are at hand.
    pub fn whole(path: &str, bytes: Bytes, entry: FileEntry, rows: i64) -> Result<PartFile> {
        if bytes.len() as u64 != entry.size || crc32fast::hash(&bytes) != entry.crc32 {
            return corrupt(format!("{path} is damaged: its size or checksum is wrong"));
        }
        let footer = checked_footer(path, &bytes, entry)?;
        let pieces = Pieces { size: entry.size, pieces: vec![(0, bytes.clone())] };
        PartFile::new(path, pieces, None, &footer, rows)
    }

    /// A file of which the footer is read, and chunks when they are needed.
    pub fn by_ranges(store: &Store, path: &str, entry: FileEntry, rows: i64) -> Result<PartFile> {
        let tail = entry.footer.saturating_add(12).saturating_add(entry.footer / 8);
        if tail >= entry.size || store.local_size(path).is_some_and(|size| size != entry.size) {
            return PartFile::whole(path, store.need(path)?, entry, rows);
        }
        let end = store.ranges(path, &[(entry.size - tail, entry.size)])?.remove(0);
        let footer = checked_footer(path, &end, entry)?;
        let before = &end[..end.len() - 8 - entry.footer as usize];
        let Some(sums) = before.strip_suffix(b"DSC2") else {
            return PartFile::whole(path, store.need(path)?, entry, rows);
        };
        let sums: Vec<u32> = sums.rchunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        let pieces = Pieces { size: entry.size, pieces: Vec::new() };
        let mut file = PartFile::new(path, pieces, None, &footer, rows)?;
        let chunks = file.metadata.num_row_groups() * file.leaves();
        if sums.len() < chunks {
            return PartFile::whole(path, store.need(path)?, entry, rows);
        }
        file.chunk_crcs = Some(sums[..chunks].iter().rev().copied().collect());
        Ok(file)
    }

    fn new(path: &str, pieces: Pieces, chunk_crcs: Option<Vec<u32>>, footer: &[u8], rows: i64) -> Result<PartFile> {
        let metadata = match ParquetMetaDataReader::decode_metadata(footer) {
            Ok(metadata) => Arc::new(metadata),
            Err(error) => return corrupt(format!("{path} is damaged: {error}")),
        };
        if metadata.file_metadata().num_rows() != rows {
            return corrupt(format!("{path} has {} rows, not {rows}", metadata.file_metadata().num_rows()));
        }
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let arrow = match ArrowReaderMetadata::try_new(metadata.clone(), options) {
            Ok(arrow) => arrow,
            Err(error) => return corrupt(format!("{path} cannot be read: {error}")),
        };
        Ok(PartFile { path: path.to_string(), pieces, chunk_crcs, metadata, arrow })
    }

    fn leaves(&self) -> usize {
        self.metadata.file_metadata().schema_descr().num_columns()
    }

    /// The leaves for which this holds, given their path.
    pub fn leaves_where(&self, wanted: impl Fn(&[String]) -> bool) -> Vec<usize> {
        let schema = self.metadata.file_metadata().schema_descr();
        (0..schema.num_columns()).filter(|&at| wanted(schema.column(at).path().parts())).collect()
    }

    pub fn group_rows(&self, group: usize) -> usize {
        self.metadata.row_group(group).num_rows().max(0) as usize
    }

    /// The bytes of the file that are at hand.
    pub fn bytes(&self) -> u64 {
        self.pieces.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The chunks of these leaves and row groups: read and checked, unless the whole file is at hand.
    fn load(&self, store: &Store, groups: &[usize], leaves: &[usize]) -> Result<Pieces> {
        let Some(crcs) = &self.chunk_crcs else { return Ok(self.pieces.clone()) };
        let (count, mut wanted) = (self.leaves(), Vec::new());
        for &group in groups {
            for &leaf in leaves {
                let (start, length) = self.metadata.row_group(group).column(leaf).byte_range();
                let end = start.saturating_add(length);
                wanted.push((start, end, crcs[group * count + leaf]));
            }
        }
        let mut pieces = Pieces { size: self.pieces.size, pieces: Vec::new() };
        let ranges: Vec<(u64, u64)> = wanted.iter().map(|&(start, end, _)| (start, end)).collect();
        for (bytes, (start, _, crc)) in store.ranges(&self.path, &ranges)?.into_iter().zip(wanted) {
            if crc32fast::hash(&bytes) != crc {
                return corrupt(format!("{} is damaged: the checksum of a column is wrong", self.path));
            }
            pieces.pieces.push((start, bytes));
        }
        Ok(pieces)
    }

    /// Rows of row groups, batch by batch.
    pub fn read(&self, store: &Store, groups: &[usize], leaves: &[usize], batch_rows: usize) -> Result<ParquetRecordBatchReader> {
        let pieces = self.load(store, groups, leaves)?;
        let mask = ProjectionMask::leaves(self.metadata.file_metadata().schema_descr(), leaves.iter().copied());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pieces, self.arrow.clone());
        match builder.with_projection(mask).with_row_groups(groups.to_vec()).with_batch_size(batch_rows.max(1)).build() {
            Ok(reader) => Ok(reader),
            Err(error) => corrupt(format!("{} cannot be read: {error}", self.path)),
        }
    }

    pub fn damaged<T>(&self, why: impl std::fmt::Display) -> Result<T> {
        corrupt(format!("{} is damaged: {why}", self.path))
    }

    pub fn batches(&self, reader: ParquetRecordBatchReader) -> Result<Vec<RecordBatch>> {
        let mut found = Vec::new();
        for batch in reader {
            match batch {
                Ok(batch) => found.push(batch),
                Err(error) => return self.damaged(error),
            }
        }
        Ok(found)
    }
}

/// The footer at the end of these bytes, without the eight that end the file.
fn checked_footer(path: &str, end: &Bytes, entry: FileEntry) -> Result<Bytes> {
    let length = entry.footer.saturating_add(8);
    if length > end.len() as u64 {
        return corrupt(format!("{path} is damaged: its footer does not fit"));
    }
    let footer = end.slice(end.len() - length as usize..);
    let (content, last) = footer.split_at(entry.footer as usize);
    let told = u32::from_le_bytes([last[0], last[1], last[2], last[3]]);
    if crc32fast::hash(&footer) != entry.footer_crc32 || &last[4..] != b"PAR1" || u64::from(told) != entry.footer {
        return corrupt(format!("{path} is damaged: the checksum of its footer is wrong"));
    }
    Ok(footer.slice(..content.len()))
}
