//! Machine code against the chains, against what its operations mean, and at the edges of its registers; in all
//! instructions that this processor has and it can be written in.

use super::chain::{ANGLES, LENGTHS, WITH, numbers, unary_ops};
use super::math::same;
use super::{Case, Random};
use crate::backend::cpu::isa::{Isa, on_each_isa};
use crate::backend::cpu::jit::trace::{Compare, Element, JitMask, JitValue, Logic, record};
use crate::backend::cpu::jit::{JitLoop, target, without};
use crate::backend::cpu::tile::chain::{self, Feed, Target, of_two, of_vector};
use crate::backend::cpu::tile::code::{ReadKind, StoreKind};
use crate::backend::cpu::tile::compile;
use crate::backend::cpu::tile::link::Link;
use crate::backend::cpu::vector::Vector;
use crate::dtype::DType;
use crate::op::{Attrs, Op};
use crate::plan::{Instr, Kernel, LoopBody, MemRef, Operand};
use crate::shape::Layout;
use half::{bf16, f16};
use smallvec::smallvec;
use std::sync::Arc;

/// Calls `body` for all instructions that loops can be written in.
fn on_each_target(mut body: impl FnMut(Isa)) {
    on_each_isa(|_| target().into_iter().for_each(&mut body));
}

/// The loop that `body` records.
fn jit_loop(body: impl FnOnce()) -> Option<Arc<JitLoop>> {
    let ((), nodes) = record(body);
    JitLoop::of(&nodes, target()?).expect("instructions that exist")
}

/// Runs a loop over slices of `len` elements each; what is behind them must stay.
#[expect(unsafe_code, reason = "machine code")]
fn run<const N: usize>(jit_loop: &JitLoop, streams: [usize; N], numbers: &[f32], len: usize) {
    // SAFETY: the callers give every stream as many elements, and write only what is theirs.
    unsafe { jit_loop.run(&streams, numbers, len) }
}

fn at<T>(x: &[T]) -> usize {
    x.as_ptr().expose_provenance()
}

fn at_mut<T>(x: &mut [T]) -> usize {
    x.as_mut_ptr().expose_provenance()
}

const BEHIND: f32 = 123.25;

/// What a loop makes of `x`, `z` and a number, without touching what is behind its result.
fn mapped(jit_loop: &JitLoop, x: &[f32], z: &[f32], number: f32) -> Vec<f32> {
    let mut y = vec![BEHIND; x.len() + 20];
    run(jit_loop, [at(x), at(z), at_mut(&mut y)], &[number], x.len());
    assert!(y[x.len()..].iter().all(|&v| v == BEHIND), "wrote behind the result");
    y.truncate(x.len());
    y
}

#[test]
fn equal_loops_are_one() {
    on_each_target(|_| {
        let of = |number: f32| {
            let x = || JitValue::of_stream(0, Element::F32);
            jit_loop(|| of_two(WITH[0], x(), JitValue::splat(number)).store_to(1, Element::F32))
        };
        let [one, same, other] = [0.8125, 0.8125, 0.625].map(|number| of(number).unwrap());
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        let gone = Arc::downgrade(&one);
        drop((one, same));
        assert_eq!(gone.strong_count(), 0, "nobody keeps it");
        let (x, mut result) = ([1.0f32; 8], [0.0f32; 8]);
        run(&of(0.8125).unwrap(), [at(&x), at_mut(&mut result)], &[], 8);
        assert_eq!(result, [1.8125; 8], "written again");
    });
}

