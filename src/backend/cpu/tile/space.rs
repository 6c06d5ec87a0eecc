//! The iteration space of a fused kernel: dimensions put in the order that suits memory, merged where every operand
//! allows it, and cut into tiles.

use crate::plan::MemRef;
use crate::shape::{Dims, Layout};
use smallvec::SmallVec;

/// How the space is cut. Tiles are numbered; the last of a row of tiles may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tiling {
    /// Runs of the given length in row-major order.
    Runs(usize),
    /// The same, but none goes from one row of the last dimension into the next.
    Rows(usize),
    /// Boxes over the last two dimensions: for operands that are transposed against each other.
    Boxes { rows: usize, columns: usize },
}

/// How one operand lies over the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    pub strides: Dims,
    pub offset: i64,
    /// Linear position `i` is flat element `offset + i`.
    pub contiguous: bool,
    /// Every position is the same element.
    pub constant: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// At least one dimension.
    pub sizes: Dims,
    pub tiling: Tiling,
}

/// One tile's position.
#[derive(Clone, Debug)]
pub struct Position {
    coordinates: Dims,
    /// Linear index of the first element; meaningful for runs.
    pub start: i64,
    pub len: usize,
    /// 1 for runs.
    pub rows: usize,
}

impl Position {
    /// The position of a single number that is not in memory.
    pub fn of_number() -> Position {
        Position { coordinates: Dims::new(), start: 0, len: 1, rows: 1 }
    }

    /// Elements of a row.
    pub fn columns(&self) -> usize {
        self.len / self.rows
    }
}

/// Dimensions in order of decreasing stride of `layout`; in their own order if it repeats elements (stride 0).
pub fn memory_order(layout: &Layout) -> SmallVec<[usize; 6]> {
    let mut order: SmallVec<[usize; 6]> = (0..layout.rank()).collect();
    if layout.strides.iter().zip(&layout.sizes).all(|(&s, &n)| s != 0 || n == 1) {
        order.sort_by_key(|&d| std::cmp::Reverse(layout.strides[d]));
    }
    order
}

impl Tiling {
    /// Whether a tile is a run of the linear order.
    pub fn is_linear(self) -> bool {
        !matches!(self, Tiling::Boxes { .. })
    }
}

impl Walk {
    pub fn new(sizes: &[i64], strides: Dims, layout: &Layout) -> Walk {
        let merged = Layout { sizes: sizes.into(), strides, offset: 0 };
        Walk {
            contiguous: merged.is_contiguous(),
            constant: merged.strides.iter().all(|&s| s == 0),
            strides: merged.strides,
            offset: layout.offset,
        }
    }
}

impl Space {
    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    pub fn tiles(&self) -> usize {
        match self.tiling {
            Tiling::Runs(len) => self.numel().div_ceil(len),
            Tiling::Rows(len) => {
                let row = self.row();
                self.numel() / row.max(1) * row.div_ceil(len)
            }
            Tiling::Boxes { rows, columns } => {
                let (outer, r, c) = self.box_grid(rows, columns);
                outer * r * c
            }
        }
    }

    /// Elements along the last dimension.
    fn row(&self) -> usize {
        self.sizes[self.sizes.len() - 1] as usize
    }

    /// Number of outer points, of box rows and of box columns.
    fn box_grid(&self, rows: usize, columns: usize) -> (usize, usize, usize) {
        let rank = self.sizes.len();
        let outer: i64 = self.sizes[..rank - 2].iter().product();
        let count = |d: usize, by: usize| (self.sizes[d] as usize).div_ceil(by);
        (outer as usize, count(rank - 2, rows), count(rank - 1, columns))
    }

