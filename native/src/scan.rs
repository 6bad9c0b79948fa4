//! One listing: the version pinned, the base chosen, the tail replayed, and the files given out batch by batch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::actions::{Add, Replay};
use crate::checkpoint::{self, Adds, State};
use crate::error::{corrupt, fail, Code, Error, Result};
use crate::index_scan::{IndexScan, Manner, Threads};
use crate::keys::KeyMaker;
use crate::location::Location;
use crate::log::{commit_path, wanted, Checkpoint, Listing};
use crate::manifest::{self, DIRECTORIES};
use crate::output::{from_adds, vector_of};
use crate::part_scan::{Index, Scene};
use crate::predicate::Condition;
use crate::pruning::{AddFacts, Predicate};
use crate::remote::Options;
use crate::schema::{Metadata, Protocol, Schema};
use crate::store::{Store, LOG};

/// Commits fetched at once.
const COMMITS_AT_ONCE: usize = 10;
/// Commits of an object store fetched before it is known whether they exist.
const GUESSES: i64 = 8;
const ADDS_IN_BATCH: usize = 10_000;

/// What a caller asks for.
pub struct Request {
    pub columns: SchemaRef,
    pub limit: Option<u64>,
    pub version: Option<i64>,
    pub predicate: Option<Condition>,
    /// Whether the log and its checkpoints may serve where no index can.
    pub log_allowed: bool,
    pub memory_budget: u64,
    pub threads: Threads,
    pub storage: Options,
}

enum Base {
    Index(Arc<Index>),
    Checkpoint(i64, Checkpoint, Arc<State>),
    Nothing,
}

enum Source {
    Index(Box<IndexScan>),
    Checkpoint(Adds),
    Nothing,
}

pub struct Scan {
    pub location: Location,
    pub version: i64,
    store: Arc<Store>,
    keys: KeyMaker,
    listing: Listing,
    predicate: Option<Arc<Predicate>>,
    columns: SchemaRef,
    /// The columns of the request, and those that make a file's key.
    inner: SchemaRef,
    log_allowed: bool,
    manner: Manner,
    replay: Replay,
    base: Base,
    source: Source,
    /// The oldest commit that was replayed; commits below it belong to the base.
    replayed_from: i64,
    waiting: VecDeque<RecordBatch>,
    /// Files of the present base that were given out.
    of_base: usize,
    given: u64,
    left: Option<u64>,
}

impl Scan {
    pub fn open(table: &str, request: Request) -> Result<Scan> {
        let location = Location::parse(table)?;
        let store = Arc::new(Store::open(&location, &request.storage)?);
        let found = find(&store, request.version, &location.uri())?;
        let keys = KeyMaker::new(&location.scheme, &location.authority);
        let inner = with_key_columns(&request.columns)?;
        let mut scan = Scan {
            version: found.version,
            location,
            store,
            keys,
            listing: found.listing,
            predicate: None,
            inner,
            columns: request.columns,
            log_allowed: request.log_allowed,
            manner: Manner { limited: request.limit.is_some(), memory_budget: request.memory_budget, threads: request.threads },
            replay: Replay::default(),
            base: Base::Nothing,
            source: Source::Nothing,
            replayed_from: found.version + 1,
            waiting: VecDeque::new(),
            of_base: 0,
            given: 0,
            left: request.limit,
        };
        match found.index {
            Some(index) => {
                scan.replay_down_to(index.manifest.version + 1, found.commits)?;
                scan.base = Base::Index(Arc::new(index));
            }
            None if !scan.log_allowed => return fail(Code::NoIndex, format!("the table {} has no usable index: {}", scan.location.uri(), found.reasons)),
            None => scan.next_log_base(None)?,
        }
        scan.bind(request.predicate.as_ref())?;
        scan.begin()?;
        Ok(scan)
    }

    pub fn schema(&self) -> SchemaRef {
        self.columns.clone()
    }

    pub fn requests(&self) -> u64 {
        self.store.requests()
    }

