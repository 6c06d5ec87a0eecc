//! The one error type. It crosses the C ABI as an owned object, so it carries a number, a text and, when an
//! operation of the user's program is to blame, the *site* that recorded it.

use std::any::Any;
use std::fmt;

/// The kind of an error. The numbers are part of the ABI: never reuse one.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    InvalidArgument = 1,
    NotFound = 2,
    OutOfMemory = 3,
    IndexError = 4,
    /// A CPU fallback or a kernel failed.
    OperatorError = 5,
    Internal = 6,
    Panic = 7,
    Unsupported = 8,
    AbiMismatch = 9,
    /// An operation that strict mode forbids. It has run nevertheless.
    Strict = 10,
    /// A CPU fallback refused a value.
    ValueError = 11,
    /// A CPU fallback refused a type.
    TypeError = 12,
    /// A CPU fallback refused a matrix.
    LinAlgError = 13,
}

/// An opaque, caller-chosen name for the call site in the user's program that recorded an operation; 0 is unknown.
pub type Site = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub message: String,
    pub site: Site,
    /// Whether some of the results have been written.
    pub torn: bool,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into(), site: 0, torn: false }
    }

    /// Sets the call site, unless one nearer to the failure is set already.
    pub fn at(mut self, site: Site) -> Self {
        if self.site == 0 {
            self.site = site;
        }
        self
    }

    /// Puts `context` in front of the message, once: an operator may have the name of the primitive that it is lowered to.
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        let context = format!("{context}: ");
        if !self.message.starts_with(&context) {
            self.message.insert_str(0, &context);
        }
        self
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let error = || panic.downcast_ref::<Error>().map(|error| &error.message[..]);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).or_else(error).unwrap_or("no message")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// `Err(Error)` with code `InvalidArgument` and a formatted message.
#[macro_export]
macro_rules! invalid {
    ($($arg:tt)*) => {
        Err($crate::error::Error::new($crate::error::Code::InvalidArgument, format!($($arg)*)))
    };
}

/// `Err(Error)` with code `Internal`: a broken invariant of this library, not the caller's fault.
#[macro_export]
macro_rules! internal {
    ($($arg:tt)*) => {
        Err($crate::error::Error::new($crate::error::Code::Internal, format!($($arg)*)))
    };
}
