//! Grouped products of floats.

use super::write::{Writer, stored};
use super::{KernelArg, Tasks};
use crate::plan::Operand;

/// Rows and columns of a tile, as in `cuda/grouped.cuh`.
const TILE: i64 = 32;

/// `Op::GroupedMatmul`.
pub fn grouped_matmul(reads: &[Operand], write: &Operand) -> crate::error::Result<Tasks> {
    let [a, b, ends] = reads else {
        return crate::internal!("grouped_matmul of other than three");
    };
    if write.layout.numel() == 0 {
        return Ok(Tasks::default());
    }
    let groups = ends.layout.numel();
    let (m, k) = (a.layout.sizes[0], a.layout.sizes[1]);
    let n = write.layout.sizes[write.layout.rank() - 1];
    let by_row = b.layout.rank() == 3;
    let mut writer = Writer::new();
    let first = writer.number(groups);
    for number in [m, k, n].iter().chain(&a.layout.strides) {
        writer.number(*number);
    }
    if !by_row {
        writer.number(0);
    }
    for &stride in &b.layout.strides {
        writer.number(stride);
    }
    let across = (n as u64).div_ceil(TILE as u64);
    let down = (m as u64).div_ceil(TILE as u64);
    // Each group of rows, and the rows in no group, may leave the last tile before it unfilled.
    let (name, tiles) = match by_row {
        true => ("grouped_rows", m as u64 / TILE as u64 + groups as u64 + 1),
        false => ("grouped_terms", down * groups as u64),
    };
    let [from, by, places, to] =
        [a, b, ends, write].map(|operand| writer.kernel_arg(KernelArg::of(operand)));
    let (element, place) = (stored(write.dtype), stored(ends.dtype));
    writer.line(format!(
        "{name}(*(const Grouped*)&{first}, (const {element}*){from}, (const {element}*){by}, \
         (const {place}*){places}, ({element}*){to});"
    ));
    Ok(Tasks { tasks: vec![writer.finish(name, tiles * across)], scratch: 0 })
}
