//! Plans written by hand, run on memory, against numbers worked out by hand.

use super::reference::Reference;
use super::{Backend, Call, Outcome};
use crate::dtype::DType::{self, *};
use crate::op::array::Array;
use crate::op::{Attr, Attrs, Op, Ty, philox};
use crate::plan::{Instr, Kernel, LoopBody, MemRef, Operand, Plan, Reg, Step};
use crate::shape::{Dims, Layout};
use smallvec::smallvec;
use std::sync::Arc;

fn dense(mem: MemRef, dtype: DType, sizes: &[i64]) -> Operand {
    Operand { mem, dtype, layout: Layout::contiguous(sizes) }
}

fn instr(op: Op, attrs: Attrs, dtype: DType, args: &[Reg]) -> Instr {
    Instr { op, attrs, dtype, args: args.into() }
}

fn map(sizes: &[i64], reads: &[Operand], instrs: Vec<Instr>, results: &[Reg]) -> LoopBody {
    let reads = reads.iter().map(|r| r.dtype).collect();
    LoopBody { sizes: sizes.into(), reads, instrs, results: results.into() }
}

fn step(kernel: Kernel, reads: Vec<Operand>, writes: Vec<Operand>) -> Step {
    Step {
        kernel,
        reads,
        writes,
        reads_of: vec![],
        results_of: vec![],
        workspace: None,
        done: None,
        site: 0,
        record: 0,
    }
}

/// Runs one step that writes its results to the outputs, in order.
fn run(step: Step, inputs: &[Array], outputs: &[Ty], scalars: &[u64]) -> (Vec<Array>, Outcome) {
    let plan = Plan {
        steps: vec![step],
        inputs: inputs.iter().map(|a| a.ty.clone()).collect(),
        outputs: outputs.into(),
        donors: vec![None; outputs.len()],
        ..Plan::default()
    };
    let mut results: Vec<Array> = outputs.iter().map(Array::zeros).collect();
    let written: Vec<usize> =
        results.iter_mut().map(|a| a.bytes.as_mut_ptr().expose_provenance()).collect();
    let read: Vec<usize> = inputs.iter().map(|a| a.bytes.as_ptr().expose_provenance()).collect();
    let call = Call {
        inputs: &read,
        poisoned: &[],
        derived: &[],
        outputs: &written,
        arena: 0,
        host: 0,
        results: 0,
        scalars,
        watch: None,
    };
    let outcome = Reference::default().compile(Arc::new(plan)).unwrap().run(&call);
    (results, outcome)
}

fn check(step: Step, inputs: &[Array], want: &[Array], scalars: &[u64]) {
    let types: Vec<Ty> = want.iter().map(|a| a.ty.clone()).collect();
    let (got, outcome) = run(step, inputs, &types, scalars);
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    assert_eq!(got, want);
}

#[test]
fn half_intermediates_are_kept_in_f32() {
    // 256 + 1 is no bf16, but 256 + 1 - 256 is.
    let x = Array::from_f64(BF16, &[2], &[256.0, 1.0]);
    let y = Array::from_f64(BF16, &[2], &[1.0, 2.0]);
    let reads = vec![dense(MemRef::Input(0), BF16, &[2]), dense(MemRef::Input(1), BF16, &[2])];
    let write = || vec![dense(MemRef::Output(0), BF16, &[2])];
    let add = instr(Op::Add, smallvec![], BF16, &[0, 1]);
    let kept = vec![add.clone(), instr(Op::Sub, smallvec![], BF16, &[2, 0])];
    let body = Kernel::Map(map(&[2], &reads, kept, &[3]));
    let inputs = [x.clone(), y.clone()];
    check(step(body, reads.clone(), write()), &inputs, &[y], &[]);
    let round = instr(Op::Cast, smallvec![Attr::DType(BF16)], BF16, &[2]);
    let rounded = vec![add, round, instr(Op::Sub, smallvec![], BF16, &[3, 0])];
    let body = Kernel::Map(map(&[2], &reads, rounded, &[4]));
    let want = Array::from_f64(BF16, &[2], &[0.0, 2.0]);
    check(step(body, reads, write()), &inputs, &[want], &[]);
}

