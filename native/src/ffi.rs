//! The C interface. No panic crosses it: each call that does work is caught, and reported as an internal error.

use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, MapArray, RecordBatch, RecordBatchReader, StringArray, StructArray};
use arrow_schema::{ArrowError, SchemaRef};

use crate::error::{fail, panicked, Code, Error, Result};
use crate::keys::is_plain;
use crate::location::Location;
use crate::options;
use crate::output::vector_of;
use crate::scan::Scan;

#[repr(C)]
pub struct PartitionValue {
    name: *const c_char,
    value: *const c_char,
}

#[repr(C)]
pub struct Vector {
    storage_type: *const c_char,
    path_or_inline_dv: *const c_char,
    has_offset: i32,
    offset: i32,
    size_in_bytes: i32,
    cardinality: i64,
}

#[repr(C)]
pub struct File {
    path: *const c_char,
    uri: *const c_char,
    size: i64,
    modification_time: i64,
    records: i64,
    partition_values: *const PartitionValue,
    partition_count: usize,
    deletion_vector: *const Vector,
}

type Callback = unsafe extern "C" fn(*const File, *mut c_void) -> i32;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(message: &str) {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = message);
}

/// The code of what a call did; its message is kept for this thread.
fn guarded(call: impl FnOnce() -> Result<Code>) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)));
    match answer {
        Ok(code) => {
            remember("");
            code as i32
        }
        Err(error) => {
            remember(&error.message);
            error.code as i32
        }
    }
}

unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return fail(Code::BadArgument, format!("{what} is null"));
    }
    CStr::from_ptr(text).to_str().or_else(|_| fail(Code::BadArgument, format!("{what} is not UTF-8")))
}

unsafe fn opened(table: *const c_char, options_json: *const c_char) -> Result<Scan> {
    let table = text_of(table, "the table")?;
    let text = if options_json.is_null() { "" } else { text_of(options_json, "the options")? };
    Scan::open(table, options::parse(text)?)
}

/// The files of one batch, one at a time, in buffers that are used again.
struct Rows {
    batch: RecordBatch,
    row: usize,
    paths: Option<StringArray>,
    sizes: Option<Int64Array>,
    times: Option<Int64Array>,
    records: Option<Int64Array>,
    values: Option<Pairs>,
    vectors: Option<StructArray>,
}

/// The entries of a map from texts to texts.
struct Pairs {
    map: MapArray,
    names: StringArray,
    texts: StringArray,
}

impl Rows {
    fn new(batch: RecordBatch) -> Rows {
        let paths = batch.column_by_name("path").and_then(|column| column.as_string_opt::<i32>()).cloned();
        let numbers = |name: &str| batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>()).cloned();
        let (sizes, times, records) = (numbers("size"), numbers("modification_time"), numbers("num_records"));
        let values = batch.column_by_name("partition_values").and_then(|column| column.as_map_opt()).and_then(|map| {
            let (names, texts) = (map.keys().as_string_opt::<i32>()?.clone(), map.values().as_string_opt::<i32>()?.clone());
            Some(Pairs { map: map.clone(), names, texts })
        });
        let vectors = batch.column_by_name("deletion_vector").and_then(|column| column.as_struct_opt()).cloned();
        Rows { batch, row: 0, paths, sizes, times, records, values, vectors }
    }
}

#[derive(Default)]
struct Buffers {
    text: Vec<u8>,
    /// What stands before a plain path in its URI.
    root: Vec<u8>,
    uri: Vec<u8>,
    pairs: Vec<PartitionValue>,
    starts: Vec<(usize, Option<usize>)>,
}

pub struct Handle {
    scan: Scan,
    rows: Option<Rows>,
    buffers: Buffers,
    vector: Vector,
    file: File,
    /// What the call before ended with. The scan is not whole then: going on would leave out files.
    failed: Option<Error>,
}

impl Handle {
    fn new(scan: Scan) -> Box<Handle> {
        let vector = Vector { storage_type: null(), path_or_inline_dv: null(), has_offset: 0, offset: 0, size_in_bytes: 0, cardinality: 0 };
        let file = File {
            path: null(),
            uri: null(),
            size: -1,
            modification_time: -1,
            records: -1,
            partition_values: null(),
            partition_count: 0,
            deletion_vector: null(),
        };
        let mut root = Vec::new();
        scan.location.file_uri("x", &mut root);
        root.pop();
        Box::new(Handle { scan, rows: None, buffers: Buffers { root, ..Buffers::default() }, vector, file, failed: None })
    }

