//! The innermost loop of a product of matrices in machine code: a tile of the result stays in registers, and each term
//! of its sums is a column of a times a row of b. Compilers may spill some of these registers, depending on the code
//! around the loop.
//!
//! **Invariant:** an element of a tile is one chain of fused multiply-adds in the order of the terms, whatever the size
//! of the tile and the layout of a.
#![expect(unsafe_code, reason = "machine code that is given addresses")]

use super::super::isa::Isa;
use super::super::matrix::{Block, Matrix};
use super::assemble::{codes, lanes};
use super::memory::Executable;
use super::trace::Binary;
use super::writer::{Made, Writer};
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use std::mem::offset_of;
use std::sync::OnceLock;

/// Terms of a sum per iteration of the loop.
const UNROLL: usize = 4;
/// How many terms ahead rows of b are prefetched.
const AHEAD: usize = 8;

/// The layout of a: dense rows or dense columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Rows,
    Columns,
}

/// The arguments of the machine code: addresses, and bytes from row to row (for a in columns: from column to column).
#[repr(C)]
struct Arguments {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    b_stride: usize,
    terms: usize,
    c: *mut f32,
    c_stride: usize,
    /// Nonzero: the products are added to c.
    adds: usize,
}

type Function = unsafe extern "C" fn(*const Arguments);

/// The loops for tiles of all sizes up to the largest, for one instruction set.
pub struct MicroKernels {
    code: Executable,
    /// The offset of each in the code: see [`MicroKernels::index`].
    starts: Vec<usize>,
    /// Rows and columns of the largest tile; the columns are whole vectors.
    pub rows: usize,
    pub columns: usize,
    pub lanes: usize,
}

impl MicroKernels {
    /// The loops for an instruction set, assembled at first use; `None` if it has none, or there is no executable memory.
    pub fn of(isa: Isa) -> Option<&'static MicroKernels> {
        static ALL: [OnceLock<Option<MicroKernels>>; 2] = [const { OnceLock::new() }; 2];
        // Accumulators and their operands fill the 16 or 32 registers, and there are enough chains to hide the latency.
        let (place, rows, vectors) = match isa {
            Isa::Avx2 => (0, 6, 2),
            Isa::Avx512 => (1, 8, 3),
            _ => return None,
        };
        ALL[place].get_or_init(|| MicroKernels::new(isa, rows, vectors)).as_ref()
    }

    fn new(isa: Isa, rows: usize, vectors: usize) -> Option<MicroKernels> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for lie in [Lie::Rows, Lie::Columns] {
            for (vectors, rows) in (1..=vectors).flat_map(|v| (1..=rows).map(move |r| (v, r))) {
                bytes.resize(bytes.len().next_multiple_of(64), 0);
                starts.push(bytes.len());
                bytes.extend(assemble(isa, rows, vectors, lie).expect("instructions that exist"));
            }
        }
        let (code, lanes) = (Executable::new(&bytes, 0)?, lanes(isa));
        Some(MicroKernels { code, starts, rows, columns: vectors * lanes, lanes })
    }

    fn index(&self, rows: usize, columns: usize, lie: Lie) -> usize {
        let vectors = columns / self.lanes;
        let all = self.rows * (self.columns / self.lanes);
        (lie == Lie::Columns) as usize * all + (vectors - 1) * self.rows + rows - 1
    }

    /// Computes `c = a b`, or `c += a b`, with sums of `terms` terms. c is a tile of whole vectors, b has dense rows, and a
    /// has dense rows or columns.
    pub fn run(
        &self,
        terms: usize,
        a: Matrix<f32>,
        b: Matrix<f32>,
        adds: bool,
        c: &mut Block<f32>,
    ) {
        let (rows, columns) = (c.rows, c.columns);
        let (lie, a_stride) = match a.strides {
            (stride, 1) => (Lie::Rows, stride),
            (1, stride) => (Lie::Columns, stride),
            strides => panic!("a tile of {strides:?}"),
        };
        assert!((1..=self.rows).contains(&rows) && (1..=self.columns).contains(&columns));
        assert!(columns.is_multiple_of(self.lanes) && b.strides.1 == 1 && terms > 0);
        assert!(
            a.holds(rows, terms) && b.holds(terms, columns),
            "operands of a tile are too small"
        );
        let (c, c_stride) = c.raw();
        let bytes = |elements: usize| elements * size_of::<f32>();
        let (a_stride, b_stride, c_stride) = (bytes(a_stride), bytes(b.strides.0), bytes(c_stride));
        let (a, b, adds) = (a.data.as_ptr(), b.data.as_ptr(), adds as usize);
        let arguments = Arguments { a, a_stride, b, b_stride, terms, c, c_stride, adds };
        let start = self.starts[self.index(rows, columns, lie)];
        // SAFETY: the code at `start` is a function of this type, and touches only elements that the matrices hold.
        unsafe {
            let function: Function = std::mem::transmute(self.code.address(start));
            function(&arguments);
        }
    }
}

