//! The text form of a graph, one node a line, and back:
//!
//! ```text
//! %0: f32[2,3] = input() {index=0, type=(f32[2,3])}
//! %1: f32[3,2] = transpose(%0) {perm=[1,0]}
//! return %1
//! ```
//!
//! **Invariant:** `parse(print(g))` is `g`, except for parts that are not printed: sites, records, and the `Read`s inside
//! the arguments of CPU fallbacks (which are not used). Floats come back bit by bit.
//!
//! The form of an attribute tells its kind: `3` int, `3.0` `1e-5` `-inf` `nan` float, `true` bool, `[1,2]` ints,
//! `f32` dtype, `(f32[2], i64[])` types, `<tensor, scalar(float), "sum", …>` arguments of a CPU fallback. The host
//! operator itself is printed as its key in quotes, which means the same in every process; its number does not. The body of a
//! module is a graph in braces after the types of its operands, which are its first values.

use super::module::{body_of, graph_of};
use super::verify::verify;
use super::{Graph, Node, NodeId, Value, ValueId};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::op::arg::{Arg, NodeArg, ScalarKind};
use crate::op::module::Body;
use crate::op::{Attr, Attrs, Class, Op, Row, Ty, Tys, host};
use crate::shape::Dims;
use smallvec::SmallVec;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

// ---- print

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            write_node(f, self, node)?;
        }
        let outputs = list(&self.outputs, |v| format!("%{}", v.0));
        writeln!(f, "{}", format!("return {outputs}").trim_end())
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn write_node(f: &mut Formatter<'_>, graph: &Graph, node: &Node) -> fmt::Result {
    let row = node.op.row();
    let values: Vec<ValueId> = node.outputs().collect();
    let results = list(&values, |v| format!("%{}: {}", v.0, graph.ty(*v)));
    let operands = list(&node.inputs, |v| format!("%{}", v.0));
    write!(f, "{}", format!("{results} = {}({operands})", row.name).trim_start())?;
    if node.attrs.is_empty() {
        return writeln!(f);
    }
    let attr = |(name, attr): (&&str, &Attr)| format!("{name}={}", attr_text(row, name, attr));
    let attrs: Vec<String> = row.attrs.iter().zip(&node.attrs).map(attr).collect();
    writeln!(f, " {{{}}}", attrs.join(", "))
}

/// Whether an attribute is the number of a host operator.
fn is_host_operator(row: &Row, name: &str) -> bool {
    row.class == Class::Host && name == "op"
}

pub(crate) fn attr_text(row: &Row, name: &str, attr: &Attr) -> String {
    match attr {
        Attr::Int(i) if is_host_operator(row, name) => match host::get(*i as u32) {
            Some(op) => quoted(&op.key),
            None => i.to_string(),
        },
        Attr::Int(i) => i.to_string(),
        Attr::Float(x) => float_text(*x),
        Attr::Bool(b) => b.to_string(),
        Attr::Ints(v) => ints_text(v),
        Attr::DType(d) => d.to_string(),
        Attr::Types(types) => format!("({})", list(types, Ty::to_string)),
        Attr::Args(args) => format!("<{}>", list(args, arg_text)),
        Attr::Body(body) => body_text(body),
    }
}

/// The text of a body as an attribute: its operands' types, and its nodes.
pub fn body_text(body: &Body) -> String {
    let graph = graph_of(body);
    let inner = Graph { nodes: graph.nodes[body.operands.len()..].to_vec(), ..graph };
    let lines: String = inner.to_string().lines().map(|line| format!("    {line}\n")).collect();
    format!("({}) {{\n{lines}}}", list(&body.operands, Ty::to_string))
}