    /// The next file; null at the end. It is valid until the next call. After an error, every call gives that error.
    fn next(&mut self) -> Result<*const File> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // Stays where the call panics.
        self.failed = Some(Error::new(Code::Internal, "a call before this one failed"));
        let found = self.next_file();
        self.failed = found.as_ref().err().cloned();
        found
    }

    fn next_file(&mut self) -> Result<*const File> {
        loop {
            if self.rows.as_ref().is_none_or(|rows| rows.row == rows.batch.num_rows()) {
                self.rows = self.scan.next()?.map(Rows::new);
            }
            let Some(rows) = &mut self.rows else { return Ok(null()) };
            if rows.row < rows.batch.num_rows() {
                let row = rows.row;
                rows.row += 1;
                describe(rows, row, &self.scan.location, &mut self.buffers, &mut self.vector, &mut self.file)?;
                return Ok(&self.file);
            }
        }
    }
}

/// Append a text and its final NUL; the place where it begins.
fn append(out: &mut Vec<u8>, text: &[u8]) -> Result<usize> {
    if text.contains(&0) {
        return fail(Code::Unsupported, "a path or partition value holds a NUL character, which this interface cannot give");
    }
    let start = out.len();
    out.extend_from_slice(text);
    out.push(0);
    Ok(start)
}

fn describe(rows: &Rows, row: usize, table: &Location, buffers: &mut Buffers, vector: &mut Vector, file: &mut File) -> Result<()> {
    let Buffers { text, root, uri, pairs, starts } = buffers;
    text.clear();
    starts.clear();
    let path = match &rows.paths {
        Some(paths) if is_plain(paths.value(row)) => {
            let path = paths.value(row).as_bytes();
            let place = path.len() + 1;
            for piece in [path, &[0], root.as_slice(), path, &[0]] {
                text.extend_from_slice(piece);
            }
            Some((0, place))
        }
        Some(paths) => {
            table.file_uri(paths.value(row), uri);
            Some((append(text, paths.value(row).as_bytes())?, append(text, uri)?))
        }
        None => None,
    };
    if let Some(Pairs { map, names, texts }) = &rows.values {
        let offsets = map.value_offsets();
        if map.is_valid(row) {
            for at in offsets[row] as usize..offsets[row + 1] as usize {
                let name = append(text, names.value(at).as_bytes())?;
                let value = if texts.is_valid(at) { Some(append(text, texts.value(at).as_bytes())?) } else { None };
                starts.push((name, value));
            }
        }
    }
    let dv = match rows.vectors.as_ref().filter(|vectors| vectors.is_valid(row)).and_then(|vectors| vector_of(vectors, row)) {
        Some(dv) => Some((append(text, dv.storage_type.as_bytes())?, append(text, dv.path_or_inline_dv.as_bytes())?, dv)),
        None => None,
    };
    // The texts are in place now: no pointer is taken before the buffer has its final size.
    let at = |start: usize| text[start..].as_ptr().cast::<c_char>();
    pairs.clear();
    pairs.extend(starts.iter().map(|&(name, value)| PartitionValue { name: at(name), value: value.map_or(null(), at) }));
    file.deletion_vector = null();
    if let Some((kind, inline, dv)) = dv {
        *vector = Vector {
            storage_type: at(kind),
            path_or_inline_dv: at(inline),
            has_offset: dv.offset.is_some().into(),
            offset: dv.offset.unwrap_or(0),
            size_in_bytes: dv.size_in_bytes.unwrap_or(0),
            cardinality: dv.cardinality.unwrap_or(-1),
        };
        file.deletion_vector = vector;
    }
    (file.path, file.uri) = path.map_or((null(), null()), |(path, uri)| (at(path), at(uri)));
    let number = |of: &Option<Int64Array>| of.as_ref().filter(|of| of.is_valid(row)).map_or(-1, |of| of.value(row));
    (file.size, file.modification_time, file.records) = (number(&rows.sizes), number(&rows.times), number(&rows.records));
    file.partition_values = if pairs.is_empty() { null() } else { pairs.as_ptr() };
    file.partition_count = pairs.len();
    Ok(())
}

