//! From a module as written to one graph: calls are inlined, short loops with a known number of rounds are unrolled.

use super::cursor::error_at;
use super::literal::{Elements, Literal};
use super::tree::{Function, Name, Operation, Region, is_return};
use super::types::type_name;
use super::value::{Value, Values};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::graph::ValueId;
use crate::graph::math::{Math, V};
use crate::invalid;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::{Class, Op, Ty};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Maximum number of operations after inlining and unrolling: a wrong loop bound must not fill the memory.
const MAX_OPERATIONS: usize = 1 << 20;
/// Maximum nesting of calls and regions: each takes stack, and threads may have little.
const MAX_LEVELS: usize = 128;
/// Values with more elements are not computed while a module is read.
const MAX_KNOWN: i64 = 256;
/// Maximum number of elements of a constant that is written into the graph; larger ones are arrays beside it.
const MAX_WRITTEN: usize = 16;

/// Names that are visible in a region.
pub struct Scope<'s, 'a, 'm> {
    outer: Option<&'s Scope<'s, 'a, 'm>>,
    values: HashMap<&'a str, Vec<Value<'m>>>,
    /// Whether numbers stand for whole arrays: in the body of a reduction.
    pub lifted: bool,
}

impl<'s, 'a, 'm> Scope<'s, 'a, 'm> {
    /// A scope that sees no outer one.
    pub fn alone(values: HashMap<&'a str, Values<'m>>) -> Scope<'s, 'a, 'm> {
        Scope { outer: None, values, lifted: false }
    }

    fn find(&self, name: Name<'a>) -> Result<Value<'m>> {
        match self.all_of(name)?.get(name.index) {
            Some(value) => Ok(*value),
            None => Err(error_at(name.at, format!("%{} has no such result", name.name))),
        }
    }

    /// All values of a name, regardless of its index.
    pub fn all_of(&self, name: Name<'a>) -> Result<&[Value<'m>]> {
        match (self.values.get(name.name), self.outer) {
            (Some(values), _) => Ok(values),
            (None, Some(outer)) => outer.all_of(name),
            (None, None) => Err(error_at(name.at, format!("%{} is not defined here", name.name))),
        }
    }
}

/// Computes the results of an operation from its operands.
pub type Rule = for<'c, 'a, 'm> fn(&Call<'c, 'a, 'm>) -> Result<Values<'m>>;
/// Looks up an operation by its name: the least number of operands, and its rule.
pub type Rules = fn(&str) -> Option<(usize, Rule)>;

pub struct Lowering<'a, 'm> {
    pub math: &'m Math,
    pub rules: Rules,
    functions: HashMap<&'a str, &'a Function<'a>>,
    n_inputs: usize,
    /// Constants outside the graph: inputs that follow those of the program.
    pub constants: RefCell<Vec<Array>>,
    /// Numbers of values that depend on no input, for the part of the graph that was examined.
    known: RefCell<Vec<Option<Array>>>,
    operations: Cell<usize>,
    depth: Cell<usize>,
    /// Whether the branch that is being lowered is taken.
    pub taken: Cell<Option<V<'m>>>,
}

/// One operation with its operands.
pub struct Call<'c, 'a, 'm> {
    pub op: &'c Operation<'a>,
    pub lowering: &'c Lowering<'a, 'm>,
    pub scope: &'c Scope<'c, 'a, 'm>,
    pub x: Vec<Value<'m>>,
}