    /// Protocol and metadata, of the tail or of the base; then the predicate is bound.
    fn bind(&mut self, condition: Option<&Condition>) -> Result<()> {
        let (mut protocol, mut metadata) = (self.replay.protocol.clone(), self.replay.metadata.clone());
        if protocol.is_none() || metadata.is_none() {
            let (of_base, data_of_base) = self.state_of_base()?;
            protocol = protocol.or(of_base);
            metadata = metadata.or(data_of_base);
        }
        let (Some(protocol), Some(metadata)) = (protocol, metadata) else {
            return corrupt("the log has no protocol or no metadata");
        };
        protocol.check()?;
        let schema = Schema::new(&protocol, &metadata)?;
        self.predicate = condition.map(|condition| Predicate::new(condition, &schema).map(Arc::new)).transpose()?;
        Ok(())
    }

    fn state_of_base(&self) -> Result<(Option<Protocol>, Option<Metadata>)> {
        Ok(match &self.base {
            Base::Index(index) => (Some(index.manifest.protocol.clone()), Some(index.manifest.metadata.clone())),
            Base::Checkpoint(_, _, state) => (state.protocol.clone(), state.metadata.clone()),
            Base::Nothing => (None, None),
        })
    }

    /// Replay commits from the last that was replayed down to this one. Some may be at hand.
    fn replay_down_to(&mut self, first: i64, mut at_hand: Vec<(i64, bytes::Bytes)>) -> Result<()> {
        let mut version = self.replayed_from - 1;
        while version >= first {
            let last = version;
            let until = (last - COMMITS_AT_ONCE as i64 + 1).max(first);
            let missing: Vec<i64> = (until..=last).rev().filter(|version| !at_hand.iter().any(|(known, _)| known == version)).collect();
            let paths: Vec<String> = missing.iter().map(|&version| commit_path(version)).collect();
            for ((version, path), answer) in missing.iter().zip(&paths).zip(self.store.get_all(&paths)) {
                match answer? {
                    Some(bytes) => at_hand.push((*version, bytes)),
                    None => return corrupt(format!("{path} is missing: the version cannot be rebuilt")),
                }
            }
            for version in (until..=last).rev() {
                let at = at_hand.iter().position(|(known, _)| *known == version);
                let Some((_, bytes)) = at.map(|at| at_hand.swap_remove(at)) else {
                    return corrupt(format!("commit {version} is missing"));
                };
                self.replay.commit(&bytes, &commit_path(version), &self.keys)?;
            }
            version = until - 1;
        }
        self.replayed_from = self.replayed_from.min(first);
        Ok(())
    }

    /// Turn to the newest base of the log that is older than one that failed, and replay the commits after it.
    fn next_log_base(&mut self, failed: Option<(i64, &Checkpoint)>) -> Result<()> {
        let mut after_failed = failed.is_none();
        for (&version, files) in self.listing.checkpoints.range(..=self.version).rev() {
            for checkpoint in files {
                if !after_failed {
                    after_failed = failed == Some((version, checkpoint));
                    continue;
                }
                if !self.listing.has_commits(version + 1, self.version) {
                    continue;
                }
                match checkpoint::state(&self.store, checkpoint) {
                    Ok(state) => {
                        self.base = Base::Checkpoint(version, checkpoint.clone(), Arc::new(state));
                        return self.replay_down_to(version + 1, Vec::new());
                    }
                    Err(error) if error.is_of_the_store() => return Err(error),
                    Err(_) => {}
                }
            }
        }
        if let Some(missing) = self.listing.missing_commit(0, self.version) {
            let message = format!("version {} cannot be rebuilt: commit {missing} is missing, and no index or checkpoint serves", self.version);
            // A version whose own commit is gone was cleaned up; a hole below a commit that is there is damage.
            return fail(if self.listing.commits.contains_key(&self.version) { Code::Corrupt } else { Code::NoVersion }, message);
        }
        self.base = Base::Nothing;
        self.replay_down_to(0, Vec::new())
    }

    /// Queue the live files of the tail and open the base.
    fn begin(&mut self) -> Result<()> {
        let live = std::mem::take(&mut self.replay.live);
        self.queue(live)?;
        self.of_base = 0;
        self.source = self.source_of_base();
        Ok(())
    }

