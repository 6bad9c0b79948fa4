//! The manifest of an index: its checksum, its content, and whether it belongs to this table.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::{corrupt, Result};
use crate::log::{commit_path, table_id, Listing};
use crate::schema::{Metadata, Protocol};
use crate::store::Store;

pub const DIRECTORIES: [&str; 2] = ["_delta_log/_sidecars", "_delta_log/_sidecar_index"];
const BEGIN: &[u8] = b"{\"crc32\":\"";
const MIDDLE: &[u8] = b"\",\"manifest\":";

#[derive(Clone, Debug, Deserialize)]
pub struct Sort {
    pub kind: String,
    #[serde(default)]
    pub column: Vec<String>,
    #[serde(default)]
    #[allow(dead_code)]
    granularity: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Commit {
    size: u64,
    modified: i64,
    #[serde(default)]
    etag: Option<String>,
    #[serde(default)]
    crc32: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Manifest {
    format: i64,
    #[allow(dead_code)]
    writer: String,
    #[allow(dead_code)]
    build: String,
    table_id: String,
    pub version: i64,
    pub protocol: Protocol,
    pub metadata: Metadata,
    #[allow(dead_code)]
    schema_hash: String,
    pub sort: Sort,
    #[serde(default)]
    pub time_column: Vec<String>,
    pub files: i64,
    #[allow(dead_code)]
    bytes: i64,
    #[serde(default)]
    #[allow(dead_code)]
    records: Option<i64>,
    #[serde(default)]
    #[allow(dead_code)]
    user_metadata: BTreeMap<String, String>,
    #[serde(default)]
    commit: Option<Commit>,
    #[serde(default)]
    pub parts: Parts,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct FileEntries {
    size: Vec<i64>,
    footer: Vec<u64>,
    crc32: Vec<u32>,
    footer_crc32: Vec<u32>,
}

/// A file of a part: its size, the length of its footer and their checksums.
#[derive(Clone, Copy, Debug)]
pub struct FileEntry {
    pub size: u64,
    pub footer: u64,
    pub crc32: u32,
    pub footer_crc32: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Parts {
    builds: Vec<String>,
    build: Vec<i64>,
    number: Vec<i64>,
    pub rows: Vec<i64>,
    row_groups: Vec<i64>,
    bytes: Vec<i64>,
    records: Vec<Option<i64>>,
    core: FileEntries,
    stats: FileEntries,
    pub key_min: Vec<Json>,
    pub key_max: Vec<Json>,
    pub key_unknown: Vec<i64>,
    pub time_min: Vec<Json>,
    pub time_max: Vec<Json>,
    pub time_unknown: Vec<i64>,
    path_min: Vec<Option<String>>,
    path_max: Vec<Option<String>>,
    vectors: Vec<i64>,
    pub off_bucket: Vec<i64>,
}

impl Parts {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn is_sound(&self) -> bool {
        let lengths = [
            self.build.len(),
            self.number.len(),
            self.row_groups.len(),
            self.bytes.len(),
            self.records.len(),
            self.core.size.len(),
            self.core.footer.len(),
            self.core.crc32.len(),
            self.core.footer_crc32.len(),
            self.stats.size.len(),
            self.stats.footer.len(),
            self.stats.crc32.len(),
            self.stats.footer_crc32.len(),
            self.key_min.len(),
            self.key_max.len(),
            self.key_unknown.len(),
            self.time_min.len(),
            self.time_max.len(),
            self.time_unknown.len(),
            self.path_min.len(),
            self.path_max.len(),
            self.vectors.len(),
            self.off_bucket.len(),
        ];
        let known = |build: &i64| usize::try_from(*build).is_ok_and(|at| at < self.builds.len());
        lengths.iter().all(|&length| length == self.len()) && self.build.iter().all(known)
    }

    fn id(&self, at: usize) -> String {
        let build = &self.builds[self.build[at] as usize];
        if self.number[at] == -1 { build.clone() } else { format!("{build}-{}", self.number[at]) }
    }

    pub fn core_name(&self, at: usize) -> String {
        if self.is_single(at) { format!("{}.parquet", self.id(at)) } else { format!("{}.core.parquet", self.id(at)) }
    }

    pub fn stats_name(&self, at: usize) -> String {
        format!("{}.stats.parquet", self.id(at))
    }

    pub fn is_single(&self, at: usize) -> bool {
        self.stats.size[at] == -1
    }

    pub fn core(&self, at: usize) -> FileEntry {
        entry(&self.core, at)
    }

    pub fn stats(&self, at: usize) -> FileEntry {
        entry(&self.stats, at)
    }
}

fn entry(of: &FileEntries, at: usize) -> FileEntry {
    FileEntry { size: of.size[at].max(0) as u64, footer: of.footer[at], crc32: of.crc32[at], footer_crc32: of.footer_crc32[at] }
}

/// The inner object of a manifest file whose checksum is right.
pub fn inner(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(BEGIN)?;
    let (crc, rest) = rest.split_at_checked(8)?;
    let inner = rest.strip_prefix(MIDDLE)?.strip_suffix(b"}")?;
    (format!("{:08x}", crc32fast::hash(inner)).as_bytes() == crc).then_some(inner)
}

/// A manifest that may be used for its version, as far as it tells itself. Its binding is checked apart.
pub fn read(file: &[u8], version: i64) -> Result<Manifest> {
    let Some(json) = inner(file) else {
        return corrupt("the manifest's checksum is wrong");
    };
    let manifest: Manifest = match serde_json::from_slice(json) {
        Ok(manifest) => manifest,
        Err(error) => return corrupt(format!("the manifest cannot be read: {error}")),
    };
    if manifest.format != 1 {
        return corrupt(format!("the manifest has format {}, which this reader does not know", manifest.format));
    }
    if manifest.version != version {
        return corrupt(format!("the manifest is that of version {}", manifest.version));
    }
    if !manifest.parts.is_sound() {
        return corrupt("the manifest's parts are not of one length");
    }
    Ok(manifest)
}

/// An etag without the quotes that some answers of a store have around it, and others do not.
fn unquoted(etag: &str) -> &str {
    etag.trim_matches('"')
}

impl Manifest {
    /// Why the index is not that of this table; None if it is.
    pub fn why_not_bound(&self, store: &Store, listing: &Listing) -> Result<Option<&'static str>> {
        if let Some(listed) = listing.commits.get(&self.version) {
            let Some(commit) = &self.commit else { return Ok(Some("its build saw no commit file, and there is one")) };
            let meta = match store.described(listed) {
                Err(error) if error.is_of_the_store() => return Err(error),
                Err(_) => return Ok(Some("the commit file of its version is gone")),
                Ok(meta) => meta,
            };
            if meta.size != Some(commit.size) {
                return Ok(Some("the commit file of its version has another size"));
            }
            let is_same = match (&commit.etag, &meta.etag) {
                (Some(built), Some(now)) => unquoted(built) == unquoted(now),
                _ => meta.modified == Some(commit.modified),
            };
            if is_same {
                return Ok(None);
            }
            if listing.from > 0 {
                return Ok(Some("its commit file was copied, and the log was not listed whole"));
            }
            if let Some(crc32) = commit.crc32 {
                match store.get(&commit_path(self.version))? {
                    Some(bytes) if crc32fast::hash(&bytes) == crc32 => {}
                    _ => return Ok(Some("the commit file of its version has other bytes")),
                }
            }
        }
        if listing.from > 0 {
            return Ok(Some("its commit file is gone, and the log was not listed whole"));
        }
        Ok(match table_id(store, listing, self.version)? {
            Some(id) if id == self.table_id => None,
            Some(_) => Some("it belongs to a table with another id"),
            None => Some("the table's id at its version cannot be found"),
        })
    }
}