impl<'a, 'm> Lowering<'a, 'm> {
    pub fn new(
        math: &'m Math,
        rules: Rules,
        all: &'a [Function<'a>],
        n_inputs: usize,
    ) -> Lowering<'a, 'm> {
        Lowering {
            math,
            rules,
            functions: all.iter().map(|f| (f.name, f)).collect(),
            n_inputs,
            constants: RefCell::default(),
            known: RefCell::default(),
            operations: Cell::new(0),
            depth: Cell::new(0),
            taken: Cell::default(),
        }
    }

    /// A lowering of the same functions to another graph.
    pub fn alone<'n>(&self, math: &'n Math, n_inputs: usize) -> Lowering<'a, 'n> {
        Lowering {
            math,
            rules: self.rules,
            functions: self.functions.clone(),
            n_inputs,
            constants: RefCell::default(),
            known: RefCell::default(),
            operations: Cell::new(self.operations.get()),
            depth: Cell::new(self.depth.get()),
            taken: Cell::default(),
        }
    }

    /// Number of operations that have been lowered.
    pub fn operations(&self) -> usize {
        self.operations.get()
    }

    /// Takes the number of operations from `other`, which began with this one's.
    pub fn includes(&self, other: &Lowering) {
        self.operations.set(other.operations.get());
    }

    pub fn call(&self, name: &str, args: Values<'m>) -> Result<Values<'m>> {
        let Some(function) = self.functions.get(name) else {
            return invalid!("this module has no function `@{name}`");
        };
        let types: Vec<Ty> = args.iter().map(|x| x.ty()).collect();
        if types != function.args {
            return invalid!("the arguments are not those of `@{name}`");
        }
        self.region(&function.body, args, None, false)
    }

    /// The results of a region for `args`.
    pub fn region(
        &self,
        region: &Region<'a>,
        args: Values<'m>,
        outer: Option<&Scope<'_, 'a, 'm>>,
        lifted: bool,
    ) -> Result<Values<'m>> {
        let _level = Level::enter(&self.depth)?;
        if region.args.len() != args.len() {
            return invalid!("a region of {} arguments for {}", region.args.len(), args.len());
        }
        let values = region.args.iter().copied().zip(args.iter().map(|&x| vec![x])).collect();
        let mut scope = Scope { outer, values, lifted };
        for op in &region.body {
            let operands = op.operands.iter().map(|&name| scope.find(name));
            let x = operands.collect::<Result<Values>>().map_err(|e| within(op, e))?;
            if is_return(op.name) {
                return Ok(x);
            }
            let call = Call { op, lowering: self, scope: &scope, x };
            let mut results = call.run().map_err(|e| within(op, e))?.into_iter();
            for &(name, count) in &op.results {
                scope.values.insert(name, results.by_ref().take(count).collect());
            }
        }
        invalid!("a region ends without returning")
    }

    /// Computes the graph's new values that depend on constants alone.
    fn learn(&self) {
        let mut known = self.known.borrow_mut();
        self.math.graph(|graph| {
            while known.len() < graph.values.len() {
                let node = graph.node(graph.values[known.len()].node);
                let types: Vec<Ty> = node.outputs().map(|v| graph.ty(v).clone()).collect();
                let is_pure = !matches!(node.op, Op::Input | Op::Scalar | Op::Expect)
                    && !node.op.draws()
                    && !matches!(node.op.class(), Class::Host | Class::Nested);
                let operands: Option<Vec<&Array>> =
                    node.inputs.iter().map(|v| known[v.0 as usize].as_ref()).collect();
                let results = match operands {
                    Some(operands) if is_pure && types.iter().all(|ty| ty.numel() <= MAX_KNOWN) => {
                        evaluate(node.op, &operands, &node.attrs, &types).ok()
                    }
                    _ => None,
                };
                match results {
                    Some(arrays) => known.extend(arrays.into_iter().map(Some)),
                    None => known.extend(types.iter().map(|_| None)),
                }
            }
        });
    }

    /// The numbers of a value, if they are few and depend on no input.
    pub fn known(&self, v: V<'m>) -> Option<Array> {
        self.learn();
        self.known.borrow().get(v.id.0 as usize)?.clone()
    }

    /// The number that all elements equal, if it is known.
    pub fn splat(&self, v: V<'m>) -> Option<Array> {
        let maker = |id: ValueId| {
            self.math.graph(|graph| {
                let node = graph.maker(id);
                let same = matches!(node.op, Op::Broadcast | Op::Reshape | Op::Transpose);
                same.then(|| node.inputs[0])
            })
        };
        let mut id = v.id;
        loop {
            if let Some(array) = self.known(self.math.wrap(id)) {
                let first = (!array.is_empty()).then(|| array.raw(0).to_vec())?;
                let all = (0..array.len()).all(|i| array.raw(i) == first);
                return all.then(|| Array { ty: Ty::new(array.ty.dtype, &[]), bytes: first });
            }
            id = maker(id)?;
        }
    }

    pub fn known_int(&self, v: V<'m>) -> Option<i64> {
        let array = self.splat(v)?;
        (!array.ty.dtype.is_float()).then(|| array.i64(0))
    }

    /// Replaces a known integer by a constant, so that counters of loops leave no sums behind.
    fn settled(&self, value: Value<'m>) -> Value<'m> {
        let dtype = value.v.dtype();
        if !dtype.is_int() && dtype != DType::Bool || value.v.numel() != 1 {
            return value;
        }
        match self.known(value.v) {
            Some(array) => {
                let sizes = value.v.sizes();
                value.map(|_| self.math.constant_int(array.i64(0), dtype).reshape(&sizes))
            }
            None => value,
        }
    }

    pub fn literal(&self, literal: &Literal) -> Result<Value<'m>> {
        let ty = &literal.ty;
        let made = match literal.elements()? {
            Elements::Splat(one) if ty.dtype.is_complex() => {
                let pair = self.written(&one).reshape(&[2]);
                let sizes: Vec<i64> = ty.sizes.iter().copied().chain([2]).collect();
                pair.broadcast(&sizes).paired()
            }
            Elements::Splat(one) => self.written(&one).broadcast(&ty.sizes),
            Elements::All(all) if ty.dtype.is_complex() => self.array(all).paired(),
            Elements::All(all) => self.array(all),
        };
        Ok(Value::new(made, ty.dtype))
    }

    /// An array as a constant of the graph, or beside it.
    pub fn array(&self, array: Array) -> V<'m> {
        let first = (!array.is_empty()).then(|| array.raw(0).to_vec());
        if first.as_ref().is_some_and(|first| (0..array.len()).all(|i| array.raw(i) == first)) {
            let one = Array { ty: Ty::new(array.ty.dtype, &[]), bytes: first.unwrap_or_default() };
            return self.written(&one).broadcast(&array.ty.sizes);
        }
        if array.len() <= MAX_WRITTEN {
            return self.written(&array);
        }
        let mut constants = self.constants.borrow_mut();
        let index = (self.n_inputs + constants.len()) as u32;
        let input = self.math.build(|b| b.input(index, array.ty.clone()));
        self.learn();
        if array.ty.numel() <= MAX_KNOWN && array.ty.dtype.has_arithmetic() {
            self.known.borrow_mut()[input.id.0 as usize] = Some(array.clone());
        }
        constants.push(array);
        input
    }

    /// An array of few elements, number by number.
    fn written(&self, array: &Array) -> V<'m> {
        let (dtype, sizes) = (array.ty.dtype, &array.ty.sizes);
        let is_float8 = Float8::of(dtype).is_some();
        let number = |i: usize| match dtype {
            _ if is_float8 => self.math.constant_int(array.raw(i)[0] as i64, DType::U8),
            _ if dtype.is_float() => self.math.constant(array.f64(i), dtype),
            _ => self.math.constant_int(array.i64(i), dtype),
        };
        let parts: Vec<V> = (0..array.len()).map(|i| number(i).reshape(&[1])).collect();
        let flat = match parts.is_empty() {
            true => self.math.zeros(dtype, &[0]),
            false => self.math.concat(&parts, 0),
        };
        let flat = if is_float8 { flat.bitcast(dtype) } else { flat };
        flat.reshape(sizes)
    }
}

