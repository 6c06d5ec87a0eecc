//! The table of cases on the CPU: with 1, 2 and 4 threads, with and without a library, machine code and instruction sets.

use super::*;
use crate::backend::cpu::isa::on_each_isa;
use crate::op::cases::{self, Bound, families};
use crate::op::{Attr, Class};
use crate::plan::{Instr, LoopBody};

/// The node that a case is.
fn node_of(case: &cases::Case) -> Case {
    let operand = |(n, (array, layout)): (usize, (Array, Layout))| {
        let operand = Operand { mem: MemRef::Input(n as u32), dtype: array.ty.dtype, layout };
        (operand, array)
    };
    let (op, attrs) = (case.op, case.attrs.clone());
    Case {
        kernel: Kernel::Node { op, attrs },
        reads: case.sample().into_iter().enumerate().map(operand).collect(),
        writes: case.results().into_iter().map(|ty| (ty.dtype, ty.sizes)).collect(),
        scalars: Vec::new(),
        in_place: case.in_place,
    }
}

/// The kernel that plans have for a case: of a reduction with the loop body before it.
pub fn kernel_of(case: &cases::Case) -> Case {
    if case.op.class() != Class::Reduction {
        return node_of(case);
    }
    let Ty { dtype, sizes } = case.operands[0].ty.clone();
    let double = Instr { op: Op::Add, attrs: Attrs::new(), dtype, args: [0, 0][..].into() };
    let body = LoopBody {
        sizes,
        reads: vec![dtype],
        instrs: case.prologue.then_some(double).into_iter().collect(),
        results: vec![case.prologue as u32],
    };
    let axes = match &case.attrs[0] {
        Attr::Int(axis) => [*axis][..].into(),
        axes => axes.ints().into(),
    };
    Case { kernel: Kernel::Reduce { body, op: case.op, axes }, ..node_of(case) }
}

/// What a kernel makes of absolute values.
pub fn of_absolute(case: &Case) -> Vec<Array> {
    let absolute = |(operand, values): &(Operand, Array)| (operand.clone(), absolute(values));
    let case = Case {
        kernel: case.kernel.clone(),
        reads: case.reads.iter().map(absolute).collect(),
        writes: case.writes.clone(),
        scalars: Vec::new(),
        in_place: false,
    };
    case.run(&Reference::default()).expect("the reference computes it")
}

/// On one thread, which a test can tell what instructions to use.
fn single_threaded() -> &'static Cpu {
    static BACKEND: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(1, Search::Off));
    &BACKEND
}

fn check(case: &cases::Case, kernel: &Case, bound: &Bound) {
    if let Bound::Fails(code, message) = bound {
        for backend in [cpu(1), cpu(2), portable()] {
            let error = kernel.run(backend).expect_err("it fails");
            let message = format!("{}: {message}", case.op.name());
            assert_eq!((error.code, error.message), (*code, message), "{case}");
        }
        return;
    }
    let (got, expected) = kernel.both();
    let allowed = bound.allowed(&expected, || of_absolute(kernel));
    let compare = |got: &[Array]| kernel.compare(got, &expected, &allowed);
    compare(&got);
    compare(&kernel.run(portable()).unwrap());
    let plain = |backend| code::without(|| kernel.run(backend)).unwrap();
    if let Kernel::Reduce { .. } = kernel.kernel {
        let [one, others @ ..] = [1, 2, 4].map(|n| plain(cpu(n)));
        assert!(others.iter().all(|other| *other == one), "threads give other bits: {case}");
        compare(&one);
    } else {
        // Products look for machine code when they run, on the thread that does.
        compare(&plain(single_threaded()));
    }
    // Few numbers at a time take long for more.
    if kernel.reads.iter().map(|(_, array)| array.len()).sum::<usize>() < 40_000 {
        on_each_isa(|_| compare(&kernel.run(single_threaded()).unwrap()));
    }
}

fn check_all(family: Vec<cases::Case>) {
    for case in family {
        let Some(bound) = &case.cpu else { continue };
        check(&case, &kernel_of(&case), bound);
        // What is no fold may be a node, too.
        if case.op.class() == Class::Reduction && !case.op.row().folds && !case.prologue {
            check(&case, &node_of(&case), bound);
        }
    }
}

families!(tests check_all);