#[test]
fn loops_compute_what_chains_do() {
    on_each_target(|_| {
        let stream = |n| JitValue::of_stream(n, Element::F32);
        for len in LENGTHS {
            let (x, z) = (numbers(len, len), numbers(len, 3));
            let check = |name: String, jit_loop: Arc<JitLoop>, link: Link<Feed>| {
                let mut expected = vec![0.0; len];
                chain::run(Feed::Run(&x), &[link], Target::Run(&mut expected), false);
                let got = mapped(&jit_loop, &x, &z, -1.25);
                for ((x, got), expected) in x.iter().zip(got).zip(expected) {
                    assert!(same(got, expected), "{name} {x:e}: {got:e}, not {expected:e}");
                }
            };
            for op in unary_ops() {
                let mut known = true;
                let code = jit_loop(|| match of_vector(op, stream(0)) {
                    Some(y) => y.store_to(2, Element::F32),
                    None => known = false,
                });
                if known {
                    check(format!("{op:?}"), code.unwrap(), Link::Unary(op));
                }
            }
            for op in WITH.into_iter().chain(ANGLES) {
                let code = jit_loop(|| of_two(op, stream(0), stream(1)).store_to(2, Element::F32));
                check(format!("{op:?}"), code.unwrap(), Link::Binary(op, Feed::Run(&z)));
                let number =
                    || of_two(op, stream(0), JitValue::number(0)).store_to(2, Element::F32);
                check(
                    format!("{op:?}"),
                    jit_loop(number).unwrap(),
                    Link::Binary(op, Feed::One(-1.25)),
                );
                let constant =
                    || of_two(op, stream(0), JitValue::splat(0.5)).store_to(2, Element::F32);
                check(
                    format!("{op:?}"),
                    jit_loop(constant).unwrap(),
                    Link::Binary(op, Feed::One(0.5)),
                );
            }
        }
    });
}

#[test]
fn every_type_is_read_and_written_as_the_half_crate_does() {
    on_each_target(|_| {
        for len in LENGTHS {
            let x = numbers(len, 5);
            let small_gemm: Vec<u16> = x.iter().map(|&x| f16::from_f32(x).to_bits()).collect();
            let bf16: Vec<u16> = x.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
            let all = jit_loop(|| {
                JitValue::of_stream(0, Element::F32).store_to(1, Element::F16);
                JitValue::of_stream(0, Element::F32).store_to(2, Element::BF16);
                JitValue::of_stream(3, Element::F16).store_to(4, Element::F32);
                JitValue::of_stream(5, Element::BF16).store_to(6, Element::F32);
                JitValue::of_stream(0, Element::F32).to_f16().store_to(7, Element::F32);
                JitValue::of_stream(0, Element::F32).to_bf16().store_to(8, Element::F32);
            });
            let (mut to_thin, mut to_brain) = (vec![7u16; len + 9], vec![7u16; len + 9]);
            let mut wide: [Vec<f32>; 4] = [const { Vec::new() }; 4];
            wide.iter_mut().for_each(|w| w.resize(len, 0.0));
            let [a, b, c, d] = &mut wide;
            let streams = [
                at(&x),
                at_mut(&mut to_thin),
                at_mut(&mut to_brain),
                at(&small_gemm),
                at_mut(a),
                at(&bf16),
                at_mut(b),
                at_mut(c),
                at_mut(d),
            ];
            run(&all.unwrap(), streams, &[], len);
            assert!(to_thin[len..].iter().chain(&to_brain[len..]).all(|&v| v == 7));
            for i in 0..len {
                let (h, b) = (f16::from_f32(x[i]).to_f32(), bf16::from_f32(x[i]).to_f32());
                assert!(same(f16::from_bits(to_thin[i]).to_f32(), h), "{:e} as f16", x[i]);
                assert!(same(bf16::from_bits(to_brain[i]).to_f32(), b), "{:e} as bf16", x[i]);
                for (got, exact) in wide.iter().map(|w| w[i]).zip([h, b, h, b]) {
                    assert!(same(got, exact), "{:e}: {got:e}, not {exact:e}", x[i]);
                }
            }
        }
    });
}

#[test]
fn bools_are_bytes_in_memory_and_masks_in_registers() {
    on_each_target(|_| {
        let code = jit_loop(|| {
            let (a, b) = (JitMask::of_stream(0), JitMask::of_stream(1));
            a.logic(Logic::And, b).store_to(2);
            a.logic(Logic::Or, b.inverted()).store_to(3);
            a.logic(Logic::Xor, b).as_number().store_to(4, Element::F32);
        });
        let code = code.unwrap();
        for len in LENGTHS {
            let a: Vec<u8> = (0..len).map(|i| (i % 3 == 0) as u8).collect();
            let b: Vec<u8> = (0..len).map(|i| (i % 2 == 0) as u8).collect();
            let (mut both, mut or, mut xor) =
                (vec![9u8; len + 20], vec![9u8; len], vec![9f32; len]);
            run(
                &code,
                [at(&a), at(&b), at_mut(&mut both), at_mut(&mut or), at_mut(&mut xor)],
                &[],
                len,
            );
            assert!(both[len..].iter().all(|&v| v == 9));
            for i in 0..len {
                let (a, b) = (a[i], b[i]);
                assert_eq!((both[i], or[i], xor[i]), (a & b, a | (1 - b), (a ^ b) as f32));
            }
        }
    });
}

