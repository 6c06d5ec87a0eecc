//! Products of matrices, convolutions, Fourier transforms.

use super::shape::{padded, reversed};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{V, complex};
use crate::invalid;
use crate::op::{Attr, Attrs, Op};
use crate::shape::{Dims, numel};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::Call;
use crate::stablehlo::options::dims;
use crate::stablehlo::types::{carrier, is_carried};
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;

/// Both operands, cast to the dtype of the result.
fn operands<'m>(c: &Call<'_, '_, 'm>, to: DType) -> Result<[V<'m>; 2]> {
    let both = [c.x[0], c.x[1]];
    let computed = |x: Value<'m>| -> Result<V<'m>> {
        let same = x.dtype == to || !x.dtype.is_complex() && !is_carried(x.dtype);
        match same && !to.is_complex() {
            true => Ok(x.v.cast(carrier(to))),
            false => invalid!("products of {} to {to} are not supported", x.dtype),
        }
    };
    Ok([computed(both[0])?, computed(both[1])?])
}

/// Two lists of dimensions, of the left and of the right operand.
fn both<'a>(
    c: &Call<'_, 'a, '_>,
    pretty: &str,
    record: [&str; 2],
    ranks: [usize; 2],
) -> Result<[Vec<usize>; 2]> {
    let lists = match (c.find(&[pretty]), c.find(&["dot_dimension_numbers"])) {
        (Some(Attribute::List(both)), _) if both.len() == 2 => [both[0].ints()?, both[1].ints()?],
        (Some(_), _) => return invalid!("`{pretty}` is not understood"),
        (None, Some(numbers)) => {
            let list = |name: &str| numbers.entry(name).map_or(Ok(Vec::new()), Attribute::ints);
            [list(record[0])?, list(record[1])?]
        }
        (None, None) => [Vec::new(), Vec::new()],
    };
    if lists[0].len() != lists[1].len() {
        return invalid!("{pretty}: {} dimensions and {}", lists[0].len(), lists[1].len());
    }
    Ok([dims(&lists[0], ranks[0])?, dims(&lists[1], ranks[1])?])
}

pub fn dot_general<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let ranks = [c.x[0].v.rank(), c.x[1].v.rank()];
    let names = ["lhs_batching_dimensions", "rhs_batching_dimensions"];
    let batch = both(c, "batching_dims", names, ranks)?;
    let names = ["lhs_contracting_dimensions", "rhs_contracting_dimensions"];
    let contracted = both(c, "contracting_dims", names, ranks)?;
    product(c, batch, contracted)
}

/// Contracts the last dimension of the left operand with the first of the right one.
pub fn dot<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [a, b] = [c.x[0].v.rank(), c.x[1].v.rank()];
    if a == 0 || b == 0 {
        return invalid!("numbers are multiplied, not contracted");
    }
    product(c, [Vec::new(), Vec::new()], [vec![a - 1], vec![0]])
}

fn product<'m>(
    c: &Call<'_, '_, 'm>,
    batch: [Vec<usize>; 2],
    contracted: [Vec<usize>; 2],
) -> Result<Values<'m>> {
    let ty = c.said()?;
    let [a, b] = operands(c, ty.dtype)?;
    let (a_sizes, b_sizes) = (a.sizes(), b.sizes());
    for ([left, right], what) in [(&batch, "batching"), (&contracted, "contracting")] {
        if left.iter().zip(right).any(|(&i, &j)| a_sizes[i] != b_sizes[j]) {
            return invalid!("{what} dimensions of {a_sizes:?} and {b_sizes:?} differ");
        }
    }
    if batch[0].iter().any(|d| contracted[0].contains(d))
        || batch[1].iter().any(|d| contracted[1].contains(d))
    {
        return invalid!("a dimension is batched and contracted");
    }
    let free = |rank: usize, n: usize| -> Vec<usize> {
        (0..rank).filter(|d| !batch[n].contains(d) && !contracted[n].contains(d)).collect()
    };
    let (free_a, free_b) = (free(a_sizes.len(), 0), free(b_sizes.len(), 1));
    let pick = |sizes: &Dims, dims: &[usize]| -> Dims { dims.iter().map(|&d| sizes[d]).collect() };
    let (of_batch, m, n) =
        (pick(&a_sizes, &batch[0]), pick(&a_sizes, &free_a), pick(&b_sizes, &free_b));
    let k = numel(&pick(&a_sizes, &contracted[0]));
    let order =
        |lists: [&[usize]; 3]| -> Dims { lists.concat().iter().map(|&d| d as i64).collect() };
    let matrix = |rows: &Dims, columns: i64| [&of_batch[..], &[numel(rows), columns]].concat();
    let left = a.transpose(&order([&batch[0], &free_a, &contracted[0]])).reshape(&matrix(&m, k));
    let of_right = [&of_batch[..], &[k, numel(&n)]].concat();
    let right = b.transpose(&order([&batch[1], &contracted[1], &free_b])).reshape(&of_right);
    c.math().check()?;
    let result = [&of_batch[..], &m[..], &n[..]].concat();
    let y = left.matmul(right).reshape(&result);
    Ok(vec![Value::new(y, ty.dtype)])
}