/// One more level of calls and regions, for as long as it lives.
struct Level<'d>(&'d Cell<usize>);

impl<'d> Level<'d> {
    fn enter(depth: &'d Cell<usize>) -> Result<Level<'d>> {
        if depth.get() >= MAX_LEVELS {
            return invalid!("calls within each other, regions included, are {MAX_LEVELS} at most");
        }
        depth.set(depth.get() + 1);
        Ok(Level(depth))
    }
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn within(op: &Operation, error: crate::error::Error) -> crate::error::Error {
    if error.site != 0 { error } else { error.within(op.name).at(op.at as u64 + 1) }
}

impl<'c, 'a, 'm> Call<'c, 'a, 'm> {
    fn run(&self) -> Result<Values<'m>> {
        let done = self.lowering.operations.get();
        if done >= MAX_OPERATIONS {
            return invalid!(
                "more than {MAX_OPERATIONS} operations, with calls and loops written out"
            );
        }
        self.lowering.operations.set(done + 1);
        let Some((operands, rule)) = (self.lowering.rules)(self.op.name) else {
            return invalid!("this operation is not supported");
        };
        let results = self.apply(operands, rule);
        self.lowering.math.check()?;
        let results: Values = results?.into_iter().map(|x| self.lowering.settled(x)).collect();
        if !self.scope.lifted {
            self.check_types(&results)?;
        }
        Ok(results)
    }

    /// Applies a rule for at least this many `operands`.
    pub fn apply(&self, operands: usize, rule: Rule) -> Result<Values<'m>> {
        match operands.saturating_sub(self.x.len()) {
            0 => rule(self),
            missing => invalid!("{missing} operands are missing"),
        }
    }

    fn check_types(&self, results: &[Value<'m>]) -> Result<()> {
        if results.len() != self.op.types.len() {
            return invalid!("{} results, but {} types", results.len(), self.op.types.len());
        }
        for (result, said) in results.iter().zip(&self.op.types) {
            let ty = result.ty();
            if ty != *said {
                return invalid!(
                    "the result is said to be {}, but is {}",
                    type_name(said),
                    type_name(&ty)
                );
            }
        }
        Ok(())
    }

    /// The declared type of the only result.
    pub fn said(&self) -> Result<&'c Ty> {
        match &self.op.types[..] {
            [ty] => Ok(ty),
            types => invalid!("one result is expected, not {}", types.len()),
        }
    }

    pub fn math(&self) -> &'m Math {
        self.lowering.math
    }

    pub fn region(&self, n: usize) -> Result<&'c Region<'a>> {
        match self.op.regions.get(n) {
            Some(region) => Ok(region),
            None => invalid!("region {n} is missing"),
        }
    }
}
