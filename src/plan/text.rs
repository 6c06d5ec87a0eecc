//! A plan as readable text: one line per step. `in0`, `out0` are inputs and outputs, `@64` is an arena offset, `host@64` one in
//! the host's block, `results@64` one in the block of results, `s0` a scalar, `#` the index itself; `{…}` are strides and
//! `+` an offset, left out where the layout is dense.

use super::{Instr, Kernel, LoopBody, MemRef, Operand, Plan, Step};
use crate::graph::text::{attr_text, ints_text};
use crate::op::{Attr, Op};
use std::fmt::{self, Display, Formatter};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "arena {} (bound {})", self.arena_bytes, self.lower_bound)?;
        for (name, bytes) in [("host", self.host_bytes), ("results", self.results_bytes)] {
            if bytes > 0 {
                write!(f, ", {name} {bytes}")?;
            }
        }
        writeln!(f)?;
        for (k, (ty, donor)) in self.outputs.iter().zip(&self.donors).enumerate() {
            write!(f, "out{k}: {}", ty)?;
            if self.is_on_host(k) {
                write!(f, " on host")?;
            }
            match (donor, self.place_of_result(k as u32)) {
                (Some(i), _) => writeln!(f, " over in{i}")?,
                (None, Some(start)) => writeln!(f, " at results@{start}")?,
                (None, None) => writeln!(f)?,
            }
        }
        self.steps.iter().enumerate().try_for_each(|(i, step)| writeln!(f, "{i}: {step}"))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.writes.is_empty() {
            write!(f, "{} = ", joined(&self.writes, ", "))?;
        }
        match &self.kernel {
            Kernel::Map(_) => write!(f, "map")?,
            Kernel::Reduce { op, axes, .. } => write!(f, "{}{}", op.name(), ints_text(axes))?,
            Kernel::Node { op, attrs } | Kernel::Fused { op, attrs, .. } => {
                write!(f, "{}{}", op.name(), attrs_text(*op, attrs))?
            }
        }
        write!(f, "({})", joined(&self.reads, ", "))?;
        if let Some(body) = self.kernel.body() {
            write!(f, " {body}")?;
        }
        if let Some((offset, bytes)) = self.workspace {
            write!(f, " workspace @{offset}+{bytes}")?;
        }
        match self.done {
            Some(done) => write!(f, " done before {done}"),
            None => Ok(()),
        }
    }
}

impl Display for LoopBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{")?;
        for (i, instr) in self.instrs.iter().enumerate() {
            write!(f, " r{} = {instr};", self.reads.len() + i)?;
        }
        let results: Vec<String> = self.results.iter().map(|r| format!("r{r}")).collect();
        write!(f, " {} }}", results.join(", "))
    }
}

impl Display for Instr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.op.name(), attrs_text(self.op, &self.attrs))?;
        self.args.iter().try_for_each(|a| write!(f, " r{a}"))
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.mem, self.dtype, ints_text(&self.layout.sizes))?;
        if !self.layout.is_contiguous() {
            write!(f, "{{{}}}", ints_text(&self.layout.strides).trim_matches(['[', ']']))?;
        }
        if self.layout.offset != 0 {
            write!(f, "+{}", self.layout.offset)?;
        }
        Ok(())
    }
}

impl Display for MemRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            MemRef::Input(i) => write!(f, "in{i}"),
            MemRef::Output(k) => write!(f, "out{k}"),
            MemRef::Arena(offset) => write!(f, "@{offset}"),
            MemRef::Host(offset) => write!(f, "host@{offset}"),
            MemRef::Results(offset) => write!(f, "results@{offset}"),
            MemRef::Scalar(slot) => write!(f, "s{slot}"),
            MemRef::Index => write!(f, "#"),
        }
    }
}

fn joined<T: Display>(items: &[T], separator: &str) -> String {
    let texts: Vec<String> = items.iter().map(T::to_string).collect();
    texts.join(separator)
}

fn attrs_text(op: Op, attrs: &[Attr]) -> String {
    if attrs.is_empty() {
        return String::new();
    }
    let row = op.row();
    let texts = row.attrs.iter().zip(attrs).map(|(name, attr)| attr_text(row, name, attr));
    format!("<{}>", texts.collect::<Vec<_>>().join(", "))
}
