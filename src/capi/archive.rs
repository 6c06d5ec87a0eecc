//! Named tensors in files.

use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, Owned, borrow};
use super::tensor::torchacc_tensor;
use super::{bad, boundary, put, quiet, slice, torchacc_str};
use crate::error::Result;
use crate::weights::{self, Entry};
use std::collections::HashMap;
use std::path::Path;

/// The contents of a file: named tensors, and texts. Owned.
#[repr(C)]
pub struct torchacc_archive {
    tensors: Vec<Owned<torchacc_tensor>>,
    texts: HashMap<String, String>,
}

handle::kind!(torchacc_archive, b"ar");

/// Writes tensors to a file of the safetensors format, which appears whole or not at all and replaces any file at `path`
/// (UTF-8). `names`: one for each tensor, no two equal; NULL for the tensors' own names (`torchacc_tensor_set_name`). `texts`:
/// `n_texts` pairs of a key and a text, which are kept beside the tensors. Blocks: reads the tensors one by one, as
/// `torchacc_tensor_read` does. Errors: INVALID_ARGUMENT; UNSUPPORTED for dtypes that the format lacks (C32, C128); NOT_FOUND
/// for a missing folder; OPERATOR_ERROR when the system refuses; those of reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_save(
    path: torchacc_str,
    tensors: *const *const torchacc_tensor,
    names: *const torchacc_str,
    n_tensors: usize,
    texts: *const torchacc_str,
    n_texts: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let path = unsafe { path.text()? };
        let tensors = unsafe { slice(tensors, n_tensors, "tensors")? };
        let tensors: Vec<&torchacc_tensor> =
            tensors.iter().map(|&tensor| unsafe { borrow(tensor) }).collect::<Result<_>>()?;
        let n_names = if names.is_null() { 0 } else { n_tensors };
        let names = unsafe { slice(names, n_names, "names")? };
        let entry = |(index, tensor): (usize, &&torchacc_tensor)| {
            let explicit = names.get(index).map(|name| unsafe { name.text() }).transpose()?;
            entry(tensor, explicit)
        };
        let entries: Vec<Entry> = tensors.iter().enumerate().map(entry).collect::<Result<_>>()?;
        let texts = unsafe { slice(texts, n_texts.saturating_mul(2), "texts")? };
        let pair = |pair: &[torchacc_str]| unsafe {
            Ok((pair[0].text()?.to_string(), pair[1].text()?.to_string()))
        };
        let texts = texts.chunks(2).map(pair).collect::<Result<_>>()?;
        weights::save(Path::new(path), &entries, texts, |index| tensors[index].read())
    })
}

fn entry(tensor: &torchacc_tensor, explicit: Option<&str>) -> Result<Entry> {
    let name = explicit.or(tensor.name.get().map(String::as_str));
    let name = name.ok_or_else(|| bad("a tensor has no name"))?.to_string();
    Ok(Entry { name, dtype: tensor.view.dtype, sizes: tensor.view.layout.sizes.clone() })
}

/// Reads a file of the safetensors format into new tensors, which get its names. Reads the file, but waits for no operation.
/// Errors: NOT_FOUND; INVALID_ARGUMENT when it is not a complete file of the format; UNSUPPORTED for unknown dtypes;
/// OUT_OF_MEMORY; OPERATOR_ERROR when the system refuses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_load(
    context: *mut torchacc_context,
    path: torchacc_str,
    out: *mut *mut torchacc_archive,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let (context, path) = unsafe { (borrow(context)?, path.text()?) };
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        let mut file = weights::open(Path::new(path))?;
        let mut tensors = Vec::new();
        for (index, Entry { name, dtype, sizes }) in file.entries.clone().into_iter().enumerate() {
            let tensor = torchacc_tensor::dense(&context.inner, dtype, &sizes)?;
            context.inner.write_elements(tensor.buffer.id, dtype, &file.read(index)?)?;
            tensor.name.get_or_init(|| name);
            tensors.push(Owned::new(tensor));
        }
        let archive = torchacc_archive { tensors, texts: file.texts };
        unsafe { put(out, handle::give(archive)) }
    })
}

/// Number of tensors; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_archive_count(archive: *const torchacc_archive) -> usize {
    // SAFETY: NULL or a live archive, says the header.
    quiet(0, || unsafe { borrow(archive) }.map_or(0, |a| a.tensors.len()))
}

/// The `index`-th tensor, in the order of the names, for the caller to release; NULL if `index` is too large.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_archive_tensor(
    archive: *const torchacc_archive,
    index: usize,
) -> *mut torchacc_tensor {
    // SAFETY: NULL or a live archive, says the header.
    let archive = || unsafe { borrow(archive) };
    let found = || owned(archive().ok().and_then(|a| a.tensors.get(index)));
    quiet(std::ptr::null_mut(), found)
}

/// The tensor called `name`, for the caller to release; NULL when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_archive_find(
    archive: *const torchacc_archive,
    name: torchacc_str,
) -> *mut torchacc_tensor {
    quiet(std::ptr::null_mut(), || {
        // SAFETY: as the header says.
        let (Ok(archive), Ok(name)) = (unsafe { borrow(archive) }, unsafe { name.text() }) else {
            return std::ptr::null_mut();
        };
        let called =
            |tensor: &&Owned<torchacc_tensor>| tensor.name.get().is_some_and(|n| n == name);
        owned(archive.tensors.iter().find(called))
    })
}

fn owned(tensor: Option<&Owned<torchacc_tensor>>) -> *mut torchacc_tensor {
    tensor.map_or(std::ptr::null_mut(), |tensor| tensor.clone().give())
}

/// The text kept under `key`, valid as long as the archive; data NULL when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_archive_text(
    archive: *const torchacc_archive,
    key: torchacc_str,
) -> torchacc_str {
    let none = torchacc_str { data: std::ptr::null(), len: 0 };
    quiet(none, || {
        // SAFETY: as the header says.
        let (Ok(archive), Ok(key)) = (unsafe { borrow(archive) }, unsafe { key.text() }) else {
            return none;
        };
        archive.texts.get(key).map_or(none, |text| torchacc_str::of(text))
    })
}

/// Frees the archive; NULL is fine. Tensors taken from it live on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_archive_free(archive: *mut torchacc_archive) {
    // SAFETY: NULL or a live archive that its owner gives up, says the header.
    quiet((), || unsafe { handle::release(archive) });
}
