//! Signatures of operators as JSON, for generators of bindings to other languages.

use super::primitive::BODIES;
use super::{Entry, entry, find, name, rows};
use crate::op::{Arity, Op, choices};
use std::sync::OnceLock;

/// PyTorch's schemas of the operators that have rows, one form per line. A test of the extension compares it with PyTorch.
const FORMS: &str = include_str!("signatures.jsonl");

/// Descriptions of the operators that PyTorch does not have.
const DOCS: [(&str, &str); 17] = [
    (
        "attention",
        "softmax(scale * query key^T + bias) value, of query [b,h,t,d], key [b,g,s,d] and value [b,g,s,e], where h is a \
         multiple of g; and the logarithm of each row's sum of exponentials [b,h,t], for the gradient. bias [b,h,t,s] is \
         added, or as bool says what is seen. is_causal: row i sees columns 0 to i. Of the probabilities dropout_p are \
         dropped, by random numbers of seed and offset.",
    ),
    (
        "attention_backward",
        "The gradients of attention with respect to query, key and value, from that of its first result and both results.",
    ),
    (
        "prod_backward",
        "The gradient of the product of self over dim, or over all dimensions, from that of the result, which has no dim.",
    ),
    ("copy", "The tensor, broadcast and cast to the result that it is written to."),
    (
        "adamw",
        "One step of AdamW for lists of equal length: the new params, means and squares, to be written over the old ones. \
         step counts from 1; weight_decay times lr times a parameter is subtracted from it first. Given as SCALAR_*, the \
         numbers compile nothing again.",
    ),
    (
        "sgd",
        "One step of gradient descent: the new params and momentum_buffers, to be written over the old ones. Without \
         momentum the list of buffers is empty. weight_decay times a parameter is added to its gradient.",
    ),
    (
        "grad",
        "The derivatives of loss, one float, with respect to what params hold now: torchacc_grad records it.",
    ),
    (
        "all_reduce",
        "The elements of all ranks, reduced, on every rank. reduction: sum, product, min, max, avg, band, bor or \
         bxor; none for the sum.",
    ),
    ("all_gather", "The rows of all ranks, in their order, on every rank."),
    (
        "all_gather_parameters",
        "As all_gather, of sharded parameters. again: no rank has changed its part since they were gathered last, as between a \
         forward pass and its backward pass; then a program whose memory is limited may take one result for the other.",
    ),
    (
        "reduce_scatter",
        "The elements of all ranks, reduced; of the rows each rank keeps its part, in their order. reduction: as of all_reduce.",
    ),
    ("broadcast", "What rank root has, on every rank."),
    (
        "all_to_all",
        "The n-th part of the rows goes to rank n; what comes is in the order of the ranks.",
    ),
    (
        "reduce",
        "The elements of all ranks, reduced, on rank root, and self elsewhere. reduction: as of all_reduce.",
    ),
    (
        "all_to_all_v",
        "there[n] of the rows go to rank n, in the order of ranks; back[n] come from it, and are in that order.",
    ),
    ("send", "self for rank, which receives it by the same tag. No result."),
    ("receive", "What rank sends by the same tag, of these sizes and this dtype."),
];

/// The signature of a row: `{"name", "number", "doc", "forms": [{"operator", "overload", "arguments", "results"}]}`.
///
/// # Panics
/// When there is no such row.
pub fn signature(row: u32) -> String {
    let name = name(row);
    let (doc, forms) = match entry(row) {
        Entry::Aten(_) => (described(name), forms(row).collect::<Vec<_>>()),
        Entry::Primitive(op) => (Some(op.row().doc), vec![primitive(op)]),
    };
    let doc = doc.map_or(String::new(), |doc| {
        let doc = doc.replace('\\', "\\\\").replace('"', "\\\"");
        let lines: Vec<&str> = doc.lines().map(str::trim).collect();
        format!("\"doc\": \"{}\", ", lines.join(" ").trim())
    });
    let forms = forms.join(", ");
    format!("{{\"name\": \"{name}\", \"number\": {row}, {doc}\"forms\": [{forms}]}}")
}