pub(crate) fn ints_text(v: &[i64]) -> String {
    format!("[{}]", v.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// Never looks like an int, and comes back bit by bit.
fn float_text(x: f64) -> String {
    match x {
        _ if x.to_bits() == f64::NAN.to_bits() => "nan".into(),
        _ if x.is_nan() => format!("nan({:x})", x.to_bits()),
        _ => format!("{x:?}"),
    }
}

fn quoted(s: &str) -> String {
    format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

const SCALAR_KINDS: [(ScalarKind, &str); 3] =
    [(ScalarKind::Bool, "bool"), (ScalarKind::Int, "int"), (ScalarKind::Float, "float")];

fn arg_text(arg: &NodeArg) -> String {
    match arg {
        Arg::None => "none".into(),
        Arg::Tensor(_) => "tensor".into(),
        Arg::Tensors(reads) => {
            let one = |r: &Option<()>| if r.is_some() { "tensor" } else { "none" }.to_string();
            format!("tensors({})", list(reads, one))
        }
        Arg::Scalar { kind, .. } => format!("scalar({})", SCALAR_KINDS[*kind as usize].1),
        Arg::Int(i) => i.to_string(),
        Arg::Float(x) => float_text(*x),
        Arg::Bool(b) => b.to_string(),
        Arg::Ints(v) => ints_text(v),
        Arg::Floats(v) => format!("floats({})", list(v, |x| float_text(*x))),
        Arg::Bools(v) => format!("bools({})", list(v, bool::to_string)),
        Arg::DType(d) => d.to_string(),
        Arg::Str(s) => quoted(s),
    }
}

// ---- parse

/// Maximum nesting depth of bodies.
const MAX_DEPTH: usize = 64;

/// The graph that `text` describes. Values must be numbered 0, 1, 2, … in order. Errors (`InvalidArgument`) begin
/// with line and column; types that differ from what the rows infer and unknown host operators are errors too.
pub fn parse(text: &str) -> Result<Graph> {
    let mut parser = Parser { text, at: 0, graph: Graph::default(), depth: 0 };
    while !parser.eat("return") {
        parser.node()?;
    }
    if !parser.at_end() {
        parser.graph.outputs = parser.separated(Parser::operand)?;
    }
    if !parser.at_end() {
        return parser.fail(parser.at, "expected the end after `return`");
    }
    verify(&parser.graph)?;
    Ok(parser.graph)
}

/// The body that [`body_text`] wrote. Errors: as [`parse`].
pub fn parse_body(text: &str) -> Result<Body> {
    let mut parser = Parser { text, at: 0, graph: Graph::default(), depth: 0 };
    parser.expect("(")?;
    let operands = parser.until(")", Parser::ty)?;
    parser.expect("{")?;
    let body = parser.body(operands)?;
    match parser.at_end() {
        true => Ok(body),
        false => parser.fail(parser.at, "expected the end after a body"),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Byte position.
    at: usize,
    graph: Graph,
    /// Number of bodies around the position.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, at: usize, message: impl Display) -> Result<T> {
        let before = &self.text[..at.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        invalid!("line {line}, column {column}: {message}")
    }

    /// Skips white space and returns the remaining text.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            return Ok(());
        }
        self.fail(self.at, format!("expected `{token}`"))
    }

    /// The longest run of characters that a word or a number is made of; may be empty.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// One item or more, separated by commas.
    fn separated<T>(&mut self, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items, possibly none, separated by commas, up to `close`.
    fn until<T>(&mut self, close: &str, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.separated(item)?;
        self.expect(close)?;
        Ok(items)
    }

    fn node(&mut self) -> Result<()> {
        if self.at_end() {
            return self.fail(self.at, "expected a node or `return`");
        }
        let start = self.at;
        let declared = if self.eat("=") { Vec::new() } else { self.separated(Parser::result)? };
        if !declared.is_empty() {
            self.expect("=")?;
        }
        self.rest();
        let at = self.at;
        let name = self.word();
        let Some(op) = Op::from_name(name) else {
            return self.fail(at, format!("no primitive is called `{name}`"));
        };
        self.expect("(")?;
        let inputs = self.until(")", Parser::operand)?;
        let attrs = self.attrs(op.row())?;
        let types = self.inferred(op, &inputs, &attrs).or_else(|e| self.fail(at, e.message))?;
        let first = self.graph.values.len() as u32;
        if declared.len() != types.len() {
            let expected = format!("{name} has {} results, not {}", types.len(), declared.len());
            return self.fail(start, expected);
        }
        let id = NodeId(self.graph.nodes.len() as u32);
        for (index, (ty, (at, number, said))) in types.into_iter().zip(declared).enumerate() {
            let next = first + index as u32;
            if number != next {
                return self.fail(at, format!("%{number} where %{next} is next"));
            }
            if said != ty {
                return self.fail(at, format!("%{number} is declared {said}, but is {ty}"));
            }
            self.graph.values.push(Value { node: id, index: index as u32, ty });
        }
        let n_outputs = self.graph.values.len() as u32 - first;
        let (inputs, first) = (inputs.into(), ValueId(first));
        self.graph.nodes.push(Node { op, attrs, inputs, first, n_outputs, site: 0, record: 0 });
        Ok(())
    }

    fn inferred(&self, op: Op, inputs: &[ValueId], attrs: &Attrs) -> Result<Tys> {
        let types: SmallVec<[&Ty; 4]> = inputs.iter().map(|&v| self.graph.ty(v)).collect();
        op.infer(&types, attrs)
    }

    /// `%3: f32[2]`, with its position.
    fn result(&mut self) -> Result<(usize, u32, Ty)> {
        self.rest();
        let at = self.at;
        self.expect("%")?;
        let number = self.number()?;
        self.expect(":")?;
        Ok((at, number, self.ty()?))
    }

    /// `%3`, made by an earlier node.
    fn operand(&mut self) -> Result<ValueId> {
        self.rest();
        let at = self.at;
        self.expect("%")?;
        let number: u32 = self.number()?;
        if number as usize >= self.graph.values.len() {
            return self.fail(at, format!("%{number} is not defined yet"));
        }
        Ok(ValueId(number))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        self.rest();
        let at = self.at;
        let word = self.word();
        match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fail(at, format!("expected a number, not `{word}`")),
        }
    }

    fn dtype(&mut self) -> Result<DType> {
        self.rest();
        let at = self.at;
        let word = self.word();
        match DType::from_name(word) {
            Some(dtype) => Ok(dtype),
            None => self.fail(at, format!("expected a dtype, not `{word}`")),
        }
    }

    fn ty(&mut self) -> Result<Ty> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let sizes = self.until("]", Parser::number::<i64>)?;
        Ok(Ty { dtype, sizes: sizes.into() })
    }

    fn attrs(&mut self, row: &Row) -> Result<Attrs> {
        let mut attrs = Attrs::new();
        for (n, name) in row.attrs.iter().enumerate() {
            self.expect(if n == 0 { "{" } else { "," })?;
            self.expect(name)?;
            self.expect("=")?;
            attrs.push(self.attr(row, name)?);
        }
        if !row.attrs.is_empty() {
            self.expect("}")?;
        }
        Ok(attrs)
    }

    fn attr(&mut self, row: &Row, name: &str) -> Result<Attr> {
        let at = self.at;
        if self.eat("(") {
            let types = self.until(")", Parser::ty)?;
            return match self.eat("{") {
                true => Ok(Attr::Body(Arc::new(self.body(types)?))),
                false => Ok(Attr::Types(types)),
            };
        }
        if self.eat("<") {
            return Ok(Attr::Args(self.until(">", Parser::arg)?));
        }
        match self.arg()? {
            Arg::Int(i) => Ok(Attr::Int(i)),
            Arg::Float(x) => Ok(Attr::Float(x)),
            Arg::Bool(b) => Ok(Attr::Bool(b)),
            Arg::Ints(v) => Ok(Attr::Ints(v)),
            Arg::DType(d) => Ok(Attr::DType(d)),
            Arg::Str(key) if is_host_operator(row, name) => match host::by_key(&key) {
                Some(id) => Ok(Attr::Int(id as i64)),
                None => self.fail(at, format!("no host operator has the key {}", quoted(&key))),
            },
            _ => self.fail(at, format!("`{name}` cannot be this")),
        }
    }

    /// The rest of a body with these operands.
    fn body(&mut self, operands: Vec<Ty>) -> Result<Body> {
        if self.depth == MAX_DEPTH {
            return self.fail(self.at, format!("bodies within each other, more than {MAX_DEPTH}"));
        }
        self.depth += 1;
        let count = operands.len();
        let none = Body { operands, nodes: Vec::new(), results: Vec::new() };
        let outer = std::mem::replace(&mut self.graph, graph_of(&none));
        while !self.eat("return") {
            self.node()?;
        }
        self.graph.outputs = self.until("}", Parser::operand)?;
        self.depth -= 1;
        Ok(body_of(&std::mem::replace(&mut self.graph, outer), count))
    }

    fn arg(&mut self) -> Result<NodeArg> {
        if self.eat("[") {
            return Ok(Arg::Ints(Dims::from_vec(self.until("]", Parser::number)?)));
        }
        if self.eat("\"") {
            return self.string().map(Arg::Str);
        }
        self.rest();
        let at = self.at;
        match self.word() {
            "none" => Ok(Arg::None),
            "tensor" => Ok(Arg::Tensor(())),
            "true" => Ok(Arg::Bool(true)),
            "false" => Ok(Arg::Bool(false)),
            "scalar" => self.scalar(),
            "tensors" => {
                self.expect("(")?;
                Ok(Arg::Tensors(self.until(")", Parser::optional_tensor)?))
            }
            "floats" => {
                self.expect("(")?;
                Ok(Arg::Floats(self.until(")", Parser::float)?))
            }
            "bools" => {
                self.expect("(")?;
                Ok(Arg::Bools(self.until(")", Parser::number)?))
            }
            word => {
                if let Some(dtype) = DType::from_name(word) {
                    return Ok(Arg::DType(dtype));
                }
                if let Ok(int) = word.parse() {
                    return Ok(Arg::Int(int));
                }
                self.at = at;
                self.float().map(Arg::Float)
            }
        }
    }

    /// The rest of `scalar(float)`.
    fn scalar(&mut self) -> Result<NodeArg> {
        self.expect("(")?;
        self.rest();
        let at = self.at;
        let word = self.word();
        let Some((kind, _)) = SCALAR_KINDS.iter().find(|(_, name)| *name == word) else {
            return self.fail(at, format!("no kind of scalar is called `{word}`"));
        };
        self.expect(")")?;
        Ok(Arg::Scalar { kind: *kind, number: () })
    }

    fn optional_tensor(&mut self) -> Result<Option<()>> {
        if self.eat("none") {
            return Ok(None);
        }
        self.expect("tensor")?;
        Ok(Some(()))
    }

    fn float(&mut self) -> Result<f64> {
        self.rest();
        let at = self.at;
        let word = self.word();
        if word == "nan" && self.eat("(") {
            let bits = u64::from_str_radix(self.word(), 16);
            self.expect(")")?;
            return match bits {
                Ok(bits) => Ok(f64::from_bits(bits)),
                Err(_) => self.fail(at, "expected the bits of a NaN in hexadecimal"),
            };
        }
        match word.parse() {
            Ok(x) => Ok(x),
            Err(_) => self.fail(at, format!("expected a value, not `{word}`")),
        }
    }

    /// The rest of a string, up to its closing quote.
    fn string(&mut self) -> Result<String> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.text[start..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + i + 1;
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, c)) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        self.fail(start, "this string has no end")
    }
}
