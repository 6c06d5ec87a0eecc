//! Plans instantiated at other sizes are the plans made for these sizes.

mod ragged;

use super::*;
use crate::aten;
use crate::dtype::DType::F32;
use crate::internal;
use crate::op::{Attrs, Op, Ty};
use crate::passes;
use crate::plan::{self, PlanMode, Target};
use crate::record::{Arg, Format, Operator, Origin, Output, Read, Record, Value, View, Write};
use crate::shape::{Layout, numel};
use proved::Proved;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Writes a trace: f32 tensors, each in a buffer of its own.
#[derive(Default)]
struct Scribe(Records);

impl Scribe {
    fn value(&mut self, origin: Origin, sizes: &[i64]) -> u32 {
        let nbytes = numel(sizes) as usize * 4;
        self.0.values.push(Value {
            origin,
            format: Format { dtype: F32, sizes: sizes.into() },
            nbytes,
        });
        self.0.values.len() as u32 - 1
    }

    fn leaf(&mut self, sizes: &[i64]) -> Read {
        let origin = Origin::Leaf(self.0.n_leaves);
        self.0.n_leaves += 1;
        dense(self.value(origin, sizes), sizes)
    }

    fn op(&mut self, name: &str, args: Vec<Arg>, sizes: &[i64]) -> Read {
        let record = self.0.records.len() as u32;
        let value = self.value(Origin::Written { record, out: 0 }, sizes);
        let read = dense(value, sizes);
        let out = Write { old: None, view: read.view.clone(), value };
        let op = Operator::Native(aten::find(name).unwrap_or_else(|| panic!("no {name}")));
        self.0.records.push(Record { op, args, outs: vec![out], site: 7 });
        read
    }

    fn finish(mut self, outputs: &[&Read]) -> Records {
        self.0.outputs = outputs.iter().map(|r| Output { value: r.value, donor: None }).collect();
        self.0
    }
}

fn dense(value: u32, sizes: &[i64]) -> Read {
    Read { value, view: View { dtype: F32, layout: Layout::contiguous(sizes) } }
}

fn of(read: &Read) -> Arg {
    Arg::Tensor(read.clone())
}

fn transposed(read: &Read) -> Read {
    let layout = read.view.layout.transpose(&[1, 0]);
    Read { view: View { layout, ..read.view.clone() }, ..read.clone() }
}

fn ints(list: &[i64]) -> Arg {
    Arg::Ints(list.into())
}

/// softmax(x·xᵀ)·x, its mean over everything, and a sum over the second half of its columns.
fn attention(t: i64, width: i64) -> Records {
    let mut s = Scribe::default();
    let x = s.leaf(&[t, width]);
    let scores = s.op("aten::mm", vec![of(&x), of(&transposed(&x))], &[t, t]);
    let weights = s.op("aten::_softmax", vec![of(&scores), Arg::Int(1), Arg::Bool(false)], &[t, t]);
    let y = s.op("aten::mm", vec![of(&weights), of(&x)], &[t, width]);
    let all = vec![of(&y), ints(&[0, 1]), Arg::Bool(false), Arg::None];
    let mean = s.op("aten::mean.dim", all, &[]);
    let mut half = y.clone();
    half.view.layout = y.view.layout.slice(&[0, width / 2], &[t, width / 2], &[1, 1]);
    let sum = vec![of(&half), ints(&[0]), Arg::Bool(false), Arg::None];
    let columns = s.op("aten::sum.dim_IntList", sum, &[width / 2]);
    s.finish(&[&y, &mean, &columns])
}

/// A machine without scratch memory.
struct Machine;

impl Target for Machine {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }
}

