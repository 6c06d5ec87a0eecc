use super::*;
use safetensors::SafeTensors;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("torchacc-weights-{}-{name}", std::process::id()));
    // What a process of this number has left, which was killed.
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn entry(name: &str, dtype: DType, sizes: &[i64]) -> Entry {
    Entry { name: name.into(), dtype, sizes: sizes.into() }
}

fn content(index: usize, nbytes: usize) -> Vec<u8> {
    (0..nbytes).map(|i| (i * 7 + index) as u8).collect()
}

fn example() -> Vec<Entry> {
    let sizes: [&[i64]; 4] = [&[], &[3], &[2, 0, 3], &[2, 5]];
    let each = DTYPES.iter().zip(sizes.iter().cycle()).enumerate();
    each.map(|(i, (known, sizes))| entry(&format!("layer.{i}"), known.0, sizes)).collect()
}

fn write(path: &Path, entries: &[Entry]) -> Result<()> {
    let texts = HashMap::from([("made by".to_string(), "a \"test\"\n".to_string())]);
    save(path, entries, texts, |index| Ok(content(index, entries[index].nbytes().unwrap())))
}

#[test]
fn files_are_those_of_the_format_and_come_back() {
    let dir = scratch("whole");
    let path = dir.join("x.safetensors");
    let entries = example();
    write(&path, &entries).unwrap();
    write(&path, &entries).unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    // By the crate's own reader, which shares no code with ours but for the header.
    let bytes = std::fs::read(&path).unwrap();
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    let mut ours = open(&path).unwrap();
    assert_eq!((theirs.len(), ours.entries.len()), (entries.len(), entries.len()));
    assert_eq!(ours.texts["made by"], "a \"test\"\n");
    for (index, entry) in entries.iter().enumerate() {
        let wanted = content(index, entry.nbytes().unwrap());
        let view = theirs.tensor(&entry.name).unwrap();
        assert_eq!((view.data(), view.shape().len()), (&wanted[..], entry.sizes.len()));
        assert_eq!(
            view.data().as_ptr().addr() % entry.dtype.size(),
            bytes.as_ptr().addr() % 8 % entry.dtype.size()
        );
        let at = ours.entries.iter().position(|other| other == entry).unwrap();
        assert_eq!(ours.read(at).unwrap(), wanted);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_fails_leaves_the_old_file() {
    let dir = scratch("failing");
    let path = dir.join("x.safetensors");
    std::fs::write(&path, "old").unwrap();
    let two = [entry("a", DType::F32, &[1]), entry("a", DType::F32, &[1])];
    assert_eq!(write(&path, &two).unwrap_err().code, Code::InvalidArgument);
    let wide = [entry("a", DType::C128, &[1])];
    assert_eq!(write(&path, &wide).unwrap_err().code, Code::Unsupported);
    let huge = [entry("a", DType::F32, &[i64::MAX, 2])];
    assert_eq!(
        save(&path, &huge, HashMap::new(), |_| Ok(vec![])).unwrap_err().code,
        Code::InvalidArgument
    );
    let one = [entry("a", DType::F32, &[1])];
    let failing = save(&path, &one, HashMap::new(), |_| crate::internal!("no value"));
    assert_eq!(failing.unwrap_err().code, Code::Internal);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(write(&dir.join("no/x"), &one).unwrap_err().code, Code::NotFound);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Every beginning of a file, and every byte of its header changed: an error, or a file that is whole after all.
#[test]
fn malformed_files_are_errors() {
    let dir = scratch("malformed");
    let path = dir.join("x.safetensors");
    let small = [entry("a", DType::F32, &[2, 1]), entry("b", DType::U8, &[3])];
    write(&path, &small).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = open(&path).err().unwrap();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("x.safetensors"), "{error}");
    }
    for at in 0..whole.len() - 11 {
        for change in [0x01, 0x10, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(mut weights) = open(&path) {
                (0..weights.entries.len()).for_each(|i| drop(weights.read(i).unwrap()));
            }
        }
    }
    assert_eq!(open(&dir.join("none")).err().unwrap().code, Code::NotFound);
    std::fs::remove_dir_all(dir).unwrap();
}
