//! A step that comes again is compared and not recorded; whatever is different is noticed.

use super::tests::{Driver, SIZES, arg, key, operator, whole};
use super::*;
use crate::record::{Output, View};
use crate::shape::Layout;

/// What a step does to a few buffers.
type Step<'a> = &'a dyn Fn(&mut Driver);

/// How many operations of `steps`, each followed by a cut, are recorded in full; every closed trace is compared with
/// that of a driver that knows nothing.
fn in_full(steps: &[Step]) -> Vec<usize> {
    let mut experienced = Driver::default();
    let counts = steps.iter().map(|step| {
        let before = experienced.in_full;
        step(&mut experienced);
        let closed = experienced.trace.cut(true);
        let mut fresh = Driver::default();
        step(&mut fresh);
        let expected = fresh.trace.cut(true);
        assert_eq!(closed.as_ref().map(key), expected.as_ref().map(key));
        if let (Some(closed), Some(expected)) = (closed, expected) {
            // As text: a NaN is itself there.
            assert_eq!(format!("{:?}", closed.records()), format!("{:?}", expected.records()));
            assert_eq!(closed.scalars, expected.scalars);
            assert_eq!(closed.leaves.len(), expected.leaves.len());
        }
        experienced.in_full - before
    });
    counts.collect()
}

/// Three operations on buffers `[x, w, y]`.
fn three(d: &mut Driver) -> [BufferId; 3] {
    let (x, w, y) = (d.stored(), d.stored(), d.empty());
    d.run("a", &[x, w], y);
    d.run("b", &[y, w], y);
    d.run("c", &[y], x);
    [x, w, y]
}

fn plain(d: &mut Driver) {
    three(d);
}

#[test]
fn a_step_that_comes_again_is_not_recorded() {
    assert_eq!(in_full(&[&plain, &plain, &plain]), [3, 0, 0]);
}

#[test]
fn each_difference_is_noticed_at_its_operation() {
    let differences: [(&str, usize, Step); 10] = [
        ("another operator in the middle", 2, &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
            d.run("a", &[y, w], y);
            d.run("c", &[y], x);
        }),
        ("another operand", 2, &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
            d.run("b", &[y, x], y);
            d.run("c", &[y], x);
        }),
        ("one operand twice", 3, &|d| {
            let (x, y) = (d.stored(), d.empty());
            d.run("a", &[x, x], y);
            d.run("b", &[y, x], y);
            d.run("c", &[y], x);
        }),
        ("a new leaf where a known one was", 1, &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
            d.run("b", &[y, w], y);
            d.run("c", &[w], x);
        }),
        ("zeros where memory was", 3, &|d| {
            let (x, w, y) = (d.empty(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
            d.run("b", &[y, w], y);
            d.run("c", &[y], x);
        }),
        ("out of place instead of in place", 0, &|d| {
            let (x, w, y, z) = (d.stored(), d.stored(), d.empty(), d.empty());
            d.run("a", &[x, w], y);
            d.run("b", &[y, w], z);
            d.run("c", &[z], x);
        }),
        ("a result that is dropped", 0, &|d| {
            let [_, _, y] = three(d);
            d.trace.drop_buffer(y);
        }),
        ("one operation fewer", 0, &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
            d.run("b", &[y, w], y);
        }),
        ("one operation more", 1, &|d| {
            let [x, w, _] = three(d);
            d.run("c", &[x], w);
        }),
        ("one argument more", 3, &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w, w], y);
            d.run("b", &[y, w], y);
            d.run("c", &[y], x);
        }),
    ];
    for (what, recorded, other) in differences {
        // Known after the first time, whatever came between.
        let counts = in_full(&[&plain, other, &plain, other, other, &plain]);
        assert_eq!(counts, [3, recorded, 0, 0, 0, 0], "{what}");
    }
}

/// Reads the second row of the first buffer and writes it to the first row of the second, whose other row stays.
fn moved(d: &mut Driver, from: BufferId, to: BufferId) {
    let row = |n: i64| View {
        layout: Layout { offset: 3 * n, ..Layout::contiguous(&[1, 3]) },
        ..whole(&SIZES)
    };
    let (source, target) = (row(1), row(0));
    d.write("move", &[arg(from, &source)], to, &target).unwrap();
}

#[test]
fn another_buffer_than_the_one_read_may_be_partly_written() {
    let within = |d: &mut Driver| {
        let x = d.stored();
        moved(d, x, x);
    };
    let between = |d: &mut Driver| {
        let (x, y) = (d.stored(), d.stored());
        moved(d, x, y);
    };
    assert_eq!(in_full(&[&within, &between, &within, &between]), [1, 1, 0, 0]);
}

#[test]
fn attributes_are_compared_bit_by_bit() {
    let step = |number: f64| {
        move |d: &mut Driver| {
            let (x, y) = (d.stored(), d.empty());
            let view = whole(&SIZES);
            let args = [arg(x, &view), ArgRef::Float(number)];
            d.write("a", &args, y, &view).unwrap();
        }
    };
    let (zero, negative, nan) = (step(0.0), step(-0.0), step(f64::NAN));
    assert_eq!(in_full(&[&zero, &negative, &nan, &nan, &zero, &negative]), [1, 1, 1, 0, 0, 0]);
}