fn planned(
    records: &Records,
    decisions: Option<&PlanDecisions>,
) -> Result<(UnplacedPlan, PlanDecisions)> {
    let graph = passes::optimize(aten::lower(records)?, &|_| true)?;
    let types = |op: Op| {
        let mut leaves: Vec<_> = graph.nodes.iter().filter(move |n| n.op == op).collect();
        leaves.sort_by_key(|leaf| leaf.attrs[0].int());
        leaves.iter().map(|leaf| graph.ty(leaf.first).clone()).collect::<Vec<_>>()
    };
    let donors = vec![None; graph.outputs.len()];
    let mode = decisions.map_or(PlanMode::Search, PlanMode::Guided);
    plan::plan_unplaced(&graph, &types(Op::Input), &[], &donors, &Machine, mode)
}

/// Plans traces as a context would; how often the pipeline ran for other sizes.
#[derive(Default)]
struct Planning {
    families: Families,
    probes: AtomicUsize,
}

impl Planning {
    /// The plan of a trace, and whether it was instantiated.
    fn plan(&self, records: &Records) -> (UnplacedPlan, bool) {
        let erased = ShapeErasedTrace::of(records);
        if let Some(instance) = self.families.instance(&erased, records) {
            let decisions = instance.verify.expect("debug builds verify all");
            let own = planned(records, Some(&decisions)).unwrap().0;
            assert_ne!(compare(&instance.unplaced, &own), Comparison::OtherNumbers);
            return (instance.unplaced, true);
        }
        let (unplaced, decisions) = planned(records, None).unwrap();
        let planner = |records: &Records, decisions: &PlanDecisions| {
            self.probes.fetch_add(1, Relaxed);
            Ok(planned(records, Some(decisions))?.0)
        };
        if self.families.add(&erased) {
            self.families.learn(&erased, records, &unplaced, &decisions, &planner);
        }
        (unplaced, false)
    }

    /// Whether each of these was instantiated.
    fn each(&self, traces: impl IntoIterator<Item = Records>) -> Vec<bool> {
        traces.into_iter().map(|records| self.plan(&records).1).collect()
    }
}

#[test]
fn the_third_length_needs_no_compiling() {
    let planning = Planning::default();
    let lengths = [50, 161, 7, 64, 300, 16, 17, 1000, 8];
    let instantiated = planning.each(lengths.map(|t| attention(t, 16)));
    assert_eq!(instantiated, [false, false, true, true, true, true, true, true, true]);
    assert!(planning.probes.load(Relaxed) < 40, "{} probes", planning.probes.load(Relaxed));
}

/// A family that was learnt in vain: the next attempt, for this trace, holds nobody up.
fn in_vain(planning: &Planning) -> (ShapeErasedTrace, Ticket) {
    planning.each([5, 7].map(|t| attention(t, 8)));
    let erased = ShapeErasedTrace::of(&attention(1, 16));
    let long = ShapeErasedTrace { operations: 1000, ..erased.clone() };
    assert!(planning.families.add(&erased));
    assert!(planning.families.beside(&long).is_none(), "it has one template only");
    planning.families.list.lock()[0].failures = 2;
    assert!(planning.families.beside(&erased).is_none(), "it takes no time");
    let ticket = planning.families.beside(&long).expect("nobody waits for it");
    (erased, ticket)
}

#[test]
fn what_is_learnt_beside_is_used_from_a_certain_trace_on() {
    let planning = Planning::default();
    let (erased, ticket) = in_vain(&planning);
    let is_learning = || planning.families.list.lock()[0].beside.is_some();
    let records = attention(1, 16);
    let (unplaced, decisions) = planned(&records, None).unwrap();
    let planner =
        |records: &Records, decisions: &PlanDecisions| Ok(planned(records, Some(decisions))?.0);
    let families = &planning.families;
    families.learn_beside(ticket, &erased, &records, &unplaced, &decisions, &planner);
    for more in 1..=8 {
        assert!(is_learning(), "{more}");
        let other = attention(1, 16 + 8 * more);
        let erased = ShapeErasedTrace::of(&other);
        assert!(!families.add(&erased), "it is being learnt");
        families.instance(&erased, &other);
    }
    assert!(!is_learning());
}

