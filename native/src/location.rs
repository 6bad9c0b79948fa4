//! The location of a table, and the URIs of its files.

use std::path::{Path, PathBuf};

use crate::error::{fail, shown, Code, Result};
use crate::keys::{decoded, split};

/// A place: `authority` is the bucket, or `container[@host]` on Azure; `path` is decoded, and absolute on a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    pub scheme: String,
    pub authority: String,
    pub path: String,
}

impl Location {
    pub fn parse(text: &str) -> Result<Location> {
        if text.trim().is_empty() {
            return fail(Code::BadArgument, "the table location is empty");
        }
        let Some(colon) = text.find(':').filter(|&at| at > 1 && text[..at].bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))) else {
            return local(text);
        };
        let (scheme, rest) = (text[..colon].to_ascii_lowercase(), &text[colon + 1..]);
        let scheme = match scheme.as_str() {
            "s3a" | "s3n" => "s3",
            "gcs" => "gs",
            "abfs" | "wasb" | "wasbs" => "abfss",
            "azure" | "adl" => "az",
            other => other,
        };
        match scheme {
            "file" => {
                let path = match rest.strip_prefix("//") {
                    Some(rest) => match rest.find('/') {
                        Some(at) if ["", "localhost"].contains(&&rest[..at]) => &rest[at..],
                        _ => return fail(Code::BadArgument, format!("location {} names a host; local files are written file:///path", shown(text))),
                    },
                    None => rest,
                };
                if path.contains('%') && !Path::new(path).exists() {
                    return local(&String::from_utf8_lossy(&decoded(path)));
                }
                local(path)
            }
            "s3" | "gs" | "az" | "abfss" => match rest.strip_prefix("//") {
                Some(rest) => remote(scheme, rest, text),
                None => unknown(text),
            },
            "http" | "https" => azure_url(rest, text),
            _ => unknown(text),
        }
    }

    pub fn is_local(&self) -> bool {
        self.scheme == "file"
    }

    /// The bucket or container, without its host.
    pub fn bucket(&self) -> &str {
        self.authority.split('@').next().unwrap_or_default()
    }

    /// The Azure storage account, where the location names one.
    pub fn account(&self) -> Option<&str> {
        self.authority.split_once('@').and_then(|(_, host)| host.split('.').next()).filter(|name| !name.is_empty())
    }

    pub fn uri(&self) -> String {
        match self.scheme.as_str() {
            "file" => self.path.clone(),
            scheme if self.path.is_empty() => format!("{scheme}://{}", self.authority),
            scheme => format!("{scheme}://{}/{}", self.authority, self.path),
        }
    }

    /// What other programs open: a local file as a plain path, others as their decoded URI. Writes over `out`.
    pub fn file_uri(&self, log_path: &str, out: &mut Vec<u8>) {
        out.clear();
        if let Some((scheme, authority, rest)) = split(log_path) {
            let known = ["file", "s3", "s3a", "s3n", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs", "http", "https"];
            if known.contains(&scheme.to_ascii_lowercase().as_str()) {
                match Location::parse(&format!("{scheme}://{authority}/")) {
                    Ok(place) => {
                        if place.scheme != "file" {
                            out.extend_from_slice(place.uri().as_bytes());
                        }
                        append_normal(&decoded(rest), out);
                    }
                    Err(_) => out.extend_from_slice(log_path.as_bytes()),
                }
                return;
            }
        }
        let path = if log_path.contains('%') { decoded(log_path) } else { log_path.as_bytes().to_vec() };
        if !self.is_local() {
            out.extend_from_slice(self.scheme.as_bytes());
            out.extend_from_slice(b"://");
            out.extend_from_slice(self.authority.as_bytes());
        }
        if path.first() == Some(&b'/') {
            append_normal(&path, out);
            return;
        }
        let root = self.path.trim_matches('/');
        let begin = out.len();
        if !root.is_empty() {
            out.push(b'/');
            out.extend_from_slice(root.as_bytes());
        }
        if needs_no_care(&path) {
            out.push(b'/');
            out.extend_from_slice(&path);
            return;
        }
        let mut whole = out.split_off(begin);
        whole.push(b'/');
        whole.extend_from_slice(&path);
        append_normal(&whole, out);
    }
}

fn needs_no_care(path: &[u8]) -> bool {
    path.first() != Some(&b'.') && !path.windows(2).any(|two| two[0] == b'/' && matches!(two[1], b'/' | b'.')) && path.last() != Some(&b'/')
}

/// The path from the root without empty segments and dots.
fn append_normal(path: &[u8], out: &mut Vec<u8>) {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|&b| b == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
}

fn unknown<T>(text: &str) -> Result<T> {
    fail(
        Code::BadArgument,
        format!("location {} has an unknown form; give a local path, file://, s3://, az://, abfss://, https://<account>.blob… or gs://", shown(text)),
    )
}

fn local(text: &str) -> Result<Location> {
    let path = match std::path::absolute(PathBuf::from(text)) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(error) => return fail(Code::BadArgument, format!("location {} is not a path: {error}", shown(text))),
    };
    let mut out = Vec::new();
    append_normal(path.as_bytes(), &mut out);
    let path = String::from_utf8(out).unwrap_or(path);
    Ok(Location { scheme: "file".into(), authority: String::new(), path: if path.is_empty() { "/".into() } else { path } })
}

fn remote(scheme: &str, rest: &str, text: &str) -> Result<Location> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return fail(Code::BadArgument, format!("location {} names no bucket or container", shown(text)));
    }
    if authority.rsplit_once('@').is_some_and(|(before, _)| before.contains(':')) {
        return fail(Code::BadArgument, format!("a location {scheme}://<name>:<password>@… holds credentials; give them as storage options"));
    }
    let (scheme, authority) = match scheme {
        "az" | "abfss" => (if authority.contains('@') { "abfss" } else { "az" }, authority.replacen(".blob.", ".dfs.", 1)),
        other => (other, authority.to_string()),
    };
    Ok(Location { scheme: scheme.into(), authority, path: key(path) })
}

fn azure_url(rest: &str, text: &str) -> Result<Location> {
    let place = rest.trim_start_matches('/').split('?').next().unwrap_or_default();
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let path = String::from_utf8_lossy(&decoded(path)).into_owned();
    let (container, inner) = path.split_once('/').unwrap_or((&path, ""));
    if !(host.contains(".blob.") || host.contains(".dfs.")) || container.is_empty() {
        return fail(Code::BadArgument, format!("location {} is not an Azure URL https://<account>.blob.core.windows.net/<container>", shown(text)));
    }
    Ok(Location { scheme: "abfss".into(), authority: format!("{container}@{}", host.replacen(".blob.", ".dfs.", 1)), path: key(inner) })
}

fn key(path: &str) -> String {
    path.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>().join("/")
}