/// A value with its meaning for one element.
#[derive(Clone, Copy)]
struct ExpectedValue(JitValue, f32);

/// A random operation on random values that there are.
fn grown(random: &mut Random, values: &[ExpectedValue]) -> ExpectedValue {
    let [ExpectedValue(a, x), ExpectedValue(b, y), ExpectedValue(c, z)] =
        [(); 3].map(|()| *random.pick(values));
    let select = |mask: JitMask, is: bool| {
        ExpectedValue(JitValue::select(mask, b, c), if is { y } else { z })
    };
    match random.below(9) {
        0 => ExpectedValue(a + b, x + y),
        1 => ExpectedValue(a - b, x - y),
        2 => ExpectedValue(a * b, x * y),
        3 => ExpectedValue(a.mul_add(b, c), x.mul_add(y, z)),
        4 => ExpectedValue(a.mul_add(b, JitValue::splat(0.5)), x.mul_add(y, 0.5)),
        5 => ExpectedValue(a.abs(), x.abs()),
        6 => select(a.lt(b), x < y),
        7 => select(a.compare(Compare::Ge, c), x >= z),
        _ => ExpectedValue(-a.min(b), -if x > y { y } else { x }),
    }
}

/// Long programs with more values alive than there are registers. All elements of a stream are the same number, so
/// that its meaning is computed while the program is recorded.
#[test]
fn values_without_a_register_are_kept() {
    on_each_target(|_| {
        const STREAMS: usize = 48;
        const LEN: usize = 21;
        for seed in 0..60 {
            let mut random = Random::new(seed + 1);
            let operations = 20 + random.below(300);
            let inputs: [f32; STREAMS] = std::array::from_fn(|_| random.unit() as f32);
            let mut expected = Vec::new();
            let code = jit_loop(|| {
                let stream =
                    |n: usize| ExpectedValue(JitValue::of_stream(n, Element::F32), inputs[n]);
                let mut values: Vec<ExpectedValue> = (0..STREAMS).map(stream).collect();
                values.push(ExpectedValue(JitValue::number(0), 0.75));
                values.push(ExpectedValue(JitValue::splat(-1.5), -1.5));
                for _ in 0..operations {
                    let ExpectedValue(value, meaning) = grown(&mut random, &values);
                    // Numbers that stay small are compared exactly for longer.
                    let half = JitValue::splat(0.25);
                    values.push(ExpectedValue(value * half, meaning * 0.25));
                    if values.len() > 90 {
                        values.swap_remove(random.below(50));
                    }
                }
                for (n, &ExpectedValue(value, meaning)) in
                    values.iter().rev().take(STREAMS).enumerate()
                {
                    value.store_to(STREAMS + n, Element::F32);
                    expected.push(meaning);
                }
            });
            let full: Vec<Vec<f32>> = inputs.iter().map(|&v| vec![v; LEN]).collect();
            let mut results = vec![vec![0f32; LEN]; STREAMS];
            let sources = full.iter().map(|x| at(x));
            let streams: Vec<usize> =
                sources.chain(results.iter_mut().map(|y| at_mut(y.as_mut_slice()))).collect();
            let streams: [usize; 2 * STREAMS] = streams.try_into().unwrap();
            run(&code.expect("few masks at a time"), streams, &[0.75], LEN);
            for (n, (y, expected)) in results.iter().zip(expected).enumerate() {
                assert!(
                    y.iter().all(|&y| same(y, expected)),
                    "seed {seed}, result {n}: {y:?} {expected:e}"
                );
            }
        }
    });
}