#[test]
fn where_nobody_waits_an_attempt_knows_more_than_the_last_one() {
    let planning = Planning::default();
    planning.each([5, 7].map(|t| attention(t, 8)));
    planning.families.list.lock()[0].failures = 2;
    let mut is_due = Vec::new();
    for more in 1..=16 {
        let erased = ShapeErasedTrace::of(&attention(1, 16 + 8 * more));
        let long = ShapeErasedTrace { operations: 1000, ..erased };
        is_due.push(planning.families.add(&long));
        if is_due[is_due.len() - 1] {
            assert!(planning.families.beside(&long).is_some());
            planning.families.list.lock()[0].beside = None;
        }
    }
    // When all examples that are kept are there, and then whenever half of them are others.
    let due: Vec<usize> = (1..=16).filter(|n| is_due[n - 1]).collect();
    assert_eq!(due, [6, 10, 14]);
}

#[test]
fn an_attempt_that_is_given_up_holds_nobody_up() {
    let planning = Planning::default();
    let (_, ticket) = in_vain(&planning);
    let (families, other) = (&planning.families, attention(1, 40));
    families.list.lock()[0].beside.as_mut().unwrap().traces_left = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| families.give_up(ticket.number));
        assert!(families.instance(&ShapeErasedTrace::of(&other), &other).is_none());
    });
    assert!(families.list.lock()[0].beside.is_none());
}

#[test]
fn sizes_of_one_and_none_are_compiled_for_themselves() {
    let planning = Planning::default();
    let instantiated = planning.each([50, 161, 1, 0, 5].map(|t| attention(t, 16)));
    assert_eq!(instantiated, [false, false, false, false, true]);
}

#[test]
fn two_sizes_may_vary_at_once() {
    let planning = Planning::default();
    let sizes = [(50, 16), (161, 24), (70, 40), (33, 64), (200, 18), (12, 100)];
    let instantiated = planning.each(sizes.map(|(t, width)| attention(t, width)));
    assert_eq!(instantiated[4..], [true, true], "{instantiated:?}");
}

/// The sum of 35 numbers from a place on.
fn slice(offset: i64) -> Records {
    let mut s = Scribe::default();
    let mut x = s.leaf(&[100_000]);
    x.view.layout = x.view.layout.slice(&[offset], &[35], &[1]);
    let sum = vec![of(&x), ints(&[0]), Arg::Bool(false), Arg::None];
    let sum = s.op("aten::sum.dim_IntList", sum, &[]);
    s.finish(&[&sum])
}

#[test]
fn slices_from_the_start_to_the_end_have_two_programs() {
    let planning = Planning::default();
    let instantiated = planning.each((0..2857).map(|n| slice(35 * n)));
    assert_eq!(instantiated.iter().filter(|&&was| !was).count(), 2, "of the first two");
    assert!(planning.plan(&slice(100_000 - 35)).1);
}

#[test]
fn other_structures_are_other_families() {
    let planning = Planning::default();
    planning.each([50, 161].map(|t| attention(t, 16)));
    let mut other = attention(70, 16);
    other.outputs.pop();
    assert_eq!(planning.each([other]), [false]);
}

#[test]
fn a_number_out_of_line_is_compiled_for_itself() {
    let planning = Planning::default();
    planning.each([50, 161].map(|t| attention(t, 16)));
    let mut odd = attention(70, 16);
    // Another half of the columns.
    let Some(Arg::Tensor(read)) = odd.records[4].args.first_mut() else { panic!("a sum") };
    read.view.layout.offset -= 1;
    assert_eq!(planning.each([odd]), [false]);
}

