//! Named arrays in files of the safetensors format: the header that the `safetensors` crate knows, then the bytes, one
//! array after the other, so that no more than one of them is in memory twice.
//!
//! **Invariant:** touches files and plain bytes only. A file appears whole or not at all: it is written next to its
//! path and renamed.

use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::shape::{Dims, numel};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The dtypes that the format has.
const DTYPES: [(DType, Dtype); 19] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::C64, Dtype::C64),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F8E4M3FN, Dtype::F8_E4M3),
    (DType::F8E5M2, Dtype::F8_E5M2),
    (DType::F8E4M3FNUZ, Dtype::F8_E4M3FNUZ),
    (DType::F8E5M2FNUZ, Dtype::F8_E5M2FNUZ),
    (DType::F8E8M0FNU, Dtype::F8_E8M0),
];

/// The largest header that readers of the format take.
const MAX_HEADER: u64 = 100_000_000;

/// One array: its name and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub dtype: DType,
    pub sizes: Dims,
}

impl Entry {
    fn nbytes(&self) -> Option<usize> {
        (numel(&self.sizes) as usize).checked_mul(self.dtype.size())
    }
}

/// Writes `entries`, whose bytes `read` returns by index, and `texts`, in place of the file at `path`. Errors: `InvalidArgument`
/// for two arrays of one name and for names and texts that the format cannot represent, `Unsupported` for dtypes that it does
/// not have, those of `read`, and `NotFound` or `OperatorError` with the path when the system refuses.
pub fn save(
    path: &Path,
    entries: &[Entry],
    texts: HashMap<String, String>,
    mut read: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<()> {
    let order = order(entries);
    let header = header(entries, &order, texts)?;
    let part = Part::new(path)?;
    let mut file = BufWriter::with_capacity(256 << 10, &part.file);
    let failed = |e| refused(path, "write", e);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    for index in order {
        file.write_all(&read(index)?).map_err(failed)?;
    }
    file.flush().map_err(failed)?;
    drop(file);
    part.finish(path)
}

/// Wide dtypes first, so that every array is aligned; then by name.
fn order(entries: &[Entry]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    let key = |&index: &usize| {
        let Entry { name, dtype, .. } = &entries[index];
        (std::cmp::Reverse(dtype.size()), name.clone())
    };
    order.sort_by_key(key);
    order
}

fn header(entries: &[Entry], order: &[usize], texts: HashMap<String, String>) -> Result<Vec<u8>> {
    let mut names = HashSet::new();
    let mut start = 0usize;
    let mut infos = Vec::new();
    for entry in order.iter().map(|&index| &entries[index]) {
        let Entry { name, dtype, sizes } = entry;
        if !names.insert(name) || name == "__metadata__" {
            return invalid!("\"{name}\" cannot be the name of a tensor, or is that of two");
        }
        let Some(known) = DTYPES.iter().find(|known| known.0 == *dtype) else {
            let message = format!("\"{name}\": the safetensors format has no {dtype}");
            return Err(Error::new(Code::Unsupported, message));
        };
        let Some(end) = entry.nbytes().and_then(|nbytes| start.checked_add(nbytes)) else {
            return invalid!("\"{name}\": sizes {sizes:?} overflow");
        };
        let shape = sizes.iter().map(|&size| size as usize).collect();
        let info = TensorInfo { dtype: known.1, shape, data_offsets: (start, end) };
        infos.push((name.clone(), info));
        start = end;
    }
    let texts = Some(texts).filter(|texts| !texts.is_empty());
    let metadata = Metadata::new(texts, infos).map_err(|e| Error::new(Code::Internal, text(e)))?;
    let mut bytes = serde_json::to_vec(&metadata)
        .map_err(|e| Error::new(Code::Internal, format!("a header is not JSON: {e}")))?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    match bytes.len() as u64 > MAX_HEADER {
        true => invalid!("names, sizes and texts of {} bytes are too many for a file", bytes.len()),
        false => Ok(bytes),
    }
}

fn text(error: SafeTensorError) -> String {
    error.to_string()
}

fn refused(path: &Path, what: &str, error: std::io::Error) -> Error {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => Code::NotFound,
        _ => Code::OperatorError,
    };
    Error::new(code, format!("cannot {what} {}: {error}", path.display()))
}

