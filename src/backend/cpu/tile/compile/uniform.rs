//! Instructions whose operands are the same everywhere run once. Updates of parameters have many, on rates and step counts
//! in f64, which would take longer than the update itself.

use super::{Arg, Compiler};
use crate::backend::cpu::element::TileType;
use crate::plan::Reg;

impl Compiler<'_> {
    /// For each register, whether it is one number: a constant, a read of one element, or computed from such numbers by an
    /// instruction outside loops and chains. These compute theirs along with the rest, at negligible cost.
    pub(super) fn uniform_registers(&self) -> Vec<bool> {
        let mut uniform: Vec<bool> = self.reads.iter().map(|read| read.constant).collect();
        for (n, instr) in self.body.instrs.iter().enumerate() {
            let reg = uniform.len() as Reg;
            let is_own = !self.in_loop(n) && self.link(instr, 0).is_none();
            let is_pure = !instr.op.draws() && !self.code.can_fail;
            let computed = is_own && is_pure && !self.one_hot_selects.contains_key(&reg);
            let of_numbers = instr.args.iter().all(|&arg| uniform[arg as usize]);
            uniform.push(self.written(reg).is_some() || computed && of_numbers);
        }
        uniform
    }

    /// The tile in which such a register is computed; later uses find it there.
    pub(super) fn uniform_tile(&mut self, reg: Reg, tile_type: TileType) -> Arg {
        let tile = self.new_tile(tile_type);
        self.pinned.push((reg, tile_type));
        self.places.insert((reg, tile_type), Arg::Constant(tile));
        Arg::Tile(tile)
    }
}
