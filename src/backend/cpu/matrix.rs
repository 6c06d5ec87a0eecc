//! Matrices in memory: operands of products, and the parts of results that are written at the same time.
#![expect(unsafe_code, reason = "disjoint rectangles of one result")]

use super::access::Plain;
use super::element::Transposable;
use super::onednn::Raw;
use std::marker::PhantomData;

/// A matrix to be read: element (i, j) is `data[i * strides.0 + j * strides.1]`.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    pub data: &'a [T],
    pub strides: (usize, usize),
}

impl<'a, T> Matrix<'a, T> {
    #[inline(always)]
    pub fn rows(data: &'a [T], width: usize) -> Matrix<'a, T> {
        Matrix { data, strides: (width, 1) }
    }

    #[inline(always)]
    pub fn transposed(self) -> Matrix<'a, T> {
        Matrix { strides: (self.strides.1, self.strides.0), ..self }
    }

    /// Without the first `row` rows and `column` columns.
    #[inline(always)]
    pub fn from(self, row: usize, column: usize) -> Matrix<'a, T> {
        let at = row * self.strides.0 + column * self.strides.1;
        Matrix { data: &self.data[at.min(self.data.len())..], ..self }
    }

    /// Its start, and the elements from row to row and from column to column.
    #[inline(always)]
    pub fn raw(&self) -> Raw<T> {
        (self.data.as_ptr(), (self.strides.0 as isize, self.strides.1 as isize))
    }

    #[inline(always)]
    pub fn holds(&self, rows: usize, columns: usize) -> bool {
        (rows - 1) * self.strides.0 + (columns - 1) * self.strides.1 < self.data.len()
    }
}

impl<'a, T: Transposable> Matrix<'a, T> {
    /// The elements as the bits they are.
    #[inline(always)]
    pub fn bits(self) -> &'a [T::Bits] {
        const {
            assert!(
                size_of::<T>() == size_of::<T::Bits>() && align_of::<T>() == align_of::<T::Bits>()
            )
        };
        // SAFETY: as many elements of the same size, for which all bits are valid.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), self.data.len()) }
    }
}

/// A rectangle of a row-major matrix to be written. Rectangles that exist at the same time are disjoint.
pub struct Block<'a, T> {
    start: *mut T,
    /// Elements from row to row.
    stride: usize,
    pub rows: usize,
    pub columns: usize,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: a block is the only access to its elements, as `&mut [T]` would be.
unsafe impl<T: Send> Send for Block<'_, T> {}

impl<'a, T: Plain> Block<'a, T> {
    /// All of `data`, as rows of `columns` elements.
    #[inline(always)]
    pub fn new(data: &'a mut [T], columns: usize) -> Block<'a, T> {
        let rows = data.len() / columns.max(1);
        Block { start: data.as_mut_ptr(), stride: columns, rows, columns, lifetime: PhantomData }
    }

    /// `rows` by `columns` of `data`, where rows are `stride` apart.
    #[inline(always)]
    pub fn within(data: &'a mut [T], stride: usize, rows: usize, columns: usize) -> Block<'a, T> {
        let end = if rows * columns == 0 { 0 } else { (rows - 1) * stride + columns };
        assert!(columns <= stride && end <= data.len(), "a block beyond its memory");
        Block { start: data.as_mut_ptr(), stride, rows, columns, lifetime: PhantomData }
    }

    #[inline(always)]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: the row is within the block, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.columns) }
    }

    /// `rows` rows from row `row` on.
    #[inline(always)]
    pub fn part(&mut self, row: usize, rows: usize) -> Block<'_, T> {
        self.rectangle((row, 0), (rows, self.columns))
    }

    /// `rows` by `columns` elements from (row, column) on.
    #[inline(always)]
    pub fn rectangle(
        &mut self,
        (row, column): (usize, usize),
        (rows, columns): (usize, usize),
    ) -> Block<'_, T> {
        let fits = row + rows <= self.rows && column + columns <= self.columns;
        assert!(
            fits,
            "{rows} by {columns} from ({row}, {column}) of {} by {}",
            self.rows, self.columns
        );
        // SAFETY: the elements are within the block, which is borrowed exclusively.
        let start = unsafe { self.start.add(row * self.stride + column) };
        Block { start, rows, columns, ..*self }
    }

    /// Whether its rows follow each other without gaps.
    pub fn is_dense(&self) -> bool {
        self.stride == self.columns
    }

    /// Its start, and the elements from row to row.
    #[inline(always)]
    pub fn raw(&mut self) -> (*mut T, usize) {
        (self.start, self.stride)
    }

    /// All elements, of a block without gaps.
    pub fn dense(&mut self) -> &mut [T] {
        assert!(self.is_dense(), "a block with gaps");
        // SAFETY: the rows follow each other within the block, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.rows * self.columns) }
    }

    /// Cuts into blocks of at most `height` by `width`: (first row, first column, block).
    pub fn cut(
        self,
        height: usize,
        width: usize,
    ) -> impl Iterator<Item = (usize, usize, Block<'a, T>)> {
        let (rows, columns) = (self.rows, self.columns);
        (0..rows).step_by(height).flat_map(move |r| {
            let (start, stride) = (self.start, self.stride);
            (0..columns).step_by(width).map(move |c| {
                let block = Block {
                    // SAFETY: (r, c) is within the block.
                    start: unsafe { start.add(r * stride + c) },
                    stride,
                    rows: height.min(rows - r),
                    columns: width.min(columns - c),
                    lifetime: PhantomData,
                };
                (r, c, block)
            })
        })
    }
}