/// Every second length has an operation more.
#[test]
fn what_holds_for_every_other_length_is_not_instantiated_at_the_others() {
    let planning = Planning::default();
    let planner = |records: &Records, decisions: &PlanDecisions| {
        let odd = records.values[0].format.sizes[0] % 2 == 1;
        if odd { internal!("another plan") } else { Ok(planned(records, Some(decisions))?.0) }
    };
    for t in [50, 160] {
        let records = attention(t, 16);
        let (unplaced, decisions) = planned(&records, None).unwrap();
        let (erased, families) = (ShapeErasedTrace::of(&records), &planning.families);
        let learnt = families.add(&erased)
            && families.learn(&erased, &records, &unplaced, &decisions, &planner);
        assert!(!learnt);
    }
}

/// A number that is another one from some length on: the template ends before that.
#[test]
fn a_template_ends_where_a_number_goes_by_a_step() {
    let planning = Planning::default();
    let planner = |records: &Records, decisions: &PlanDecisions| {
        let mut unplaced = planned(records, Some(decisions))?.0;
        let is_beyond = records.values[0].format.sizes[0] >= 700;
        let mut index = 0;
        unplaced.numbers(&mut |number| {
            if let (true, 3, Number::Int(n) | Number::Size(n)) = (is_beyond, index, number) {
                *n += 1;
            }
            index += 1;
        });
        Ok(unplaced)
    };
    let learnt = [100, 161].map(|t| {
        let records = attention(t, 16);
        let (unplaced, decisions) = planned(&records, None).unwrap();
        let (erased, families) = (ShapeErasedTrace::of(&records), &planning.families);
        families.add(&erased) && families.learn(&erased, &records, &unplaced, &decisions, &planner)
    });
    assert_eq!(learnt, [false, true]);
    let has = |t: i64| {
        let records = attention(t, 16);
        planning.families.instance(&ShapeErasedTrace::of(&records), &records).is_some()
    };
    assert_eq!([150, 200, 700, 1000].map(has), [true, true, false, false]);
}

/// The larger half of a row of `t`: what no polynomial in `t` says.
fn halves(t: i64) -> Records {
    let mut s = Scribe::default();
    let x = s.leaf(&[t, 4]);
    let mut even = x.clone();
    even.view.layout = x.view.layout.slice(&[0, 0], &[(t + 1) / 2, 4], &[2, 1]);
    let y = s.op("aten::exp", vec![of(&even)], &[(t + 1) / 2, 4]);
    s.finish(&[&y])
}

#[test]
fn what_is_no_polynomial_is_not_instantiated_where_it_differs() {
    let planning = Planning::default();
    planning.each([20, 31, 32, 33, 50, 51, 99, 100, 4, 5].map(halves));
}

#[test]
fn places_are_those_of_the_trace_in_hand() {
    let planning = Planning::default();
    planning.each([50, 161].map(|t| attention(t, 16)));
    let mut records = attention(70, 16);
    records.records.iter_mut().for_each(|record| record.site = 9);
    let (unplaced, instantiated) = planning.plan(&records);
    assert!(instantiated && unplaced.placed().steps.iter().all(|step| step.site == 9));
}

#[test]
fn families_and_their_examples_are_bounded() {
    let planning = Planning::default();
    for n in 0..2 * FAMILIES as i64 {
        let mut s = Scribe::default();
        let mut x = s.leaf(&[3, 4]);
        for _ in 0..n + 1 {
            x = s.op("aten::exp", vec![of(&x)], &[3, 4]);
        }
        planning.plan(&s.finish(&[&x]));
    }
    assert!(planning.families.list.lock().len() <= FAMILIES);
    planning.each((2..40).map(|t| attention(t * t, 16)));
    assert!(planning.families.list.lock().iter().all(|f| f.examples.len() <= EXAMPLES));
}

#[test]
fn a_forgotten_family_compiles() {
    let planning = Planning::default();
    planning.each([50, 161].map(|t| attention(t, 16)));
    planning.families.forget(&ShapeErasedTrace::of(&attention(70, 16)));
    assert_eq!(planning.each([70, 80, 90].map(|t| attention(t, 16))), [false; 3]);
}