    fn queue(&mut self, adds: Vec<Add>) -> Result<()> {
        let matching: Vec<&Add> = adds.iter().filter(|add| self.may_match(add)).collect();
        for some in matching.chunks(ADDS_IN_BATCH) {
            self.waiting.push_back(from_adds(some, &self.inner)?);
        }
        Ok(())
    }

    fn may_match(&self, add: &Add) -> bool {
        self.predicate.as_ref().is_none_or(|predicate| AddFacts::may_match(predicate, add))
    }

    fn source_of_base(&self) -> Source {
        match &self.base {
            Base::Index(index) => Source::Index(Box::new(IndexScan::new(index.clone(), self.scene(), self.manner))),
            Base::Checkpoint(_, files, state) => Source::Checkpoint(Adds::new(files, state, self.columns_with_bounds())),
            Base::Nothing => Source::Nothing,
        }
    }

    fn scene(&self) -> Arc<Scene> {
        Arc::new(Scene {
            store: self.store.clone(),
            keys: self.keys.clone(),
            predicate: self.predicate.clone(),
            columns: self.inner.clone(),
            seen: self.replay.seen.clone(),
        })
    }

    fn columns_with_bounds(&self) -> Vec<Vec<String>> {
        let columns = self.predicate.iter().flat_map(|predicate| &predicate.columns);
        columns.filter(|column| !column.is_partition).map(|column| column.physical.clone()).collect()
    }

