//! Graphs computed by the meaning of their nodes, in f64, rounded to each tensor's dtype.

use super::super::cudnn_graph::{
    CudnnGraph, Fold, Id, Mode, Node, Part, Residency, Tensor, Window,
};
use super::slice;
use crate::op::Ty;
use crate::op::array::Array;
use crate::op::nn::window::{Spacing, Windows};
use crate::shape::{Layout, numel};

/// Computes a graph on memory at these addresses.
pub fn run(cudnn_graph: &CudnnGraph, addresses: &[u64]) {
    let mut addresses = addresses.iter().map(|&address| address as usize);
    let mut take = || addresses.next().expect("an address for each");
    let places: Vec<Option<usize>> = cudnn_graph
        .tensors
        .iter()
        .map(|t| (t.residency == Residency::Memory).then(&mut take))
        .collect();
    assert!(addresses.next().is_none(), "a tensor for each address");
    // A library does not know tensors without a node, and refuses their addresses.
    let named: Vec<Id> = cudnn_graph.nodes.iter().flat_map(named).collect();
    assert!((0..places.len()).all(|id| named.contains(&id)), "every tensor has a node");
    let read = |(tensor, position): (&Tensor, &Option<usize>)| match (tensor.residency, position) {
        (Residency::Number(bits), _) => vec![f64::from(f32::from_bits(bits))],
        (_, Some(address)) => {
            let mut value = Array::zeros(&Ty::new(tensor.dtype, &tensor.sizes));
            for (i, at) in elements(tensor, *address).enumerate() {
                value.set_raw(i, slice(at, tensor.dtype.size()));
            }
            value.to_f64s()
        }
        _ => Vec::new(),
    };
    let mut values: Vec<Vec<f64>> = cudnn_graph.tensors.iter().zip(&places).map(read).collect();
    for node in &cudnn_graph.nodes {
        let (made, results) = compute(node, cudnn_graph, &values);
        let tensor = &cudnn_graph.tensors[made];
        let rounded = Array::from_f64(tensor.dtype, &tensor.sizes, &results);
        values[made] = rounded.to_f64s();
        let Some(address) = places[made] else { continue };
        for (i, at) in elements(tensor, address).enumerate() {
            slice(at, tensor.dtype.size()).copy_from_slice(rounded.raw(i));
        }
    }
}

/// The tensors of a node.
fn named(node: &Node) -> Vec<Id> {
    match node {
        Node::Matmul { a, b, c } => vec![*a, *b, *c],
        Node::Map { operands, y, .. } => operands.iter().chain([y]).copied().collect(),
        Node::Index { like: x, y, .. } | Node::Reduce { x, y, .. } | Node::Transpose { x, y } => {
            vec![*x, *y]
        }
        Node::Conv { x, w, y, .. } => vec![*x, *w, *y],
    }
}

/// Addresses of the elements in row-major order.
fn elements(tensor: &Tensor, address: usize) -> impl Iterator<Item = usize> {
    let layout = Layout { sizes: tensor.sizes.clone(), strides: tensor.strides.clone(), offset: 0 };
    let places: Vec<i64> = layout.indices().collect();
    places.into_iter().map(move |at| address + at as usize * tensor.dtype.size())
}

