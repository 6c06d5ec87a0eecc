//! The instructions of each recorded operation.

use super::super::registers::Spill;
use super::super::trace::{Binary, Compare, Element, Id, Logic, Node, Unary};
use super::{Assembler, Made, Operand, combined, mask, slot, zmm};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Rounding of `vrndscaleps`: without exceptions for what is inexact.
const QUIET: u32 = 8;

impl Assembler<'_> {
    /// A constant or number in memory.
    fn one(&self, id: Id) -> Option<MemoryOperand> {
        match self.nodes[id as usize] {
            Node::Constant(bits) => {
                let (_, at) = self.constants.iter().find(|(b, _)| *b == bits)?;
                Some(MemoryOperand::with_base_displ(Register::RIP, *at as i64))
            }
            Node::Number(n) => Some(MemoryOperand::with_base_displ(Register::RSI, 4 * n as i64)),
            _ => None,
        }
    }

    /// A register for a value that it does not hold yet.
    fn take(&mut self, id: Id) -> Made<Register> {
        let (register, spill) = self.registers.vector(id);
        self.spill(spill)?;
        Ok(zmm(register))
    }

    /// A register for the moment.
    fn spare(&mut self) -> Made<Register> {
        let (register, spill) = self.registers.spare();
        self.spill(spill)?;
        Ok(zmm(register))
    }

    fn spill(&mut self, spill: Option<Spill>) -> Made<()> {
        let Some(spill) = spill else { return Ok(()) };
        let to = slot(spill.slot);
        self.put(Instruction::with2(Code::EVEX_Vmovups_zmmm512_k1z_zmm, to, zmm(spill.register))?)
    }

    /// A value in a register.
    fn held(&mut self, id: Id) -> Made<Register> {
        if let Some(register) = self.registers.held(id) {
            return Ok(zmm(register));
        }
        let to = self.take(id)?;
        match self.one(id) {
            Some(from) => {
                self.put(Instruction::with2(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, from)?)?
            }
            None => {
                let from = slot(self.registers.slot(id).expect("a value is somewhere"));
                self.put(Instruction::with2(Code::EVEX_Vmovups_zmm_k1z_zmmm512, to, from)?)?
            }
        }
        Ok(to)
    }

    /// A value wherever it is.
    fn anywhere(&mut self, id: Id) -> Operand {
        if let Some(register) = self.registers.held(id) {
            return Operand::Register(zmm(register));
        }
        match self.one(id) {
            Some(memory) => Operand::Broadcast(memory),
            None => Operand::Memory(slot(self.registers.slot(id).expect("a value is somewhere"))),
        }
    }

    /// `to = first op second`.
    fn two(&mut self, code: Code, to: Register, first: Register, second: Operand) -> Made<()> {
        self.put(combined(code, to, first, second)?)
    }

    /// `None` when there is no register left for a mask.
    pub(super) fn node(&mut self, n: usize) -> Made<Option<()>> {
        let (node, id) = (self.nodes[n], n as Id);
        let is_value = !matches!(node, Node::Store(..));
        if is_value && !self.registers.is_asked(id) {
            self.registers.asked(&node);
            return Ok(Some(()));
        }
        match node {
            Node::Constant(_) | Node::Number(_) => {}
            Node::Load(stream, Element::Bool) => {
                let from = self.stream(stream, Element::Bool)?;
                let bits = self.spare()?;
                self.put(masked(
                    Instruction::with2(Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, bits, from)?,
                    true,
                ))?;
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
                self.put(Instruction::with3(test, mask(to), bits, bits)?)?;
            }
            Node::Load(stream, element) => {
                let from = self.stream(stream, element)?;
                let to = self.take(id)?;
                let code = match element {
                    Element::F16 => Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae,
                    Element::BF16 => Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
                    _ => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
                };
                self.put(masked(Instruction::with2(code, to, from)?, true))?;
                if element == Element::BF16 {
                    let shift = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
                    self.put(Instruction::with3(shift, to, to, 16)?)?;
                }
            }
            Node::Store(stream, element, value) => self.store(stream, element, value, &node)?,
            Node::Unary(op, a) => self.unary(op, a, id, &node)?,
            Node::Binary(op, a, b) => {
                // Constants may only be the second operand.
                let swaps = self.one(a).is_some()
                    && matches!(
                        op,
                        Binary::Add
                            | Binary::Mul
                            | Binary::And
                            | Binary::Or
                            | Binary::Xor
                            | Binary::AddBits
                    );
                let (a, b) = if swaps { (b, a) } else { (a, b) };
                self.pair(binary(op), a, b, id, &node)?;
            }
            Node::Scale(a, b) => {
                let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
                self.pair(code, a, b, id, &node)?;
            }
            Node::ScaleWhere(m, a, b) => {
                let (first, second) = (self.held(a)?, self.held(b)?);
                let m = mask(self.registers.held_mask(m));
                self.registers.asked(&node);
                let to = self.take(id)?;
                let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
                let mut instruction = Instruction::with3(code, to, first, second)?;
                instruction.set_op_mask(m);
                instruction.set_zeroing_masking(true);
                self.put(instruction)?;
            }
            Node::MulAdd(a, b, c) => self.mul_add([a, b, c], id, &node)?,
            Node::Select(m, yes, no) => {
                let first = self.held(no)?;
                let second = self.anywhere(yes);
                let m = mask(self.registers.held_mask(m));
                self.registers.asked(&node);
                let to = self.take(id)?;
                let code = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                let mut instruction = combined(code, to, first, second)?;
                instruction.set_op_mask(m);
                self.put(instruction)?;
            }
            Node::Compare(op, a, b) => {
                let (first, second) = (self.held(a)?, self.held(b)?);
                self.registers.asked(&node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
                self.put(Instruction::with4(code, mask(to), first, second, predicate(op))?)?;
            }
            Node::Logic(op, a, b) => {
                let (first, second) = (self.registers.held_mask(a), self.registers.held_mask(b));
                self.registers.asked(&node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                let code = match op {
                    Logic::And => Code::VEX_Kandw_kr_kr_kr,
                    Logic::Or => Code::VEX_Korw_kr_kr_kr,
                    Logic::Xor => Code::VEX_Kxorw_kr_kr_kr,
                };
                self.put(Instruction::with3(code, mask(to), mask(first), mask(second))?)?;
            }
            Node::Not(a) => {
                let from = self.registers.held_mask(a);
                self.registers.asked(&node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                self.put(Instruction::with2(Code::VEX_Knotw_kr_kr, mask(to), mask(from))?)?;
            }
        }
        self.registers.done();
        Ok(Some(()))
    }

    fn pair(&mut self, code: Code, a: Id, b: Id, id: Id, node: &Node) -> Made<()> {
        let first = self.held(a)?;
        let second = self.anywhere(b);
        self.registers.asked(node);
        let to = self.take(id)?;
        self.two(code, to, first, second)
    }

    fn unary(&mut self, op: Unary, a: Id, id: Id, node: &Node) -> Made<()> {
        let from = self.held(a)?;
        self.registers.asked(node);
        let to = self.take(id)?;
        let round = |how: u32| {
            let code = Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
            Instruction::with3(code, to, from, how | QUIET)
        };
        let instruction = match op {
            Unary::Sqrt => Instruction::with2(Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, to, from)?,
            Unary::Rsqrt14 => {
                Instruction::with2(Code::EVEX_Vrsqrt14ps_zmm_k1z_zmmm512b32, to, from)?
            }
            Unary::Round => round(0)?,
            Unary::Floor => round(1)?,
            Unary::Ceil => round(2)?,
            Unary::Trunc => round(3)?,
            Unary::Mantissa => {
                // In [0.75, 1.5); NaN for what is negative.
                let code = Code::EVEX_Vgetmantps_zmm_k1z_zmmm512b32_imm8_sae;
                Instruction::with3(code, to, from, 0b1011)?
            }
            Unary::Exponent => {
                Instruction::with2(Code::EVEX_Vgetexpps_zmm_k1z_zmmm512b32_sae, to, from)?
            }
            Unary::HighHalf => {
                Instruction::with3(Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, to, from, 16)?
            }
            Unary::ToF16 => {
                let half = Register::YMM0 + (to as u32 - Register::ZMM0 as u32);
                let code = Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae;
                self.put(Instruction::with3(code, half, from, 0)?)?;
                Instruction::with2(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, to, half)?
            }
            Unary::Power16 => {
                let powers = MemoryOperand::with_base_displ(Register::RIP, 0);
                let code = Code::EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32;
                Instruction::with3(code, to, from, powers)?
            }
        };
        self.put(instruction)
    }

    fn store(&mut self, stream: u32, element: Element, value: Id, node: &Node) -> Made<()> {
        let to = self.stream(stream, element)?;
        let instruction = match element {
            Element::F32 => {
                let from = self.held(value)?;
                Instruction::with2(Code::EVEX_Vmovups_zmmm512_k1z_zmm, to, from)?
            }
            Element::F16 => {
                let from = self.held(value)?;
                Instruction::with3(Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, to, from, 0)?
            }
            Element::BF16 => {
                let (from, bits) = (self.held(value)?, self.spare()?);
                let shift = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                self.put(Instruction::with3(shift, bits, from, 16)?)?;
                Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, to, bits)?
            }
            Element::Bool => {
                let (from, bits) = (self.registers.held_mask(value), self.spare()?);
                self.put(Instruction::with2(Code::EVEX_Vpmovm2d_zmm_kr, bits, mask(from))?)?;
                let shift = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                self.put(Instruction::with3(shift, bits, bits, 31)?)?;
                Instruction::with2(Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, to, bits)?
            }
        };
        self.put(masked(instruction, false))?;
        self.registers.asked(node);
        Ok(())
    }

    /// `a * b + c`: the instruction overwrites one of its operands.
    fn mul_add(&mut self, [a, b, c]: [Id; 3], id: Id, node: &Node) -> Made<()> {
        use Code::{
            EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er as Second,
            EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er as First,
            EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er as Third,
        };
        let same = a == b || b == c || a == c;
        let overwritten = |s: &Assembler, x: Id| !same && s.registers.dies(x) && s.one(x).is_none();
        let (a, b) = if self.one(a).is_some() { (b, a) } else { (a, b) };
        if overwritten(self, c) {
            // c = a b + c
            let (to, first) = (self.held(c)?, self.held(a)?);
            let second = self.anywhere(b);
            self.two(Third, to, first, second)?;
            return self.overwrite(to, id, node);
        }
        for (own, other) in [(a, b), (b, a)] {
            if !overwritten(self, own) {
                continue;
            }
            let to = self.held(own)?;
            if self.one(other).is_some() {
                // own = own other + c
                let first = self.held(c)?;
                let second = self.anywhere(other);
                self.two(Second, to, first, second)?;
            } else {
                // own = other own + c
                let first = self.held(other)?;
                let second = self.anywhere(c);
                self.two(First, to, first, second)?;
            }
            return self.overwrite(to, id, node);
        }
        // A copy of c is overwritten.
        let first = self.held(a)?;
        let second = self.anywhere(b);
        let copied = self.anywhere(c);
        let to = self.spare()?;
        self.put(match copied {
            Operand::Register(c) => Instruction::with2(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, to, c)?,
            Operand::Memory(c) => Instruction::with2(Code::EVEX_Vmovups_zmm_k1z_zmmm512, to, c)?,
            Operand::Broadcast(c) => {
                Instruction::with2(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, c)?
            }
        })?;
        self.two(Third, to, first, second)?;
        self.overwrite(to, id, node)
    }

    /// Register `to` holds the result.
    fn overwrite(&mut self, to: Register, id: Id, node: &Node) -> Made<()> {
        self.registers.asked(node);
        self.registers.put(id, to as usize - Register::ZMM0 as usize);
        Ok(())
    }
}

/// For the elements of the loop only.
fn masked(mut instruction: Instruction, zeroing: bool) -> Instruction {
    instruction.set_op_mask(Register::K1);
    instruction.set_zeroing_masking(zeroing);
    instruction
}

fn binary(op: Binary) -> Code {
    match op {
        Binary::Add => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        Binary::Sub => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        Binary::Mul => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        Binary::Div => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        Binary::Max => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        Binary::Min => Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        Binary::And => Code::EVEX_Vandps_zmm_k1z_zmm_zmmm512b32,
        Binary::Or => Code::EVEX_Vorps_zmm_k1z_zmm_zmmm512b32,
        Binary::Xor => Code::EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32,
        Binary::AndNot => Code::EVEX_Vandnps_zmm_k1z_zmm_zmmm512b32,
        Binary::AddBits => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
    }
}

/// The predicate of `vcmpps`, quiet for NaN.
fn predicate(op: Compare) -> u32 {
    match op {
        Compare::Eq => 0,
        Compare::Ne => 4,
        Compare::Lt => 17,
        Compare::Le => 18,
        Compare::Gt => 30,
        Compare::Ge => 29,
        Compare::Unordered => 3,
        Compare::NotLess => 21,
    }
}