/// The position of each dimension of an array: two letters, and the numbers of spatial dimensions.
struct Places {
    first: usize,
    second: usize,
    spatial: Vec<usize>,
}

fn places(list: &Attribute, [first, second]: [&str; 2], rank: usize) -> Result<Places> {
    let Attribute::List(items) = list else { return invalid!("dimension numbers are lists") };
    let word = |wanted: &str| {
        let is = |item: &&Attribute| matches!(item, Attribute::Choice(word) if *word == wanted);
        items.iter().position(|item| is(&item))
    };
    let number =
        |n: i64| items.iter().position(|item| matches!(item, Attribute::Int(m) if *m == n));
    let spatial: Option<Vec<usize>> =
        (0..items.len().saturating_sub(2)).map(|n| number(n as i64)).collect();
    match (word(first), word(second), spatial) {
        (Some(first), Some(second), Some(spatial)) if items.len() == rank => {
            Ok(Places { first, second, spatial })
        }
        _ => invalid!("dimension numbers do not name {rank} dimensions"),
    }
}

impl Places {
    fn perm(&self) -> Dims {
        let order = [self.first, self.second].into_iter().chain(self.spatial.iter().copied());
        order.map(|d| d as i64).collect()
    }
}

pub fn convolution<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let ty = c.said()?;
    let [x, w] = operands(c, ty.dtype)?;
    let Attribute::List(lists) = c.attr(&["dimension_numbers", "dim_numbers"])? else {
        return invalid!("dimension numbers are not understood");
    };
    let [of_x, of_w, of_y] = &lists[..] else { return invalid!("three lists are expected") };
    let rank = x.rank();
    if rank < 2 || w.rank() != rank || ty.rank() != rank {
        return invalid!("operands and result have different numbers of dimensions");
    }
    let (of_x, of_w) = (places(of_x, ["b", "f"], rank)?, places(of_w, ["o", "i"], rank)?);
    let of_y = places(of_y, ["b", "f"], rank)?;
    let n = rank - 2;
    if n > 3 {
        return invalid!("one to three spatial dimensions are supported, not {n}");
    }
    let window = |generic: &str, pretty: &str, default: i64, count: usize| -> Result<Dims> {
        let found = c.find(&[generic]).or_else(|| c.find(&["window"])?.entry(pretty));
        let list: Dims = match found {
            Some(value) => value.ints()?.into(),
            None => Dims::from_elem(default, count),
        };
        match list.len() == count && list.iter().all(|n| (-(1 << 31)..1 << 31).contains(n)) {
            true => Ok(list),
            false => invalid!("{generic}: expected {count} numbers"),
        }
    };
    let mut stride = window("window_strides", "stride", 1, n)?;
    let padding = window("padding", "pad", 0, 2 * n)?;
    let of_base = window("lhs_dilation", "lhs_dilate", 1, n)?;
    let mut dilation = window("rhs_dilation", "rhs_dilate", 1, n)?;
    let flipped = window("window_reversal", "reverse", 0, n)?;
    if [&stride, &of_base, &dilation].iter().any(|list| list.iter().any(|&n| n < 1)) {
        return invalid!("strides and dilations are 1 or more");
    }
    let groups = c.int_or(&["feature_group_count"], 1)?;
    let batches = c.int_or(&["batch_group_count"], 1)?;
    let mut x = x.transpose(&of_x.perm());
    let mut w = w.transpose(&of_w.perm());
    c.math().check()?;
    for d in 0..n {
        if flipped[d] != 0 {
            w = reversed(w, d + 2);
        }
    }
    let zero = c.math().constant(0.0, x.dtype());
    // The primitive pads both sides equally.
    let own = (0..n)
        .all(|d| padding[2 * d] == padding[2 * d + 1] && padding[2 * d] >= 0 && of_base[d] == 1);
    let mut pads = Dims::from_elem(0, n);
    for d in 0..n {
        match own {
            true => pads[d] = padding[2 * d],
            false => {
                x = padded(x, zero, d + 2, [padding[2 * d], padding[2 * d + 1], of_base[d] - 1])?
            }
        }
    }
    if batches != 1 {
        x = batches_as_features(x, batches, groups)?;
    }
    if n == 0 {
        (x, w) = (x.unsqueeze(2), w.unsqueeze(2));
        (stride, pads, dilation) = (smallvec![1], smallvec![0], smallvec![1]);
    }
    let groups = if batches != 1 { batches } else { groups };
    let lists = [stride, pads, dilation].map(Attr::Ints);
    let attrs: Attrs = lists.into_iter().chain([Attr::Int(groups)]).collect();
    let y = c.math().op(Op::Conv, &[x, w], attrs);
    c.math().check()?;
    let y = if n == 0 { y.reshape(&y.sizes()[..2]) } else { y };
    let mut back = Dims::from_elem(0, rank);
    of_y.perm().iter().enumerate().for_each(|(i, &d)| back[d as usize] = i as i64);
    Ok(vec![Value::new(y.transpose(&back), ty.dtype)])
}

