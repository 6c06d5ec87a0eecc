//! What operators take and give, as JSON: for programs that make bindings to other languages.

use super::{Entry, entry, find, name};
use crate::op::{Arity, Op};

/// PyTorch's schemas of the operators that have rows, one form a line. A test of the extension holds it to PyTorch.
const FORMS: &str = include_str!("signatures.jsonl");

/// Results of primitives that have not one.
const RESULTS: [(Op, usize); 8] = [
    (Op::MaxPool, 2),
    (Op::LogSumExp, 2),
    (Op::LayerNorm, 3),
    (Op::LayerNormGrad, 3),
    (Op::RmsNorm, 2),
    (Op::RmsNormGrad, 2),
    (Op::Attention, 2),
    (Op::AttentionGrad, 3),
];

/// The signature of a row: `{"name", "number", "doc", "forms": [{"operator", "overload", "arguments", "results"}]}`.
///
/// # Panics
/// When there is no such row.
pub fn signature(row: u32) -> String {
    let name = name(row);
    let (doc, forms) = match entry(row) {
        Entry::Aten(_) => (String::new(), forms(row).collect()),
        Entry::Primitive(op) => {
            let doc = op.row().doc.replace('\\', "\\\\").replace('"', "\\\"");
            let lines: Vec<&str> = doc.lines().map(str::trim).collect();
            (format!("\"doc\": \"{}\", ", lines.join(" ").trim()), vec![primitive(op)])
        }
    };
    let forms = forms.join(", ");
    format!("{{\"name\": \"{name}\", \"number\": {row}, {doc}\"forms\": [{forms}]}}")
}

fn forms(row: u32) -> impl Iterator<Item = String> {
    FORMS.lines().filter(move |line| served(line) == Some(row)).map(str::to_string)
}

/// The row that serves a form.
fn served(line: &str) -> Option<u32> {
    let text = |field: &str| line.split(field).nth(1).and_then(|rest| rest.split('"').next());
    let name = text("{\"operator\": \"")?;
    match text("\"overload\": \"")? {
        "" => find(name),
        overload => find(&format!("{name}.{overload}")),
    }
}

/// Operands, then attributes.
fn primitive(op: Op) -> String {
    let row = op.row();
    let (least, most) = match row.arity {
        Arity::Exactly(n) => (n, n),
        Arity::Between(least, most) => (least, most),
        Arity::AtLeast(_) => (1, 1),
    };
    let list = if let Arity::AtLeast(_) = row.arity { ", \"list\": true" } else { "" };
    let operand = |i: usize| {
        let optional = if i >= least { ", \"optional\": true" } else { "" };
        format!("{{\"name\": \"x{i}\", \"type\": \"tensor\"{list}{optional}}}")
    };
    let attribute = |name: &&str| format!("{{\"name\": \"{name}\", {}}}", attribute_type(op, name));
    let arguments: Vec<String> =
        (0..most).map(operand).chain(row.attrs.iter().map(attribute)).collect();
    let count = RESULTS.iter().find(|known| known.0 == op).map_or(1, |known| known.1);
    let results = vec!["{\"type\": \"tensor\"}"; count].join(", ");
    let (name, arguments) = (row.name, arguments.join(", "));
    format!(
        "{{\"operator\": \"{name}\", \"overload\": \"\", \"arguments\": [{arguments}], \"results\": [{results}]}}"
    )
}

fn attribute_type(op: Op, name: &str) -> &'static str {
    match name {
        "dim" | "axis" | "groups" | "offset" => "\"type\": \"int\"",
        "value" if op == Op::ConstInt => "\"type\": \"int\"",
        "value" | "eps" | "scale" | "dropout" => "\"type\": \"float\"",
        "ceil" | "add" | "causal" | "weight" | "bias" => "\"type\": \"bool\"",
        "dtype" => "\"type\": \"dtype\"",
        _ => "\"type\": \"int\", \"list\": true",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aten::{count, rows};
    use crate::graph::generate::{Limits, case};
    use crate::op::Attr;

    #[test]
    fn every_row_has_a_form_and_every_form_a_row() {
        for row in 0..rows::FAMILIES.iter().map(|family| family.len()).sum::<usize>() as u32 {
            assert!(forms(row).next().is_some(), "{} has no form", name(row));
        }
        for line in FORMS.lines() {
            assert!(served(line).is_some(), "nothing serves {line}");
        }
    }

    #[test]
    fn plain_names_are_primitives_first() {
        assert_eq!(find("add").map(super::super::name), Some("add"));
        assert_eq!(find("gelu"), find("aten::gelu"));
        assert_eq!(find("attention").map(super::super::name), Some("attention"));
        assert!(find("gelu").is_some() && find("no_such_thing").is_none());
        assert!(signature(count() as u32 - 1).contains("\"forms\": [{"));
    }

    #[test]
    fn primitives_are_what_random_graphs_make_of_them() {
        for seed in 0..300 {
            let graph = case(seed, Limits { nodes: 30, size: 5 }).unwrap().graph;
            for node in graph.nodes.iter().filter(|node| super::super::primitive::callable(node.op))
            {
                let known = RESULTS.iter().find(|known| known.0 == node.op).map_or(1, |k| k.1);
                assert_eq!(node.n_outputs as usize, known, "{:?}", node.op);
                for (name, attr) in node.op.row().attrs.iter().zip(&node.attrs) {
                    let kind = match attr {
                        Attr::Int(_) => "\"type\": \"int\"",
                        Attr::Float(_) => "\"type\": \"float\"",
                        Attr::Bool(_) => "\"type\": \"bool\"",
                        Attr::DType(_) => "\"type\": \"dtype\"",
                        _ => "\"type\": \"int\", \"list\": true",
                    };
                    assert_eq!(attribute_type(node.op, name), kind, "{:?} {name}", node.op);
                }
            }
        }
    }
}
