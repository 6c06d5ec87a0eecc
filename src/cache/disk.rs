//! Programs as files in one folder, shared by processes and by versions of the library.
//!
//! One file per key, named by the key's hash: magic, format, checksum of the rest, the key's bytes, the program's
//! bytes. A file is written next to its path and renamed to it, so a reader finds a whole one or none. A file that a
//! crash, a full disk or another program left there fails the checksum, is removed, and counts as a miss.
//!
//! The unfinished file is also the lock of its key: the holder of the lock makes the program, others wait and find it
//! finished. The system releases the lock of a process that died; the next holder overwrites its unfinished file.
//!
//! The cost of a store does not depend on the number of files: their total size is a number in a file of its own, and
//! only if it exceeds the limit, or is missing, are all files examined and counted again. Then enough of them are
//! removed that this is not needed again for long.

use super::key::Key;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const MAGIC: &[u8; 8] = b"torchacc";
/// Raised when the header changes.
const FORMAT: u32 = 1;

const FINISHED: &str = "program";
const UNFINISHED: &str = "part";
/// Holds the total bytes of all programs, and a checksum of that number.
const USAGE: &str = "usage";
/// An eviction makes one part in this many of the limit free.
const FREED: u64 = 8;

/// How long to wait for another process that makes the same program.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A folder of programs.
#[derive(Clone)]
pub struct Disk {
    folder: PathBuf,
    /// Bytes that all files together may take.
    limit: u64,
    patience: Duration,
}

/// The result of looking for a key.
pub enum Entry<P> {
    Found(P),
    /// No program, and nobody else makes it: the caller should, and store it.
    Absent(Claim),
    /// No program, and it cannot be stored now: because of an error, or because somebody else takes too long to make it.
    Closed(Option<io::Error>),
}

/// The right to store the program of a key. If dropped unused, others can claim it.
pub struct Claim {
    file: File,
    unfinished: PathBuf,
    finished: PathBuf,
    stored: bool,
}

/// The effect of a store on other programs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evicted {
    /// Programs removed.
    pub programs: u64,
    /// Files examined.
    pub looked_at: u64,
}

enum Stored {
    Bytes(Vec<u8>),
    Nothing,
    Damaged,
}

