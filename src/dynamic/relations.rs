//! Relations between the numbers of a trace, whatever its sizes: which of them are sizes or offsets, and which are sums or
//! products of others.

use crate::number::{Number, Numbers};
use crate::record::{Arg, Operator, Origin, Read, Record, Records, View};
use crate::shape::{Layout, contiguous_strides};
use crate::symbolic::SMALLEST;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    Size,
    Offset,
    /// It follows from sizes (a stride, bytes), or is an attribute.
    #[default]
    Other,
}

impl Role {
    /// The least number that is not a special case: for offsets, any after the first element.
    pub fn least(self) -> i64 {
        if self == Role::Offset { 1 } else { SMALLEST }
    }
}

/// A number that is the sum of others, each times a factor: their positions among the numbers of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    pub whole: usize,
    pub parts: Vec<(i64, usize)>,
}

/// A number that is the product of others and a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub whole: usize,
    pub times: i64,
    pub factors: Vec<usize>,
}

#[derive(Default)]
pub struct Relations {
    roles: Vec<Role>,
    sums: Vec<Sum>,
    products: Vec<Product>,
    /// Sizes of operands from outside that are used alike, such as the rows of each of many experts.
    siblings: Vec<Vec<usize>>,
    /// For each offset, the strides of its view.
    steps: HashMap<usize, Vec<usize>>,
}

impl Relations {
    /// Those that the trace's operations impose: a concatenation adds up sizes, a slice begins where the one before it ends,
    /// slices up to the end make up the whole, bytes and strides are products of sizes.
    pub fn of(records: &Records) -> Relations {
        let mut positions = records.clone();
        let mut count = 0;
        positions.numbers(&mut |number| {
            match number {
                Number::Int(n) | Number::Size(n) => *n = count,
                Number::Bytes(n) => *n = count as u64,
                Number::Float(_) => return,
            }
            count += 1;
        });
        let mut roles = vec![Role::Other; count as usize];
        let mut has = |role: Role, list: &[i64]| {
            list.iter().for_each(|&position| roles[position as usize] = role);
        };
        let mut products = Vec::new();
        let mut steps = HashMap::new();
        for value in &positions.values {
            has(Role::Size, &value.format.sizes);
            let factors = value.format.sizes.iter().map(|&at| at as usize).collect();
            let times = value.format.dtype.size() as i64;
            products.push(Product { whole: value.nbytes, times, factors });
        }
        for (record, at) in records.records.iter().zip(&positions.records) {
            for (layout, at) in layouts(record).into_iter().zip(layouts(at)) {
                has(Role::Size, &at.sizes);
                has(Role::Offset, &[at.offset]);
                steps.insert(at.offset as usize, at.strides.iter().map(|&s| s as usize).collect());
                strides(layout, at, &mut products);
            }
        }
        let mut sums = Vec::new();
        concatenations(records, &positions, &mut sums);
        slices(records, &positions, &mut sums);
        let siblings = siblings(records, &positions);
        Relations { roles, sums, products, siblings, steps }
    }

    /// The step of an offset: the largest stride of its view that never varies and always divides it; 1 without one.
    pub fn step(&self, position: usize, examples: &[Vec<i64>]) -> i64 {
        let strides = self.steps.get(&position).into_iter().flatten();
        let is_step = |at: usize| {
            let stride = examples[0][at];
            let divides = |e: &Vec<i64>| e[at] == stride && e[position] % stride == 0;
            stride > 1 && examples.iter().all(divides)
        };
        strides.filter(|&&at| is_step(at)).map(|&at| examples[0][at]).max().unwrap_or(1)
    }

    /// Groups of sizes, each of which varies independently if some of them do.
    pub fn siblings(&self) -> impl Iterator<Item = &[usize]> {
        self.siblings.iter().map(Vec::as_slice)
    }

    pub fn role(&self, position: usize) -> Role {
        self.roles.get(position).copied().unwrap_or_default()
    }

