//! Object stores: S3, Azure and Google, by the `object_store` crate. One client for all tables reached in the same
//! way, and one background thread for their connections, started by the first table that is not local.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::Runtime;

use crate::ahead::without_signals;
use crate::error::{fail, shown, Code, Error, Result};
use crate::location::Location;
use crate::store::{Meta, LOG};

/// Ranges at most this far apart are read as one.
const GAP: u64 = 1 << 20;
const RETRY_NAMES: [&str; 6] = ["max_retries", "retry_timeout", "backoff_config.init_backoff", "backoff_config.max_backoff", "backoff_config.base", "coalesce_gap"];

/// Storage options, by their names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Options(pub BTreeMap<String, String>);

impl Options {
    fn is_set(&self, name: &str) -> bool {
        self.bare(name).is_some_and(|value| ["true", "1", "on", "yes", "y"].contains(&value.to_lowercase().as_str()))
    }

    /// The value of an option with or without the prefix of its service.
    fn bare(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| without_prefix(key) == name);
        found.map(|(_, value)| value.as_str())
    }

    fn retry(&self) -> Result<RetryConfig> {
        let number = |name: &str, default: f64| match self.bare(name) {
            None => Ok(default),
            Some(text) => match text.trim_end_matches('s').parse::<f64>() {
                Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
                _ => fail(Code::BadArgument, format!("the storage option {name} is not a number of at least 0")),
            },
        };
        Ok(RetryConfig {
            max_retries: number("max_retries", 7.0)? as usize,
            retry_timeout: Duration::from_secs_f64(number("retry_timeout", 180.0)?),
            backoff: BackoffConfig {
                init_backoff: Duration::from_secs_f64(number("backoff_config.init_backoff", 0.1)?),
                max_backoff: Duration::from_secs_f64(number("backoff_config.max_backoff", 15.0)?),
                base: number("backoff_config.base", 2.0)?,
            },
        })
    }
}

fn without_prefix(key: &str) -> &str {
    ["aws_", "azure_storage_", "azure_", "google_"].iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key)
}

pub struct Remote {
    client: Arc<dyn ObjectStore>,
    root: String,
    lists_in_order: bool,
}

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(4).thread_name("delta-sidecar").enable_all();
        without_signals(|| builder.build()).map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| Error::new(Code::Io, format!("the thread for connections cannot be started: {error}")))
}

type Clients = Mutex<HashMap<(String, String, Vec<(String, String)>), Arc<dyn ObjectStore>>>;

fn clients() -> &'static Clients {
    static CLIENTS: OnceLock<Clients> = OnceLock::new();
    CLIENTS.get_or_init(Clients::default)
}

impl Remote {
    pub fn open(location: &Location, options: &Options) -> Result<Remote> {
        const MOST: usize = 32;
        runtime()?;
        let given: Vec<(String, String)> = options.0.clone().into_iter().collect();
        let way = (location.scheme.clone(), location.authority.clone(), given);
        let mut known = clients().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !known.contains_key(&way) {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(way.clone(), client(location, options)?);
        }
        Ok(Remote { client: known[&way].clone(), root: location.path.clone(), lists_in_order: !location.bucket().ends_with("--x-s3") })
    }

    fn path(&self, path: &str) -> Path {
        // Names are taken as they are: to make a path of text would escape `#` and `%`.
        let whole = if self.root.is_empty() { path.to_string() } else { format!("{}/{path}", self.root) };
        Path::parse(&whole).unwrap_or_else(|_| Path::from(whole))
    }

    fn run<T>(&self, work: impl std::future::Future<Output = T>) -> Result<T> {
        Ok(runtime()?.block_on(work))
    }