    pub fn tile(&self, index: usize) -> Position {
        match self.tiling {
            Tiling::Runs(len) => {
                let start = index * len;
                self.run(start as i64, len.min(self.numel() - start))
            }
            Tiling::Rows(len) => {
                let row = self.row();
                let (n, column) = (index / row.div_ceil(len), index % row.div_ceil(len) * len);
                self.run((n * row + column) as i64, len.min(row - column))
            }
            Tiling::Boxes { rows, columns } => {
                let (_, r, c) = self.box_grid(rows, columns);
                let rank = self.sizes.len();
                let (row, column) = in_groups(index % (r * c), r, c);
                let (row, column) = (row * rows, column * columns);
                let mut coordinates = unravel((index / (r * c)) as i64, &self.sizes[..rank - 2]);
                coordinates.extend([row as i64, column as i64]);
                let rows = rows.min(self.sizes[rank - 2] as usize - row);
                let columns = columns.min(self.sizes[rank - 1] as usize - column);
                Position { coordinates, start: 0, len: rows * columns, rows }
            }
        }
    }

    /// The box of `rows` times `columns` elements from `row` and `column` on; rows are counted over all dimensions but the last.
    pub fn part(&self, (row, rows): (usize, usize), (column, columns): (usize, usize)) -> Position {
        let mut coordinates = unravel(row as i64, &self.sizes[..self.sizes.len() - 1]);
        coordinates.push(column as i64);
        Position { coordinates, start: 0, len: rows * columns, rows }
    }

    /// The run of `len` elements from linear index `start`.
    pub fn run(&self, start: i64, len: usize) -> Position {
        Position { coordinates: unravel(start, &self.sizes), start, len, rows: 1 }
    }
}

/// Row and column of box `index` in a grid of `r` times `c`: down the columns within a group of rows. Operands read
/// crosswise continue in memory from one box to the next, and few pages are written in turn.
fn in_groups(index: usize, r: usize, c: usize) -> (usize, usize) {
    const GROUP: usize = 8;
    let first = index / (GROUP * c) * GROUP;
    let (height, index) = (GROUP.min(r - first), index % (GROUP * c));
    (first + index % height, index / height)
}

fn unravel(mut index: i64, sizes: &[i64]) -> Dims {
    let mut coordinates = Dims::from_elem(0, sizes.len());
    for d in (0..sizes.len()).rev() {
        coordinates[d] = index % sizes[d];
        index /= sizes[d];
    }
    coordinates
}

/// A part of a tile within which an operand moves evenly: `rows` times `columns` elements from flat index `from`.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Position in the tile of the first element; the rest follow in row-major order.
    pub at: usize,
    pub from: i64,
    pub rows: usize,
    pub columns: usize,
    pub row_stride: i64,
    pub column_stride: i64,
}

/// Flat index of the first element of a tile.
pub fn first(position: &Position, walk: &Walk) -> i64 {
    let along = position.coordinates.iter().zip(&walk.strides).map(|(c, s)| c * s);
    walk.offset + along.sum::<i64>()
}

/// Flat index of the first element of a row of a tile.
pub fn row_start(position: &Position, walk: &Walk, row: usize) -> i64 {
    let stride = if row == 0 { 0 } else { walk.strides[walk.strides.len() - 2] };
    first(position, walk) + row as i64 * stride
}