#[test]
fn values_of_scalars_are_not_compared() {
    let step = |factor: f64| {
        move |d: &mut Driver| {
            let (x, y) = (d.stored(), d.empty());
            d.scaled(factor, x, y);
            d.scaled(0.5, y, x);
        }
    };
    let (a, b, same) = (step(0.1), step(f64::NAN), step(0.5));
    assert_eq!(in_full(&[&a, &b, &same, &a]), [2, 0, 0, 0]);
}

#[test]
fn shapes_and_strides_are_compared() {
    let step = |layout: Layout| {
        move |d: &mut Driver| {
            let (x, y) = (d.stored(), d.stored());
            let view = View { dtype: DType::F32, layout: layout.clone() };
            d.write("a", &[arg(x, &view)], y, &view).unwrap();
        }
    };
    let base = Layout::contiguous(&SIZES);
    let (dense, turned) = (step(base.clone()), step(base.transpose(&[1, 0])));
    let column = step(base.slice(&[0, 1], &[2, 1], &[1, 1]));
    let other_column = step(base.slice(&[0, 2], &[2, 1], &[1, 1]));
    assert_eq!(in_full(&[&dense, &turned, &column, &other_column]), [1, 1, 1, 1]);
    assert_eq!(in_full(&[&column, &column, &dense, &column]), [1, 0, 1, 0]);
}

#[test]
fn one_operation_may_write_a_buffer_piece_by_piece() {
    let base = Layout::contiguous(&SIZES);
    let view = |column: i64| View {
        dtype: DType::F32,
        layout: base.slice(&[0, column], &[2, 1], &[1, 1]),
    };
    let (first, second) = (view(0), view(1));
    let step = |d: &mut Driver| {
        let (x, y, z) = (d.stored(), d.stored(), d.empty());
        let outs = [
            TensorRef::new(y, &first),
            TensorRef::new(z, &second),
            TensorRef::new(y, &second),
            TensorRef::new(z, &first),
        ];
        d.call(&Call { op: operator("pieces"), args: &[arg(x, &first)], outs: &outs }).unwrap();
        d.run("a", &[y], x);
    };
    assert_eq!(in_full(&[&step, &step, &step]), [2, 0, 0]);
}

#[test]
fn a_step_that_was_read_in_the_middle_is_two_traces() {
    let mut d = Driver::default();
    let mut step = |read: bool| {
        let before = d.in_full;
        let (x, w, y) = (d.stored(), d.stored(), d.empty());
        d.run("a", &[x, w], y);
        if read {
            assert!(
                d.trace.cut(false).unwrap().outputs.iter().all(|output| output.donor.is_none())
            );
        }
        d.run("b", &[y, w], x);
        d.cut();
        d.in_full - before
    };
    assert_eq!([step(false), step(false)], [2, 0]);
    // What was recorded before the read is the beginning of a known trace; the rest begins like nothing known.
    assert_eq!([step(true), step(true), step(false), step(true)], [1, 0, 0, 0]);
}

#[test]
fn a_refused_operation_does_not_lead_off_the_path() {
    let mut d = Driver::default();
    for step in 0..3 {
        let before = d.in_full;
        let (x, y) = (d.stored(), d.empty());
        d.run("a", &[x], y);
        assert!(d.write("b", &[arg(x, &whole(&[7]))], y, &whole(&SIZES)).is_err());
        d.run("c", &[y], x);
        let records = d.cut().records();
        assert_eq!((records.records.len(), records.values.len()), (2, 3));
        assert_eq!(d.in_full - before, if step == 0 { 2 } else { 0 });
    }
}

#[test]
fn a_comparison_that_fails_half_way_leaves_nothing_behind() {
    let (step, other): (Step, Step) = (
        &|d| {
            let (x, w, y) = (d.stored(), d.stored(), d.empty());
            d.run("a", &[x, w], y);
        },
        // The first operand is found and counted as a leaf before the second one differs.
        &|d| {
            let (x, y) = (d.stored(), d.empty());
            d.run("a", &[x, y], y);
        },
    );
    assert_eq!(in_full(&[step, other, step, other]), [1, 1, 0, 0]);
}

#[test]
fn buffers_may_be_filled_cleared_and_replaced_between_operations() {
    let step = |d: &mut Driver| {
        let (x, y) = (d.stored(), d.empty());
        d.run("a", &[x], y);
        d.fill(x);
        d.run("b", &[x, y], y);
        d.trace.clear(x, 24);
        d.run("c", &[x, y], y);
        d.trace.drop_buffer(x);
        let z = d.stored();
        d.run("d", &[z, y], z);
    };
    assert_eq!(in_full(&[&step, &step]), [4, 0]);
}