/// # Safety
/// The texts are null or end in NUL; `callback` is null or a function of this form.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_lazy(table: *const c_char, options_json: *const c_char, callback: Option<Callback>, user: *mut c_void) -> i32 {
    guarded(|| {
        let Some(callback) = callback else {
            return fail(Code::BadArgument, "the callback is null");
        };
        let mut handle = Handle::new(opened(table, options_json)?);
        loop {
            let file = handle.next()?;
            if file.is_null() {
                return Ok(Code::Ok);
            }
            if callback(file, user) == 0 {
                return Ok(Code::Stopped);
            }
        }
    })
}

/// # Safety
/// The texts are null or end in NUL; `out` is null or room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_open(table: *const c_char, options_json: *const c_char, out: *mut *mut Handle) -> i32 {
    guarded(|| {
        if out.is_null() {
            return fail(Code::BadArgument, "the place for the scan is null");
        }
        *out = std::ptr::null_mut();
        *out = Box::into_raw(Handle::new(opened(table, options_json)?));
        Ok(Code::Ok)
    })
}

/// # Safety
/// `scan` is null or one of `delta_scan_open` that is not closed; `out` is null or room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_next(scan: *mut Handle, out: *mut *const File) -> i32 {
    guarded(|| {
        if scan.is_null() || out.is_null() {
            return fail(Code::BadArgument, "the scan or the place for its file is null");
        }
        *out = null();
        *out = (*scan).next()?;
        Ok(Code::Ok)
    })
}

/// # Safety
/// `scan` is null or one of `delta_scan_open` that is not closed.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_requests(scan: *const Handle) -> u64 {
    if scan.is_null() { 0 } else { (*scan).scan.requests() }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_version(scan: *const Handle) -> i64 {
    if scan.is_null() { -1 } else { (*scan).scan.version }
}

/// # Safety
/// As above. The scan must not be used any more.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_close(scan: *mut Handle) {
    if !scan.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(scan))));
    }
}

struct Stream {
    /// None at the end, and after an error.
    scan: Option<Scan>,
    /// The error that ended it. It stays: a consumer that asks again must not take what it has for the whole list.
    failed: Option<Error>,
    schema: SchemaRef,
}

impl Iterator for Stream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(scan) = &mut self.scan {
            match catch_unwind(AssertUnwindSafe(|| scan.next())).unwrap_or_else(|panic| Err(panicked(panic))) {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {}
                Err(error) => self.failed = Some(error),
            }
            self.scan = None;
        }
        let error = self.failed.clone()?;
        remember(&error.message);
        Some(Err(ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// # Safety
/// The texts are null or end in NUL; `out` is null or room for a stream, which is written over.
#[no_mangle]
pub unsafe extern "C" fn delta_scan_stream(table: *const c_char, options_json: *const c_char, out: *mut FFI_ArrowArrayStream) -> i32 {
    guarded(|| {
        if out.is_null() {
            return fail(Code::BadArgument, "the place for the stream is null");
        }
        std::ptr::write(out, FFI_ArrowArrayStream::empty());
        let scan = opened(table, options_json)?;
        let schema = scan.schema();
        std::ptr::write(out, FFI_ArrowArrayStream::new(Box::new(Stream { scan: Some(scan), failed: None, schema })));
        Ok(Code::Ok)
    })
}

/// The message of this thread's last call, empty if it did well. Valid until the thread's next call.
#[no_mangle]
pub extern "C" fn delta_last_error() -> *const c_char {
    static EMPTY: [u8; 1] = [0];
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(EMPTY.as_ptr().cast())
}

/// The same as a text of its own, to be freed by `delta_free_string`.
#[no_mangle]
pub extern "C" fn delta_last_error_copy() -> *mut c_char {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or_default().into_raw()
}

/// # Safety
/// `text` is null or one of `delta_last_error_copy` that is not freed.
#[no_mangle]
pub unsafe extern "C" fn delta_free_string(text: *mut c_char) {
    if !text.is_null() {
        drop(CString::from_raw(text));
    }
}

#[no_mangle]
pub extern "C" fn delta_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of this interface. It changes if a function or a struct does.
#[no_mangle]
pub extern "C" fn delta_abi_version() -> i32 {
    1
}
