//! The live files of an index, the greatest keys first: parts, row groups and rows that cannot match are left out.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use bytes::Bytes;

use crate::ahead::Ahead;
use crate::error::{corrupt, Result};
use crate::part_scan::{Found, Index, Key, Part, PartScan, Reading, Scene, BATCH_ROWS};
use crate::pruning::{PartFacts, Predicate};
use crate::values::{key_value, Kind};

/// Parts of an object store fetched at once, at most.
const AHEAD: usize = 3;
/// Row groups that are read before threads are started for the rest: a short listing starts none.
const FEW: usize = 4;
/// Row groups in flight for each thread.
const IN_FLIGHT: usize = 2;
/// Larger row groups are read batch by batch, not ahead.
const LARGE: usize = 2 * BATCH_ROWS;

/// How a scan reads: in the order of keys and not more than needed, if it has a limit.
#[derive(Clone, Copy)]
pub struct Manner {
    pub limited: bool,
    pub memory_budget: u64,
    pub threads: Threads,
}

/// The threads that read a listing without a limit, that of the caller included.
#[derive(Clone, Copy)]
pub struct Threads {
    pub most: usize,
    /// Also where there is little to read.
    pub at_once: bool,
}

pub enum IndexScan {
    InTurn(InTurn),
    Merged(Merged),
}

impl IndexScan {
    pub fn new(index: Arc<Index>, scene: Arc<Scene>, manner: Manner) -> IndexScan {
        let parts = chosen(&index, scene.predicate.as_deref());
        let merged = manner.limited && overlap(&index, &parts);
        let scan = Arc::new(PartScan::new(index, scene, manner.limited, merged));
        if merged {
            return IndexScan::Merged(Merged { scan, parts: parts.into(), open: Vec::new(), manner });
        }
        IndexScan::InTurn(InTurn::new(scan, parts, manner))
    }

    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            IndexScan::InTurn(scan) => Ok(scan.next()?.map(|(batch, _)| batch)),
            IndexScan::Merged(scan) => scan.next(),
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

/// Parts one after another, row group by row group: on the caller's thread, or by some threads ahead of it.
pub struct InTurn {
    scan: Arc<PartScan>,
    parts: VecDeque<usize>,
    fetched: VecDeque<(usize, Bytes)>,
    fetches: usize,
    open: Option<(Arc<Part>, VecDeque<usize>)>,
    /// The row group that is read on the caller's thread.
    reading: Option<Reading>,
    /// Row groups that were begun there.
    begun: usize,
    ahead: Option<Ahead<Vec<Found>>>,
    /// The parts and the inflated bytes of row groups that are read ahead, the oldest first.
    in_flight: VecDeque<(Weak<Part>, u64)>,
    /// A row group that has to wait until others are done.
    later: Option<(Arc<Part>, usize)>,
    ended: bool,
    ready: VecDeque<Found>,
    manner: Manner,
}

impl InTurn {
    fn new(scan: Arc<PartScan>, parts: Vec<usize>, manner: Manner) -> InTurn {
        InTurn {
            scan,
            parts: parts.into(),
            fetched: VecDeque::new(),
            fetches: 0,
            open: None,
            reading: None,
            begun: 0,
            ahead: None,
            in_flight: VecDeque::new(),
            later: None,
            ended: false,
            ready: VecDeque::new(),
            manner,
        }
    }

