//! File keys: what makes two actions of the log, or an action and a row of an index, about the same file.
//!
//! A key is kept as bytes: decoded segments joined by `/`, in which `%` and the bytes that have a meaning here are
//! escaped; before an absolute path the byte 1, scheme and authority; after the path, if there is a deletion vector, the
//! byte 0 and its id. So the key of a plain relative path is that path.

use std::borrow::Cow;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    pub storage_type: String,
    pub path_or_inline_dv: String,
    #[serde(default)]
    pub offset: Option<i32>,
    #[serde(default)]
    pub size_in_bytes: Option<i32>,
    #[serde(default)]
    pub cardinality: Option<i64>,
}

impl DeletionVector {
    pub fn id(&self) -> String {
        match self.offset {
            Some(offset) => format!("{}{}@{offset}", self.storage_type, self.path_or_inline_dv),
            None => format!("{}{}", self.storage_type, self.path_or_inline_dv),
        }
    }
}

/// Scheme and authority of a table, in their canonical forms.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    scheme: String,
    authority: String,
}

/// A path taken apart: scheme and authority of an absolute one, and decoded segments.
pub struct Canonical {
    pub absolute: Option<(String, String)>,
    pub segments: Vec<Vec<u8>>,
}

impl KeyMaker {
    pub fn new(scheme: &str, authority: &str) -> KeyMaker {
        KeyMaker { scheme: canonical_scheme(scheme), authority: authority.to_string() }
    }

    pub fn key<'a>(&self, path: &'a str, dv: Option<&DeletionVector>) -> Cow<'a, [u8]> {
        let mut key = if is_plain(path) { Cow::Borrowed(path.as_bytes()) } else { Cow::Owned(self.bytes(path)) };
        if let Some(dv) = dv {
            let owned = key.to_mut();
            owned.push(0);
            owned.extend_from_slice(dv.id().as_bytes());
        }
        key
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let canonical = self.canonical(path);
        let mut out = Vec::with_capacity(path.len() + 8);
        if let Some((scheme, authority)) = &canonical.absolute {
            out.push(1);
            out.extend_from_slice(format!("{scheme}://{authority}/").as_bytes());
        }
        for (at, segment) in canonical.segments.iter().enumerate() {
            if at > 0 {
                out.push(b'/');
            }
            for &byte in segment {
                if matches!(byte, 0 | 1 | b'%' | b'/') {
                    out.extend_from_slice(format!("%{byte:02X}").as_bytes());
                } else {
                    out.push(byte);
                }
            }
        }
        out
    }

    pub fn canonical(&self, path: &str) -> Canonical {
        let (absolute, rest) = match split(path) {
            Some((scheme, authority, rest)) => (Some((canonical_scheme(scheme), authority.to_string())), rest),
            None if path.starts_with('/') => (Some((self.scheme.clone(), self.authority.clone())), path),
            None => (None, path),
        };
        let mut segments: Vec<Vec<u8>> = Vec::new();
        for segment in rest.split('/').map(decoded) {
            match segment.as_slice() {
                b"" | b"." => {}
                b".." if segments.last().is_some_and(|last| last != b"..") => {
                    segments.pop();
                }
                _ => segments.push(segment),
            }
        }
        Canonical { absolute, segments }
    }

    /// The form for people and for test vectors.
    pub fn printed(&self, path: &str) -> String {
        let canonical = self.canonical(path);
        let mut out = String::new();
        if let Some((scheme, authority)) = &canonical.absolute {
            out.push_str(&format!("{scheme}://{authority}/"));
        }
        for (at, segment) in canonical.segments.iter().enumerate() {
            if at > 0 {
                out.push('/');
            }
            for &byte in segment {
                if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                    out.push(byte.into());
                } else {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        out
    }
}

/// Whether a path is its own key: no escape, no scheme, no empty or dotted segment.
pub fn is_plain(path: &str) -> bool {
    has_plain_ends(path) && has_plain_inside(path.as_bytes())
}

/// The first and the last byte of a plain path.
pub fn has_plain_ends(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first().is_some_and(|first| !matches!(first, b'/' | b'.')) && bytes.last() != Some(&b'/')
}

/// All others. It may be asked of many paths at once, one after another: if it holds for all of them, it does for each.
/// It is asked of every row, so there is no way out of its loops before their ends: without one, many bytes are looked
/// at in one step.
pub fn has_plain_inside(bytes: &[u8]) -> bool {
    let odd = bytes.iter().fold(false, |odd, &byte| odd | (byte == b'%') | (byte == b':') | (byte <= 1));
    let next = bytes.get(1..).unwrap_or_default();
    let steps = bytes.iter().zip(next).fold(false, |found, (&a, &b)| found | ((a == b'/') & ((b == b'/') | (b == b'.'))));
    !(odd || steps)
}

fn canonical_scheme(scheme: &str) -> String {
    match scheme.to_ascii_lowercase().as_str() {
        "s3a" | "s3n" => "s3".into(),
        "abfs" | "wasb" | "wasbs" => "abfss".into(),
        other => other.into(),
    }
}

/// Scheme, authority and path of an absolute URI.
pub fn split(path: &str) -> Option<(&str, &str, &str)> {
    let colon = path.find(':')?;
    let (scheme, rest) = (&path[..colon], &path[colon + 1..]);
    let mut letters = scheme.bytes();
    if !letters.next()?.is_ascii_alphabetic() || !letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')) {
        return None;
    }
    match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            Some((scheme, &rest[..end], &rest[end..]))
        }
        None => rest.starts_with('/').then_some((scheme, "", rest)),
    }
}

pub fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|&b| (b as char).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, _, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}
