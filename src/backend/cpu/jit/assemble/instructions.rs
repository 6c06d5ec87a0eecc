//! The code of each recorded operation: operands and results get their registers here, the instructions are those
//! of [`super::avx512`] or [`super::avx2`].

use super::super::super::isa::Isa;
use super::super::registers::Spill;
use super::super::trace::{Binary, Id, Node, Unary};
use super::codes::Codes;
use super::{Assembler, Made, Operand, avx2, avx512, combined};
use iced_x86::{Code, Instruction, MemoryOperand, Register};

pub fn codes(isa: Isa) -> &'static Codes {
    if isa == Isa::Avx512 { &avx512::CODES } else { &avx2::CODES }
}

impl Assembler<'_> {
    fn codes(&self) -> &'static Codes {
        codes(self.isa)
    }

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

    /// Takes a register for a value that is not in one yet.
    pub(super) fn take(&mut self, id: Id) -> Made<Register> {
        let (register, spill) = self.registers.vector(id);
        self.spill(spill)?;
        Ok(self.vector(register))
    }

    /// A temporary register.
    pub(super) fn spare(&mut self) -> Made<Register> {
        let (register, spill) = self.registers.spare();
        self.spill(spill)?;
        Ok(self.vector(register))
    }

    fn spill(&mut self, spill: Option<Spill>) -> Made<()> {
        let Some(spill) = spill else { return Ok(()) };
        let (to, from) = (self.slot(spill.slot), self.vector(spill.register));
        self.put(Instruction::with2(self.codes().store, to, from)?)
    }

    /// A value in a register, loaded if need be.
    pub(super) fn register_of(&mut self, id: Id) -> Made<Register> {
        if let Some(register) = self.registers.register_of(id) {
            return Ok(self.vector(register));
        }
        let to = self.take(id)?;
        match self.one(id) {
            Some(from) => self.put(Instruction::with2(self.codes().broadcast, to, from)?)?,
            None => {
                let from = self.slot(self.registers.slot(id).expect("a value is somewhere"));
                self.put(Instruction::with2(self.codes().load, to, from)?)?
            }
        }
        Ok(to)
    }

    /// A value as an operand, wherever it is.
    pub(super) fn anywhere(&mut self, id: Id) -> Made<Operand> {
        if let Some(register) = self.registers.register_of(id) {
            return Ok(Operand::Register(self.vector(register)));
        }
        let is_constant = matches!(self.nodes[id as usize], Node::Constant(_));
        Ok(match self.one(id) {
            Some(memory) if self.isa == Isa::Avx512 => Operand::Broadcast(memory),
            Some(memory) if is_constant => Operand::Memory(memory),
            Some(_) => Operand::Register(self.register_of(id)?),
            None => {
                Operand::Memory(self.slot(self.registers.slot(id).expect("a value is somewhere")))
            }
        })
    }

    /// `to = first op second`.
    pub(super) fn two(
        &mut self,
        code: Code,
        to: Register,
        first: Register,
        second: Operand,
    ) -> Made<()> {
        self.put(combined(code, to, first, second)?)
    }

    /// `None` if no mask register is left, or there is no such instruction.
    pub(super) fn node(&mut self, n: usize) -> Made<Option<()>> {
        let (node, id) = (self.nodes[n], n as Id);
        let is_value = !matches!(node, Node::Store(..));
        if is_value && !self.registers.is_asked(id) {
            self.registers.asked(&node);
            return Ok(Some(()));
        }
        let done = match node {
            Node::Constant(_) | Node::Number(_) => Some(()),
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
                Some(self.pair((self.codes().binary)(op), a, b, id, &node)?)
            }
            Node::Unary(op, a) => self.unary(op, a, id, &node)?,
            Node::MulAdd(a, b, c) => Some(self.mul_add([a, b, c], id, &node)?),
            _ if self.isa == Isa::Avx512 => self.node_avx512(&node, id)?,
            _ => self.node_avx2(&node, id)?,
        };
        self.registers.done();
        Ok(done)
    }

    pub(super) fn pair(&mut self, code: Code, a: Id, b: Id, id: Id, node: &Node) -> Made<()> {
        let first = self.register_of(a)?;
        let second = self.anywhere(b)?;
        self.registers.asked(node);
        let to = self.take(id)?;
        self.two(code, to, first, second)
    }

    fn unary(&mut self, op: Unary, a: Id, id: Id, node: &Node) -> Made<Option<()>> {
        let from = self.register_of(a)?;
        self.registers.asked(node);
        let to = self.take(id)?;
        match self.isa {
            Isa::Avx512 => self.unary_avx512(op, to, from).map(Some),
            _ => self.unary_avx2(op, to, from),
        }
    }

    /// `a * b + c`: the instruction overwrites one of its operands.
    fn mul_add(&mut self, [a, b, c]: [Id; 3], id: Id, node: &Node) -> Made<()> {
        let &Codes { mul_add: [adds, multiplies, multiplies_first], copy, load, broadcast, .. } =
            self.codes();
        let same = a == b || b == c || a == c;
        let overwritten = |s: &Assembler, x: Id| !same && s.registers.dies(x) && s.one(x).is_none();
        let (a, b) = if self.one(a).is_some() { (b, a) } else { (a, b) };
        if overwritten(self, c) {
            // c = a b + c
            let (to, first) = (self.register_of(c)?, self.register_of(a)?);
            let second = self.anywhere(b)?;
            self.two(adds, to, first, second)?;
            return self.overwrite(to, id, node);
        }
        for (own, other) in [(a, b), (b, a)] {
            if !overwritten(self, own) {
                continue;
            }
            let to = self.register_of(own)?;
            if self.one(other).is_some() {
                // own = own other + c
                let first = self.register_of(c)?;
                let second = self.anywhere(other)?;
                self.two(multiplies_first, to, first, second)?;
            } else {
                // own = other own + c
                let first = self.register_of(other)?;
                let second = self.anywhere(c)?;
                self.two(multiplies, to, first, second)?;
            }
            return self.overwrite(to, id, node);
        }
        // A copy of c is overwritten.
        let first = self.register_of(a)?;
        let second = self.anywhere(b)?;
        let copied = self.anywhere(c)?;
        let to = self.spare()?;
        self.put(match copied {
            Operand::Register(c) => Instruction::with2(copy, to, c)?,
            Operand::Memory(c) => Instruction::with2(load, to, c)?,
            Operand::Broadcast(c) => Instruction::with2(broadcast, to, c)?,
        })?;
        self.two(adds, to, first, second)?;
        self.overwrite(to, id, node)
    }

    /// Records that register `to` holds the result.
    fn overwrite(&mut self, to: Register, id: Id, node: &Node) -> Made<()> {
        self.registers.asked(node);
        self.registers.put(id, to as usize - self.vector(0) as usize);
        Ok(())
    }
}