    /// The next rows of the listing.
    fn next(&mut self) -> Result<Option<Found>> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Ok(Some(found));
            }
            if let Some(reading) = &mut self.reading {
                match self.scan.next(reading)? {
                    Some(found) => return Ok(Some(found)),
                    None => self.reading = None,
                }
            }
            if self.ahead.is_none() && self.goes_on() {
                self.ahead = Some(Ahead::start(self.manner.threads.most - 1));
            }
            if self.ahead.is_none() {
                let Some((part, group)) = self.next_group()? else { return Ok(None) };
                self.begin(part, group)?;
                continue;
            }
            self.ask()?;
            match self.ahead.as_ref().and_then(Ahead::take) {
                Some(answer) => {
                    self.in_flight.pop_front();
                    self.ready.extend(answer?);
                }
                None if self.reading.is_some() => {}
                None => return Ok(None),
            }
        }
    }

    fn begin(&mut self, part: Arc<Part>, group: usize) -> Result<()> {
        self.reading = Some(self.scan.begin(part, group)?);
        self.begun += 1;
        Ok(())
    }

    /// Whether there is so much to read that threads are worth their start.
    fn goes_on(&self) -> bool {
        let Threads { most, at_once } = self.manner.threads;
        let groups = self.open.as_ref().map_or(0, |(_, groups)| groups.len());
        most > 1 && !self.manner.limited && (at_once || (self.begun >= FEW && groups + self.parts.len() + self.fetched.len() > 1))
    }

    fn next_group(&mut self) -> Result<Option<(Arc<Part>, usize)>> {
        loop {
            if let Some((part, groups)) = &mut self.open {
                if let Some(group) = groups.pop_front() {
                    return Ok(Some((part.clone(), group)));
                }
                self.open = None;
            }
            let Some((number, bytes)) = self.next_part()? else { return Ok(None) };
            let (part, groups) = self.scan.open(number, bytes)?;
            self.open = Some((Arc::new(part), groups));
        }
    }

    /// The number of the next part, and its bytes if they were fetched.
    fn next_part(&mut self) -> Result<Option<(usize, Option<Bytes>)>> {
        if self.scan.scene.store.is_local() {
            return Ok(self.parts.pop_front().map(|part| (part, None)));
        }
        self.fetch()?;
        Ok(self.fetched.pop_front().map(|(part, bytes)| (part, Some(bytes))))
    }

    /// Fetch some of the next parts at once: more when a listing goes on.
    fn fetch(&mut self) -> Result<()> {
        if !self.fetched.is_empty() || self.parts.is_empty() {
            return Ok(());
        }
        let most = if self.manner.limited && self.fetches == 0 { 1 } else { AHEAD };
        self.fetches += 1;
        let (mut taken, mut bytes) = (Vec::new(), self.held());
        while let Some(&part) = self.parts.front() {
            bytes += self.scan.index.manifest.parts.core(part).size;
            if taken.len() == most || (!taken.is_empty() && bytes > self.manner.memory_budget) {
                break;
            }
            taken.push(part);
            self.parts.pop_front();
        }
        let paths: Vec<String> = taken.iter().map(|&part| self.scan.path(&self.scan.index.manifest.parts.core_name(part))).collect();
        for ((part, path), answer) in taken.into_iter().zip(&paths).zip(self.scan.scene.store.get_all(&paths)) {
            match answer? {
                Some(bytes) => self.fetched.push_back((part, bytes)),
                None => return corrupt(format!("{path} is missing")),
            }
        }
        Ok(())
    }

    /// Ask for row groups until enough are in flight. An error is the answer at its place: the files before it are right.
    fn ask(&mut self) -> Result<()> {
        let Some(ahead) = self.ahead.take() else { return Ok(()) };
        while !self.ended && self.reading.is_none() && self.in_flight.len() < IN_FLIGHT * self.manner.threads.most {
            let next = match self.later.take() {
                Some(group) => Ok(Some(group)),
                None if !self.may_open() => break,
                None => self.next_group(),
            };
            match next {
                Ok(Some((part, group))) => {
                    let (bytes, is_large) = (part.group_bytes(group), part.group_rows(group) > LARGE);
                    if !self.in_flight.is_empty() && (is_large || self.held() + bytes > self.manner.memory_budget) {
                        self.later = Some((part, group));
                        break;
                    }
                    if is_large {
                        self.begin(part, group)?;
                        break;
                    }
                    self.in_flight.push_back((Arc::downgrade(&part), bytes));
                    let scan = self.scan.clone();
                    ahead.ask(move || scan.all(part, group));
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    self.in_flight.push_back((Weak::new(), 0));
                    ahead.ask(move || Err(error));
                }
            }
        }
        self.ahead = Some(ahead);
        Ok(())
    }

    /// Whether the next row group is of an open part, or there is room for the next part beside those in flight.
    fn may_open(&self) -> bool {
        let is_open = self.open.as_ref().is_some_and(|(_, groups)| !groups.is_empty());
        if is_open || self.in_flight.is_empty() || !self.fetched.is_empty() {
            return true;
        }
        let next = self.parts.front().map_or(0, |&part| self.scan.index.manifest.parts.core(part).size);
        self.held() + next <= self.manner.memory_budget
    }

    /// The bytes of what is in flight: row groups, inflated, and the files of their parts.
    fn held(&self) -> u64 {
        let (mut bytes, mut last) = (0, &Weak::new());
        for (part, inflated) in &self.in_flight {
            if !Weak::ptr_eq(part, last) {
                bytes += part.upgrade().map_or(0, |part| part.bytes());
            }
            bytes += inflated;
            last = part;
        }
        bytes
    }
}

/// Rows of parts whose keys overlap, in the order of their keys.
pub struct Merged {
    scan: Arc<PartScan>,
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
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        const MOST: usize = 256;
        let (mut sources, mut picks): (Vec<RecordBatch>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let mut source_of: Vec<Option<usize>> = vec![None; self.open.len()];
        while picks.len() < MOST {
            self.open_parts()?;
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
                match cursor.scan.next()? {
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
    fn open_parts(&mut self) -> Result<()> {
        while let Some(&part) = self.parts.front() {
            let next = greatest_key(&self.scan.index, part);
            let best = self.open.iter().map(Cursor::key).min_by(|a, b| before(a, b));
            if best.is_some_and(|best| before(best, &next) == Ordering::Less) {
                return Ok(());
            }
            self.parts.pop_front();
            let mut scan = InTurn::new(self.scan.clone(), vec![part], self.manner);
            if let Some((rows, keys)) = scan.next()? {
                self.open.push(Cursor { scan, rows, keys, at: 0 });
            }
        }
        Ok(())
    }
}
