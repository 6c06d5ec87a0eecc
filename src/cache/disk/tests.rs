use super::*;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("torchacc-{}-{name}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        Scratch(path)
    }

    fn disk(&self) -> Disk {
        Disk::new(self.0.clone(), 1 << 20)
    }

    /// Of all files but the one that has the usage.
    fn names(&self) -> BTreeSet<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(&self.0).unwrap().map(name);
        names.map(|name| name.into_string().unwrap()).filter(|name| name != USAGE).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn key(n: u32) -> Key {
    Key::new(vec![("records", n.to_le_bytes().into()), ("version", b"1".into())])
}

fn program(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(n as usize % 4096)
}

fn find(disk: &Disk, key: &Key) -> (Entry<Vec<u8>>, u64) {
    disk.find(key, |bytes| Some(bytes.to_vec()))
}

fn claim(disk: &Disk, key: &Key) -> Claim {
    match find(disk, key).0 {
        Entry::Absent(claim) => claim,
        Entry::Found(_) => panic!("it is there"),
        Entry::Closed(error) => panic!("closed: {error:?}"),
    }
}

fn put(disk: &Disk, n: u32) -> Evicted {
    disk.store(&key(n), &program(n), claim(disk, &key(n))).unwrap()
}

/// Whether it is there, and how many files were removed on the way.
fn has(disk: &Disk, n: u32) -> (bool, u64) {
    match find(disk, &key(n)) {
        (Entry::Found(bytes), removed) => {
            assert_eq!(bytes, program(n));
            (true, removed)
        }
        (_, removed) => (false, removed),
    }
}

#[test]
fn what_is_stored_is_found() {
    let scratch = Scratch::new("found");
    let disk = scratch.disk();
    assert_eq!(has(&disk, 5), (false, 0));
    put(&disk, 5);
    assert_eq!((has(&disk, 5), has(&disk, 6)), ((true, 0), (false, 0)));
    assert_eq!(has(&scratch.disk(), 5), (true, 0));
    assert_eq!(scratch.names(), [format!("{:032x}.program", key(5).hash())].into());
}

#[test]
fn a_key_is_the_same_in_every_process_and_version_of_the_library() {
    // If this changes, old files are not found any more; which is all that happens.
    assert_eq!(format!("{:032x}", key(5).hash()), "598f6f1d19a191254405a7051b6595c1");
}

#[test]
fn files_that_are_no_programs_are_removed_and_counted() {
    let scratch = Scratch::new("damaged");
    let disk = scratch.disk();
    put(&disk, 9);
    let path = disk.path(&key(9), FINISHED);
    let whole = fs::read(&path).unwrap();
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(changed).collect();
    damaged.extend((0..whole.len()).map(|end| whole[..end].to_vec()));
    damaged.push([&whole[..], b"more"].concat());
    damaged.push(b"#!/bin/sh\necho something else\n".into());
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(has(&disk, 9), (false, 1), "{bytes:?}");
        assert!(!path.exists());
    }
    put(&disk, 9);
    assert_eq!(has(&disk, 9), (true, 0));
    // Whole, but not what the caller can use.
    let (entry, removed) = disk.find(&key(9), |_| None::<()>);
    assert!(matches!(entry, Entry::Absent(_)));
    assert_eq!((removed, path.exists()), (1, false));
}

#[test]
fn a_file_of_another_key_with_the_same_hash_is_not_taken() {
    let scratch = Scratch::new("collision");
    let disk = scratch.disk();
    put(&disk, 1);
    fs::rename(disk.path(&key(1), FINISHED), disk.path(&key(2), FINISHED)).unwrap();
    assert_eq!(has(&disk, 2), (false, 0));
    put(&disk, 2);
    assert_eq!(has(&disk, 2), (true, 0));
}

#[test]
fn two_versions_share_a_folder() {
    let scratch = Scratch::new("versions");
    let disk = scratch.disk();
    let version = |v: &[u8]| Key::new(vec![("records", vec![1]), ("version", v.into())]);
    for v in [b"1", b"2"] {
        disk.store(&version(v), v, claim(&disk, &version(v))).unwrap();
    }
    for v in [b"1", b"2"] {
        let (entry, removed) = find(&disk, &version(v));
        assert!(matches!(entry, Entry::Found(bytes) if bytes == v));
        assert_eq!(removed, 0);
    }
}

