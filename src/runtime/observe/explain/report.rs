//! The log as JSON. Sites are numbers, as the locator gave them or as lines.

use super::{Change, Chosen, Collective, Compile, Cut, Explain, State, Subject, Why};
use crate::error::Site;
use crate::runtime::observe::json::{Object, list};
use crate::runtime::observe::recomputed::{Group, Recomputed};
use std::fmt;

impl Explain {
    /// The JSON of `torchacc_explain`.
    pub fn to_json(&self, products: &[(String, &'static str)]) -> String {
        let inner = self.inner.lock();
        let compiles = list(inner.compiles.iter().map(compile));
        let first = inner.compiles.front().map_or(inner.number, |compile| compile.number - 1);
        drop(inner);
        let cuts = list(self.cuts.lock().rows().iter().map(cut));
        Object::default()
            .raw("compiles", compiles)
            .raw("earlier_compiles", first)
            .raw("host_calls", self.fallbacks_json())
            .raw("cuts", cuts)
            .raw("collectives", self.collectives_json())
            .raw("engines", self.engines_json())
            .raw("products", list(products.iter().map(product)))
            .end()
    }

    fn engines_json(&self) -> String {
        let row = |chosen: Chosen| {
            let row = Object::default()
                .text("engine", chosen.engine)
                .raw("operations", chosen.operations)
                .raw("site", chosen.site);
            match chosen.ns {
                Some([first, second]) => row.raw("first_ns", first).raw("second_ns", second).end(),
                None => row.end(),
            }
        };
        list(self.chosen.lock().rows().into_iter().map(row))
    }

    fn collectives_json(&self) -> String {
        let row = |(communicator, one): (String, Collective)| {
            let state = match one.state {
                State::Running => "running",
                State::Done => "done",
                State::Failed => "failed",
            };
            Object::default()
                .text("communicator", &communicator)
                .raw("number", one.number)
                .text("name", &one.name)
                .text("tensor", &one.tensor)
                .raw("bytes", one.bytes)
                .text("state", state)
                .raw("at_ns", one.began_ns)
                .raw("took_ns", one.took_ns)
                .raw("exposed_ns", one.hiding.exposed_ns)
                .raw("hidden_by", one.hiding.steps)
                .raw("first_site", one.hiding.sites[0])
                .raw("last_site", one.hiding.sites[1])
                .raw("site", one.site)
                .end()
        };
        list(self.collectives.lock().rows().into_iter().map(row))
    }

    /// The JSON of `torchacc_host_call_report`.
    pub fn fallbacks_json(&self) -> String {
        let row = |(name, site, spent): (String, Site, super::fallbacks::Spent)| {
            let row = Object::default().text("name", &name).raw("count", spent.count);
            row.raw("time_ns", spent.time_ns).raw("site", site).end()
        };
        list(self.fallbacks.lock().rows().into_iter().map(row))
    }
}

fn product((blocks, by): &(String, &'static str)) -> String {
    Object::default().text("blocks", blocks).text("by", by).end()
}

fn compile(compile: &Compile) -> String {
    let row = Object::default()
        .raw("number", compile.number)
        .raw("at_ns", compile.at_ns)
        .raw("took_ns", compile.took_ns)
        .raw("operations", compile.operations)
        .raw("site", compile.site);
    let row = match &compile.recomputed {
        Some(it) => row.raw("recomputed", recomputed(it)),
        None => row,
    };
    match &compile.why {
        Why::First => row.text("why", "first").end(),
        Why::New => row.text("why", "new").end(),
        Why::Again => row.text("why", "again").end(),
        Why::Changed(it) => row.text("why", "changed").raw("change", change(it)).end(),
    }
}

fn recomputed(recomputed: &Recomputed) -> String {
    let group = |group: &Group| {
        Object::default()
            .text("operator", &group.operator)
            .raw("count", group.count)
            .raw("bytes", group.bytes)
            .raw("site", group.site)
            .end()
    };
    Object::default()
        .raw("limit", recomputed.limit)
        .raw("bytes_without", recomputed.before)
        .raw("bytes", recomputed.memory)
        .raw("time", format!("{:.3}", recomputed.time))
        .raw("steps", recomputed.steps)
        .raw("largest", list(recomputed.largest.iter().map(group)))
        .raw("offloads", recomputed.offloads)
        .raw("offloaded_bytes", recomputed.offloaded_bytes)
        .raw("largest_offloads", list(recomputed.largest_offloads.iter().map(group)))
        .end()
}

fn change(change: &Change) -> String {
    let row = Object::default()
        .raw("operation", change.record)
        .text("operator", &change.operator)
        .text("aspect", change.aspect);
    let row = match change.subject {
        Subject::Operation => row,
        Subject::Argument(index) => row.raw("argument", index),
        Subject::Element(index, element) => row.raw("argument", index).raw("element", element),
        Subject::Result(index) => row.raw("result", index),
    };
    row.text("text", &change.to_string())
        .text("advice", change.advice())
        .text("old", &change.old)
        .text("new", &change.new)
        .raw("site", change.site)
        .raw("old_site", change.old_site)
        .end()
}

fn cut(cut: &Cut) -> String {
    let row = Object::default().text("cause", cut.cause).raw("count", cut.count);
    let row = row.raw("site", cut.site);
    match cut.value.is_empty() {
        true => row.end(),
        false => row.text("value", &cut.value).raw("value_site", cut.value_site).end(),
    }
}

impl Change {
    /// Advice for a change that keeps recurring.
    pub fn advice(&self) -> &'static str {
        match (self.aspect, self.subject) {
            ("layout", _) => {
                "Another order of dimensions in memory, or a part that begins elsewhere, compiles a program where no plan for other \
             ones can be instantiated: keep the order, and take parts by an index tensor, whose numbers compile nothing."
            }
            ("shape" | "format", _) => {
                "A new size compiles a program where no plan for other sizes can be instantiated: keep the number of dimensions \
             and their order in memory, and pad or bucket the sizes."
            }
            ("attribute" | "scalar", _) => {
                "This argument is part of the program: keep it to a few values, or compute with a tensor instead."
            }
            ("dtype", _) => "Every dtype compiles a program: convert before, or keep to one.",
            ("outputs" | "donation", _) => {
                "Every set of tensors that outlive the cut compiles a program: keep or drop the same ones at every step."
            }
            (_, Subject::Operation) => {
                "Python takes another way each time: cut (torchacc.mark_step) before what differs, or compute both and choose \
             with torch.where."
            }
            _ => "Every new arrangement of tensors compiles a program: keep to a few.",
        }
    }
}

/// For people, as one clause.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { operator, aspect, old, new, .. } = self;
        match (*aspect, self.subject) {
            ("operator", _) => {
                return write!(f, "operation {} was {new}, before {old}", self.record);
            }
            ("length", _) => return write!(f, "next came {new}, before {old}"),
            (_, Subject::Operation) => write!(f, "{aspect} of {operator} were")?,
            ("outputs" | "donation", Subject::Result(index)) => {
                write!(f, "result {index} of {operator} was")?
            }
            (_, Subject::Argument(index)) => {
                write!(f, "{aspect} of argument {index} of {operator} was")?
            }
            (_, Subject::Element(index, element)) => {
                write!(f, "{aspect} of element {element} of argument {index} of {operator} was")?
            }
            (_, Subject::Result(index)) => {
                write!(f, "{aspect} of result {index} of {operator} was")?
            }
        }
        write!(f, " {new}, before {old}")
    }
}
