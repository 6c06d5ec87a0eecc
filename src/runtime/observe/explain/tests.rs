//! Every kind of difference, named; and bounds.

use super::*;
use crate::dtype::DType::{F32, F64};
use crate::op::arg::ScalarKind;
use crate::record::{Arg, Format, Operator, Origin, Read, Record, Value, View, Write};
use crate::shape::{Dims, Layout};

const SINE: u32 = 0;

static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

fn whole(dtype: crate::dtype::DType, sizes: &[i64]) -> View {
    View { dtype, layout: Layout::contiguous(sizes) }
}

/// A trace of one-argument operations, each on the result of the one before; the first on a leaf.
fn chain(
    operators: &[u32],
    sizes: &[i64],
    change: impl Fn(&mut Vec<Record>, &mut Vec<Value>),
) -> PriorCompile {
    let format = Format { dtype: F32, sizes: sizes.into() };
    let nbytes = 4 * sizes.iter().product::<i64>() as usize;
    let mut values = vec![Value { origin: Origin::Leaf(0), format: format.clone(), nbytes }];
    let mut records = Vec::new();
    for (index, &row) in operators.iter().enumerate() {
        let origin = Origin::Written { record: index as u32, out: 0 };
        values.push(Value { origin, format: format.clone(), nbytes });
        let read = Read { value: index as u32, view: whole(F32, sizes) };
        let write = Write { old: None, view: whole(F32, sizes), value: index as u32 + 1 };
        records.push(Record {
            op: Operator::Native(row),
            args: vec![Arg::Tensor(read), Arg::Int(3)],
            outs: vec![write],
            site: 100 + index as u64,
        });
    }
    change(&mut records, &mut values);
    let last = operators.len() as u32;
    let outputs = vec![Output { value: last, donor: None }];
    PriorCompile {
        trace: Arc::new(RecordedTrace::of(IDS.fetch_add(1, Ordering::Relaxed), values, records)),
        outputs,
    }
}

fn plain(operators: &[u32]) -> PriorCompile {
    chain(operators, &[2, 3], |_, _| ())
}

