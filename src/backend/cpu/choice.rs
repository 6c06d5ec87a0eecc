//! The choice of a multiplier for matrices of f32 that are not small, where oneDNN was found: measured at the first block or
//! product of each class, on one thread, and kept on disk by processor.
//!
//! **Invariant:** the multiplier of a class does not change while the backend is open, nor from process to process as long as
//! the folder keeps it; where nothing can be kept nothing is measured. So bits depend neither on threads nor on the run.

use super::isa::{self, Isa};
use crate::cache::disk::{Disk, Entry};
use crate::cache::key::Key;
use std::fmt;
use std::sync::OnceLock;

/// Multipliers of f32 matrices: loops of our own ([`super::panels`]), a library, and portable code for every processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplier {
    Panels,
    OneDnn,
    Portable,
}

impl Multiplier {
    pub const ALL: [Multiplier; 3] = [Multiplier::Panels, Multiplier::OneDnn, Multiplier::Portable];

    pub fn name(self) -> &'static str {
        match self {
            Multiplier::Panels => "torchacc",
            Multiplier::OneDnn => "oneDNN",
            Multiplier::Portable => "matrixmultiply",
        }
    }
}

/// Blocks, or products, for which the same multiplier is assumed to be the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    pub a: Lie,
    pub b: Lie,
    /// Indices into [`SIDES`] of rows and columns, and into [`TERMS`].
    rows: usize,
    columns: usize,
    terms: usize,
    /// Whether these are products of several such blocks, whose operands are packed once where our own loops multiply.
    packed: bool,
}

/// Layout of an operand: dense rows or dense columns, and whether these are far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie {
    pub by_rows: bool,
    pub far: bool,
}

/// The largest size of a class, and the size that it is measured with.
const SIDES: [(usize, usize); 3] = [(16, 8), (100, 64), (usize::MAX, 256)];
const TERMS: [(usize, usize); 2] = [(128, 64), (usize::MAX, 384)];
/// Distance between rows, or between columns, in elements, from which on they are far apart.
const FAR: usize = 512;

impl Lie {
    /// By the strides of rows and of columns; `None` if neither rows nor columns are dense.
    fn of(strides: (usize, usize)) -> Option<Lie> {
        let (by_rows, pitch) = match strides {
            (pitch, 1) => (true, pitch),
            (1, pitch) => (false, pitch),
            _ => return None,
        };
        Some(Lie { by_rows, far: pitch >= FAR })
    }
}

impl Class {
    const COUNT: usize = 2 * 4 * 4 * SIDES.len() * SIDES.len() * TERMS.len();

    /// The class of a block with these rows, terms and columns, by the strides of its operands; `None` for other layouts.
    pub fn of(
        [rows, terms, columns]: [usize; 3],
        a: (usize, usize),
        b: (usize, usize),
    ) -> Option<Class> {
        let (a, b) = (Lie::of(a)?, Lie::of(b)?);
        let place =
            |of: &[(usize, usize)], size: usize| of.partition_point(|&(most, _)| most < size);
        let [rows, columns] = [rows, columns].map(|side| place(&SIDES, side));
        Some(Class { a, b, rows, columns, terms: place(&TERMS, terms), packed: false })
    }

    /// The class of products that are cut into blocks of this class.
    pub fn of_product(self) -> Class {
        Class { packed: true, ..self }
    }

    fn index(self) -> usize {
        let lies = [self.a, self.b].map(|lie| 2 * lie.by_rows as usize + lie.far as usize);
        let sides = self.rows * SIDES.len() + self.columns;
        let lies = (self.packed as usize * 4 + lies[0]) * 4 + lies[1];
        (lies * SIDES.len() * SIDES.len() + sides) * TERMS.len() + self.terms
    }

    fn all() -> impl Iterator<Item = Class> {
        (0..Class::COUNT).map(|index| {
            let (index, terms) = (index / TERMS.len(), index % TERMS.len());
            let (index, columns) = (index / SIDES.len(), index % SIDES.len());
            let (lies, rows) = (index / SIDES.len(), index % SIDES.len());
            let lie = |lie: usize| Lie { by_rows: lie & 2 != 0, far: lie & 1 != 0 };
            let (packed, a, b) = (lies / 16 == 1, lie(lies / 4 % 4), lie(lies % 4));
            Class { a, b, rows, columns, terms, packed }
        })
    }

