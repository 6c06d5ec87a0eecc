//! Vendors' libraries, loaded at run time.
#![expect(unsafe_code, reason = "functions of C libraries, loaded at run time")]

use libloading::Library;
use std::error::Error;
use std::path::Path;

/// Loads a library. Errors: the loader's.
pub fn open(file: &Path) -> Result<Library, String> {
    // SAFETY: the initialisers of vendors' libraries only set up their own state.
    unsafe { Library::new(file) }.map_err(why)
}

/// A function of a library. Error: it has none of that name.
///
/// # Safety
/// `T` must be its type.
pub unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<T>(name) }.map(|f| *f).map_err(why)
}

/// The loader's message: the crate's own only names the call that failed.
fn why(error: libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_loader_says_which_file_or_function_is_missing() {
        let missing = open(Path::new("libnowhere.so.7")).unwrap_err();
        assert!(missing.contains("libnowhere.so.7"), "{missing}");
        let library = open(Path::new("libc.so.6")).unwrap();
        // SAFETY: there is none.
        let missing = unsafe { symbol::<extern "C" fn()>(&library, "no_such_function") };
        assert!(missing.unwrap_err().contains("no_such_function"));
    }
}
