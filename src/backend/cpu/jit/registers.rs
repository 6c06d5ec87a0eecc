//! Register allocation, as a loop's body is written instruction by instruction. When no register is left, the value
//! whose next use is the furthest gives up its own.

use super::super::isa::Isa;
use super::trace::{Id, Node};

/// Mask registers of AVX-512 for values: k0 cannot mask, k1 is the loop's own. For AVX2 masks are vectors.
const FIRST_MASK: usize = 2;
const MASKS: usize = 8;

/// The store that frees a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spill {
    pub register: usize,
    pub slot: usize,
}

/// The registers of a body and the values that they hold.
pub struct Registers {
    /// For each value, the nodes that use it, the next one last.
    asked: Vec<Vec<usize>>,
    /// Constants and numbers: in memory from the start.
    is_in_memory: Vec<bool>,
    register: Vec<Option<usize>>,
    slot: Vec<Option<usize>>,
    vectors: Vec<Option<Id>>,
    masks: [Option<Id>; MASKS],
    /// Registers that the current instruction may not reallocate.
    pinned: Vec<usize>,
    /// Number of vectors on the stack.
    pub slots: usize,
}

impl Registers {
    pub fn new(nodes: &[Node], isa: Isa) -> Registers {
        let mut asked = vec![Vec::new(); nodes.len()];
        for (n, node) in nodes.iter().enumerate().rev() {
            node.operands().for_each(|id| asked[id as usize].push(n));
        }
        let in_memory = |node: &Node| matches!(node, Node::Constant(_) | Node::Number(_));
        let vectors = if isa == Isa::Avx512 { 32 } else { 16 };
        Registers {
            asked,
            is_in_memory: nodes.iter().map(in_memory).collect(),
            register: vec![None; nodes.len()],
            slot: vec![None; nodes.len()],
            vectors: vec![None; vectors],
            masks: [None; MASKS],
            pinned: Vec::new(),
            slots: 0,
        }
    }

    /// The register of a value, which stays there during this instruction.
    pub fn register_of(&mut self, id: Id) -> Option<usize> {
        let register = self.register[id as usize];
        self.pinned.extend(register);
        register
    }

    /// The stack slot of a value that left its register.
    pub fn slot(&self, id: Id) -> Option<usize> {
        self.slot[id as usize]
    }

    /// Whether this instruction, which uses a value once, is its last use.
    pub fn dies(&self, id: Id) -> bool {
        self.asked[id as usize].len() <= 1
    }

    /// Whether a value has remaining uses.
    pub fn is_asked(&self, id: Id) -> bool {
        !self.asked[id as usize].is_empty()
    }

    /// A register for `id`, and the spill that has to be stored before it is written.
    pub fn vector(&mut self, id: Id) -> (usize, Option<Spill>) {
        let (register, spill) = self.spare();
        self.put(id, register);
        (register, spill)
    }

    /// A temporary register, until something else is put there.
    pub fn spare(&mut self) -> (usize, Option<Spill>) {
        if let Some(register) = (0..self.vectors.len()).find(|&r| self.is_free(r)) {
            self.pinned.push(register);
            return (register, None);
        }
        let candidates = (0..self.vectors.len()).filter(|r| !self.pinned.contains(r));
        let last = candidates.max_by_key(|&r| self.value_of_leaving(r));
        let register = last.expect("an instruction has fewer operands than there are registers");
        let Some(id) = self.vectors[register].take() else { return (register, None) };
        let id = id as usize;
        self.register[id] = None;
        self.pinned.push(register);
        if self.is_in_memory[id] || self.slot[id].is_some() {
            return (register, None);
        }
        self.slot[id] = Some(self.slots);
        self.slots += 1;
        (register, Some(Spill { register, slot: self.slots - 1 }))
    }

    fn is_free(&self, register: usize) -> bool {
        self.vectors[register].is_none() && !self.pinned.contains(&register)
    }

    /// Position of the next use of a register's value; more if the value is in memory anyway.
    fn value_of_leaving(&self, register: usize) -> usize {
        const STORE: usize = 16;
        let Some(id) = self.vectors[register].map(|id| id as usize) else { return usize::MAX };
        let next = self.asked[id].last().copied().unwrap_or(usize::MAX - STORE);
        next + if self.is_in_memory[id] || self.slot[id].is_some() { STORE } else { 0 }
    }

    /// A mask register for `id`; `None` when there is none left.
    pub fn mask(&mut self, id: Id) -> Option<usize> {
        let register = (FIRST_MASK..MASKS).find(|&r| self.masks[r].is_none())?;
        self.masks[register] = Some(id);
        self.register[id as usize] = Some(register);
        Some(register)
    }

    /// The register of a mask.
    pub fn mask_register_of(&self, id: Id) -> usize {
        self.register[id as usize].expect("masks stay in their registers")
    }

    /// Records that `register` holds `id` from now on, and nothing else.
    pub fn put(&mut self, id: Id, register: usize) {
        if let Some(old) = self.vectors[register].replace(id) {
            self.register[old as usize] = None;
        }
        self.register[id as usize] = Some(register);
    }

    /// Records that the instruction has read its operands: those without further uses leave their registers, which its
    /// result may take.
    pub fn asked(&mut self, node: &Node) {
        for id in node.operands() {
            self.asked[id as usize].pop();
            if self.is_asked(id) {
                continue;
            }
            let Some(register) = self.register[id as usize] else { continue };
            if self.masks[register % MASKS] == Some(id) {
                self.masks[register] = None;
                self.register[id as usize] = None;
            } else if self.vectors[register] == Some(id) {
                self.vectors[register] = None;
                self.register[id as usize] = None;
                self.pinned.retain(|&r| r != register);
            }
        }
    }

    /// Ends the current instruction.
    pub fn done(&mut self) {
        self.pinned.clear();
    }
}