    /// Rows, terms and columns that it is measured with.
    pub fn size(self) -> [usize; 3] {
        [SIDES[self.rows].1, TERMS[self.terms].1, SIDES[self.columns].1]
    }

    /// The multiplier where nothing can be measured.
    pub fn unmeasured(self) -> Multiplier {
        let [rows, _, columns] = self.size();
        match self.packed {
            // With AVX-512 a GPT's step takes 1.1 times as long as with the library (Sapphire Rapids).
            true if isa::current() == Isa::Avx512 => Multiplier::OneDnn,
            true => Multiplier::Panels,
            false => unmeasured(self.a, self.b, (rows, columns)),
        }
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.by_rows { "rows" } else { "columns" };
        write!(f, "{side}{}", if self.far { " far apart" } else { "" })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |of: &[(usize, usize)], at: usize| {
            let least = if at == 0 { 1 } else { of[at - 1].0 + 1 };
            match of[at].0 {
                usize::MAX => format!("{least} or more"),
                most => format!("{least} to {most}"),
            }
        };
        let [rows, columns] = [self.rows, self.columns].map(|side| span(&SIDES, side));
        let terms = span(&TERMS, self.terms);
        let packed = if self.packed { ", packed once" } else { "" };
        write!(f, "{rows} x {terms} x {columns}, {} by {}{packed}", self.a, self.b)
    }
}

/// The multiplier where nothing is measured. With AVX2 it is our own loops where rows or columns are far apart (1.04 to
/// 2.3 times as fast on Zen 3, else 0.8 to 1.2), with AVX-512 where few rows or columns meet columns of b (0.97 to 1.5
/// times on Zen 4, else 0.9 to 1).
pub fn unmeasured(a: Lie, b: Lie, (rows, columns): (usize, usize)) -> Multiplier {
    let suits = match isa::current() {
        Isa::Avx512 => !b.by_rows && rows >= 16 && rows.min(columns) <= 100,
        _ => a.far || b.far,
    };
    if suits && fills(rows, columns) { Multiplier::Panels } else { Multiplier::OneDnn }
}

/// Whether a block of this size fills the tiles of our own loops.
pub fn fills(rows: usize, columns: usize) -> bool {
    rows >= 8 && columns >= 16
}

/// Choices measured on this processor, with one library.
pub struct Choices {
    disk: Disk,
    /// The processor, instructions, library and version that they depend on.
    machine: String,
    of_class: Box<[OnceLock<Multiplier>]>,
}

impl Choices {
    pub fn new(disk: Disk, onednn: &str) -> Choices {
        let version = env!("CARGO_PKG_VERSION");
        let machine = format!("{} {:?} oneDNN {onednn} {version}", isa::processor(), isa::chosen());
        Choices { disk, machine, of_class: (0..Class::COUNT).map(|_| OnceLock::new()).collect() }
    }

    /// The classes that were met (rows, terms, columns and layouts of operands), and their multipliers.
    pub fn made(&self) -> Vec<(String, &'static str)> {
        let of =
            |class: Class| Some((class.to_string(), self.of_class[class.index()].get()?.name()));
        Class::all().filter_map(of).collect()
    }

    fn key(&self, class: Class) -> Key {
        let multiplier = format!("{class:?} of {SIDES:?} {TERMS:?}").into_bytes();
        Key::new(vec![("multiplier", multiplier), ("machine", self.machine.clone().into_bytes())])
    }