fn compute(node: &Node, cudnn_graph: &CudnnGraph, values: &[Vec<f64>]) -> (Id, Vec<f64>) {
    let sizes = |id: Id| &cudnn_graph.tensors[id].sizes[..];
    // The element of `id` for a position in the sizes `of`, which it is broadcast to, or grouped to.
    let at = |id: Id, position: &[i64], of: &[i64]| {
        let along = |d: usize| position[d] / (of[d] / sizes(id)[d]).max(1);
        let index = (0..position.len()).fold(0, |index, d| index * sizes(id)[d] + along(d));
        values[id][index as usize]
    };
    let each = |id: Id, f: &dyn Fn(&[i64]) -> f64| {
        let of_y = Layout::contiguous(sizes(id));
        let position = |i: i64| -> Vec<i64> {
            (0..of_y.rank()).map(|d| i / of_y.strides[d] % of_y.sizes[d]).collect()
        };
        (0..of_y.numel()).map(|i| f(&position(i))).collect::<Vec<f64>>()
    };
    match node {
        Node::Matmul { a, b, c } => {
            let k = *sizes(*a).last().expect("a matrix");
            let [full_a, full_b] = [*a, *b].map(|id| {
                let mut full = sizes(*c).to_vec();
                let rank = full.len();
                full[rank - 2..].copy_from_slice(&sizes(id)[rank - 2..]);
                full
            });
            let f = |position: &[i64]| {
                let rank = position.len();
                let (mut left, mut right) = (position.to_vec(), position.to_vec());
                let mut term = |i: i64| {
                    left[rank - 1] = i;
                    right[rank - 2] = i;
                    at(*a, &left, &full_a) * at(*b, &right, &full_b)
                };
                (0..k).map(&mut term).sum()
            };
            (*c, each(*c, &f))
        }
        Node::Map { mode, operands, y } => {
            let f = |position: &[i64]| {
                let x = |n: usize| at(operands[n], position, sizes(*y));
                match mode {
                    Mode::Same => x(0),
                    Mode::Add => x(0) + x(1),
                    Mode::Sub => x(0) - x(1),
                    Mode::Mul => x(0) * x(1),
                    Mode::Div => x(0) / x(1),
                    Mode::Exp => x(0).exp(),
                    Mode::Log => x(0).ln(),
                    Mode::AtLeast => f64::from(u8::from(x(0) >= x(1))),
                    Mode::Select if x(2) != 0.0 => x(0),
                    Mode::Select => x(1),
                }
            };
            (*y, each(*y, &f))
        }
        Node::Index { axis, y, .. } => (*y, each(*y, &|position| position[*axis] as f64)),
        Node::Reduce { mode, x, y } => {
            let start = if *mode == Fold::Max { f64::NEG_INFINITY } else { 0.0 };
            let mut sums = vec![start; numel(sizes(*y)) as usize];
            let of_x = Layout::contiguous(sizes(*x));
            for i in 0..of_x.numel() {
                let index = (0..of_x.rank()).fold(0, |index, d| {
                    let position = i / of_x.strides[d] % of_x.sizes[d];
                    index * sizes(*y)[d] + position / (of_x.sizes[d] / sizes(*y)[d])
                });
                let (sum, value) = (&mut sums[index as usize], values[*x][i as usize]);
                *sum = if *mode == Fold::Max { sum.max(value) } else { *sum + value };
            }
            (*y, sums)
        }
        Node::Transpose { x, y } => {
            let f = |position: &[i64]| {
                let (mut turned, rank) = (position.to_vec(), position.len());
                turned.swap(rank - 2, rank - 1);
                at(*x, &turned, sizes(*x))
            };
            (*y, each(*y, &f))
        }
        Node::Conv { made, x, w, y, window } => {
            convolve(*made, [*x, *w, *y], window, cudnn_graph, values)
        }
    }
}

/// Sums over all triples of elements that meet.
fn convolve(
    made: Part,
    [x, w, y]: [Id; 3],
    window: &Window,
    cudnn_graph: &CudnnGraph,
    values: &[Vec<f64>],
) -> (Id, Vec<f64>) {
    let sizes = |id: Id| &cudnn_graph.tensors[id].sizes[..];
    let Window { stride, padding, dilation } = window;
    let spacing = Spacing { kernel: &sizes(w)[2..], stride, padding, dilation };
    let windows = Windows::new(&sizes(x)[2..], &sizes(y)[2..], spacing);
    let [images, all, filters, channels] = [sizes(x)[0], sizes(x)[1], sizes(w)[0], sizes(w)[1]];
    let per_group = filters / (all / channels);
    let id = match made {
        Part::Y => y,
        Part::X => x,
        Part::W => w,
    };
    let mut sums = vec![0.0; numel(sizes(id)) as usize];
    let planes = [windows.plane(), windows.taps(), windows.pixels()].map(|n| n as i64);
    let mut meetings = Vec::new();
    windows.each(|pixel, tap, plane| meetings.push([plane, tap, pixel].map(|n| n as i64)));
    for (n, f, c) in (0..images * filters * channels)
        .map(|i| (i / (filters * channels), i / channels % filters, i % channels))
    {
        let of_x = (n * all + f / per_group * channels + c) * planes[0];
        let (of_w, of_y) = ((f * channels + c) * planes[1], (n * filters + f) * planes[2]);
        for &[plane, tap, pixel] in &meetings {
            let [i, j, k] = [of_x + plane, of_w + tap, of_y + pixel].map(|i| i as usize);
            let [a, b, d] =
                [(x, i), (w, j), (y, k)].map(|(id, i)| values[id].get(i).copied().unwrap_or(0.0));
            match made {
                Part::Y => sums[k] += a * b,
                Part::X => sums[i] += b * d,
                Part::W => sums[j] += a * d,
            }
        }
    }
    (id, sums)
}