    pub fn get_all(&self, paths: &[String]) -> Vec<Result<Option<Bytes>>> {
        match self.run(join_all(paths.iter().map(|path| self.get(path)))) {
            Ok(answers) => answers,
            Err(error) => paths.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let answer = match self.client.get(&self.path(path)).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure(path, &error)),
        }
    }

    /// Ranges of a file, and how many requests they took.
    pub fn ranges(&self, path: &str, ranges: &[(u64, u64)]) -> (Result<Vec<Bytes>>, usize) {
        let mut order: Vec<(u64, u64)> = ranges.to_vec();
        order.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in order {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(GAP) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let requests = merged.len();
        let place = self.path(path);
        let fetched = self.run(join_all(merged.iter().map(|&(start, end)| self.client.get_range(&place, start..end))));
        let read = || -> Result<Vec<Bytes>> {
            let mut pieces = Vec::new();
            for (answer, &(start, end)) in fetched?.into_iter().zip(&merged) {
                match answer {
                    Ok(bytes) if bytes.len() as u64 == end - start => pieces.push((start, bytes)),
                    Ok(_) => return fail(Code::Corrupt, format!("{path} is shorter than it should be")),
                    Err(object_store::Error::NotFound { .. }) => return fail(Code::Corrupt, format!("{path} is missing")),
                    Err(error) => return Err(failure(path, &error)),
                }
            }
            let piece = |&(start, end): &(u64, u64)| {
                let found = pieces.iter().rev().find(|(at, _)| *at <= start);
                found.map_or_else(Bytes::new, |(at, bytes)| bytes.slice((start - at) as usize..(end - at) as usize))
            };
            Ok(ranges.iter().map(piece).collect())
        };
        (read(), requests)
    }

    /// The files directly in a directory, from the names that begin with this on.
    pub fn list(&self, directory: &str, from: &str) -> Result<Vec<Meta>> {
        self.run(self.listed(directory, from))?
    }

    /// Some files and a listing, all at once.
    pub fn trip(&self, paths: &[String], directory: &str, from: &str) -> Result<(Vec<Result<Option<Bytes>>>, Vec<Meta>)> {
        let (answers, listing) = self.run(async {
            futures::future::join(join_all(paths.iter().map(|path| self.get(path))), self.listed(directory, from)).await
        })?;
        Ok((answers, listing?))
    }

    async fn listed(&self, directory: &str, from: &str) -> Result<Vec<Meta>> {
        let prefix = self.path(directory);
        let offset = (!from.is_empty()).then(|| self.path(&format!("{directory}/{from}")));
        let mut pages = match &offset {
            Some(offset) => self.client.list_with_offset(Some(&prefix), offset),
            None => self.client.list(Some(&prefix)),
        };
        let begin = format!("{prefix}/");
        let mut found = Vec::new();
        while let Some(entry) = pages.next().await {
            let meta = entry.map_err(|error| failure(directory, &error))?;
            let Some(name) = meta.location.as_ref().strip_prefix(&begin) else { continue };
            // The log's own names begin with a digit, and stores list in order: the rest are subdirectories.
            if self.lists_in_order && directory == LOG && name.starts_with('_') {
                break;
            }
            if name.contains('/') {
                continue;
            }
            found.push(Meta { path: name.to_string(), size: Some(meta.size), modified: Some(meta.last_modified.timestamp_millis()), etag: meta.e_tag });
        }
        Ok(found)
    }
}

fn client(location: &Location, options: &Options) -> Result<Arc<dyn ObjectStore>> {
    let endpoint = ["endpoint", "endpoint_url", "base_url"].iter().find_map(|name| options.bare(name)).unwrap_or_default();
    let allowed = ["allow_http", "s3_allow_http", "use_emulator"].iter().any(|name| options.is_set(name));
    if endpoint.to_lowercase().starts_with("http://") && !allowed {
        return fail(Code::BadArgument, format!("{}: the endpoint is not encrypted; set the storage option allow_http=true", location.uri()));
    }
    let made: object_store::Result<Arc<dyn ObjectStore>> = match location.scheme.as_str() {
        "s3" => s3(location, options)?,
        "gs" => google(location, options)?,
        _ => azure(location, options)?,
    };
    made.map_err(|error| Error::new(Code::BadArgument, format!("{}: the storage options are not valid: {}", location.uri(), scrubbed(&error.to_string()))))
}

