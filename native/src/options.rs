//! The options of a call, as JSON.

use std::collections::BTreeMap;

use nix::sys::resource::{getrlimit, Resource, RLIM_INFINITY};
use serde_json::Value as Json;

use crate::error::{fail, shown, Code, Error, Result};
use crate::index_scan::Threads;
use crate::output::schema_of;
use crate::predicate;
use crate::remote::Options;
use crate::scan::Request;

const KNOWN: [&str; 8] = ["predicate", "columns", "limit", "version", "storage_options", "memory_budget", "threads", "fallback"];
const MEMORY_BUDGET: u64 = 64 << 20;
/// Threads of a listing, at most, if no number is given.
const THREADS: usize = 4;
const MOST_THREADS: u64 = 64;

/// Whether the process may address as much as it likes: each thread reserves 64 MiB and more for its allocations, and a
/// process that runs out of addresses becomes slow or ends.
fn has_room_for_threads() -> bool {
    getrlimit(Resource::RLIMIT_AS).is_ok_and(|(most, _)| most == RLIM_INFINITY)
}

fn bad<T>(message: impl Into<String>) -> Result<T> {
    fail(Code::BadArgument, message)
}

pub fn parse(text: &str) -> Result<Request> {
    let json: Json = match text.trim() {
        "" => Json::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).map_err(|error| Error::new(Code::BadArgument, format!("the options are not JSON: {error}")))?,
    };
    let Some(object) = json.as_object() else {
        return bad("the options are not a JSON object");
    };
    if let Some(name) = object.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return bad(format!("unknown option {}; known are {}", shown(name), KNOWN.join(", ")));
    }
    let given = |name: &str| object.get(name).filter(|value| !value.is_null());
    let number = |name: &str| match given(name) {
        None => Ok(None),
        Some(value) => match value.as_u64().filter(|&value| value <= i64::MAX as u64) {
            Some(value) => Ok(Some(value)),
            None => bad(format!("the option {name} is not a whole number of at least 0")),
        },
    };
    let columns: Option<Vec<String>> = match given("columns") {
        None => None,
        Some(list) => {
            let names = list.as_array().and_then(|list| list.iter().map(|name| name.as_str().map(str::to_string)).collect());
            Some(names.ok_or_else(|| Error::new(Code::BadArgument, "the option columns is not a list of names"))?)
        }
    };
    let log_allowed = match given("fallback").map(|value| value.as_str()) {
        None | Some(Some("none")) => false,
        Some(Some("log")) => true,
        _ => return bad("the option fallback is \"none\" or \"log\""),
    };
    let version = match given("version") {
        Some(value) if value.as_i64().is_some_and(|version| version < 0) => return fail(Code::NoVersion, "there is no version below 0"),
        _ => number("version")?.map(|version| version as i64),
    };
    Ok(Request {
        columns: schema_of(columns.as_deref())?,
        limit: number("limit")?,
        version,
        predicate: given("predicate").map(predicate::parse).transpose()?,
        log_allowed,
        memory_budget: number("memory_budget")?.unwrap_or(MEMORY_BUDGET),
        threads: threads(given("threads"))?,
        storage: storage_options(given("storage_options"))?,
    })
}

fn threads(json: Option<&Json>) -> Result<Threads> {
    let Some(json) = json else {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = if has_room_for_threads() { cores.min(THREADS) } else { 1 };
        return Ok(Threads { most, at_once: false });
    };
    match json.as_u64() {
        Some(most @ 1..=MOST_THREADS) => Ok(Threads { most: most as usize, at_once: true }),
        _ => bad(format!("the option threads is not a whole number from 1 to {MOST_THREADS}")),
    }
}

fn storage_options(json: Option<&Json>) -> Result<Options> {
    let Some(json) = json else { return Ok(Options::default()) };
    let Some(object) = json.as_object() else {
        return bad("the option storage_options is not an object");
    };
    let mut found = BTreeMap::new();
    for (name, value) in object {
        let text = match value {
            Json::String(text) => text.clone(),
            Json::Bool(value) => value.to_string(),
            Json::Number(value) => value.to_string(),
            Json::Null => continue,
            _ => return bad(format!("the storage option {} is not a string", shown(name))),
        };
        if !text.is_empty() {
            found.insert(name.to_lowercase(), text);
        }
    }
    Ok(Options(found))
}