#[test]
fn the_least_recently_used_go_and_strangers_stay() {
    let scratch = Scratch::new("limit");
    let disk = Disk::new(scratch.0.clone(), 15_000);
    let age = |n: u32, seconds: u64| {
        let file = File::open(disk.path(&key(n), FINISHED)).unwrap();
        let then = SystemTime::now() - Duration::from_secs(seconds);
        file.set_times(FileTimes::new().set_modified(then)).unwrap();
    };
    for (n, seconds) in [(1001, 300), (1002, 200), (1003, 100)] {
        put(&disk, n);
        age(n, seconds);
    }
    fs::write(scratch.0.join("letter.txt"), vec![0; 100_000]).unwrap();
    // Used, so it is young again.
    assert_eq!(has(&disk, 1001), (true, 0));
    put(&disk, 1004);
    assert_eq!([1001, 1002, 1003, 1004].map(|n| has(&disk, n).0), [true, false, true, true]);
    // More than fits alone.
    let large = key(7);
    disk.store(&large, &vec![0; 20_000], claim(&disk, &large)).unwrap();
    assert!(matches!(find(&disk, &large).0, Entry::Absent(_)));
    assert_eq!([1001, 1003, 1004].map(|n| has(&disk, n).0), [true; 3]);
    assert!(scratch.0.join("letter.txt").exists());
}

/// So many programs of `size` bytes that nobody has counted.
fn found(scratch: &Scratch, count: u128, size: usize) {
    fs::create_dir_all(&scratch.0).unwrap();
    for n in 0..count {
        fs::write(scratch.0.join(format!("{n:032x}.{FINISHED}")), vec![0; size]).unwrap();
    }
}

#[test]
fn a_store_looks_at_as_many_files_in_a_large_folder_as_in_a_small_one() {
    for count in [100, 50_000] {
        let scratch = Scratch::new(&format!("files-{count}"));
        found(&scratch, count, 1);
        let disk = Disk::new(scratch.0.clone(), 1 << 30);
        // Once for all processes: the folder is as an older version left it. The file with the usage is there by then.
        assert_eq!(put(&disk, 1), Evicted { programs: 0, looked_at: count as u64 + 2 });
        for n in 2..40 {
            // Each as a process of its own.
            let disk = Disk::new(scratch.0.clone(), 1 << 30);
            assert_eq!(put(&disk, n), Evicted::default(), "{count} files");
        }
        assert_eq!(disk.usage().0, count as u64 + 39);
    }
}

#[test]
fn what_goes_at_the_limit_goes_in_many_at_once() {
    let scratch = Scratch::new("many");
    let limit = 1_000_000;
    let (mut looked_at, mut went) = (0, 0);
    for n in 1000..2000 {
        let disk = Disk::new(scratch.0.clone(), limit);
        let evicted = put(&disk, n);
        (looked_at, went) = (looked_at + evicted.looked_at, went + evicted.programs);
        assert!(disk.usage().1 <= limit);
    }
    let (kept, _) = scratch.disk().usage();
    assert!(kept + went == 1000 && kept > 100, "{kept} kept, {went} went");
    // A scan for every eighth of the limit.
    assert!(looked_at < 20 * 1000, "{looked_at}");
}

#[test]
fn a_wrong_number_is_found_out() {
    let scratch = Scratch::new("usage");
    let (path, limit) = (scratch.0.join(USAGE), 40_000);
    let disk = Disk::new(scratch.0.clone(), limit);
    (1001..1006).for_each(|n| assert_eq!(put(&disk, n).programs, 0));
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..7], &whole[..15], b"", &[7; 16], &[&whole[1..], b"x"].concat()] {
        fs::write(&path, damaged).unwrap();
        assert!(put(&disk, 1500).looked_at > 5);
        assert_eq!(fs::read(&path).unwrap().len(), 16);
        disk.remove(&key(1500));
    }
    // Somebody has removed programs: looked at too early, once.
    (1001..1006).for_each(|n| assert_eq!(disk.remove(&key(n)), 1));
    let stores: Vec<Evicted> = (1100..1108).map(|n| put(&disk, n)).collect();
    assert!(stores.iter().all(|evicted| evicted.programs == 0));
    assert_eq!(stores.iter().filter(|evicted| evicted.looked_at > 0).count(), 1);
    assert!(disk.usage().1 <= limit);
}