fn client_options(options: &Options) -> ClientOptions {
    let mut made = ClientOptions::new();
    let defaults = [("connect_timeout", "5s"), ("timeout", "10m")];
    for (name, value) in defaults.iter().map(|(n, v)| (n.to_string(), v.to_string())).chain(options.0.clone()) {
        let name = match without_prefix(&name) {
            "s3_allow_http" => "allow_http",
            other => other,
        };
        if let Ok(key) = name.parse::<ClientConfigKey>() {
            made = made.with_config(key, value);
        }
    }
    made
}

/// The options that a service knows, by its own keys. Those of other engines are ignored.
fn known<K: std::str::FromStr>(options: &Options, aliases: &[(&str, &str)], prefix: &str) -> Vec<(K, String)> {
    let mut found = Vec::new();
    for (name, value) in options.0.iter().filter(|(name, value)| !value.is_empty() && !RETRY_NAMES.contains(&name.as_str())) {
        let bare = without_prefix(name);
        let bare = aliases.iter().find(|(alias, _)| *alias == bare).map_or(bare, |(_, real)| real);
        let key = format!("{prefix}{bare}").parse().or_else(|_| bare.parse()).or_else(|_| name.parse());
        if let Ok(key) = key {
            found.push((key, value.clone()));
        }
    }
    found
}

fn s3(location: &Location, options: &Options) -> Result<object_store::Result<Arc<dyn ObjectStore>>> {
    let aliases = [("endpoint_url", "endpoint"), ("endpoint_url_s3", "endpoint"), ("token", "session_token"), ("s3_allow_http", "allow_http")];
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(location.bucket()).with_client_options(client_options(options)).with_retry(options.retry()?);
    if std::env::var_os("AWS_REGION").is_none() && std::env::var_os("AWS_DEFAULT_REGION").is_none() {
        builder = builder.with_region("us-east-1");
    }
    for (key, value) in known::<AmazonS3ConfigKey>(options, &aliases, "aws_").into_iter().filter(|(key, _)| !matches!(key, AmazonS3ConfigKey::Client(_))) {
        builder = builder.with_config(key, value);
    }
    Ok(builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>))
}

fn azure(location: &Location, options: &Options) -> Result<object_store::Result<Arc<dyn ObjectStore>>> {
    let aliases = [
        ("account", "account_name"),
        ("access_key", "account_key"),
        ("master_key", "account_key"),
        ("key", "account_key"),
        ("authority_id", "tenant_id"),
        ("sas_token", "sas_key"),
        ("bearer_token", "token"),
        ("identity_endpoint", "msi_endpoint"),
        ("endpoint_url", "endpoint"),
    ];
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(location.bucket()).with_client_options(client_options(options)).with_retry(options.retry()?);
    if let Some(account) = location.account() {
        builder = builder.with_account(account);
    }
    for (key, value) in known::<AzureConfigKey>(options, &aliases, "azure_storage_").into_iter().filter(|(key, _)| !matches!(key, AzureConfigKey::Client(_))) {
        builder = builder.with_config(key, value);
    }
    Ok(builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>))
}

fn google(location: &Location, options: &Options) -> Result<object_store::Result<Arc<dyn ObjectStore>>> {
    let aliases = [("service_account_path", "service_account"), ("token", "bearer_token")];
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(location.bucket()).with_client_options(client_options(options)).with_retry(options.retry()?);
    for (key, value) in known::<GoogleConfigKey>(options, &aliases, "google_").into_iter().filter(|(key, _)| !matches!(key, GoogleConfigKey::Client(_))) {
        builder = builder.with_config(key, value);
    }
    Ok(builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>))
}

fn failure(path: &str, error: &object_store::Error) -> Error {
    use object_store::Error::*;
    let code = match error {
        PermissionDenied { .. } | Unauthenticated { .. } => Code::Credentials,
        _ => Code::Io,
    };
    Error::new(code, format!("{path} cannot be read: {}", scrubbed(&error.to_string())))
}

/// A message without the queries of URLs, which may hold signatures, and on one line.
fn scrubbed(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match (word.contains("://"), word.find('?')) {
        (true, Some(at)) => format!("{}?…", &word[..at]),
        _ => word.to_string(),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    let whole = shown(&line);
    if line.len() <= 400 { line } else { whole }
}
