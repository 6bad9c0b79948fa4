//! The names of the log: commits, complete checkpoints, the head; and what the log itself says of a version.

use std::collections::BTreeMap;

use crate::actions::lines_of;
use crate::checkpoint::{self, State};
use crate::error::{fail, Code, Result};
use crate::schema::Metadata;
use crate::store::{Meta, Store, LOG};

#[derive(Clone, Debug, PartialEq)]
pub enum Checkpoint {
    /// One Parquet file, or the parts of one.
    Parquet(Vec<String>),
    Json(String),
}

#[derive(Debug, Default)]
pub struct Listing {
    pub commits: BTreeMap<i64, Meta>,
    /// Complete checkpoints by version: those with their own name first, then those of more parts.
    pub checkpoints: BTreeMap<i64, Vec<Checkpoint>>,
    /// The version from which it was listed; 0 is everything.
    pub from: i64,
}

impl Listing {
    pub fn new(files: Vec<Meta>, from: i64) -> Listing {
        let mut listing = Listing { from, ..Listing::default() };
        let mut parts: BTreeMap<(i64, u64), BTreeMap<u64, String>> = BTreeMap::new();
        for meta in files {
            let Some((version, rest)) = versioned(&meta.path) else { continue };
            if rest == "json" {
                listing.commits.insert(version, meta);
                continue;
            }
            if meta.size == Some(0) {
                continue;
            }
            let path = format!("{LOG}/{}", meta.path);
            let found = listing.checkpoints.entry(version);
            match checkpoint_name(rest) {
                Some(Name::Classic) => found.or_default().push(Checkpoint::Parquet(vec![path])),
                Some(Name::Own("json")) => found.or_default().insert(0, Checkpoint::Json(path)),
                Some(Name::Own(_)) => found.or_default().insert(0, Checkpoint::Parquet(vec![path])),
                Some(Name::Part(number, of)) => {
                    parts.entry((version, of)).or_default().insert(number, path);
                }
                None => {}
            }
        }
        for ((version, of), files) in parts {
            let complete = of > 0 && files.len() as u64 == of && files.keys().copied().eq(1..=of);
            if complete {
                let files = files.into_values().collect();
                let entry = listing.checkpoints.entry(version).or_default();
                let at = entry.iter().position(|other| matches!(other, Checkpoint::Parquet(f) if f.len() == 1 && f[0].ends_with(".checkpoint.parquet"))).unwrap_or(entry.len());
                entry.insert(at, Checkpoint::Parquet(files));
            }
        }
        listing.checkpoints.retain(|_, found| !found.is_empty());
        listing
    }

    pub fn head(&self) -> Option<i64> {
        let commit = self.commits.keys().next_back();
        let checkpoint = self.checkpoints.keys().next_back();
        commit.max(checkpoint).copied()
    }

    /// Whether every commit from one version to another exists.
    pub fn has_commits(&self, first: i64, last: i64) -> bool {
        last < first || self.commits.range(first..=last).count() as i64 == last - first + 1
    }

    pub fn missing_commit(&self, first: i64, last: i64) -> Option<i64> {
        (first..=last).find(|version| !self.commits.contains_key(version))
    }
}

enum Name<'a> {
    Classic,
    Own(&'a str),
    Part(u64, u64),
}

fn versioned(name: &str) -> Option<(i64, &str)> {
    let (digits, rest) = name.split_at_checked(20)?;
    let all = digits.bytes().all(|b| b.is_ascii_digit());
    Some((all.then(|| digits.parse().ok())??, rest.strip_prefix('.')?))
}

fn checkpoint_name(rest: &str) -> Option<Name<'_>> {
    let rest = rest.strip_prefix("checkpoint.")?;
    if rest == "parquet" {
        return Some(Name::Classic);
    }
    let number = |text: &str| (text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?;
    match rest.split('.').collect::<Vec<_>>().as_slice() {
        [part, of, "parquet"] => Some(Name::Part(number(part)?, number(of)?)),
        [own, kind @ ("json" | "parquet")] if is_uuid(own) => Some(Name::Own(kind)),
        _ => None,
    }
}

fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36 && bytes.iter().enumerate().all(|(at, b)| if [8, 13, 18, 23].contains(&at) { *b == b'-' } else { b.is_ascii_hexdigit() })
}

pub fn commit_path(version: i64) -> String {
    format!("{LOG}/{version:020}.json")
}

/// The id of the newest `metaData` action at or before a version, in the log itself; None if it cannot be found.
pub fn table_id(store: &Store, listing: &Listing, version: i64) -> Result<Option<String>> {
    let base = listing.checkpoints.range(..=version).next_back().map(|(version, _)| *version);
    let first = base.map_or(0, |base| base + 1);
    if !listing.has_commits(first, version) {
        return Ok(None);
    }
    for commit in (first..=version).rev() {
        let Some(bytes) = store.get(&commit_path(commit))? else { return Ok(None) };
        let mut found = None;
        for line in lines_of(&bytes, "") {
            let Ok(line) = line else { return Ok(None) };
            found = line.meta_data.map(|metadata| metadata.id).or(found);
        }
        if let Some(id) = found {
            return Ok(id);
        }
    }
    for files in base.and_then(|base| listing.checkpoints.get(&base)).into_iter().flatten() {
        match checkpoint::state(store, files) {
            Err(error) if error.is_of_the_store() => return Err(error),
            Ok(State { metadata: Some(Metadata { id: Some(id), .. }), .. }) => return Ok(Some(id)),
            _ => {}
        }
    }
    Ok(None)
}

/// The version to read.
pub fn wanted(listing: &Listing, version: Option<i64>, uri: &str) -> Result<i64> {
    let Some(head) = listing.head() else {
        return fail(Code::NoTable, format!("there is no Delta table at {uri}: its _delta_log has no commit and no checkpoint"));
    };
    match version {
        None => Ok(head),
        Some(version) if (0..=head).contains(&version) => Ok(version),
        Some(version) => fail(Code::NoVersion, format!("the table has no version {version}; the newest is {head}")),
    }
}
