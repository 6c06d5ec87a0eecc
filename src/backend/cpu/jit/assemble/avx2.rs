//! Instructions of AVX2, with FMA and F16C. A mask is a vector of ones and zeros.

use super::super::trace::{Binary, Element, Id, Logic, Node, Unary};
use super::codes::{Codes, QUIET, predicate};
use super::{Assembler, Made, Operand, combined};
use iced_x86::{Code, Instruction, Register};

pub const CODES: Codes = Codes {
    load: Code::VEX_Vmovups_ymm_ymmm256,
    store: Code::VEX_Vmovups_ymmm256_ymm,
    copy: Code::VEX_Vmovups_ymm_ymmm256,
    broadcast: Code::VEX_Vbroadcastss_ymm_m32,
    mul_add: [
        Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
        Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
    ],
    binary,
};

/// The low half of a vector.
fn low(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::YMM0 as u32)
}

impl Assembler<'_> {
    /// `None` for operations that only AVX-512 has.
    pub(super) fn node_avx2(&mut self, node: &Node, id: Id) -> Made<Option<()>> {
        match *node {
            Node::Load(stream, element) => {
                let from = self.stream(stream, element)?;
                let to = self.take(id)?;
                let code = match element {
                    Element::F32 => Code::VEX_Vmovups_ymm_ymmm256,
                    Element::F16 => Code::VEX_Vcvtph2ps_ymm_xmmm128,
                    Element::BF16 => Code::VEX_Vpmovzxwd_ymm_xmmm128,
                    Element::Bool => Code::VEX_Vpmovzxbd_ymm_xmmm64,
                };
                self.put(Instruction::with2(code, to, from)?)?;
                if element == Element::BF16 {
                    self.put(Instruction::with3(Code::VEX_Vpslld_ymm_ymm_imm8, to, to, 16)?)?;
                }
                if element == Element::Bool {
                    let zero = self.spare()?;
                    let zeros = Code::VEX_Vxorps_ymm_ymm_ymmm256;
                    self.put(Instruction::with3(zeros, zero, zero, zero)?)?;
                    let more = Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256;
                    self.put(Instruction::with3(more, to, to, zero)?)?;
                }
            }
            Node::Store(stream, element, value) => self.store_avx2(stream, element, value, node)?,
            Node::Select(mask, yes, no) => {
                let (mask, first) = (self.register_of(mask)?, self.register_of(no)?);
                let second = self.anywhere(yes)?;
                self.registers.asked(node);
                let to = self.take(id)?;
                let code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
                self.put(match second {
                    Operand::Register(second) => Instruction::with4(code, to, first, second, mask)?,
                    Operand::Memory(second) | Operand::Broadcast(second) => {
                        Instruction::with4(code, to, first, second, mask)?
                    }
                })?;
            }
            Node::Compare(op, a, b) => {
                let (first, second) = (self.register_of(a)?, self.register_of(b)?);
                self.registers.asked(node);
                let to = self.take(id)?;
                let code = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
                self.put(Instruction::with4(code, to, first, second, predicate(op))?)?;
            }
            Node::Logic(op, a, b) => {
                let op = match op {
                    Logic::And => Binary::And,
                    Logic::Or => Binary::Or,
                    Logic::Xor => Binary::Xor,
                };
                self.pair(binary(op), a, b, id, node)?;
            }
            Node::Not(a) => {
                let (from, ones) = (self.register_of(a)?, self.spare()?);
                let equal = Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256;
                self.put(Instruction::with3(equal, ones, ones, ones)?)?;
                self.registers.asked(node);
                let to = self.take(id)?;
                self.put(combined(binary(Binary::Xor), to, from, Operand::Register(ones))?)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    /// `None` as for [`Assembler::node_avx2`].
    pub(super) fn unary_avx2(
        &mut self,
        op: Unary,
        to: Register,
        from: Register,
    ) -> Made<Option<()>> {
        let round = |how: u32| {
            Instruction::with3(Code::VEX_Vroundps_ymm_ymmm256_imm8, to, from, how | QUIET)
        };
        let shift = |code: Code, by: u32| Instruction::with3(code, to, from, by);
        let instruction = match op {
            Unary::Sqrt => Instruction::with2(Code::VEX_Vsqrtps_ymm_ymmm256, to, from)?,
            Unary::Round => round(0)?,
            Unary::Floor => round(1)?,
            Unary::Ceil => round(2)?,
            Unary::Trunc => round(3)?,
            Unary::HighHalf => shift(Code::VEX_Vpsrld_ymm_ymm_imm8, 16)?,
            Unary::ToF16 => {
                let half = Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8;
                self.put(Instruction::with3(half, low(to), from, 0)?)?;
                Instruction::with2(Code::VEX_Vcvtph2ps_ymm_xmmm128, to, low(to))?
            }
            Unary::ToInt => Instruction::with2(Code::VEX_Vcvtps2dq_ymm_ymmm256, to, from)?,
            Unary::IntValue => Instruction::with2(Code::VEX_Vcvtdq2ps_ymm_ymmm256, to, from)?,
            Unary::ToExponent => shift(Code::VEX_Vpslld_ymm_ymm_imm8, 23)?,
            Unary::ExponentInt => shift(Code::VEX_Vpsrad_ymm_ymm_imm8, 23)?,
            Unary::HalfInt => shift(Code::VEX_Vpsrad_ymm_ymm_imm8, 1)?,
            Unary::Rsqrt14 | Unary::Mantissa | Unary::Exponent | Unary::Power16 => return Ok(None),
        };
        self.put(instruction)?;
        Ok(Some(()))
    }

    fn store_avx2(&mut self, stream: u32, element: Element, value: Id, node: &Node) -> Made<()> {
        let to = self.stream(stream, element)?;
        let from = self.register_of(value)?;
        let instruction = match element {
            Element::F32 => Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, to, from)?,
            Element::F16 => Instruction::with3(Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8, to, from, 0)?,
            Element::BF16 | Element::Bool => {
                let bits = self.spare()?;
                let by = if element == Element::BF16 { 16 } else { 31 };
                self.put(Instruction::with3(Code::VEX_Vpsrld_ymm_ymm_imm8, bits, from, by)?)?;
                // Each half of the vector is packed twice into itself.
                let pack = Code::VEX_Vpackusdw_ymm_ymm_ymmm256;
                self.put(Instruction::with3(pack, bits, bits, bits)?)?;
                let join = Code::VEX_Vpermq_ymm_ymmm256_imm8;
                self.put(Instruction::with3(join, bits, bits, 0b1000)?)?;
                let bits = low(bits);
                if element == Element::BF16 {
                    Instruction::with2(Code::VEX_Vmovdqu_xmmm128_xmm, to, bits)?
                } else {
                    let pack = Code::VEX_Vpackuswb_xmm_xmm_xmmm128;
                    self.put(Instruction::with3(pack, bits, bits, bits)?)?;
                    Instruction::with2(Code::VEX_Vmovq_xmmm64_xmm, to, bits)?
                }
            }
        };
        self.put(instruction)?;
        self.registers.asked(node);
        Ok(())
    }
}

fn binary(op: Binary) -> Code {
    match op {
        Binary::Add => Code::VEX_Vaddps_ymm_ymm_ymmm256,
        Binary::Sub => Code::VEX_Vsubps_ymm_ymm_ymmm256,
        Binary::Mul => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        Binary::Div => Code::VEX_Vdivps_ymm_ymm_ymmm256,
        Binary::Max => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
        Binary::Min => Code::VEX_Vminps_ymm_ymm_ymmm256,
        Binary::And => Code::VEX_Vandps_ymm_ymm_ymmm256,
        Binary::Or => Code::VEX_Vorps_ymm_ymm_ymmm256,
        Binary::Xor => Code::VEX_Vxorps_ymm_ymm_ymmm256,
        Binary::AndNot => Code::VEX_Vandnps_ymm_ymm_ymmm256,
        Binary::AddBits => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
        Binary::SubBits => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
    }
}