/// Calls `visit` for the pieces of a tile, in order.
#[inline]
pub fn pieces(space: &Space, position: &Position, walk: &Walk, mut visit: impl FnMut(Piece)) {
    let base = first(position, walk);
    let rank = space.sizes.len();
    let column_stride = walk.strides[rank - 1];
    if let Tiling::Boxes { .. } = space.tiling {
        let (rows, columns) = (position.rows, position.columns());
        visit(Piece {
            at: 0,
            from: base,
            rows,
            columns,
            row_stride: walk.strides[rank - 2],
            column_stride,
        });
        return;
    }
    if walk.contiguous || rank == 1 {
        let columns = position.len;
        return visit(Piece { at: 0, from: base, rows: 1, columns, row_stride: 0, column_stride });
    }
    let (row_stride, row) = (walk.strides[rank - 2], space.sizes[rank - 1] as usize);
    let mut coordinates = position.coordinates.clone();
    let (mut at, mut from) = (0, base);
    loop {
        // Whole rows while they are evenly spaced; else a part of one.
        let (left, into) = (position.len - at, coordinates[rank - 1] as usize);
        let even = (space.sizes[rank - 2] - coordinates[rank - 2]) as usize;
        let (rows, columns) = match left / row {
            whole if into == 0 && whole > 0 => (whole.min(even), row),
            _ => (1, (row - into).min(left)),
        };
        visit(Piece { at, from, rows, columns, row_stride, column_stride });
        at += rows * columns;
        if at == position.len {
            return;
        }
        // To the start of the next row.
        from += rows as i64 * row_stride - into as i64 * column_stride;
        coordinates[rank - 1] = 0;
        coordinates[rank - 2] += rows as i64;
        for d in (1..rank - 1).rev() {
            if coordinates[d] < space.sizes[d] {
                break;
            }
            from += walk.strides[d - 1] - coordinates[d] * walk.strides[d];
            coordinates[d] = 0;
            coordinates[d - 1] += 1;
        }
    }
}