    /// The sums that hold in all of these traces.
    pub fn sums<'a>(&'a self, examples: &'a [Vec<i64>]) -> impl Iterator<Item = &'a Sum> {
        self.sums.iter().filter(|sum| examples.iter().all(|numbers| sum.holds(numbers)))
    }

    /// The products that hold in all of these traces.
    pub fn products<'a>(&'a self, examples: &'a [Vec<i64>]) -> impl Iterator<Item = &'a Product> {
        self.products.iter().filter(|product| examples.iter().all(|numbers| product.holds(numbers)))
    }
}

impl Sum {
    fn holds(&self, numbers: &[i64]) -> bool {
        let of = |sum: i64, &(times, at): &(i64, usize)| {
            sum.checked_add(times.checked_mul(numbers[at])?)
        };
        self.parts.iter().try_fold(0, of) == Some(numbers[self.whole])
    }
}

impl Product {
    fn holds(&self, numbers: &[i64]) -> bool {
        let of = |product: i64, &at: &usize| product.checked_mul(numbers[at]);
        self.factors.iter().try_fold(self.times, of) == Some(numbers[self.whole])
    }
}

fn layouts(record: &Record) -> Vec<&Layout> {
    let reads = record.args.iter().flat_map(Arg::tensors).map(|read| &read.view.layout);
    reads.chain(record.outs.iter().map(|out| &out.view.layout)).collect()
}

/// Strides that equal the span of another dimension.
fn strides(layout: &Layout, at: &Layout, products: &mut Vec<Product>) {
    let rank = layout.rank();
    for d in 0..rank {
        let spans = |e: &usize| {
            *e != d
                && layout.sizes[*e] > 1
                && layout.strides[*e] * layout.sizes[*e] == layout.strides[d]
        };
        if let Some(e) = (0..rank).rev().find(spans) {
            let factors = vec![at.strides[e] as usize, at.sizes[e] as usize];
            products.push(Product { whole: at.strides[d] as usize, times: 1, factors });
        }
    }
}

/// Tensors whose sizes in a dimension add up to the result's.
fn concatenations<'a>(records: &'a Records, positions: &'a Records, sums: &mut Vec<Sum>) {
    let reads = |arg: &'a Arg| -> Vec<&'a Read> { arg.tensors().collect() };
    for (record, position) in records.records.iter().zip(&positions.records) {
        let ([out], [out_at]) = (&record.outs[..], &position.outs[..]) else { continue };
        for (arg, at) in record.args.iter().zip(&position.args) {
            let (Arg::Tensors(_), parts, parts_at) = (arg, reads(arg), reads(at)) else { continue };
            for (d, &whole) in out.view.layout.sizes.iter().enumerate() {
                let of = |reads: &[&Read]| -> Option<Vec<i64>> {
                    reads.iter().map(|read| read.view.layout.sizes.get(d).copied()).collect()
                };
                let (Some(sizes), Some(at)) = (of(&parts), of(&parts_at)) else { continue };
                if sizes.len() > 1 && sizes.iter().sum::<i64>() == whole {
                    let whole = out_at.view.layout.sizes[d] as usize;
                    let parts = at.iter().map(|&at| (1, at as usize)).collect();
                    sums.push(Sum { whole, parts });
                }
            }
        }
    }
}

