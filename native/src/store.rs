//! Where the bytes of a table are: a local directory, or an object store. Every request is counted.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use crate::error::{fail, Code, Result};
use crate::location::Location;
use crate::remote::{Options, Remote};

/// A file of a listing. On a disk only checkpoints and files that are asked for have a size and a time.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    pub path: String,
    pub size: Option<u64>,
    /// Milliseconds since 1970.
    pub modified: Option<i64>,
    pub etag: Option<String>,
}

pub struct Store {
    place: Place,
    requests: AtomicU64,
}

enum Place {
    Local(PathBuf),
    Remote(Remote),
}

pub const LOG: &str = "_delta_log";

impl Store {
    pub fn open(location: &Location, options: &Options) -> Result<Store> {
        let place = if location.is_local() {
            Place::Local(PathBuf::from(&location.path))
        } else {
            Place::Remote(Remote::open(location, options)?)
        };
        Ok(Store { place, requests: AtomicU64::new(0) })
    }

    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn count(&self, requests: usize) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// The bytes of each file; None for one that is not there. All at once in an object store.
    pub fn get_all(&self, paths: &[String]) -> Vec<Result<Option<Bytes>>> {
        self.count(paths.len());
        match &self.place {
            Place::Local(root) => paths.iter().map(|path| read_whole(root.join(path))).collect(),
            Place::Remote(remote) => remote.get_all(paths),
        }
    }

    pub fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.get_all(&[path.to_string()]).remove(0)
    }

    /// A file that has to be there.
    pub fn need(&self, path: &str) -> Result<Bytes> {
        match self.get(path)? {
            Some(bytes) => Ok(bytes),
            None => fail(Code::Corrupt, format!("{path} is missing")),
        }
    }

    /// Ranges of a file, from a start to an end (excluded). `Corrupt` if the file is missing or shorter.
    pub fn ranges(&self, path: &str, ranges: &[(u64, u64)]) -> Result<Vec<Bytes>> {
        match &self.place {
            Place::Local(root) => {
                self.count(1);
                let file = match File::open(root.join(path)) {
                    Ok(file) => file,
                    Err(error) => return Err(io_error(path, &error)),
                };
                ranges.iter().map(|&(start, end)| read_range(&file, path, start, end)).collect()
            }
            Place::Remote(remote) => {
                let (bytes, requests) = remote.ranges(path, ranges);
                self.count(requests);
                bytes
            }
        }
    }

    /// The size of a file as it is now; None in an object store, where it is not asked for.
    pub fn local_size(&self, path: &str) -> Option<u64> {
        match &self.place {
            Place::Local(root) => std::fs::metadata(root.join(path)).ok().map(|meta| meta.len()),
            Place::Remote(_) => None,
        }
    }

    /// The files directly in the log, in any order, from this name on.
    pub fn list_log(&self, from: &str) -> Result<Vec<Meta>> {
        self.count(1);
        match &self.place {
            Place::Local(root) => local_names(root.join(LOG), from),
            Place::Remote(remote) => remote.list(LOG, from),
        }
    }

    /// Some files and the files of the log from this name on, in one round trip.
    pub fn trip(&self, paths: &[String], from: &str) -> Result<(Vec<Result<Option<Bytes>>>, Vec<Meta>)> {
        match &self.place {
            Place::Local(_) => Ok((self.get_all(paths), self.list_log(from)?)),
            Place::Remote(remote) => {
                self.count(paths.len() + 1);
                remote.trip(paths, LOG, from)
            }
        }
    }

    /// The names in a directory beside the log; none if it does not exist.
    pub fn list_beside(&self, directory: &str) -> Result<Vec<Meta>> {
        self.count(1);
        match &self.place {
            Place::Local(root) => local_names(root.join(directory), ""),
            Place::Remote(remote) => remote.list(directory, ""),
        }
    }

    /// Size, time and etag of a file of a listing. An object store has told them already.
    pub fn described(&self, meta: &Meta) -> Result<Meta> {
        let Place::Local(root) = &self.place else {
            return Ok(meta.clone());
        };
        let found = match std::fs::metadata(root.join(LOG).join(&meta.path)) {
            Ok(found) => found,
            Err(error) => return Err(io_error(&meta.path, &error)),
        };
        let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Meta { path: meta.path.clone(), size: Some(found.len()), modified: modified.map(|t| t.as_millis() as i64), etag: None })
    }
}

fn local_names(directory: PathBuf, from: &str) -> Result<Vec<Meta>> {
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(io_error(&directory.to_string_lossy(), &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Err(io_error(&directory.to_string_lossy(), &error)),
        };
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.as_str() < from || entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let size = if name.contains(".checkpoint.") { entry.metadata().ok().map(|meta| meta.len()) } else { None };
        found.push(Meta { path: name, size, ..Meta::default() });
    }
    Ok(found)
}

fn read_whole(path: PathBuf) -> Result<Option<Bytes>> {
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io_error(&path.to_string_lossy(), &error)),
    }
}

fn read_range(file: &File, path: &str, start: u64, end: u64) -> Result<Bytes> {
    // The size comes from a manifest: an attempt to allocate what the file does not have must not be made.
    let length = file.metadata().map(|meta| meta.len()).unwrap_or(0);
    if start > end || end > length {
        return fail(Code::Corrupt, format!("{path} is shorter than it should be"));
    }
    let mut bytes = vec![0; (end - start) as usize];
    match file.read_exact_at(&mut bytes, start) {
        Ok(()) => Ok(bytes.into()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => fail(Code::Corrupt, format!("{path} is shorter than it should be")),
        Err(error) => Err(io_error(path, &error)),
    }
}

fn io_error(path: &str, error: &std::io::Error) -> crate::error::Error {
    let code = match error.kind() {
        ErrorKind::PermissionDenied => Code::Credentials,
        ErrorKind::NotFound => Code::Corrupt,
        _ => Code::Io,
    };
    crate::error::Error::new(code, format!("{path} cannot be read: {error}"))
}