/// Whether two references share memory in a plan where the memory of input `donors[k]` is donated to output `k`.
pub fn may_overlap(
    a: (&MemRef, usize, &Layout),
    b: (&MemRef, usize, &Layout),
    donors: &[Option<u32>],
) -> bool {
    let donor = |o: u32| donors.get(o as usize).copied().flatten();
    match (a.0, b.0) {
        (MemRef::Arena(x), MemRef::Arena(y))
        | (MemRef::Host(x), MemRef::Host(y))
        | (MemRef::Results(x), MemRef::Results(y)) => {
            let end = |start: u64, size: usize, l: &Layout| start + l.end() as u64 * size as u64;
            *x < end(*y, b.1, b.2) && *y < end(*x, a.1, a.2)
        }
        (MemRef::Output(x), MemRef::Output(y)) => x == y,
        (MemRef::Output(o), MemRef::Input(i)) | (MemRef::Input(i), MemRef::Output(o)) => {
            donor(*o) == Some(*i)
        }
        (MemRef::Input(x), MemRef::Input(y)) => x == y,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::collapse;

    /// Flat indices that the tiles visit, by walk, in order of the tiles.
    fn visited(space: &Space, walk: &Walk) -> Vec<i64> {
        (0..space.tiles()).flat_map(|t| visited_by(space, walk, t)).collect()
    }

    /// Those that tile `t` visits.
    fn visited_by(space: &Space, walk: &Walk, t: usize) -> Vec<i64> {
        let position = space.tile(t);
        let mut tile = vec![-1; position.len];
        pieces(space, &position, walk, |p| {
            for r in 0..p.rows {
                for c in 0..p.columns {
                    tile[p.at + r * p.columns + c] =
                        p.from + r as i64 * p.row_stride + c as i64 * p.column_stride;
                }
            }
        });
        tile
    }

    #[test]
    fn tiles_beyond_32_bits_are_where_they_should_be() {
        let (rows, columns) = (1 << 20, 1031);
        let dense = Layout::contiguous(&[3, rows, columns]);
        let across = Layout::contiguous(&[3, columns, rows]).transpose(&[0, 2, 1]);
        let sizes = dense.sizes.clone();
        let walk = |layout: &Layout| Walk::new(&sizes, layout.strides.clone(), layout);
        let (dense, across) = (walk(&dense), walk(&across));
        for tiling in
            [Tiling::Runs(2048), Tiling::Rows(515), Tiling::Boxes { rows: 64, columns: 32 }]
        {
            let space = Space { sizes: sizes.clone(), tiling };
            let tiles = space.tiles();
            assert!(space.numel() > 1 << 31);
            for t in [0, tiles / 2, tiles - 1] {
                let (x, y) = (visited_by(&space, &dense, t), visited_by(&space, &across, t));
                assert_eq!(x.len(), y.len());
                for (x, y) in x.iter().zip(y) {
                    let (n, row, column) = (x / (rows * columns), x / columns % rows, x % columns);
                    assert_eq!(y, (n * columns + column) * rows + row, "{tiling:?}, tile {t}");
                }
            }
            let last = visited_by(&space, &dense, tiles - 1);
            assert_eq!(last.last(), Some(&(space.numel() as i64 - 1)));
        }
    }

    #[test]
    fn runs_visit_every_element_in_order() {
        let dense = Layout::contiguous(&[3, 5, 7]);
        let layouts = [
            dense.clone(),
            dense.slice(&[0, 1, 2], &[3, 2, 3], &[1, 2, 1]),
            dense.transpose(&[2, 0, 1]),
        ];
        for layout in layouts {
            let order: Vec<usize> = (0..3).collect();
            let (sizes, strides, _) = collapse(&[&layout], &order, &[]);
            for tiling in
                [1, 4, 100].into_iter().flat_map(|len| [Tiling::Runs(len), Tiling::Rows(len)])
            {
                let space = Space { sizes: sizes.clone(), tiling };
                let walk = Walk::new(&sizes, strides[0].clone(), &layout);
                assert_eq!(visited(&space, &walk), layout.indices().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn tiles_of_every_size_cover_a_space_once() {
        for (n, r, c) in
            (1..4).flat_map(|n| (1..20).flat_map(move |r| (1..9).map(move |c| (n, r, c))))
        {
            let layout = Layout::contiguous(&[n, r, c]);
            let walk = Walk::new(&layout.sizes, layout.strides.clone(), &layout);
            let tiling = |by: usize| {
                [Tiling::Runs(by), Tiling::Rows(by), Tiling::Boxes { rows: by, columns: 3 }]
            };
            for tiling in [1, 2, 5, 64].into_iter().flat_map(tiling) {
                let space = Space { sizes: layout.sizes.clone(), tiling };
                let mut seen = visited(&space, &walk);
                seen.sort_unstable();
                assert_eq!(seen, (0..n * r * c).collect::<Vec<_>>(), "{tiling:?} of {n} {r} {c}");
            }
        }
    }

    #[test]
    fn boxes_of_a_grid_come_once_each() {
        for (r, c) in (1..40).flat_map(|r| (1..40).map(move |c| (r, c))) {
            let mut seen = vec![0; r * c];
            for (row, column) in (0..r * c).map(|index| in_groups(index, r, c)) {
                assert!(row < r && column < c, "{r} by {c}");
                seen[row * c + column] += 1;
            }
            assert!(seen.iter().all(|&times| times == 1), "{r} by {c}");
        }
    }

    #[test]
    fn boxes_visit_every_element_once() {
        let layout = Layout::contiguous(&[2, 9, 5]).transpose(&[0, 2, 1]);
        let (sizes, strides, _) =
            collapse(&[&layout, &Layout::contiguous(&[2, 5, 9])], &[0, 1, 2], &[]);
        let space = Space { sizes: sizes.clone(), tiling: Tiling::Boxes { rows: 2, columns: 4 } };
        let mut seen = visited(&space, &Walk::new(&sizes, strides[0].clone(), &layout));
        seen.sort_unstable();
        assert_eq!(seen, (0..90).collect::<Vec<_>>());
    }

    #[test]
    fn dimensions_merge_only_where_all_operands_allow_it() {
        let dense = Layout::contiguous(&[4, 1, 6]);
        let row = Layout::contiguous(&[6]).broadcast(&[4, 1, 6]);
        assert_eq!(collapse(&[&dense], &[0, 1, 2], &[]).0.as_slice(), [24]);
        assert_eq!(collapse(&[&dense, &row], &[0, 1, 2], &[]).0.as_slice(), [4, 6]);
        let (sizes, _, before) = collapse(&[&dense], &[0, 1, 2], &[1]);
        assert_eq!((sizes.as_slice(), before.as_slice()), ([4, 6].as_slice(), [1].as_slice()));
    }
}