fn change(old: &PriorCompile, new: &PriorCompile) -> Change {
    match explain([old].into_iter(), new) {
        Why::Changed(change) => change,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_a_change() {
    let one = plain(&[SINE, 1, 2]);
    assert_eq!(explain([].into_iter(), &one), Why::First);
    assert_eq!(explain([&one].into_iter(), &plain(&[5, 1, 2])), Why::New);
    assert_eq!(explain([&one].into_iter(), &one.clone()), Why::Again);
}

type Alter = fn(&mut Vec<Record>, &mut Vec<Value>);

fn read(record: &mut Record) -> &mut Read {
    match &mut record.args[0] {
        Arg::Tensor(read) => read,
        _ => panic!("no tensor"),
    }
}

#[test]
fn each_kind_of_change_is_named() {
    let old = plain(&[SINE, 1, 2]);
    let cases: [(&str, Subject, &str, &str, Alter); 9] = [
        ("operator", Subject::Operation, "", "", |r, _| r[1].op = Operator::Native(7)),
        ("dtype", Subject::Argument(0), "f32", "f64", |r, _| read(&mut r[1]).view.dtype = F64),
        ("shape", Subject::Argument(0), "[2, 3]", "[6]", |r, _| {
            read(&mut r[1]).view = whole(F32, &[6]);
        }),
        (
            "layout",
            Subject::Argument(0),
            "strides [3, 1], offset 0",
            "strides [1, 2], offset 0",
            |r, _| {
                read(&mut r[1]).view.layout.strides = Dims::from_slice(&[1, 2]);
            },
        ),
        ("alias", Subject::Argument(0), "", "input 0, f32[2, 3]", |r, _| read(&mut r[1]).value = 0),
        ("attribute", Subject::Argument(1), "3", "4", |r, _| r[1].args[1] = Arg::Int(4)),
        ("scalar", Subject::Argument(1), "3", "any float", |r, _| {
            r[1].args[1] = Arg::Scalar { kind: ScalarKind::Float, number: 0 };
        }),
        ("arguments", Subject::Argument(1), "3", "5 tensors", |r, _| {
            r[1].args[1] = Arg::Tensors(vec![None; 5]);
        }),
        ("layout", Subject::Result(0), "a whole buffer", "a part of a buffer", |r, _| {
            r[1].outs[0].old = Some(0);
        }),
    ];
    for (aspect, subject, before, after, alter) in cases {
        let found = change(&old, &chain(&[SINE, 1, 2], &[2, 3], alter));
        assert_eq!((found.aspect, found.subject, found.record), (aspect, subject, 1), "{found}");
        assert_eq!((found.site, found.old_site), (101, 101));
        assert!(before.is_empty() || found.old == before, "{found:?}");
        assert!(after.is_empty() || found.new == after, "{found:?}");
        assert!(found.to_string().contains(&found.new), "{found}");
    }
}

#[test]
fn ends_outputs_donations_and_formats() {
    let old = plain(&[SINE, 1, 2]);
    let longer = plain(&[SINE, 1, 2, 3]);
    let found = change(&old, &longer);
    assert_eq!((found.aspect, found.record, found.site), ("length", 3, 103));
    let found = change(&longer, &old);
    assert_eq!((found.aspect, found.site, found.old_site), ("length", 102, 103));
    let keeps =
        |value, donor| PriorCompile { outputs: vec![Output { value, donor }], ..old.clone() };
    let found = change(&old, &keeps(2, None));
    assert_eq!((found.aspect, found.new.as_str(), found.site), ("outputs", "kept", 101));
    let found = change(&old, &keeps(3, Some(0)));
    assert_eq!((found.aspect, found.record), ("donation", 2));
    let other = chain(&[SINE, 1, 2], &[2, 3], |_, values| {
        values[0].format.sizes = Dims::from_slice(&[6]);
    });
    let found = change(&old, &other);
    assert_eq!((found.aspect, found.subject), ("format", Subject::Argument(0)));
    assert_eq!((found.old.as_str(), found.new.as_str()), ("input 0, f32[2, 3]", "input 0, f32[6]"));
}

#[test]
fn the_nearest_trace_has_the_same_operators() {
    let train = plain(&[SINE, 1, 2, 3]);
    let eval = plain(&[SINE, 1]);
    let longer = chain(&[SINE, 1, 2, 3], &[4, 3], |_, _| ());
    for known in [[&train, &eval], [&eval, &train]] {
        match explain(known.into_iter(), &longer) {
            Why::Changed(found) => assert_eq!((found.aspect, found.record), ("shape", 0)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn everything_is_bounded() {
    let log = Explain::default();
    for n in 0..3 * SITES as i64 {
        let known = chain(&[SINE, 1], &[n + 1, 3], |_, _| ());
        log.compiled(&known.trace, &known.outputs, 0, 1);
        let cut = Cut { cause: "asked", site: n as u64 + 1, ..Cut::default() };
        if log.cuts.lock().add(n as u64, 1, Cause::Asked, cut) {
            let count = log.cuts.lock().sites().len() / 2;
            log.cuts.lock().place(count, |site| site);
        }
        log.fallbacks.lock().add("f", n as u64 + 1, Spent { count: 1, time_ns: 2 });
        for (number, _) in log.unsettled() {
            log.settle(number, [n as u64 + 1; 3]);
        }
    }
    let inner = log.inner.lock();
    assert_eq!((inner.compiles.len(), inner.prior.len()), (COMPILES, KNOWN));
    assert!(inner.changes.len() <= SITES);
    drop(inner);
    log.cuts.lock().place(SITES, |site| site);
    let cuts = log.cuts.lock().rows().to_vec();
    assert!(cuts.len() <= 513, "{}", cuts.len());
    assert_eq!(cuts.iter().map(|cut| cut.count).sum::<u64>(), 3 * SITES as u64);
    let calls = log.fallbacks.lock().rows();
    assert!(calls.len() <= SITES + 1);
    assert_eq!(calls.iter().map(|call| call.2.time_ns).sum::<u64>(), 6 * SITES as u64);
}

#[test]
fn a_line_counts_each_reason_for_itself() {
    let log = Explain::default();
    let mut counts = Vec::new();
    for (operator, rows) in [(1, 2), (1, 4), (2, 4), (1, 8), (3, 8)] {
        let known = chain(&[SINE, operator], &[rows, 3], |_, _| ());
        log.compiled(&known.trace, &known.outputs, 0, 1);
        for (number, sites) in log.unsettled() {
            let settled = log.settle(number, sites.map(|_| 9));
            counts.extend(settled.map(|recompile| (recompile.change.aspect, recompile.count)));
        }
    }
    assert_eq!(counts, [("shape", 1), ("operator", 1), ("shape", 2), ("operator", 1)]);
}

#[test]
fn a_line_counts_its_recompiles() {
    let log = Explain::default();
    let mut counts = Vec::new();
    for n in 1..5 {
        let known = chain(&[SINE, 1], &[n, 3], |_, _| ());
        assert_eq!(log.compiled(&known.trace, &known.outputs, 0, 1), n > 1);
        assert!(log.take_pending() && !log.take_pending());
        for (number, sites) in log.unsettled() {
            counts.extend(log.settle(number, sites.map(|_| 9)).map(|recompile| recompile.count));
        }
    }
    assert_eq!(counts, [1, 2, 3]);
    log.reset();
    assert!(
        log.to_json(&[]).starts_with("{\"compiles\": [], \"earlier_compiles\": 4"),
        "{}",
        log.to_json(&[])
    );
}

#[test]
fn cuts_are_merged_by_line_when_somebody_asks() {
    let mut cuts = Cuts::default();
    let read = |site| Cut { cause: "read", site, ..Cut::default() };
    let count =
        |cuts: &Cuts| cuts.rows().iter().map(|cut| (cut.site, cut.count)).collect::<Vec<_>>();
    for trace in 1..=6 {
        assert!(!cuts.again(trace, Cause::Sync));
        assert!(!cuts.add(trace, 3, Cause::Sync, read(10 + trace)));
    }
    assert!(cuts.again(2, Cause::Sync));
    // Of two lines. The last two rows came while lines were asked for.
    let line = |site: u64| site % 2 + 1;
    cuts.place(4, line);
    assert_eq!(count(&cuts), [(2, 2), (1, 3), (15, 1), (16, 1)]);
    assert!([1, 4, 5, 6, 6].into_iter().all(|trace| cuts.again(trace, Cause::Sync)));
    assert_eq!(count(&cuts), [(2, 3), (1, 4), (15, 2), (16, 3)]);
    cuts.place(2, line);
    assert_eq!(count(&cuts), [(2, 5), (1, 7)]);
    assert!(cuts.again(6, Cause::Sync) && cuts.sites().is_empty());
    assert_eq!(count(&cuts), [(2, 5), (1, 8)]);
    // A trace of many calls has many sites.
    assert!(cuts.add(7, cuts::CALLS + 1, Cause::Sync, read(20)));
}