#[test]
fn what_lives_on_differs_from_step_to_step() {
    let mut d = Driver::default();
    let x = d.stored();
    let mut kept = Vec::new();
    for step in 0..4 {
        let (y, z) = (d.empty(), d.empty());
        d.run("a", &[x], y);
        d.run("b", &[y], z);
        if step % 2 == 0 {
            kept.push(y)
        } else {
            d.trace.drop_buffer(y)
        }
        let closed = d.cut();
        let output = |value| Output { value, donor: None };
        let expected = if step % 2 == 0 { vec![output(1), output(2)] } else { vec![output(2)] };
        assert_eq!(closed.outputs, expected);
        assert_eq!(d.in_full, 2);
    }
}

#[test]
fn results_are_made_again_where_they_were_inferred() {
    let mut d = Driver::default();
    let mut step = |inferred: bool, name: &str| {
        let (x, view) = (d.stored(), whole(&SIZES));
        let (args, live) = ([arg(x, &view)], d.trace.live_buffers());
        let made = d.trace.again(operator(name), &args, 1, None);
        assert_eq!(d.trace.live_buffers(), live + made.iter().len());
        let y = d.empty();
        if made.is_none() && d.run(name, &[x], y) != Recorded::Again && inferred {
            d.trace.was_inferred();
        }
        d.cut();
        made.map(|made| made[0].1.clone())
    };
    assert_eq!(step(false, "a"), None);
    assert_eq!(step(false, "a"), None, "the caller chose the view");
    assert_eq!(step(true, "b"), None, "another operator");
    assert_eq!(step(true, "b"), Some(whole(&SIZES)));
}

#[test]
fn a_step_of_many_traces_is_replayed() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    let step = |d: &mut Driver| {
        for name in 0..100 {
            d.run(&format!("operator {name}"), &[x], y);
            d.cut();
        }
        d.in_full
    };
    let recorded = step(&mut d);
    assert_eq!(step(&mut d), recorded);
}

#[test]
fn the_number_of_known_traces_is_bounded() {
    let mut d = Driver::default();
    let (x, y) = (d.stored(), d.empty());
    for name in 0..400 {
        d.run(&format!("operator {name}"), &[x], y);
        d.cut();
    }
    assert!(d.trace.history.len() <= 256);
    let before = d.in_full;
    d.run("operator 399", &[x], y);
    assert_eq!(d.in_full, before);
    d.cut();
    d.run("operator 0", &[x], y);
    assert_eq!(d.in_full, before + 1);
}

/// `x + alpha * y` and `x ** exponent`, native operators whose numbers may have to be known.
fn scalar_step(name: &'static str, number: f64) -> impl Fn(&mut Driver) -> bool {
    move |d: &mut Driver| {
        let view = whole(&SIZES);
        let (x, y) = (d.stored(), d.empty());
        let op = Operator::Native(aten::find(name).unwrap());
        let scalar = ArgRef::Scalar { kind: ScalarKind::Float, bits: number.to_bits() };
        let args = match name {
            "aten::addmm" => {
                let beta = ArgRef::Scalar { kind: ScalarKind::Float, bits: 1f64.to_bits() };
                vec![arg(x, &view), arg(x, &view), arg(x, &view), scalar, beta]
            }
            _ => vec![arg(x, &view), scalar],
        };
        d.call(&Call { op, args: &args, outs: &[TensorRef::new(y, &view)] }).unwrap();
        let closed = d.cut();
        !closed.scalars.is_empty()
    }
}

#[test]
fn a_number_that_must_be_known_becomes_an_input_after_its_second_value() {
    let mut d = Driver::default();
    let mut inputs = |number| scalar_step("aten::pow.Tensor_Scalar", number)(&mut d);
    assert!(!inputs(2.0), "a constant at first");
    assert!(!inputs(2.0));
    assert!(inputs(3.0), "an input from the second value on");
    assert!(inputs(0.5) && inputs(1.0) && inputs(2.5));
    assert!(!inputs(-1.0), "an integer may not be raised to it: always a constant");
    let recorded = d.in_full;
    assert_eq!(recorded, 3, "one trace for 2, one for any number, one for -1");
}

#[test]
fn a_number_at_another_place_is_another_number() {
    let mut d = Driver::default();
    let mut inputs = |name: &str, number| {
        let (x, y) = (d.stored(), d.empty());
        d.run(name, &[x], y);
        scalar_step("aten::pow.Tensor_Scalar", number)(&mut d)
    };
    assert!(!inputs("a", 2.0));
    assert!(!inputs("b", 3.0), "the traces differ before");
    assert!(inputs("a", 3.0));
}

#[test]
fn a_number_that_means_something_else_stays_known() {
    let mut d = Driver::default();
    let mut inputs = |number| scalar_step("aten::addmm", number)(&mut d);
    assert!(inputs(0.5));
    assert!(!inputs(0.0), "beta 0 leaves self out, and its NaNs");
    assert!(inputs(1.0));
    assert!(!inputs(0.0));
    assert_eq!(d.in_full, 2);
}