impl Disk {
    /// Touches nothing yet: the folder is made for the first program.
    pub fn new(folder: PathBuf, limit: u64) -> Disk {
        Disk { folder, limit, patience: PATIENCE }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks for the program of `key`, waiting for another process that is making it. `decode` turns the bytes into a
    /// program, if they are one. Also returns the number of files that were no programs and were removed.
    pub fn find<P>(&self, key: &Key, decode: impl Fn(&[u8]) -> Option<P>) -> (Entry<P>, u64) {
        let mut removed = 0;
        let mut look = || match self.read(key) {
            Stored::Nothing => None,
            Stored::Bytes(bytes) => decode(&bytes).or_else(|| {
                removed += self.remove(key);
                None
            }),
            Stored::Damaged => {
                removed += self.remove(key);
                None
            }
        };
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let entry = loop {
            if let Some(program) = look() {
                break Entry::Found(program);
            }
            match self.claim(key) {
                Err(error) => break Entry::Closed(Some(error)),
                // It may have been stored between the look and the claim.
                Ok(Some(claim)) => break look().map_or(Entry::Absent(claim), Entry::Found),
                Ok(None) if start.elapsed() > self.patience => break Entry::Closed(None),
                Ok(None) => std::thread::sleep(pause),
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        };
        (entry, removed)
    }

    /// Stores a program, unless it is larger than the limit. Removes the least recently used ones beyond the limit.
    pub fn store(&self, key: &Key, program: &[u8], mut claim: Claim) -> io::Result<Evicted> {
        let key = key.bytes();
        let body = [&(key.len() as u64).to_le_bytes()[..], &key, program].concat();
        let checksum = xxh3_128(&body).to_le_bytes();
        let bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &checksum, &body].concat();
        if bytes.len() as u64 > self.limit {
            return Ok(Evicted::default());
        }
        claim.fill(&bytes)?;
        drop(claim);
        self.make_room(bytes.len() as u64)
    }

    /// Counts stored bytes, and keeps the folder within its limit. Programs removed by others are still counted, so
    /// that the files are examined too early rather than too late.
    fn make_room(&self, stored: u64) -> io::Result<Evicted> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.folder.join(USAGE))?;
        // One process at a time. The system releases the lock with the file.
        file.lock()?;
        let total = usage_in(&file).map(|before| before.saturating_add(stored));
        let (total, evicted) = match total {
            Some(total) if total <= self.limit => (total, Evicted::default()),
            _ => self.evict()?,
        };
        let number = total.to_le_bytes();
        file.write_all_at(&[number, xxh3_64(&number).to_le_bytes()].concat(), 0)?;
        Ok(evicted)
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        self.folder.join(format!("{:032x}.{extension}", key.hash()))
    }

    fn read(&self, key: &Key) -> Stored {
        let mut bytes = Vec::new();
        let opened = File::open(self.path(key, FINISHED));
        let file = match opened.and_then(|mut file| file.read_to_end(&mut bytes).map(|_| file)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Stored::Nothing,
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Stored::Nothing,
            Err(_) => return Stored::Damaged,
        };
        match parse(&bytes) {
            None => Stored::Damaged,
            // Another key with the same hash: not ours, and not damaged.
            Some((other, _)) if other != key.bytes() => Stored::Nothing,
            Some((_, program)) => {
                // Marks it as used just now. Where this is not allowed, files age nevertheless.
                file.set_times(FileTimes::new().set_modified(SystemTime::now())).ok();
                Stored::Bytes(program.to_vec())
            }
        }
    }

    /// Returns the number of files removed.
    fn remove(&self, key: &Key) -> u64 {
        fs::remove_file(self.path(key, FINISHED)).is_ok() as u64
    }

    /// `None` while another process holds the claim.
    fn claim(&self, key: &Key) -> io::Result<Option<Claim>> {
        // For its user alone, because its programs are run.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let unfinished = self.path(key, UNFINISHED);
        // Its content belongs to the holder of the lock.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&unfinished)?;
        if !locked(&file, &unfinished)? {
            return Ok(None);
        }
        Ok(Some(Claim { file, unfinished, finished: self.path(key, FINISHED), stored: false }))
    }

    /// Number of programs in the folder, whoever stored them, and their bytes; zeros where it cannot be read.
    pub fn usage(&self) -> (u64, u64) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let finished = files.map(|entry| entry.path()).filter(|path| kind(path) == Some(FINISHED));
        let sizes = finished.filter_map(|path| Some(path.metadata().ok()?.len()));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// Examines all files. If the programs exceed the limit, removes the least recently used ones until an eighth of it
    /// is free; also removes the unfinished files of dead processes. Also returns the bytes of the programs that stay.
    fn evict(&self) -> io::Result<(u64, Evicted)> {
        let mut programs = Vec::new();
        let mut evicted = Evicted::default();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            evicted.looked_at += 1;
            // Others may remove files at any time.
            let Ok(about) = path.metadata() else { continue };
            match kind(&path) {
                Some(FINISHED) => programs.push((about.modified()?, about.len(), path)),
                Some(UNFINISHED) => remove_abandoned(&path),
                _ => {}
            }
        }
        let mut total: u64 = programs.iter().map(|(_, bytes, _)| bytes).sum();
        if total > self.limit {
            programs.sort();
            for (_, bytes, path) in programs {
                if total <= self.limit - self.limit / FREED {
                    break;
                }
                evicted.programs += fs::remove_file(path).is_ok() as u64;
                total -= bytes;
            }
        }
        Ok((total, evicted))
    }
}

/// The folder's usage according to the file, if that is whole.
fn usage_in(file: &File) -> Option<u64> {
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let (number, checksum) = bytes.split_first_chunk()?;
    (xxh3_64(number).to_le_bytes() == checksum).then(|| u64::from_le_bytes(*number))
}

impl Claim {
    fn fill(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A process that died may have left a part.
        self.file.set_len(0)?;
        self.file.write_all(bytes)?;
        fs::rename(&self.unfinished, &self.finished)?;
        self.stored = true;
        Ok(())
    }
}

impl Drop for Claim {
    /// Removes the file while it is still locked, so that no other process claims it.
    fn drop(&mut self) {
        if !self.stored {
            fs::remove_file(&self.unfinished).ok();
        }
    }
}

/// Locks `file`; `false` if another process holds it, or if it is not the file at `path` any more.
fn locked(file: &File, path: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let same = |other: fs::Metadata| Ok(other.ino() == file.metadata()?.ino());
    path.metadata().map_or(Ok(false), same)
}

fn remove_abandoned(path: &Path) {
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    if locked(&file, path).unwrap_or(false) {
        fs::remove_file(path).ok();
    }
}

/// The extension of one of our files: it follows 32 hexadecimal digits. Other files are left alone.
fn kind(path: &Path) -> Option<&str> {
    let stem = path.file_stem()?.to_str()?;
    let ours = stem.len() == 32 && stem.bytes().all(|c| c.is_ascii_hexdigit());
    path.extension().and_then(|extension| extension.to_str()).filter(|_| ours)
}

/// The key's and the program's bytes of a whole file.
fn parse(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = bytes.strip_prefix(MAGIC)?.strip_prefix(&FORMAT.to_le_bytes())?;
    let (checksum, body) = body.split_first_chunk()?;
    if u128::from_le_bytes(*checksum) != xxh3_128(body) {
        return None;
    }
    let (length, body) = body.split_first_chunk()?;
    body.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests;
