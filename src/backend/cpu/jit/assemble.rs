//! Assembles recorded operations as instructions of AVX-512 or AVX2 (Intel, *64 and IA-32 Architectures Software
//! Developer's Manual*, volume 2): a loop over 16 elements at a time, in which a mask excludes those past the end, or
//! over 8 elements at a time, in whole vectors only.
//!
//! Registers: rdi streams, rsi numbers, rdx remaining vectors, rcx the element, r11 elements after the last whole vector,
//! rax scratch; k1 is the mask of the elements.

mod avx2;
mod avx512;
mod codes;
mod instructions;

pub use instructions::codes;

use super::super::isa::Isa;
use super::super::vector::POWERS;
use super::registers::Registers;
use super::trace::{Element, Node, Unary};
use super::writer::{Made, Writer};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Registers that hold addresses of streams; those of further streams are read from the list each time.
const POINTERS: [Register; 8] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::RBX,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// The callee-saved registers among them (and no others).
const SAVED: [Register; 5] =
    [Register::RBX, Register::R12, Register::R13, Register::R14, Register::R15];
struct Assembler<'a> {
    nodes: &'a [Node],
    isa: Isa,
    registers: Registers,
    /// Writes the code that follows the constants.
    writer: Writer,
    /// Offset of each constant in the bytes.
    constants: Vec<(u32, u64)>,
}

/// An operand: in a register, a vector in memory, or (AVX-512) one number in memory for all lanes.
enum Operand {
    Register(Register),
    Memory(MemoryOperand),
    Broadcast(MemoryOperand),
}