#[test]
fn too_many_masks_are_refused() {
    on_each_target(|isa| {
        let with_masks = |n: usize| {
            jit_loop(|| {
                let x = JitValue::of_stream(0, Element::F32);
                let all: Vec<JitMask> = (0..n).map(|i| x.lt(JitValue::splat(i as f32))).collect();
                all.into_iter().rev().enumerate().for_each(|(n, mask)| mask.store_to(n + 1));
            })
        };
        // For AVX2 they are vectors, which can leave their registers.
        let are_vectors = isa == Isa::Avx2;
        assert!(with_masks(6).is_some() && with_masks(7).is_some() == are_vectors);
    });
}

/// What is read is overwritten by a result that other operations come after, in every cut of the space.
#[test]
fn what_a_loop_overwrites_is_kept_for_the_next_one() {
    let transposed = Layout::contiguous(&[90, 70]).transpose(&[1, 0]);
    let one_a_row = Layout { sizes: smallvec![9, 700], strides: smallvec![1, 0], offset: 0 };
    for other in [Layout::contiguous(&[70, 90]), transposed, one_a_row] {
        let sizes = other.sizes.clone();
        let instr = |op, args: [u32; 2]| Instr {
            op,
            attrs: Attrs::new(),
            dtype: DType::F32,
            args: args[..].into(),
        };
        // The remainder is not computed in loops.
        let instrs = vec![instr(Op::Add, [0, 1]), instr(Op::Rem, [2, 1]), instr(Op::Mul, [3, 0])];
        let body = LoopBody {
            sizes: sizes.clone(),
            reads: vec![DType::F32; 2],
            instrs,
            results: vec![2, 4],
        };
        let mut random = Random::new(3);
        let mut operand = |(n, layout): (usize, Layout)| {
            let values = super::numbers(&mut random, DType::F32, layout.end() as usize, true);
            (Operand { mem: MemRef::Input(n as u32), dtype: DType::F32, layout }, values)
        };
        let layouts = [Layout::contiguous(&sizes), other].into_iter().enumerate();
        let case = Case {
            kernel: Kernel::Map(body),
            reads: layouts.map(&mut operand).collect(),
            writes: vec![(DType::F32, sizes.clone()), (DType::F32, sizes)],
            scalars: Vec::new(),
            in_place: true,
        };
        case.check_exact();
    }
}

/// Of functions that chains have and loops have not, too.
#[test]
fn what_a_chain_overwrites_is_its_operand() {
    for op in [Op::Cos, Op::Exp, Op::Sqrt, Op::Erf] {
        let instr = |op, args: &[u32]| Instr {
            op,
            attrs: Attrs::new(),
            dtype: DType::F32,
            args: args.into(),
        };
        let body = LoopBody {
            sizes: smallvec![700],
            reads: vec![DType::F32; 2],
            instrs: vec![instr(op, &[0]), instr(Op::Mul, &[2, 0]), instr(Op::Add, &[3, 1])],
            results: vec![4],
        };
        let mut random = Random::new(5);
        let operand = |n: u32| {
            let values = super::numbers(&mut random, DType::F32, 700, true);
            let layout = Layout::contiguous(&[700]);
            (Operand { mem: MemRef::Input(n), dtype: DType::F32, layout }, values)
        };
        let case = Case {
            kernel: Kernel::Map(body),
            reads: [0, 1].map(operand).into(),
            writes: vec![(DType::F32, smallvec![700])],
            scalars: Vec::new(),
            in_place: true,
        };
        case.both();
    }
}

/// Whether it is machine code or not.
#[test]
fn programs_that_differ_in_sizes_have_their_code_in_common() {
    let code = |op: Op, size: i64| {
        let instr = Instr { op, attrs: Attrs::new(), dtype: DType::F32, args: smallvec![0] };
        let body = LoopBody {
            sizes: smallvec![size],
            reads: vec![DType::F32],
            instrs: vec![instr],
            results: vec![1],
        };
        let read = ReadKind { direct: true, rows: true, ..ReadKind::default() };
        let store = StoreKind { dtype: DType::F32, direct: true, rows: true };
        compile::code(&body, &[read], Some(&[store])).unwrap()
    };
    let check = || {
        let (first, again, other) = (code(Op::Exp, 100), code(Op::Exp, 300), code(Op::Neg, 100));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        first
    };
    let plain = without(check);
    on_each_target(|_| assert!(!Arc::ptr_eq(&plain, &check())));
}