/// A layer of experts, each of which has rows of its own, and the gradients of their weights.
fn experts(rows: &[i64]) -> Records {
    experts_of_width(rows, 16)
}

fn experts_of_width(rows: &[i64], width: i64) -> Records {
    let mut s = Scribe::default();
    let mut outputs = Vec::new();
    for &n in rows {
        let weight = s.leaf(&[width, 8]);
        let x = s.leaf(&[n, width]);
        let y = s.op("aten::mm", vec![of(&x), of(&weight)], &[n, 8]);
        let y = s.op("aten::_softmax", vec![of(&y), Arg::Int(1), Arg::Bool(false)], &[n, 8]);
        outputs.push(s.op("aten::mm", vec![of(&transposed(&x)), of(&y)], &[width, 8]));
    }
    s.finish(&outputs.iter().collect::<Vec<_>>())
}

#[test]
fn many_sizes_may_vary_each_for_itself() {
    let planning = Planning::default();
    let rows =
        |n: i64| -> Vec<i64> { (1..10).map(|i| 3 + (n * n + i * (2 * n + 5)) % 23).collect() };
    let instantiated = planning.each((1..9).map(|n| experts(&rows(n))));
    assert_eq!(instantiated[4..], [true; 4], "{instantiated:?}");
    assert!(planning.probes.load(Relaxed) < 100, "{} probes", planning.probes.load(Relaxed));
}

/// What is a size and what follows from it is known from the operations: that two sizes grew alike is chance.
#[test]
fn two_traces_tell_many_sizes_apart() {
    let planning = Planning::default();
    let rows = [[9, 14, 21, 30, 40], [11, 10, 25, 31, 38], [30, 5, 8, 12, 6], [70, 90, 4, 9, 50]];
    let instantiated = planning.each(rows.map(|rows| experts(&rows)));
    assert_eq!(instantiated, [false, false, true, true]);
}

#[test]
fn sizes_that_did_not_vary_yet_do_if_what_is_done_with_others_that_do_is_the_same() {
    let planning = Planning::default();
    let rows = [[9, 20, 33, 47, 64], [12, 18, 29, 47, 64], [11, 25, 31, 40, 70]];
    assert_eq!(planning.each(rows.map(|rows| experts(&rows))), [false, false, true]);
}

#[test]
fn experts_with_equal_rows_are_learnt_from_too() {
    let planning = Planning::default();
    let rows =
        |n: i64| -> Vec<i64> { (0..16).map(|i| 12 + (7 * n * n + i * (3 * n + 5)) % 18).collect() };
    let instantiated = planning.each((1..7).map(|n| experts(&rows(n))));
    assert_eq!(instantiated[3..], [true; 3], "{instantiated:?}");
}

/// Rows that are sorted by expert, each part through the expert's weight, put together again.
fn routed(rows: &[i64]) -> Records {
    let (whole, width) = (rows.iter().sum(), 16);
    let mut s = Scribe::default();
    let x = s.leaf(&[whole, width]);
    let mut parts = Vec::new();
    let mut start = 0;
    for &n in rows {
        let weight = s.leaf(&[width, 8]);
        let mut part = x.clone();
        part.view.layout = x.view.layout.slice(&[start, 0], &[n, width], &[1, 1]);
        parts.push(Some(s.op("aten::mm", vec![of(&part), of(&weight)], &[n, 8])));
        start += n;
    }
    let y = s.op("aten::cat", vec![Arg::Tensors(parts), Arg::Int(0)], &[whole, 8]);
    s.finish(&[&y])
}