/// The unfinished file, removed when dropped unless it was finished.
struct Part {
    path: PathBuf,
    file: File,
    finished: bool,
}

impl Part {
    fn new(target: &Path) -> Result<Part> {
        let Some(name) = target.file_name() else {
            return invalid!("{} does not name a file", target.display());
        };
        // Threads of one process may write at the same time, too.
        for attempt in 0..1000 {
            let mut part = std::ffi::OsString::from(".");
            part.push(name);
            part.push(format!(".{}.{attempt}.part", std::process::id()));
            let path = target.with_file_name(part);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Part { path, file, finished: false }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(refused(target, "write", e)),
            }
        }
        invalid!("{} is being written by many others", target.display())
    }

    fn finish(mut self, target: &Path) -> Result<()> {
        let renamed = self.file.sync_all().and_then(|()| std::fs::rename(&self.path, target));
        self.finished = renamed.is_ok();
        renamed.map_err(|e| refused(target, "write", e))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// A file that is being read.
pub struct Weights {
    path: PathBuf,
    file: File,
    /// Sorted by name.
    pub entries: Vec<Entry>,
    /// First byte of each array in the file.
    starts: Vec<u64>,
    pub texts: HashMap<String, String>,
}

/// Opens a file and reads its header. Errors: `NotFound`, `InvalidArgument` if it is not a complete file of the format,
/// `Unsupported` for dtypes that are unknown here, `OperatorError` when the system refuses.
pub fn open(path: &Path) -> Result<Weights> {
    let failed = |e| refused(path, "read", e);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let malformed = |why: String| {
        Error::new(
            Code::InvalidArgument,
            format!("{} is no whole safetensors file: {why}", path.display()),
        )
    };
    let mut size = [0; 8];
    if length < 8 {
        return Err(malformed(format!("it has {length} bytes")));
    }
    file.read_exact(&mut size).map_err(failed)?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size > length - 8 {
        return Err(malformed(format!("a header of {size} bytes in a file of {length}")));
    }
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).map_err(failed)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|e| malformed(format!("its header: {e}")))?;
    let wanted = 8 + size + metadata.data_len() as u64;
    if wanted != length {
        return Err(malformed(format!("{length} bytes, its header says {wanted}")));
    }
    let (mut entries, mut starts) = (Vec::new(), Vec::new());
    let mut infos: Vec<_> = metadata.tensors().into_iter().collect();
    infos.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, info) in infos {
        let Some(known) = DTYPES.iter().find(|known| known.1 == info.dtype) else {
            let message = format!("{}: \"{name}\" is {:?}", path.display(), info.dtype);
            return Err(Error::new(Code::Unsupported, message));
        };
        let sizes = info.shape.iter().map(|&size| size as i64).collect();
        starts.push(8 + size + info.data_offsets.0 as u64);
        entries.push(Entry { name, dtype: known.0, sizes });
    }
    let texts = metadata.metadata().clone().unwrap_or_default();
    Ok(Weights { path: path.into(), file, entries, starts, texts })
}

impl Weights {
    /// The bytes of array `index`.
    pub fn read(&mut self, index: usize) -> Result<Vec<u8>> {
        let entry = &self.entries[index];
        let mut bytes = Vec::new();
        let nbytes = entry.nbytes().filter(|&n| bytes.try_reserve_exact(n).is_ok());
        let Some(nbytes) = nbytes else {
            let message = format!("no memory for \"{}\"", entry.name);
            return Err(Error::new(Code::OutOfMemory, message));
        };
        bytes.resize(nbytes, 0);
        let sought = self.file.seek(SeekFrom::Start(self.starts[index]));
        let read = sought.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|e| refused(&self.path, "read", e))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