/// Groups of images, each for its own filters: the groups become features, of which each filter sees its own.
fn batches_as_features(x: V<'_>, batches: i64, groups: i64) -> Result<V<'_>> {
    let sizes = x.sizes();
    if groups != 1 || batches < 1 || sizes[0] % batches != 0 {
        return invalid!("{batches} groups of a batch of {} and {groups} of features", sizes[0]);
    }
    let each = sizes[0] / batches;
    let split = [&[batches, each], &sizes[1..]].concat();
    let mut perm: Dims = (0..split.len() as i64).collect();
    perm.swap(0, 1);
    let joined = [&[each, batches * sizes[1]], &sizes[2..]].concat();
    Ok(x.reshape(&split).transpose(&perm).reshape(&joined))
}

/// Transforms the last dimensions, one after the other; for real numbers half of the transform is returned, or given.
pub fn fft<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    let lengths = c.ints(&["fft_length", "length"])?;
    let kind = c.choice(&["fft_type", "type"]).unwrap_or("");
    let rank = x.v.rank();
    let n = lengths.len();
    if n == 0 || n > rank || !matches!(kind, "FFT" | "IFFT" | "RFFT" | "IRFFT") {
        return invalid!("a transform {kind} over {n} of {rank} dimensions is not supported");
    }
    if kind == "RFFT" && !matches!(x.dtype, DType::F32 | DType::F64)
        || kind != "RFFT" && !x.dtype.is_complex()
    {
        return invalid!("a transform {kind} of {}", x.dtype);
    }
    let sizes = x.v.sizes();
    let last = lengths[n - 1];
    let half = last / 2 + 1;
    let wanted = |i: usize| if kind == "IRFFT" && i == n - 1 { half } else { lengths[i] };
    if last < 1 || (0..n).any(|i| sizes[rank - n + i] != wanted(i)) {
        return invalid!("a transform of lengths {lengths:?} of sizes {sizes:?}");
    }
    let mut v = if kind == "RFFT" { x.v.cast(x.dtype.to_complex()) } else { x.v };
    let inverse = kind.starts_with('I');
    for i in 0..n {
        let d = rank - n + i;
        c.math().check()?;
        if kind == "IRFFT" && i == n - 1 {
            v = with_mirror(v, d, last);
        }
        v = along(v, d, inverse);
    }
    if inverse {
        let scale = 1.0 / lengths.iter().map(|&n| n as f64).product::<f64>();
        v = (v.pairs() * scale).paired();
    }
    c.math().check()?;
    Ok(vec![match kind {
        "RFFT" => Value::of(v.narrow(rank - 1, 0, half)),
        "IRFFT" => Value::of(v.parts()[0]),
        _ => Value::of(v),
    }])
}

fn along(v: V<'_>, d: usize, inverse: bool) -> V<'_> {
    let last = v.rank() - 1;
    let v = v.swap(d, last);
    v.math().op(Op::Fft, &[v.pairs()], smallvec![Attr::Bool(inverse)]).paired().swap(d, last)
}

/// Appends the rest of a transform of real numbers: the conjugates in reverse. The dimensions before have been transformed
/// back already, so nothing is reversed there.
fn with_mirror(v: V<'_>, d: usize, length: i64) -> V<'_> {
    let missing = length - v.sizes()[d];
    if missing <= 0 {
        return v.narrow(d, 0, length);
    }
    let [re, im] = v.narrow(d, 1, missing).parts();
    v.math().concat(&[v, reversed(complex(re, -im), d)], d)
}