fn described(name: &str) -> Option<&'static str> {
    let own = name.strip_prefix("torchacc::")?;
    DOCS.iter().find(|known| known.0 == own).map(|known| known.1)
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

/// Whether argument `arg` of a row of ATen is an integer or a bool that is known before anything is computed (a
/// dimension, a size, a flag), in every form that has the argument.
pub fn is_known(row: u32, arg: usize) -> bool {
    static KNOWN: OnceLock<Vec<u32>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known = vec![0; rows::FAMILIES.iter().map(|family| family.len()).sum()];
        for line in FORMS.lines() {
            let row = served(line).expect("every form has a row");
            known[row as usize] |= known_arguments(line);
        }
        known
    });
    arg < 32 && known[row as usize] >> arg & 1 == 1
}

/// A bit for each argument of a form that is an `int` or a `bool`.
fn known_arguments(line: &str) -> u32 {
    let (arguments, _) = line.split_once("\"results\": ").expect("a form has results");
    let arguments = arguments.split("{\"name\": \"").skip(1).enumerate();
    // Other seeds and bounds of random numbers need no compilation.
    let is_drawn = |text: &str| {
        ["seed", "offset", "from", "to"].iter().any(|name| text.starts_with(&format!("{name}\"")))
    };
    let is_one =
        |text: &str| text.contains("\"type\": \"int\"") || text.contains("\"type\": \"bool\"");
    let known = arguments.filter(|(_, text)| is_one(text) && !is_drawn(text));
    known.fold(0, |bits, (arg, _)| bits | 1_u32.checked_shl(arg as u32).unwrap_or(0))
}

/// The signature of a primitive: operands, then attributes.
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
    let results = match op {
        Op::While => "{\"type\": \"tensor\", \"list\": true}".into(),
        _ => vec!["{\"type\": \"tensor\"}"; row.results].join(", "),
    };
    let (name, arguments) = (row.name, arguments.join(", "));
    format!(
        "{{\"operator\": \"{name}\", \"overload\": \"\", \"arguments\": [{arguments}], \"results\": [{results}]}}"
    )
}

fn attribute_type(op: Op, name: &str) -> &'static str {
    match name {
        _ if choices(name).is_some() || BODIES.contains(&name) => "\"type\": \"text\"",
        "dim" | "axis" | "groups" | "offset" | "k" | "what" => "\"type\": \"int\"",
        "value" if op == Op::ConstInt => "\"type\": \"int\"",
        "value" | "eps" | "scale" | "dropout" => "\"type\": \"float\"",
        "ceil" | "causal" | "weight" | "bias" | "largest" | "inverse" | "reverse" => {
            "\"type\": \"bool\""
        }
        "dtype" => "\"type\": \"dtype\"",
        _ => "\"type\": \"int\", \"list\": true",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aten::count;
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

    /// Arguments that are dimensions, sizes or flags in one form of a row are so in all forms that have them.
    #[test]
    fn forms_of_a_row_agree_on_what_is_known() {
        for line in FORMS.lines() {
            let (row, known) = (served(line).unwrap(), known_arguments(line));
            let (arguments, _) = line.split_once("\"results\": ").unwrap();
            for arg in 0..arguments.matches("{\"name\": \"").count() {
                assert_eq!(is_known(row, arg), known >> arg & 1 == 1, "argument {arg} of {line}");
            }
        }
        let known = |name, arg| is_known(find(name).unwrap(), arg);
        assert!(known("aten::_softmax", 1) && known("aten::_softmax", 2));
        assert!(!known("aten::_softmax", 0) && !known("aten::add.Scalar", 1));
        assert!(known("torchacc::attention", 5) && !known("torchacc::attention", 7));
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
                // A loop has as many results as values that it changes.
                if node.op != Op::While {
                    assert_eq!(node.n_outputs as usize, node.op.row().results, "{:?}", node.op);
                }
                for (name, attr) in node.op.row().attrs.iter().zip(&node.attrs) {
                    let kind = match attr {
                        Attr::Int(_) if choices(name).is_some() => "\"type\": \"text\"",
                        Attr::Body(_) => "\"type\": \"text\"",
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