#[test]
fn many_processes_stay_within_the_limit_together() {
    let scratch = Scratch::new("together");
    let limit = 100_000;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let folder = scratch.0.clone();
            scope.spawn(move || {
                let first = 1000 + 100 * thread;
                for n in first..first + 50 {
                    put(&Disk::new(folder.clone(), limit), n);
                }
            });
        }
    });
    let (programs, bytes) = scratch.disk().usage();
    assert!(bytes <= limit && programs > 10, "{programs} of {bytes} bytes");
}

#[test]
fn one_makes_a_program_and_the_others_wait() {
    let scratch = Scratch::new("flight");
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // Each with a view of its own, as processes have.
            scope.spawn(|| {
                let disk = scratch.disk();
                for n in 100..110 {
                    if let Entry::Absent(claim) = find(&disk, &key(n)).0 {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(5));
                        disk.store(&key(n), &program(n), claim).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 10);
    assert_eq!(scratch.names().len(), 10);
}

#[test]
fn patience_ends_and_failure_lets_the_next_one_try() {
    let scratch = Scratch::new("patience");
    let disk = Disk { patience: Duration::from_millis(20), ..scratch.disk() };
    let held = claim(&disk, &key(3));
    assert!(matches!(find(&disk, &key(3)).0, Entry::Closed(None)));
    drop(held);
    assert_eq!(scratch.names(), BTreeSet::new());
    put(&disk, 3);
}

#[test]
fn where_nothing_can_be_written_nothing_fails() {
    let scratch = Scratch::new("unwritable");
    fs::write(&scratch.0, b"a file").unwrap();
    let disk = Disk::new(scratch.0.join("folder"), 1000);
    assert!(matches!(find(&disk, &key(1)), (Entry::Closed(Some(_)), 0)));
    let disk = Disk::new(scratch.0.clone(), 1000);
    assert!(matches!(find(&disk, &key(1)), (Entry::Closed(Some(_)), 0)));
    fs::remove_file(&scratch.0).unwrap();
    // A full disk.
    let disk = scratch.disk();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut claimed = claim(&disk, &key(1));
    claimed.file = full;
    assert!(disk.store(&key(1), &program(1), claimed).is_err());
    assert_eq!(scratch.names(), BTreeSet::new());
    put(&disk, 1);
}

const WRITER: &str = "TORCHACC_TEST_WRITER_FOLDER";

/// Not a test: what the next one kills.
#[test]
#[ignore = "runs until it is killed, in a process of its own"]
fn writer() {
    let Some(folder) = std::env::var_os(WRITER) else { return };
    let disk = Disk::new(folder.into(), 100_000);
    for n in (1000..1020).cycle() {
        fs::remove_file(disk.path(&key(n), FINISHED)).ok();
        put(&disk, n);
    }
}

#[test]
fn a_killed_writer_leaves_a_folder_that_works() {
    let scratch = Scratch::new("killed");
    let disk = scratch.disk();
    for round in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::disk::tests::writer", "--ignored"])
            .env(WRITER, &scratch.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let written = || scratch.0.exists() && !scratch.names().is_empty();
        while !written() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(3 + round));
        child.kill().unwrap();
        child.wait().unwrap();
        for n in 1000..1020 {
            // There or not, but nothing is damaged and nothing is held by the dead.
            if let (false, removed) = has(&disk, n) {
                assert_eq!(removed, 0);
                put(&disk, n);
            }
            assert_eq!(has(&disk, n), (true, 0));
        }
    }
    put(&disk, 1);
    assert!(scratch.names().iter().all(|name| name.ends_with(".program")));
}
