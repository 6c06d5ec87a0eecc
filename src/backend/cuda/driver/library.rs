//! CUDA's libraries as tables of functions, found at run time.
//!
//! The tables are written by hand: the bindings of the `cudarc` crate choose the file themselves, panic if a library or
//! function is missing, and read numbers of newer libraries into enums that do not have them.
//!
//! **Invariant:** a library that was loaded is never unloaded: the driver keeps threads and exit handlers in it.

use crate::backend::library::open;
use std::path::{Path, PathBuf};

/// Every file of these names in these folders, in this order, then the names alone, which the system searches for.
pub fn candidates(folders: &[PathBuf], names: &[&str]) -> Vec<PathBuf> {
    let in_folder =
        |folder: &PathBuf| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let mut files: Vec<PathBuf> = folders.iter().flat_map(in_folder).collect();
    files.retain(|file| file.exists());
    files.extend(names.iter().map(PathBuf::from));
    files
}

/// Loads the files beside `file` whose names begin with `beginning`, for a library that asks the system for them by name
/// only. A file that cannot be loaded is an error only where it is needed.
pub fn open_beside(file: &Path, beginning: &str) {
    let Some(entries) = file.parent().and_then(|folder| folder.read_dir().ok()) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(beginning) {
            open(&entry.path()).map(std::mem::forget).ok();
        }
    }
}

/// A struct of C functions: the field, its name in the library, its type. `load` fills it.
macro_rules! functions {
    ($table:ident { $($field:ident $name:literal ($($argument:ty),*) -> $result:ty;)* }) => {
        pub struct $table {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// Errors: a function is missing.
            pub fn load(library: libloading::Library) -> std::result::Result<$table, String> {
                let table = $table {
                    // SAFETY: their types in the headers of CUDA 12 and 13.
                    $($field: unsafe { crate::backend::library::symbol(&library, $name)? },)*
                };
                std::mem::forget(library);
                Ok(table)
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_in_their_order_and_the_system_last() {
        let folder =
            std::env::temp_dir().join(format!("torchacc-candidates-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libb.so"), "no library").unwrap();
        let found = candidates(&["/nowhere".into(), folder.clone()], &["liba.so", "libb.so"]);
        assert_eq!(found, [folder.join("libb.so"), "liba.so".into(), "libb.so".into()]);
        assert!(open(&found[0]).is_err());
        open_beside(&found[0], "libb");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
