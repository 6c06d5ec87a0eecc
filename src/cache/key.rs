//! The key of a compiled program: named parts, so that "why did it miss?" has an answer.

use xxhash_rust::xxh3::xxh3_128;

/// Named parts in a fixed order, each as canonical bytes. Equal bytes mean an equal program; the hash is an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    parts: Vec<(&'static str, Vec<u8>)>,
    hash: u128,
}

impl Key {
    pub fn new(parts: Vec<(&'static str, Vec<u8>)>) -> Key {
        // Each part is hashed alone, so that no byte can move from one part to the next unnoticed.
        let digests: Vec<u8> =
            parts.iter().flat_map(|(_, bytes)| xxh3_128(bytes).to_le_bytes()).collect();
        Key { hash: xxh3_128(&digests), parts }
    }

    /// A key with a hash of the test's choice.
    #[cfg(test)]
    pub fn with_hash(parts: Vec<(&'static str, Vec<u8>)>, hash: u128) -> Key {
        Key { parts, hash }
    }

    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// All parts as one byte string: equal exactly for equal keys.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, bytes) in &self.parts {
            for piece in [name.as_bytes(), bytes] {
                out.extend_from_slice(&(piece.len() as u64).to_le_bytes());
                out.extend_from_slice(piece);
            }
        }
        out
    }

    pub fn nbytes(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Names of the parts in which two keys differ.
    pub fn difference(&self, other: &Key) -> Vec<&'static str> {
        let pairs = self.parts.iter().zip(&other.parts);
        pairs.filter(|(a, b)| a != b).map(|(a, _)| a.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_part_differs() {
        let a = Key::new(vec![("records", vec![1, 2]), ("donors", vec![3])]);
        let b = Key::new(vec![("records", vec![1]), ("donors", vec![2, 3])]);
        let c = Key::new(vec![("records", vec![1, 2]), ("donors", vec![4])]);
        assert_ne!(a.hash(), b.hash());
        assert_eq!(a.difference(&b), ["records", "donors"]);
        assert_eq!(a.difference(&c), ["donors"]);
        assert_eq!(a.difference(&a.clone()), [""; 0]);
    }
}