fn assemble(isa: Isa, rows: usize, vectors: usize, lie: Lie) -> Made<Vec<u8>> {
    use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI, YMM0, ZMM0};
    let codes = codes(isa);
    let (first, registers) = if isa == Isa::Avx512 { (ZMM0, 32) } else { (YMM0, 16) };
    let width = lanes(isa) * size_of::<f32>();
    let sum = |r: usize, j: usize| first + (r * vectors + j) as u32;
    let of_b = |j: usize| first + (rows * vectors + j) as u32;
    let used = (rows + 1) * vectors;
    let of_a = |n: usize| first + (used + n % (registers - used)) as u32;
    let at = |base, at: usize| MemoryOperand::with_base_displ(base, at as i64);
    let mut w = Writer::new(0);
    w.put(Instruction::with2(Code::Mov_r64_rm64, RAX, RDI)?)?;
    for (register, field) in [
        (RDI, offset_of!(Arguments, a)),
        (RSI, offset_of!(Arguments, a_stride)),
        (RDX, offset_of!(Arguments, b)),
        (R8, offset_of!(Arguments, b_stride)),
        (RCX, offset_of!(Arguments, terms)),
        (R9, offset_of!(Arguments, c)),
    ] {
        w.put(Instruction::with2(Code::Mov_r64_rm64, register, at(RAX, field))?)?;
    }
    let c_stride = at(RAX, offset_of!(Arguments, c_stride));
    for _ in 0..rows {
        // A row may begin within a cache line.
        for place in (0..vectors * width).step_by(64).chain([vectors * width - 1]) {
            w.put(Instruction::with1(Code::Prefetcht0_m8, at(R9, place))?)?;
        }
        w.put(Instruction::with2(Code::Add_r64_rm64, R9, c_stride)?)?;
    }
    for r in 0..rows {
        for j in 0..vectors {
            let xor = (codes.binary)(Binary::Xor);
            w.put(Instruction::with3(xor, sum(r, j), sum(r, j), sum(r, j))?)?;
        }
    }
    // Rows of a: one address for every three of them.
    let bases = match lie {
        Lie::Rows => &[RDI, R10, R11][..rows.div_ceil(3)],
        Lie::Columns => &[RDI],
    };
    for pair in bases.windows(2) {
        let two_rows = MemoryOperand::with_base_index_scale(pair[0], RSI, 2);
        w.put(Instruction::with2(Code::Lea_r64_m, pair[1], two_rows)?)?;
        w.put(Instruction::with2(Code::Add_r64_rm64, pair[1], RSI)?)?;
    }
    let element = |r: usize, term: usize| match (lie, r % 3) {
        (Lie::Columns, _) => at(RDI, 4 * r),
        (Lie::Rows, 0) => at(bases[r / 3], 4 * term),
        (Lie::Rows, n) => {
            let (base, displacement) = (bases[r / 3], 4 * term as i64);
            MemoryOperand::with_base_index_scale_displ_size(base, RSI, n as u32, displacement, 1)
        }
    };
    for terms in [UNROLL, 1] {
        w.put(Instruction::with2(Code::Sub_rm64_imm8, RCX, terms as i32)?)?;
        let to_end = w.jump(Code::Jl_rel32_64)?;
        let body = w.at;
        for term in 0..terms {
            for j in 0..vectors {
                w.put(Instruction::with2(codes.load, of_b(j), at(RDX, j * width))?)?;
            }
            // Panels of wider vectors are larger than the first-level cache.
            let ahead = if isa == Isa::Avx512 { vectors * width } else { 0 };
            for place in (0..ahead).step_by(64) {
                let place = place + AHEAD * ahead;
                w.put(Instruction::with1(Code::Prefetcht0_m8, at(RDX, place))?)?;
            }
            w.put(Instruction::with2(Code::Add_r64_rm64, RDX, R8)?)?;
            for r in 0..rows {
                let factor = of_a(term * rows + r);
                w.put(Instruction::with2(codes.broadcast, factor, element(r, term))?)?;
                for j in 0..vectors {
                    let adds = codes.mul_add[0];
                    w.put(Instruction::with3(adds, sum(r, j), factor, of_b(j))?)?;
                }
            }
            if lie == Lie::Columns {
                w.put(Instruction::with2(Code::Add_r64_rm64, RDI, RSI)?)?;
            }
        }
        if lie == Lie::Rows {
            for &base in bases {
                w.put(Instruction::with2(Code::Add_rm64_imm8, base, 4 * terms as i32)?)?;
            }
        }
        w.put(Instruction::with2(Code::Sub_rm64_imm8, RCX, terms as i32)?)?;
        w.put(Instruction::with_branch(Code::Jge_rel32_64, body)?)?;
        w.aim(to_end);
        w.put(Instruction::with2(Code::Add_rm64_imm8, RCX, terms as i32)?)?;
    }
    w.put(Instruction::with2(Code::Mov_r64_rm64, R9, at(RAX, offset_of!(Arguments, c)))?)?;
    let adds = at(RAX, offset_of!(Arguments, adds));
    w.put(Instruction::with2(Code::Cmp_rm64_imm8, adds, 0)?)?;
    let to_stores = w.jump(Code::Je_rel32_64)?;
    for r in 0..rows {
        for j in 0..vectors {
            let add = (codes.binary)(Binary::Add);
            w.put(Instruction::with3(add, sum(r, j), sum(r, j), at(R9, j * width))?)?;
        }
        w.put(Instruction::with2(Code::Add_r64_rm64, R9, c_stride)?)?;
    }
    w.put(Instruction::with2(Code::Mov_r64_rm64, R9, at(RAX, offset_of!(Arguments, c)))?)?;
    w.aim(to_stores);
    for r in 0..rows {
        for j in 0..vectors {
            w.put(Instruction::with2(codes.store, at(R9, j * width), sum(r, j))?)?;
        }
        w.put(Instruction::with2(Code::Add_r64_rm64, R9, c_stride)?)?;
    }
    w.put(Instruction::with(Code::VEX_Vzeroupper))?;
    w.put(Instruction::with(Code::Retnq))?;
    Ok(w.bytes())
}
