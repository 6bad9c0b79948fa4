//! What can go wrong, as codes a host can act on. The header repeats the numbers.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    Stopped = 1,
    NoIndex = 2,
    NoTable = 3,
    NoVersion = 4,
    BadArgument = 5,
    BadPredicate = 6,
    Unsupported = 7,
    Corrupt = 8,
    Io = 9,
    Credentials = 10,
    Internal = 11,
}

#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// The store did not answer, or refused to: this says nothing of the file that was asked for.
    pub fn is_of_the_store(&self) -> bool {
        matches!(self.code, Code::Io | Code::Credentials)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What a panic becomes at a border that it must not cross.
pub fn panicked(panic: Box<dyn std::any::Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    // A payload whose own drop panics must not take the host with it.
    std::mem::forget(panic);
    Error::new(Code::Internal, format!("a mistake in this library: {}", text.unwrap_or_default().replace('\n', " ")))
}

pub fn fail<T>(code: Code, message: impl Into<String>) -> Result<T> {
    Err(Error::new(code, message))
}

pub fn corrupt<T>(message: impl Into<String>) -> Result<T> {
    fail(Code::Corrupt, message)
}

/// The beginning of a text in a message: its end may be megabytes away.
pub fn shown(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    }
}