/// Elements of a vector.
pub fn lanes(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

/// The bytes of a loop over the recorded nodes, in instructions of AVX-512 or AVX2, and the offset of its code; `None`:
/// too many masks at a time, or an operation without an instruction.
pub fn assemble(nodes: &[Node], isa: Isa) -> Made<Option<(Vec<u8>, usize)>> {
    let width = 4 * lanes(isa);
    let mut pool: Vec<u8> = Vec::new();
    let asks_powers = |n: &Node| matches!(n, Node::Unary(Unary::Power16, _));
    if nodes.iter().any(asks_powers) {
        pool.extend(POWERS.iter().flat_map(|p| p.to_le_bytes()));
    }
    let mut constants = Vec::new();
    for node in nodes {
        if let Node::Constant(bits) = *node {
            constants.push((bits, pool.len() as u64));
            // Instructions of AVX2 need all lanes.
            let times = if isa == Isa::Avx512 { 1 } else { lanes(isa) };
            pool.extend(bits.to_le_bytes().repeat(times));
        }
    }
    pool.resize(pool.len().next_multiple_of(width), 0);
    let mut a = Assembler {
        nodes,
        isa,
        registers: Registers::new(nodes, isa),
        writer: Writer::new(pool.len() as u64),
        constants,
    };
    let start = pool.len();
    let Some((frame, slots)) = a.function()? else { return Ok(None) };
    pool.extend(a.writer.bytes());
    pool[frame - 4..frame].copy_from_slice(&((slots * width) as u32).to_le_bytes());
    Ok(Some((pool, start)))
}

impl Assembler<'_> {
    fn put(&mut self, instruction: Instruction) -> Made<()> {
        self.writer.put(instruction)
    }

    /// Vector register number `n`.
    fn vector(&self, n: usize) -> Register {
        let first = if self.isa == Isa::Avx512 { Register::ZMM0 } else { Register::YMM0 };
        first + n as u32
    }

    /// A vector on the stack.
    fn slot(&self, n: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ(Register::RSP, (4 * n * lanes(self.isa)) as i64)
    }

    /// Writes the function. Returns the end of the frame size's bytes, and the number of stack slots.
    fn function(&mut self) -> Made<Option<(usize, usize)>> {
        use Register::{EAX, ECX, EDX, K1, R11D, RBP, RCX, RDX, RSP};
        self.put(Instruction::with1(Code::Push_r64, RBP)?)?;
        self.put(Instruction::with2(Code::Mov_r64_rm64, RBP, RSP)?)?;
        for register in SAVED {
            self.put(Instruction::with1(Code::Push_r64, register)?)?;
        }
        let lanes = lanes(self.isa) as i32;
        self.put(Instruction::with2(Code::And_rm64_imm8, RSP, -4 * lanes)?)?;
        self.put(Instruction::with2(Code::Sub_rm64_imm32, RSP, 0)?)?;
        let frame = self.writer.at as usize;
        for (n, pointer) in POINTERS.into_iter().enumerate().take(self.streams()) {
            self.put(Instruction::with2(Code::Mov_r64_rm64, pointer, entry(n))?)?;
        }
        self.put(Instruction::with2(Code::Xor_r32_rm32, ECX, ECX)?)?;
        let masks_rest = self.isa == Isa::Avx512;
        if masks_rest {
            self.put(Instruction::with2(Code::Mov_r32_rm32, R11D, EDX)?)?;
            self.put(Instruction::with2(Code::And_rm32_imm8, R11D, lanes - 1)?)?;
            self.put(Instruction::with3(Code::VEX_Kxnorw_kr_kr_kr, K1, K1, K1)?)?;
        }
        self.put(Instruction::with2(Code::Shr_rm64_imm8, RDX, lanes.ilog2())?)?;
        let to_rest = self.writer.jump(Code::Je_rel32_64)?;
        let body = self.writer.at;
        for n in 0..self.nodes.len() {
            if self.node(n)?.is_none() {
                return Ok(None);
            }
        }
        self.put(Instruction::with2(Code::Add_rm64_imm8, RCX, lanes)?)?;
        self.put(Instruction::with1(Code::Dec_rm64, RDX)?)?;
        self.put(Instruction::with_branch(Code::Jne_rel32_64, body)?)?;
        self.writer.aim(to_rest);
        if masks_rest {
            self.put(Instruction::with2(Code::Test_rm32_r32, R11D, R11D)?)?;
            let to_end = self.writer.jump(Code::Je_rel32_64)?;
            self.put(Instruction::with2(Code::Mov_r32_imm32, EAX, u32::MAX)?)?;
            self.put(Instruction::with3(Code::VEX_Bzhi_r32_rm32_r32, EAX, EAX, R11D)?)?;
            self.put(Instruction::with2(Code::VEX_Kmovw_kr_r32, K1, EAX)?)?;
            self.put(Instruction::with2(Code::Xor_r32_rm32, R11D, R11D)?)?;
            self.put(Instruction::with2(Code::Mov_r32_imm32, EDX, 1)?)?;
            self.put(Instruction::with_branch(Code::Jmp_rel32_64, body)?)?;
            self.writer.aim(to_end);
        }
        let saved = MemoryOperand::with_base_displ(RBP, -8 * SAVED.len() as i64);
        self.put(Instruction::with2(Code::Lea_r64_m, RSP, saved)?)?;
        for register in SAVED.into_iter().rev().chain([RBP]) {
            self.put(Instruction::with1(Code::Pop_r64, register)?)?;
        }
        self.put(Instruction::with(Code::VEX_Vzeroupper))?;
        self.put(Instruction::with(Code::Retnq))?;
        Ok(Some((frame, self.registers.slots)))
    }

    fn streams(&self) -> usize {
        let stream = |n: &Node| match *n {
            Node::Load(s, _) | Node::Store(s, ..) => s as usize + 1,
            _ => 0,
        };
        self.nodes.iter().map(stream).max().unwrap_or(0)
    }

    /// The current elements of a stream.
    fn stream(&mut self, n: u32, element: Element) -> Made<MemoryOperand> {
        let pointer = match POINTERS.get(n as usize) {
            Some(&pointer) => pointer,
            None => {
                let to = Register::RAX;
                self.put(Instruction::with2(Code::Mov_r64_rm64, to, entry(n as usize))?)?;
                to
            }
        };
        let size = match element {
            Element::F32 => 4,
            Element::F16 | Element::BF16 => 2,
            Element::Bool => 1,
        };
        Ok(MemoryOperand::with_base_index_scale(pointer, Register::RCX, size))
    }
}

/// `to = first op second`.
fn combined(code: Code, to: Register, first: Register, second: Operand) -> Made<Instruction> {
    let mut instruction = match second {
        Operand::Register(second) => Instruction::with3(code, to, first, second)?,
        Operand::Memory(second) => Instruction::with3(code, to, first, second)?,
        Operand::Broadcast(second) => Instruction::with3(code, to, first, second)?,
    };
    instruction.set_is_broadcast(matches!(second, Operand::Broadcast(_)));
    Ok(instruction)
}

/// The address of a stream in the list.
fn entry(n: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RDI, 8 * n as i64)
}
