//! Instructions of AVX-512: masks have registers of their own, and one of them excludes elements past the end.

use super::super::trace::{Binary, Element, Id, Logic, Node, Unary};
use super::codes::{Codes, QUIET, predicate};
use super::{Assembler, Made, combined};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

pub const CODES: Codes = Codes {
    load: Code::EVEX_Vmovups_zmm_k1z_zmmm512,
    store: Code::EVEX_Vmovups_zmmm512_k1z_zmm,
    copy: Code::EVEX_Vmovaps_zmm_k1z_zmmm512,
    broadcast: Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    mul_add: [
        Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
        Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
    ],
    binary,
};

fn mask(n: usize) -> Register {
    Register::K0 + n as u32
}

impl Assembler<'_> {
    /// `None` if no mask register is left.
    pub(super) fn node_avx512(&mut self, node: &Node, id: Id) -> Made<Option<()>> {
        match *node {
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
            Node::Store(stream, element, value) => self.store(stream, element, value, node)?,
            Node::Scale(a, b) => {
                let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
                self.pair(code, a, b, id, node)?;
            }
            Node::ScaleWhere(m, a, b) => {
                let (first, second) = (self.register_of(a)?, self.register_of(b)?);
                let m = mask(self.registers.mask_register_of(m));
                self.registers.asked(node);
                let to = self.take(id)?;
                let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
                let mut instruction = Instruction::with3(code, to, first, second)?;
                instruction.set_op_mask(m);
                instruction.set_zeroing_masking(true);
                self.put(instruction)?;
            }
            Node::Select(m, yes, no) => {
                let first = self.register_of(no)?;
                let second = self.anywhere(yes)?;
                let m = mask(self.registers.mask_register_of(m));
                self.registers.asked(node);
                let to = self.take(id)?;
                let code = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                let mut instruction = combined(code, to, first, second)?;
                instruction.set_op_mask(m);
                self.put(instruction)?;
            }
            Node::Compare(op, a, b) => {
                let (first, second) = (self.register_of(a)?, self.register_of(b)?);
                self.registers.asked(node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
                self.put(Instruction::with4(code, mask(to), first, second, predicate(op))?)?;
            }
            Node::Logic(op, a, b) => {
                let (first, second) =
                    (self.registers.mask_register_of(a), self.registers.mask_register_of(b));
                self.registers.asked(node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                let code = match op {
                    Logic::And => Code::VEX_Kandw_kr_kr_kr,
                    Logic::Or => Code::VEX_Korw_kr_kr_kr,
                    Logic::Xor => Code::VEX_Kxorw_kr_kr_kr,
                };
                self.put(Instruction::with3(code, mask(to), mask(first), mask(second))?)?;
            }
            Node::Not(a) => {
                let from = self.registers.mask_register_of(a);
                self.registers.asked(node);
                let Some(to) = self.registers.mask(id) else { return Ok(None) };
                self.put(Instruction::with2(Code::VEX_Knotw_kr_kr, mask(to), mask(from))?)?;
            }
            _ => unreachable!("{node:?} is the same for all vectors"),
        }
        Ok(Some(()))
    }

    pub(super) fn unary_avx512(&mut self, op: Unary, to: Register, from: Register) -> Made<()> {
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
                // In [0.75, 1.5); NaN for negative numbers.
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
            Unary::ToInt => {
                Instruction::with2(Code::EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er, to, from)?
            }
            Unary::IntValue => {
                Instruction::with2(Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, to, from)?
            }
            Unary::ToExponent => {
                Instruction::with3(Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, to, from, 23)?
            }
            Unary::ExponentInt => {
                Instruction::with3(Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, to, from, 23)?
            }
            Unary::HalfInt => {
                Instruction::with3(Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, to, from, 1)?
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
                let from = self.register_of(value)?;
                Instruction::with2(Code::EVEX_Vmovups_zmmm512_k1z_zmm, to, from)?
            }
            Element::F16 => {
                let from = self.register_of(value)?;
                Instruction::with3(Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, to, from, 0)?
            }
            Element::BF16 => {
                let (from, bits) = (self.register_of(value)?, self.spare()?);
                let shift = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                self.put(Instruction::with3(shift, bits, from, 16)?)?;
                Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, to, bits)?
            }
            Element::Bool => {
                let (from, bits) = (self.registers.mask_register_of(value), self.spare()?);
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
}

/// Restricts an instruction to the elements of the loop.
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
        Binary::SubBits => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
    }
}