    /// The multiplier of a class: `measure` finds it the first time, from then on it is the same.
    pub fn of(&self, class: Class, measure: impl FnOnce() -> Multiplier) -> Multiplier {
        *self.of_class[class.index()].get_or_init(|| {
            let key = self.key(class);
            let known = |bytes: &[u8]| {
                let named = |by: &Multiplier| [*by as u8] == *bytes;
                Multiplier::ALL.into_iter().find(named)
            };
            match self.disk.find(&key, known).0 {
                Entry::Found(by) => by,
                Entry::Closed(_) => class.unmeasured(),
                Entry::Absent(claim) => {
                    self.disk.store(&key, &[measure() as u8], claim).ok();
                    // A choice that is not kept could be another one in the next process.
                    match self.disk.find(&key, known).0 {
                        Entry::Found(by) => by,
                        _ => class.unmeasured(),
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::fs;
    use std::path::PathBuf;

    /// A folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("torchacc-choice-{}-{name}", std::process::id());
            Folder(std::env::temp_dir().join(name))
        }

        fn choices(&self) -> Choices {
            Choices::new(Disk::new(self.0.clone(), 1 << 20), "0.0.0")
        }

        fn files(&self) -> Vec<PathBuf> {
            let all = self.0.read_dir().unwrap().map(|file| file.unwrap().path());
            all.filter(|file| file.extension().is_some_and(|end| end == "program")).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn large() -> Class {
        Class::all().last().unwrap()
    }

    #[test]
    fn each_class_has_a_place_of_its_own() {
        assert!(Class::all().map(Class::index).eq(0..Class::COUNT));
        let said: HashSet<String> = Class::all().map(|class| class.to_string()).collect();
        assert_eq!(said.len(), Class::COUNT);
        assert_eq!(
            large().to_string(),
            "101 or more x 129 or more x 101 or more, rows far apart by rows far apart, packed once"
        );
    }

    #[test]
    fn blocks_are_of_the_class_that_they_look_like() {
        let (near, far) = (Lie { by_rows: true, far: false }, Lie { by_rows: false, far: true });
        let class =
            |a, b, rows, columns, terms| Some(Class { a, b, rows, columns, terms, packed: false });
        assert_eq!(Class::of([16, 128, 17], (128, 1), (1, 512)), class(near, far, 0, 1, 0));
        assert_eq!(Class::of([101, 129, 100], (1, 700), (511, 1)), class(far, near, 2, 1, 1));
        assert_eq!(Class::of([4, 4, 4], (8, 2), (4, 1)), None);
    }

    #[test]
    fn what_was_measured_is_kept_for_other_processes() {
        for by in Multiplier::ALL {
            let (folder, measured) = (Folder::new(&format!("kept-{by:?}")), Cell::new(0));
            let measure = || {
                measured.set(measured.get() + 1);
                by
            };
            let first = folder.choices();
            assert_eq!([(); 2].map(|()| first.of(large(), measure)), [by; 2]);
            let second = folder.choices();
            assert_eq!(second.made(), []);
            assert_eq!(second.of(large(), measure), by);
            assert_eq!(second.made(), [(large().to_string(), by.name())]);
            assert_eq!((measured.get(), folder.files().len()), (1, 1));
            second.of(Class::all().next().unwrap(), measure);
            assert_eq!((measured.get(), folder.files().len()), (2, 2));
            // With another library, or on another processor, all is measured again.
            let other = Choices::new(Disk::new(folder.0.clone(), 1 << 20), "0.0.1");
            other.of(large(), measure);
            assert_eq!(measured.get(), 3);
        }
    }

    /// Files that are damaged, and bytes that say nothing.
    #[test]
    fn what_is_no_choice_is_measured_again() {
        let folder = Folder::new("damaged");
        let choices = folder.choices();
        let key = choices.key(large());
        let Entry::Absent(claim) = choices.disk.find(&key, |_| None::<()>).0 else {
            panic!("a new folder")
        };
        choices.disk.store(&key, &[77], claim).unwrap();
        assert_eq!(choices.of(large(), || Multiplier::Portable), Multiplier::Portable);
        let file = folder.files().remove(0);
        let whole = fs::read(&file).unwrap();
        for damaged in [&b"no choice"[..], &whole[..whole.len() - 1], &[]] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(folder.choices().of(large(), || Multiplier::Portable), Multiplier::Portable);
            assert_eq!(fs::read(&file).unwrap(), whole);
        }
    }

    #[test]
    fn what_is_not_kept_does_not_count() {
        let folder = Folder::new("small");
        let choices = Choices::new(Disk::new(folder.0.clone(), 1), "0.0.0");
        for class in Class::all().step_by(7) {
            for by in Multiplier::ALL {
                assert_eq!(choices.of(class, || by), class.unmeasured());
            }
        }
    }

    #[test]
    fn where_nothing_can_be_kept_nothing_is_measured() {
        let folder = Folder::new("closed");
        fs::write(&folder.0, "not a folder").unwrap();
        let choices = folder.choices();
        for class in Class::all() {
            assert_eq!(choices.of(class, || panic!("measured")), class.unmeasured());
        }
        fs::remove_file(&folder.0).unwrap();
    }
}