#[test]
fn parts_of_a_whole_vary_together() {
    let planning = Planning::default();
    let rows =
        [[30, 20, 33, 45], [25, 31, 28, 44], [70, 9, 12, 37], [3, 5, 100, 20], [29, 90, 7, 2]];
    let instantiated = planning.each(rows.map(|rows| routed(&rows)));
    assert_eq!(instantiated, [false, false, true, true, true]);
    let none = planning.each([[128, 0, 0, 0], [1, 90, 7, 30]].map(|rows| routed(&rows)));
    assert_eq!(none, [false, false], "one row and none are programs of their own");
    let other = planning.each([[30, 20, 33, 46]].map(|rows| routed(&rows)));
    assert_eq!(other, [false], "another whole");
}

/// One of the rows of a table, and as many rows of another one as are asked for.
#[test]
fn a_slice_that_begins_after_the_first_element_is_no_special_case() {
    let planning = Planning::default();
    let trace = |at: i64, n: i64| {
        let mut s = Scribe::default();
        let (table, x) = (s.leaf(&[9]), s.leaf(&[n, 4]));
        let mut one = table.clone();
        one.view.layout = table.view.layout.slice(&[at], &[1], &[1]);
        let y = s.op("aten::mul.Tensor", vec![of(&x), of(&one)], &[n, 4]);
        s.finish(&[&y])
    };
    let traces = [(1, 20), (2, 31), (3, 27), (7, 15), (1, 40)].map(|(at, n)| trace(at, n));
    assert_eq!(planning.each(traces), [false, false, true, true, true]);
}

/// Models of several widths, each with plans of its own: what varies within one of them is learnt, after many failures too.
#[test]
fn many_sizes_are_learnt_for_each_width() {
    let planning = Planning::default();
    let width = |records: &Records| records.values[0].format.sizes[0];
    let run = |n: i64, wide: i64| {
        let rows: Vec<i64> = (1..4).map(|i| 3 + (n * n + i * (2 * n + 5)) % 23).collect();
        let records = experts_of_width(&rows, wide);
        let erased = ShapeErasedTrace::of(&records);
        if planning.families.instance(&erased, &records).is_some() {
            return true;
        }
        let (unplaced, decisions) = planned(&records, None).unwrap();
        let planner = |other: &Records, decisions: &PlanDecisions| {
            let same = width(other) == wide;
            if same { Ok(planned(other, Some(decisions))?.0) } else { internal!("another plan") }
        };
        if planning.families.add(&erased) {
            planning.families.learn(&erased, &records, &unplaced, &decisions, &planner);
        }
        false
    };
    for wide in [16, 24, 48] {
        let instantiated: Vec<bool> = (1..9).map(|n| run(n, wide)).collect();
        assert_eq!(instantiated[5..], [true; 3], "{wide}: {instantiated:?}");
    }
    assert!(run(9, 16), "the first width's template stays");
    (30..40).for_each(|half| assert!(!run(1, 2 * half)));
    assert!((1..32).any(|n| run(n, 96)));
}

#[test]
fn sizes_beside_a_line_are_compared() {
    let line: Vec<Vec<i64>> = (4..=70).map(|n| vec![2 * n, n, n + 7]).collect();
    let mut proved = Proved::new(&line);
    assert!(proved.contains(&[40, 20, 27]));
    proved.add(&[70, 33, 51]);
    assert!(!proved.contains(&[50, 25, 30]));
    proved.add(&[40, 22, 30]);
    proved.add(&[20, 20, 40]);
    assert!(proved.contains(&[50, 25, 30]), "all of space");
}

#[test]
fn sizes_of_other_parities_are_compared() {
    let pairs: Vec<Vec<i64>> = (8..=70).map(|n| vec![n, n + n % 7 / 6 * 2]).collect();
    let mut proved = Proved::new(&pairs);
    assert!(proved.contains(&[20, 40]) && proved.contains(&[21, 43]));
    assert!(!proved.contains(&[20, 41]), "half of a sum is another one");
    proved.add(&[30, 35]);
    assert!(proved.contains(&[20, 41]) && !proved.contains(&[41, 20]));
}
