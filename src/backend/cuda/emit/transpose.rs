//! Pointwise kernels whose reads are transposed to their writes: neighbours in a read's memory lie along another dimension
//! than those of the writes. A block takes a square of points along both dimensions. Its threads load the read's elements in
//! the order of the read's memory into a tile in shared memory, and take them from there in the order of the writes.

use super::access::{Access, Space};
use super::write::Writer;
use super::{BLOCK, Task};
use crate::plan::{MemRef, Operand};
use crate::shape::Dims;

/// Side of a tile. Its rows are an element longer, so that neither a row nor a column lies in one bank of shared memory.
const SIDE: i64 = 32;
/// Rows of a tile that a block's threads take at once.
const ROWS: i64 = BLOCK as i64 / SIDE;
/// Bytes of shared memory that a kernel has without asking.
const MOST_BYTES: i64 = 48 << 10;
/// With fewer points along a side, a tile would be mostly empty.
const LEAST: i64 = SIDE / 2;

pub struct Tiling {
    /// The dimension along which the reads are contiguous; along the last the writes are.
    across: usize,
    /// The numbers of the reads that use tiles.
    pub reads: Vec<usize>,
}

impl Tiling {
    /// `None` where no read is transposed. `strides` are those of the reads, then of the writes.
    pub fn new(space: &Space, reads: &[Operand], strides: &[Dims]) -> Option<Tiling> {
        let last = space.sizes.len() - 1;
        let (of_reads, of_writes) = strides.split_at(reads.len());
        if space.sizes[last] < LEAST || of_writes.iter().any(|strides| strides[last] != 1) {
            return None;
        }
        let lies = |n: usize, d: usize| {
            let in_memory = !matches!(reads[n].mem, MemRef::Scalar(_) | MemRef::Index);
            in_memory && of_reads[n][d] == 1 && of_reads[n][last] > 1
        };
        let any = |&d: &usize| (0..reads.len()).any(|n| lies(n, d));
        let across = (0..last).filter(|&d| space.sizes[d] >= LEAST).find(any)?;
        let mut bytes = 0;
        let fits = |n: &usize| {
            bytes += SIDE * (SIDE + 1) * reads[*n].dtype.size() as i64;
            bytes <= MOST_BYTES
        };
        let reads = (0..reads.len()).filter(|&n| lies(n, across)).take_while(fits).collect();
        Some(Tiling { across, reads })
    }

    /// Finishes the kernel, which calls the function of a point.
    pub fn finish(&self, mut writer: Writer, space: &Space, from: &[Access], label: &str) -> Task {
        let (across, last, at) = (self.across, space.sizes.len() - 1, space.index());
        let tiles = Space { sizes: tiles(&space.sizes, across), wide: space.wide };
        let sizes: Vec<String> = space.sizes.iter().map(|&size| writer.number(size)).collect();
        // Point (t…) of the tile: `lane` goes along one of its dimensions, rows along the other.
        let point = |lane: usize, row: usize| {
            let coordinate = |d: usize| match d {
                d if d == lane => format!("t{d} = b{d} * {SIDE} + lane"),
                d if d == row => format!("t{d} = b{d} * {SIDE} + row + k"),
                d => format!("t{d} = b{d}"),
            };
            let all: Vec<String> = (0..=last).map(coordinate).collect();
            let inside =
                format!("t{lane} < ({at}){} && t{row} < ({at}){}", sizes[lane], sizes[row]);
            format!("    const {at} {};\n        if ({inside}) {{", all.join(", "))
        };
        for &n in &self.reads {
            let element = from[n].element;
            writer.line(format!("__shared__ {element} tile{n}[{SIDE}][{}];", SIDE + 1));
        }
        writer.line(format!("const {at} number = ({at})block;"));
        let coordinates = tiles.coordinates(&mut writer, "b", "number");
        writer.line(coordinates.trim());
        writer.line(format!("const int lane = threadIdx.x % {SIDE}, row = threadIdx.x / {SIDE};"));
        let rows = format!("UNROLL for (int k = 0; k < {SIDE}; k += {ROWS}) {{");
        writer.line(&rows);
        writer.line(point(across, last));
        for &n in &self.reads {
            let element = from[n].element_at(&from[n].walk.offset("", "t", at));
            writer.line(format!("        tile{n}[row + k][lane] = {element};"));
        }
        writer.line("    }\n    }");
        writer.line("__syncthreads();");
        writer.line(&rows);
        writer.line(point(last, across));
        let along = |number: String, d: usize| format!("({number}) * ({at}){} + t{d}", sizes[d]);
        let number = (1..=last).fold("t0".into(), along);
        let elements: String =
            self.reads.iter().map(|n| format!(", tile{n}[lane][row + k]")).collect();
        writer.line(format!("        NAME_at<1>(a, status, {number}{elements});"));
        writer.line("    }\n    }");
        let blocks = tiles.numel() as u64;
        writer.finish_item(label, blocks)
    }
}

/// Number of tiles along each dimension; tiles are squares of the last dimension and `across`.
fn tiles(sizes: &[i64], across: usize) -> Dims {
    let along = |(d, &size): (usize, &i64)| match d == across || d == sizes.len() - 1 {
        true => (size as u64).div_ceil(SIDE as u64) as i64,
        false => size,
    };
    sizes.iter().enumerate().map(along).collect()
}

/// The parameter with which the function of a point receives its element of read `n`.
pub fn parameter(n: usize, access: &Access) -> String {
    format!(", const {} t{n}", access.element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_space_once() {
        assert!(SIDE % ROWS == 0 && ROWS * SIDE == i64::from(BLOCK));
        let sides = || (1..100).chain([1023, 1024, 1025, (1 << 31) + 1]);
        for (rows, columns) in sides().flat_map(|r| sides().map(move |c| (r, c))) {
            let tiles = tiles(&[rows, 3, columns], 0);
            assert_eq!(tiles[1], 3);
            for (n, size) in [(tiles[0], rows), (tiles[2], columns)] {
                assert!(n * SIDE >= size && (n - 1) * SIDE < size, "{rows} by {columns}");
            }
        }
    }
}
