//! Operators that the program gives as CUDA C++, against formulas.

use super::super::actions::Action;
use super::super::driver::tests::nvrtc_for;
use super::super::lower;
use super::{cuda, prepare};
use crate::backend::cpu::tests::node::values;
use crate::backend::cpu::tests::{Case, FLOATS, LAYS, Random, epsilon, layout};
use crate::dtype::DType;
use crate::error::Code;
use crate::op::arg::{Arg, ScalarKind};
use crate::op::array::Array;
use crate::op::host::{CudaForm, HostOp, HostOpId, get, register};
use crate::op::{Attr, Op, Ty};
use crate::plan::{MemRef, Operand};
use crate::shape::Layout;

/// `y = x * factor + more + n + first - second` where `on`, else `more`; and the number of dimensions. Every name of the
/// prelude is free, and the emitter's own words may stand in the text.
const SCALE: &str = "\
#define NAME_SEEN 1
struct bool_ {};
static __device__ float wide(f16 x) { return f32_of(x); }
static __device__ float wide(bf16 x) { return f32_of(x); }
static __device__ float wide(float x) { return x; }
static __device__ double wide(double x) { return x; }
static __device__ void put(f16& to, double x) { to = f16_of((float)x); }
static __device__ void put(bf16& to, double x) { to = bf16_of((float)x); }
static __device__ void put(float& to, double x) { to = (float)x; }
static __device__ void put(double& to, double x) { to = x; }
namespace inner {
template <class T>
__device__ void NAME(Tensor<const T> x, Tensor<const T> more, Tensor<const unsigned char> none,
                     double factor, long long n, bool on, long long first, long long second,
                     Tensor<T> y, Tensor<long long> rank) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < y.count; i += step) {
    const double plus = none.data == 0 ? n + first - second : -1000;
    put(y.data[i], (on ? wide(x.data[i]) * factor + plus : 0) + wide(more.data[i]));
  }
  long long product = 1;
  for (int d = 0; d < x.rank; d++) product *= x.sizes[d];
  if (blockIdx.x == 0 && threadIdx.x == 0) rank.data[0] = product == y.count ? x.rank : -1;
}
}";

/// Not to be called.
fn operator(
    name: &str,
    source: &str,
    entry: &str,
    [block, elements, blocks]: [u32; 3],
) -> HostOpId {
    let function = Box::new(|_: &[_], _: &[_]| crate::internal!("a CPU fallback of a kernel"));
    let (source, entry, blocks) = (source.into(), entry.into(), blocks.into());
    let cuda = Some(CudaForm { source, entry, block, elements, blocks });
    register(HostOp {
        name: name.into(),
        key: name.into(),
        function,
        shape: None,
        cuda,
        device_function: None,
    })
}

/// A call of [`SCALE`] on operands that lie somehow, and its results.
fn scale(
    random: &mut Random,
    id: HostOpId,
    dtype: DType,
    sizes: &[i64],
    n: usize,
) -> (Case, Vec<Array>) {
    let (lay, on) = (LAYS[n % LAYS.len()], n % 3 != 1);
    let [x, more] = [lay, LAYS[0]].map(|lay| {
        let (layout, held) = layout(lay, sizes);
        (layout, values(random, dtype, &[held as i64]))
    });
    let args = vec![
        Arg::Tensor(()),
        Arg::Str("left out".into()),
        Arg::Tensors(vec![Some(()), None]),
        Arg::Scalar { kind: ScalarKind::Float, number: () },
        Arg::Scalar { kind: ScalarKind::Int, number: () },
        Arg::None,
        Arg::Scalar { kind: ScalarKind::Bool, number: () },
        Arg::Ints([30, 7][..].into()),
    ];
    let types = vec![Ty::new(dtype, sizes), Ty::new(DType::I64, &[1])];
    let attrs = [Attr::Int(id as i64), Attr::Types(types.clone()), Attr::Args(args)];
    let mut case = Case::node(Op::Host, attrs.into_iter().collect(), vec![], &types);
    let index = |of: &Layout| of.indices().map(|i| i as usize).collect::<Vec<_>>();
    let mut y = Array::zeros(&types[0]);
    for (k, (i, j)) in index(&x.0).into_iter().zip(index(&more.0)).enumerate() {
        let scaled = if on { x.1.f64(i) * 0.5 + (100 + 30 - 7) as f64 } else { 0.0 };
        y.set_f64(k, scaled + more.1.f64(j));
    }
    let rank = Array::from_f64(DType::I64, &[1], &[sizes.len() as f64]);
    for (n, (layout, array)) in [x, more].into_iter().enumerate() {
        let mem = MemRef::Input(n as u32);
        case.reads.push((Operand { mem, dtype, layout }, array));
    }
    for (slot, dtype) in [DType::F64, DType::I64, DType::Bool].into_iter().enumerate() {
        let layout = Layout::contiguous(&[]);
        let mem = MemRef::Scalar(slot as u32);
        case.reads.push((Operand { mem, dtype, layout }, Array::zeros(&Ty::new(dtype, &[]))));
    }
    case.scalars = vec![0.5f64.to_bits(), 100, on.into()];
    (case, vec![y, rank])
}

