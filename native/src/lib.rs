//! Lists the live files of a Delta table through its index, for hosts in any language: see `delta_sidecar.h`.
//!
//! Written from `docs/spec`; `docs/design/native.md` walks through the modules.

pub mod actions;
mod ahead;
pub mod buckets;
pub mod calendar;
pub mod checkpoint;
pub mod error;
pub mod expression;
mod ffi;
pub mod index_scan;
pub mod keys;
pub mod leaves;
pub mod like;
pub mod location;
pub mod log;
pub mod manifest;
pub mod options;
pub mod output;
pub mod part_file;
pub mod part_scan;
pub mod predicate;
pub mod pruning;
pub mod remote;
pub mod scan;
pub mod schema;
pub mod store;
pub mod values;
#[cfg(test)]
mod vectors;
