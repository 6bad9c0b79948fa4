//! Commits: the actions that change which files are live, the protocol and the metadata.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{corrupt, Result};
use crate::keys::{DeletionVector, KeyMaker};
use crate::leaves::TypedStats;
use crate::schema::{Metadata, Protocol};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: Option<BTreeMap<String, Option<String>>>,
    #[serde(default)]
    pub size: Option<i64>,
    #[serde(default)]
    pub modification_time: Option<i64>,
    #[serde(default)]
    pub stats: Option<String>,
    #[serde(default)]
    pub deletion_vector: Option<DeletionVector>,
    /// The typed statistics of a checkpoint; where they have a value, it counts before that of the text.
    #[serde(skip)]
    pub typed: Option<TypedStats>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remove {
    path: String,
    #[serde(default)]
    deletion_vector: Option<DeletionVector>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarFile {
    pub path: String,
}

/// One line of a commit, or of a checkpoint in JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    #[serde(default)]
    pub add: Option<Add>,
    #[serde(default)]
    remove: Option<Remove>,
    #[serde(default)]
    pub protocol: Option<Protocol>,
    #[serde(default)]
    pub meta_data: Option<Metadata>,
    #[serde(default)]
    pub sidecar: Option<SidecarFile>,
}

pub fn lines_of<'a>(bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = Result<Line>> + 'a {
    let lines = bytes.split(|&byte| byte == b'\n').enumerate();
    let filled = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
    filled.map(move |(at, line)| match serde_json::from_slice::<Line>(line) {
        Ok(line) => Ok(line),
        Err(error) => corrupt(format!("{name}, line {}: {error}", at + 1)),
    })
}

/// File keys: of the whole tail, so one is looked for in it for each row of an index.
pub type Seen = HashSet<Box<[u8]>, ahash::RandomState>;

/// The replay of commits from the newest to the oldest: the keys that hide older files, and what was found on the way.
#[derive(Default)]
pub struct Replay {
    pub seen: Arc<Seen>,
    pub live: Vec<Add>,
    pub protocol: Option<Protocol>,
    pub metadata: Option<Metadata>,
}

impl Replay {
    /// The next older commit. Adds that are live are kept in `live`.
    pub fn commit(&mut self, bytes: &[u8], name: &str, keys: &KeyMaker) -> Result<()> {
        let mut added: HashMap<Box<[u8]>, usize> = HashMap::new();
        let mut removed: Vec<Box<[u8]>> = Vec::new();
        let mut adds: Vec<Option<Add>> = Vec::new();
        let (mut protocol, mut metadata) = (None, None);
        for line in lines_of(bytes, name) {
            let line = line?;
            if let Some(add) = line.add {
                let key: Box<[u8]> = keys.key(&add.path, add.deletion_vector.as_ref()).into();
                if let Some(earlier) = added.insert(key, adds.len()) {
                    adds[earlier] = None;
                }
                adds.push(Some(add));
            }
            if let Some(remove) = line.remove {
                removed.push(keys.key(&remove.path, remove.deletion_vector.as_ref()).into());
            }
            protocol = line.protocol.or(protocol);
            metadata = line.meta_data.or(metadata);
        }
        for (key, at) in &added {
            if self.seen.contains(key) {
                adds[*at] = None;
            }
        }
        self.live.extend(adds.into_iter().flatten());
        let seen = Arc::make_mut(&mut self.seen);
        seen.extend(added.into_keys());
        seen.extend(removed);
        self.protocol = self.protocol.take().or(protocol);
        self.metadata = self.metadata.take().or(metadata);
        Ok(())
    }
}