fn cases() -> Vec<(Case, Vec<Array>)> {
    let mut random = Random::new(21);
    let grids = [[256, 1, 0], [64, 3, 0], [32, 1, 2]];
    let ids = grids.map(|grid| operator("custom_op::scale", SCALE, "inner::NAME", grid));
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "the grid is a part of the key");
    let sizes: [&[i64]; 7] = [&[], &[1], &[7], &[3, 5], &[2, 0, 3], &[4, 6, 50], &[1, 1000]];
    let mut cases = Vec::new();
    for (n, sizes) in sizes.into_iter().enumerate() {
        for (k, dtype) in FLOATS.into_iter().enumerate() {
            cases.push(scale(&mut random, ids[(n + k) % 3], dtype, sizes, n + k));
        }
    }
    cases
}

#[test]
fn kernels_of_the_program_compute_what_they_say() {
    let cases = cases();
    prepare(cases.iter().map(|(case, _)| case));
    for (case, expected) in cases {
        let actions = lower::step(&case.plan(), 0, &*cuda().device).unwrap().actions;
        assert!(!actions.iter().any(|action| matches!(action, Action::Host(_))));
        let got = case.run(cuda()).unwrap();
        case.compare(&got, &expected, |k, i| {
            2.0 * epsilon(expected[k].ty.dtype) * expected[k].f64(i).abs()
        });
    }
}

#[test]
fn nothing_is_launched_for_results_without_elements() {
    let id = operator("custom_op::scale", SCALE, "inner::NAME", [256, 1, 0]);
    let (mut case, _) = scale(&mut Random::new(1), id, DType::F32, &[0, 4], 0);
    let launches =
        |case: &Case| lower::step(&case.plan(), 0, &*cuda().device).unwrap().actions.len();
    assert_eq!(launches(&case), 1);
    case.writes.truncate(1);
    assert_eq!(launches(&case), 0);
}

#[test]
fn nvrtc_compiles_them() {
    for capability in [80, 90] {
        let Some(nvrtc) = nvrtc_for(capability) else { continue };
        let target = nvrtc.target(capability).unwrap();
        for (case, _) in cases().into_iter().take(4) {
            let actions = lower::step(&case.plan(), 0, &*cuda().device).unwrap();
            for source in actions.sources().filter(|source| source.name.starts_with("own_")) {
                let (cubin, _) = nvrtc.compile(source, &target).unwrap();
                assert!(cubin.starts_with(b"\x7fELF"));
            }
        }
    }
}

/// A kernel with shared memory, barriers and one block for everything; and one of bits.
#[test]
fn blocks_may_meet_and_elements_may_be_bits() {
    let sum = "\
__device__ void sum(Tensor<const long long> x, Tensor<long long> y) {
  __shared__ long long parts[64];
  long long sum = 0;
  for (long long i = threadIdx.x; i < x.count; i += blockDim.x) sum += x.data[i];
  parts[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) y.data[0] = parts[0];
}";
    let swap = "void swap(Tensor<const unsigned> x, Tensor<unsigned> y) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < x.count) y.data[i] = x.data[i] << 16 | x.data[i] >> 16;
}";
    let call = |id: HostOpId, x: Array, out: Ty| {
        let args = Attr::Args(vec![Arg::Tensor(())]);
        let attrs = [Attr::Int(id as i64), Attr::Types(vec![out.clone()]), args];
        Case::node(Op::Host, attrs.into_iter().collect(), vec![x], &[out])
    };
    let mut random = Random::new(5);
    let x = values(&mut random, DType::I64, &[1000]);
    let wanted: i64 = (0..1000).map(|i| x.i64(i)).sum();
    let id = operator("custom_op::sum", sum, "sum", [64, 1, 1]);
    let case = call(id, x, Ty::new(DType::I64, &[1]));
    assert_eq!(case.run(cuda()).unwrap()[0].i64(0), wanted);
    let x = Array { ty: Ty::new(DType::C32, &[2]), bytes: vec![1, 2, 3, 4, 5, 6, 7, 8] };
    let id = operator("custom_op::swap", swap, "swap", [32, 1, 0]);
    let case = call(id, x, Ty::new(DType::C32, &[2]));
    assert_eq!(case.run(cuda()).unwrap()[0].bytes, [3, 4, 1, 2, 7, 8, 5, 6]);
}

#[test]
fn what_the_compiler_says_comes_with_the_operators_name_and_lines() {
    let source = "// a comment\n__device__ void f(Tensor<const float> x, Tensor<float> y) { y.data[0] = missing; }";
    let id = operator("custom_op::broken \"one\"", source, "f", [32, 1, 0]);
    let ty = Ty::new(DType::F32, &[3]);
    let args = Attr::Args(vec![Arg::Tensor(())]);
    let attrs = [Attr::Int(id as i64), Attr::Types(vec![ty.clone()]), args];
    let x = vec![Array::zeros(&ty)];
    let case = Case::node(Op::Host, attrs.into_iter().collect(), x, &[ty]);
    let error = case.run(cuda()).unwrap_err();
    assert_eq!(error.code, Code::OperatorError);
    assert!(error.message.starts_with("custom_op::broken \"one\": "), "{error}");
    for part in ["missing", "custom_op::broken \"one\"", "2"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
}

/// Equal keys of other sources are other operators, and so are their keys for programs and files.
#[test]
fn the_source_is_a_part_of_the_key() {
    let first = operator("custom_op::changing", "void f() {}", "f", [32, 1, 0]);
    let second = operator("custom_op::changing", "void f() { }", "f", [32, 1, 0]);
    assert_eq!(operator("custom_op::changing", "void f() {}", "f", [32, 1, 0]), first);
    assert_ne!(first, second);
    let key = |id| get(id).unwrap().key.clone();
    assert_ne!(key(first), key(second));
}