    /// The next files; None at the end, or where the limit is reached.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == Some(0) {
                return Ok(None);
            }
            let Some(batch) = self.next_whole()? else { return Ok(None) };
            let rows = self.left.map_or(batch.num_rows(), |left| batch.num_rows().min(left as usize));
            if rows == 0 {
                continue;
            }
            self.left = self.left.map(|left| left - rows as u64);
            self.given += rows as u64;
            return self.projected(&batch.slice(0, rows)).map(Some);
        }
    }

    fn projected(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.fields().iter().filter_map(|field| batch.column_by_name(field.name()).cloned()).collect();
        RecordBatch::try_new(self.columns.clone(), columns).map_err(|error| Error::new(Code::Internal, format!("the columns of the listing do not fit: {error}")))
    }

    fn next_whole(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.waiting.pop_front() {
                return Ok(Some(batch));
            }
            match self.next_of_base() {
                Ok(Some(batch)) => {
                    self.of_base += batch.num_rows();
                    return Ok(Some(batch));
                }
                Err(error) if error.code == Code::Corrupt => self.recover(error)?,
                // The source and its threads end here, not when the scan is closed.
                last => {
                    self.source = Source::Nothing;
                    return last;
                }
            }
        }
    }

    fn next_of_base(&mut self) -> Result<Option<RecordBatch>> {
        let mut source = std::mem::replace(&mut self.source, Source::Nothing);
        let answer = self.next_of(&mut source);
        self.source = source;
        answer
    }

    fn next_of(&self, source: &mut Source) -> Result<Option<RecordBatch>> {
        match source {
            Source::Nothing => Ok(None),
            Source::Index(scan) => scan.next(),
            Source::Checkpoint(adds) => {
                while let Some(adds) = adds.next(&self.store)? {
                    let hidden = |add: &Add| self.replay.seen.contains(self.keys.key(&add.path, add.deletion_vector.as_ref()).as_ref());
                    let live: Vec<&Add> = adds.iter().filter(|add| !hidden(add) && self.may_match(add)).collect();
                    if !live.is_empty() {
                        return from_adds(&live, &self.inner).map(Some);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Go on without a base that is damaged: hide what it gave, and take the next one.
    fn recover(&mut self, error: Error) -> Result<()> {
        // What is read ahead of the damage is of no use, and `seen` is about to change.
        self.source = Source::Nothing;
        if matches!(self.base, Base::Nothing) {
            return Err(error);
        }
        if !self.log_allowed {
            return match self.given {
                0 => fail(Code::NoIndex, format!("the index is damaged: {}", error.message)),
                given => corrupt(format!("the index is damaged: {}; the {given} files given so far are right, others are missing", error.message)),
            };
        }
        self.hide_what_was_given(error)?;
        if self.listing.from > 0 {
            self.listing = Listing::new(self.store.list_log("")?, 0);
        }
        let failed = match &self.base {
            Base::Checkpoint(version, files, _) => Some((*version, files.clone())),
            _ => None,
        };
        self.next_log_base(failed.as_ref().map(|(version, files)| (*version, files)))?;
        self.begin()
    }

    /// The base is read once more, as far as it came, for the keys of its files.
    fn hide_what_was_given(&mut self, error: Error) -> Result<()> {
        let mut again = self.source_of_base();
        let mut left = self.of_base;
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        while left > 0 {
            let Some(batch) = self.next_of(&mut again)? else { return Err(error) };
            let rows = batch.num_rows().min(left);
            let (Some(paths), Some(vectors)) = (
                batch.column_by_name("path").and_then(|column| column.as_string_opt::<i32>()),
                batch.column_by_name("deletion_vector").and_then(|column| column.as_struct_opt()),
            ) else {
                return Err(error);
            };
            keys.extend((0..rows).map(|row| Box::from(self.keys.key(paths.value(row), vector_of(vectors, row).as_ref()).as_ref())));
            left -= rows;
        }
        drop(again);
        Arc::make_mut(&mut self.replay.seen).extend(keys);
        Ok(())
    }
}

fn with_key_columns(columns: &SchemaRef) -> Result<SchemaRef> {
    let mut names: Vec<String> = columns.fields().iter().map(|field| field.name().clone()).collect();
    names.extend(["path".to_string(), "deletion_vector".to_string()]);
    crate::output::schema_of(Some(&names))
}

struct Found {
    listing: Listing,
    version: i64,
    index: Option<Index>,
    /// Commits that were fetched on the way.
    commits: Vec<(i64, bytes::Bytes)>,
    reasons: String,
}

/// Pin the version by one listing, and find the newest index that can be its base.
fn find(store: &Store, version: Option<i64>, uri: &str) -> Result<Found> {
    if !store.is_local() {
        if let Some(found) = find_by_hints(store, version, uri)? {
            return Ok(found);
        }
    }
    let listing = Listing::new(store.list_log("")?, 0);
    let version = wanted(&listing, version, uri)?;
    let mut tried: BTreeSet<(i64, &str)> = BTreeSet::new();
    let mut reasons: Vec<String> = Vec::new();
    let mut candidates: Vec<(i64, &str)> = hinted(store)?.into_iter().filter(|(hint, _)| *hint <= version).collect();
    let mut index = try_all(store, &listing, version, &mut candidates, &mut tried, &mut reasons)?;
    if index.is_none() {
        for directory in DIRECTORIES {
            let names = store.list_beside(directory)?;
            candidates.extend(names.iter().filter_map(|meta| manifest_version(&meta.path)).filter(|found| *found <= version).map(|found| (found, directory)));
        }
        index = try_all(store, &listing, version, &mut candidates, &mut tried, &mut reasons)?;
    }
    if reasons.is_empty() {
        reasons.push("none was built at or before this version".into());
    }
    Ok(Found { listing, version, index, commits: Vec::new(), reasons: reasons.join("; ") })
}

/// In an object store: hints in one round trip; manifests, the next commits and the listing from there in another.
/// None if that does not lead to an index.
fn find_by_hints(store: &Store, version: Option<i64>, uri: &str) -> Result<Option<Found>> {
    let hints: Vec<String> = DIRECTORIES.iter().map(|directory| format!("{directory}/_last_index")).chain([format!("{LOG}/_last_checkpoint")]).collect();
    let mut candidates: Vec<(i64, &str)> = Vec::new();
    let mut checkpoint = None;
    for (at, answer) in store.get_all(&hints).into_iter().enumerate() {
        let named = answer?.and_then(|bytes| hinted_version(&bytes)).filter(|named| version.is_none_or(|version| *named <= version));
        match DIRECTORIES.get(at) {
            Some(directory) => candidates.extend(named.map(|named| (named, *directory))),
            None => checkpoint = named,
        }
    }
    let Some(newest) = candidates.iter().map(|(named, _)| *named).max() else { return Ok(None) };
    if let Some(checkpoint) = checkpoint {
        candidates.extend(DIRECTORIES.iter().map(|directory| (checkpoint, *directory)));
    }
    candidates.sort_by(|a, b| b.cmp(a));
    candidates.dedup();
    let guessed: Vec<i64> = (newest + 1..=newest + GUESSES).filter(|guess| version.is_none_or(|version| *guess <= version)).collect();
    let paths: Vec<String> = candidates.iter().map(|(built, directory)| manifest_path(*built, directory)).chain(guessed.iter().map(|guess| commit_path(*guess))).collect();
    let from = candidates.iter().map(|(named, _)| *named).filter(|named| *named <= newest).min().unwrap_or(newest);
    let (mut answers, files) = store.trip(&paths, &format!("{from:020}"))?;
    let listing = Listing::new(files, from);
    if listing.head().is_none() {
        return Ok(None);
    }
    let version = wanted(&listing, version, uri)?;
    let commits = answers.split_off(candidates.len());
    for (&(built, directory), answer) in candidates.iter().zip(answers) {
        let Some(file) = answer?.filter(|_| built <= version) else { continue };
        let Ok(index) = checked_index(store, &listing, version, (built, directory), &file) else { continue };
        let mut at_hand = Vec::new();
        for (guess, answer) in guessed.iter().zip(commits) {
            if let (Ok(Some(bytes)), true) = (answer, *guess <= version && listing.commits.contains_key(guess)) {
                at_hand.push((*guess, bytes));
            }
        }
        return Ok(Some(Found { listing, version, index: Some(index), commits: at_hand, reasons: String::new() }));
    }
    Ok(None)
}

fn manifest_path(version: i64, directory: &str) -> String {
    format!("{directory}/v{version}.manifest.json")
}

fn try_all<'a>(
    store: &Store,
    listing: &Listing,
    version: i64,
    candidates: &mut Vec<(i64, &'a str)>,
    tried: &mut BTreeSet<(i64, &'a str)>,
    reasons: &mut Vec<String>,
) -> Result<Option<Index>> {
    candidates.sort_by(|a, b| b.cmp(a));
    for candidate in candidates.drain(..) {
        if !tried.insert(candidate) {
            continue;
        }
        let path = manifest_path(candidate.0, candidate.1);
        match usable(store, listing, version, candidate, &path) {
            Ok(index) => return Ok(Some(index)),
            Err(error) if error.code == Code::Corrupt => reasons.push(format!("{path}: {}", error.message)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn usable(store: &Store, listing: &Listing, version: i64, (built, directory): (i64, &str), path: &str) -> Result<Index> {
    let Some(file) = store.get(path)? else { return corrupt("it is missing") };
    checked_index(store, listing, version, (built, directory), &file)
}

fn checked_index(store: &Store, listing: &Listing, version: i64, (built, directory): (i64, &str), file: &[u8]) -> Result<Index> {
    let manifest = manifest::read(file, built)?;
    if let Some(missing) = listing.missing_commit(built + 1, version) {
        return corrupt(format!("commit {missing} after it is missing"));
    }
    if let Some(reason) = manifest.why_not_bound(store, listing)? {
        return corrupt(reason);
    }
    let schema = Schema::new(&manifest.protocol, &manifest.metadata)?;
    Ok(Index { manifest, directory: directory.to_string(), schema })
}

/// The versions that the hints of both directories name.
fn hinted(store: &Store) -> Result<Vec<(i64, &'static str)>> {
    let paths: Vec<String> = DIRECTORIES.iter().map(|directory| format!("{directory}/_last_index")).collect();
    let mut found = Vec::new();
    for (directory, answer) in DIRECTORIES.into_iter().zip(store.get_all(&paths)) {
        let Some(bytes) = answer? else { continue };
        found.extend(hinted_version(&bytes).map(|version| (version, directory)));
    }
    Ok(found)
}

fn hinted_version(bytes: &[u8]) -> Option<i64> {
    let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    json.get("version")?.as_i64().filter(|&version| version >= 0)
}

fn manifest_version(name: &str) -> Option<i64> {
    let digits = name.strip_prefix('v')?.strip_suffix(".manifest.json")?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}
