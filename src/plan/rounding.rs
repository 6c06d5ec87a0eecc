//! Where a region rounds half types. They are computed in f32, within an operation of the user's as PyTorch's kernels do it,
//! and from one to the next where nobody can tell. But a tensor has one value: if it is written to memory, read as another
//! type or by a function that jumps, it is rounded for every operation that reads it, so nothing depends on which operations
//! share a region.

use super::{Instr, LoopBody, Reg};
use crate::dtype::DType;
use crate::op::{Attr, Op};
use smallvec::smallvec;

/// The body with a cast of a half-precision intermediate to its own dtype wherever another operation reads it and
/// it is observed: as a result, or by a read as another dtype or by a function that jumps. `records` are the operations of the
/// instructions, `reduction` the one that sums up the result, if there is one: in f32, so it is an observer.
pub(super) fn rounded(body: LoopBody, records: &[u32], reduction: Option<u32>) -> LoopBody {
    if !body.instrs.iter().any(|instr| is_half(instr.dtype)) {
        return body;
    }
    let mut rounding = Rounding::new(&body, records);
    for (instr, &record) in body.instrs.into_iter().zip(records) {
        rounding.push(instr, record);
    }
    let mut results = body.results;
    for result in &mut results {
        *result = match reduction {
            Some(record) => rounding.read_by(*result, record),
            // Rounded when it is written.
            None => rounding.registers[*result as usize].reg,
        };
    }
    LoopBody { instrs: rounding.instrs, results, ..body }
}

/// A register of the old body.
#[derive(Clone, Copy)]
struct Register {
    /// Its register in the new body.
    reg: Reg,
    /// The same rounded, once it has been asked for.
    rounded: Option<Reg>,
    /// The operation it belongs to; 0 for reads.
    record: u32,
    is_observed: bool,
}

struct Rounding {
    instrs: Vec<Instr>,
    /// For each register of the new body, whether it holds a number of its dtype.
    is_exact: Vec<bool>,
    /// By register of the old body.
    registers: Vec<Register>,
    /// The next register of the old body.
    next: usize,
}

impl Rounding {
    fn new(body: &LoopBody, records: &[u32]) -> Rounding {
        let count = body.reads.len();
        let unread = |reg| Register { reg, rounded: None, record: 0, is_observed: false };
        let mut registers: Vec<Register> =
            (0..(count + records.len()) as Reg).map(unread).collect();
        for (register, &record) in registers[count..].iter_mut().zip(records) {
            register.record = record;
        }
        for &result in &body.results {
            registers[result as usize].is_observed = true;
        }
        for (instr, &record) in body.instrs.iter().zip(records) {
            for &arg in &instr.args {
                let Some(maker) = (arg as usize).checked_sub(count) else { continue };
                let shows = body.instrs[maker].dtype != instr.dtype || instr.op.row().jumps;
                registers[arg as usize].is_observed |= shows && records[maker] != record;
            }
        }
        Rounding { instrs: Vec::new(), is_exact: vec![true; count], registers, next: count }
    }

    fn add(&mut self, instr: Instr, is_exact: bool) -> Reg {
        self.instrs.push(instr);
        self.is_exact.push(is_exact);
        self.is_exact.len() as Reg - 1
    }

    fn push(&mut self, mut instr: Instr, record: u32) {
        for arg in &mut instr.args {
            *arg = self.read_by(*arg, record);
        }
        let is_exact = match instr.op {
            Op::Cast | Op::Const | Op::ConstInt => true,
            op if selects(op) => instr.args.iter().all(|&a| self.is_exact[a as usize]),
            _ => !is_half(instr.dtype),
        };
        self.registers[self.next].reg = self.add(instr, is_exact);
        self.next += 1;
    }

    /// The register that an operation of `record` reads in place of one of the old body.
    fn read_by(&mut self, old: Reg, record: u32) -> Reg {
        let Register { reg, rounded, record: own, is_observed } = self.registers[old as usize];
        if own == record || !is_observed || self.is_exact[reg as usize] {
            return reg;
        }
        rounded.unwrap_or_else(|| {
            let reads = self.is_exact.len() - self.instrs.len();
            let dtype = self.instrs[reg as usize - reads].dtype;
            let attrs = smallvec![Attr::DType(dtype)];
            let cast = Instr { op: Op::Cast, attrs, dtype, args: smallvec![reg] };
            let rounded = self.add(cast, true);
            self.registers[old as usize].rounded = Some(rounded);
            rounded
        })
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Operations whose result is an operand, or one with another sign: nothing to round.
fn selects(op: Op) -> bool {
    matches!(op, Op::Select | Op::Max | Op::Min | Op::Neg | Op::Abs)
}