/// Groups of sizes: the same dimension of operands of one type that the same operators read.
fn siblings(records: &Records, positions: &Records) -> Vec<Vec<usize>> {
    let mut uses: Vec<Vec<(Operator, usize)>> = vec![Vec::new(); records.values.len()];
    for record in &records.records {
        for (index, arg) in record.args.iter().enumerate() {
            arg.tensors().for_each(|read| uses[read.value as usize].push((record.op, index)));
        }
    }
    let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
    for ((value, at), uses) in records.values.iter().zip(&positions.values).zip(uses) {
        if matches!(value.origin, Origin::Leaf(_)) {
            for (d, &at) in at.format.sizes.iter().enumerate() {
                let key = (value.format.dtype, value.format.sizes.len(), d, uses.clone());
                groups.entry(key).or_default().push(at as usize);
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().filter(|g| g.len() > 1).collect();
    groups.sort();
    groups
}

/// A slice of the rest of a value begins where that many elements are left.
fn rests(view: &View, at: &View, whole: (&[i64], &[i64]), sums: &mut Vec<Sum>) {
    let layout = &view.layout;
    for (e, stride) in contiguous_strides(whole.0).into_iter().enumerate() {
        let is_rest = |&d: &usize| {
            let length = layout.sizes[d].saturating_mul(layout.strides[d]);
            layout.offset.saturating_add(length) == whole.0[e].saturating_mul(stride)
        };
        if let Some(d) = (0..layout.rank()).find(is_rest).filter(|_| layout.offset > 0) {
            let (end, size) = (whole.1[e] as usize, at.layout.sizes[d] as usize);
            let parts = vec![(stride, end), (-layout.strides[d], size)];
            sums.push(Sum { whole: at.layout.offset as usize, parts });
        }
    }
}

/// Slices of a value that follow one another; if they reach from its start to its end, their sizes add up to its own.
fn slices(records: &Records, positions: &Records, sums: &mut Vec<Sum>) {
    let mut of_values: Vec<Vec<(&View, &View)>> = vec![Vec::new(); records.values.len()];
    for (record, position) in records.records.iter().zip(&positions.records) {
        let at = position.args.iter().flat_map(Arg::tensors);
        for (read, at) in record.args.iter().flat_map(Arg::tensors).zip(at) {
            let views = &mut of_values[read.value as usize];
            if views.iter().all(|(view, _)| **view != read.view) {
                views.push((&read.view, &at.view));
            }
        }
    }
    for (value, mut views) in of_values.into_iter().enumerate() {
        // A view of the whole value comes before its slices.
        views.sort_by_key(|(view, _)| {
            let layout = &view.layout;
            (layout.strides.clone(), layout.offset, Reverse(layout.sizes.clone()))
        });
        let whole = (&records.values[value].format.sizes, &positions.values[value].format.sizes);
        views.iter().for_each(|(view, at)| rests(view, at, (whole.0, whole.1), sums));
        // The dimension along which slices follow one another, and their sizes from the start on.
        let mut run: Option<(usize, Vec<(i64, usize)>)> = None;
        for pair in views.windows(2) {
            let [(view, at), (next, next_at)] = pair else { continue };
            let (this, next) = (&view.layout, &next.layout);
            let length = next.offset - this.offset;
            let meets = |d: usize| length > 0 && this.sizes[d] * this.strides[d] == length;
            let d = (0..this.rank()).find(|&d| this.strides == next.strides && meets(d));
            let Some(d) = d else {
                run = None;
                continue;
            };
            let size = at.layout.sizes[d] as usize;
            let parts = vec![(1, at.layout.offset as usize), (this.strides[d], size)];
            sums.push(Sum { whole: next_at.layout.offset as usize, parts });
            run = match run {
                Some((along, sizes)) if along == d => Some((d, sizes)),
                _ => (this.offset == 0).then(|| (d, vec![(1, size)])),
            };
            let Some((_, sizes)) = &mut run else { continue };
            sizes.push((1, next_at.layout.sizes[d] as usize));
            let (stride, end) = (next.strides[d], next.offset + next.sizes[d] * next.strides[d]);
            let is_all =
                |&e: &usize| contiguous_strides(whole.0)[e] == stride && whole.0[e] * stride == end;
            if let Some(e) = (0..whole.0.len()).find(is_all) {
                sums.push(Sum { whole: whole.1[e] as usize, parts: sizes.clone() });
            }
        }
    }
}