#[test]
fn layouts_scalars_indices_and_constants() {
    // out[i, j] (written transposed) = x[j, 0] * scalar + f32(index) - 0.5
    let x = Array::from_f64(F32, &[3, 2], &[1.0, -1.0, 2.0, -1.0, 3.0, -1.0]);
    let column = Layout::contiguous(&[3, 2]).slice(&[0, 0], &[3, 1], &[1, 1]);
    let sizes = [2, 3];
    let at = |mem, dtype, layout| Operand { mem, dtype, layout };
    let reads = vec![
        at(MemRef::Input(0), F32, column.transpose(&[1, 0]).broadcast(&sizes)),
        at(MemRef::Scalar(1), F32, Layout::contiguous(&[]).broadcast(&sizes)),
        at(MemRef::Index, I64, Layout { offset: 10, ..Layout::contiguous(&sizes) }),
    ];
    let instrs = vec![
        instr(Op::Mul, smallvec![], F32, &[0, 1]),
        instr(Op::Cast, smallvec![Attr::DType(F32)], F32, &[2]),
        instr(Op::Add, smallvec![], F32, &[3, 4]),
        instr(Op::Const, smallvec![Attr::Float(0.5), Attr::DType(F32)], F32, &[]),
        instr(Op::Sub, smallvec![], F32, &[5, 6]),
        instr(Op::ConstInt, smallvec![Attr::Int(12), Attr::DType(I64)], I64, &[]),
        instr(Op::Ge, smallvec![], Bool, &[2, 8]),
    ];
    let body = Kernel::Map(map(&sizes, &reads, instrs, &[7, 9]));
    let transposed = Layout::contiguous(&[3, 2]).transpose(&[1, 0]);
    let writes =
        vec![at(MemRef::Output(0), F32, transposed), dense(MemRef::Output(1), Bool, &sizes)];
    let want = [
        Array::from_f64(F32, &[3, 2], &[11.5, 14.5, 14.5, 17.5, 17.5, 20.5]),
        Array::from_f64(Bool, &sizes, &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    ];
    check(step(body, reads, writes), &[x], &want, &[7, 2.0f64.to_bits()]);
}

#[test]
fn random_by_index() {
    let sizes = [5];
    let everywhere =
        |mem| Operand { mem, dtype: I64, layout: Layout::contiguous(&[]).broadcast(&sizes) };
    let index = Operand {
        mem: MemRef::Index,
        dtype: I64,
        layout: Layout { offset: 3, ..Layout::contiguous(&sizes) },
    };
    let reads = vec![everywhere(MemRef::Scalar(0)), everywhere(MemRef::Scalar(1)), index];
    let attrs = smallvec![Attr::Ints(sizes[..].into())];
    let body = map(&sizes, &reads, vec![instr(Op::Random, attrs, F32, &[0, 1, 2])], &[3]);
    let values: Vec<f64> = (3..8).map(|i| philox::drawn::<f32>(77, 9, i) as f64).collect();
    let writes = vec![dense(MemRef::Output(0), F32, &sizes)];
    check(
        step(Kernel::Map(body), reads, writes),
        &[],
        &[Array::from_f64(F32, &sizes, &values)],
        &[77, 9],
    );
}

#[test]
fn reductions_and_nodes() {
    let x = Array::from_f64(F16, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let reads = vec![dense(MemRef::Input(0), F16, &[2, 2])];
    let square = || map(&[2, 2], &reads, vec![instr(Op::Mul, smallvec![], F16, &[0, 0])], &[1]);
    for (op, dtype, want) in [
        (Op::Sum, F16, [10.0, 20.0]),
        (Op::ReduceMax, F16, [9.0, 16.0]),
        (Op::ArgMax, I64, [1.0, 1.0]),
    ] {
        let kernel = Kernel::Reduce { body: square(), op, axes: Dims::from_slice(&[0]) };
        let writes = vec![dense(MemRef::Output(0), dtype, &[2])];
        let want = Array::from_f64(dtype, &[2], &want);
        check(step(kernel, reads.clone(), writes), std::slice::from_ref(&x), &[want], &[]);
    }
    let kernel = Kernel::Node { op: Op::Matmul, attrs: smallvec![] };
    let twice = vec![
        reads[0].clone(),
        Operand { layout: reads[0].layout.transpose(&[1, 0]), ..reads[0].clone() },
    ];
    let want = Array::from_f64(F16, &[2, 2], &[5.0, 11.0, 11.0, 25.0]);
    check(step(kernel, twice, vec![dense(MemRef::Output(0), F16, &[2, 2])]), &[x], &[want], &[]);
}

#[test]
fn a_failed_step_leaves_its_output_as_it_was() {
    let x = Array::from_f64(F32, &[2], &[1.0, 2.0]);
    let index = Array::from_f64(I64, &[2], &[0.0, 2.0]);
    let kernel = Kernel::Node { op: Op::Take, attrs: smallvec![Attr::Int(0)] };
    let reads = vec![dense(MemRef::Input(0), F32, &[2]), dense(MemRef::Input(1), I64, &[2])];
    let writes = vec![dense(MemRef::Output(0), F32, &[2])];
    let ty = Ty::new(F32, &[2]);
    let (results, outcome) =
        run(step(kernel, reads, writes), &[x, index], std::slice::from_ref(&ty), &[]);
    assert_eq!(results, [Array::zeros(&ty)]);
    let error = &outcome.failed[0].error;
    assert!(
        error.message.ends_with("index 2 is out of bounds for dimension 0 with size 2"),
        "{error}"
    );
    assert_eq!(error.code, crate::error::Code::IndexError);
}
