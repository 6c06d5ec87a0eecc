//! Every change of a record changes its bytes, except for its site and the numbers of slots.

use super::*;
use crate::dtype::DType;
use crate::op::arg::ScalarKind;
use crate::op::host::{HostOp, register};
use crate::shape::{Dims, Layout};
use std::collections::HashMap;

/// Small numbers, so that equal ones are frequent.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn dims(&mut self, rank: u64) -> Dims {
        (0..rank).map(|_| self.below(3) as i64).collect()
    }

    fn view(&mut self) -> View {
        let rank = self.below(3);
        let layout = Layout {
            sizes: self.dims(rank),
            strides: self.dims(rank),
            offset: self.below(2) as i64,
        };
        View { dtype: [DType::F32, DType::I64][self.below(2) as usize], layout }
    }

    fn read(&mut self) -> Read {
        Read { value: self.below(3) as u32, view: self.view() }
    }

    fn number(&mut self) -> f64 {
        [0.0, -0.0, 1.0, f64::NAN, f64::from_bits(f64::NAN.to_bits() + 1)][self.below(5) as usize]
    }

    fn arg(&mut self) -> Arg {
        match self.below(12) {
            0 => Arg::None,
            1 => Arg::Tensor(self.read()),
            2 => Arg::Tensors(
                (0..self.below(3)).map(|_| (self.below(2) > 0).then(|| self.read())).collect(),
            ),
            3 => Arg::Scalar {
                kind: [ScalarKind::Bool, ScalarKind::Int, ScalarKind::Float]
                    [self.below(3) as usize],
                number: 0,
            },
            4 => Arg::Int(self.below(2) as i64),
            5 => Arg::Float(self.number()),
            6 => Arg::Bool(self.below(2) > 0),
            7 => {
                let rank = self.below(3);
                Arg::Ints(self.dims(rank))
            }
            8 => Arg::Floats((0..self.below(3)).map(|_| self.number()).collect()),
            9 => Arg::Bools((0..self.below(3)).map(|_| self.below(2) > 0).collect()),
            10 => Arg::DType([DType::F32, DType::I64][self.below(2) as usize]),
            _ => Arg::Str("ab"[..self.below(3) as usize].to_string()),
        }
    }

    fn record(&mut self) -> Record {
        let outs = (0..self.below(3)).map(|value| Write {
            old: (self.below(2) > 0).then(|| self.below(3) as u32),
            view: self.view(),
            value: value as u32,
        });
        let outs = outs.collect();
        let args = (0..self.below(3)).map(|_| self.arg()).collect();
        Record { op: Operator::Native(self.below(2) as u32), args, outs, site: 0 }
    }
}

fn bytes(r: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record(&mut out, r);
    out
}

#[test]
fn traces_with_equal_bytes_are_equal() {
    let mut random = Random(1);
    let mut seen: HashMap<Vec<u8>, String> = HashMap::new();
    for _ in 0..40_000 {
        // Several records, so that no byte may move from one to the next.
        let records: Vec<Record> = (0..1 + random.below(2)).map(|_| random.record()).collect();
        // NaNs print alike, so floats are shown by their bits; the numbers of values follow from the order.
        let text = format!("{:?}", records.iter().map(shown).collect::<Vec<_>>());
        let all: Vec<u8> = records.iter().flat_map(bytes).collect();
        let known = seen.entry(all).or_insert_with(|| text.clone());
        assert_eq!(*known, text);
    }
    let texts: std::collections::HashSet<&String> = seen.values().collect();
    assert_eq!(texts.len(), seen.len(), "equal traces have equal bytes");
}

/// All of a record that must be in its bytes.
fn shown(record: &Record) -> String {
    let Record { op, args, outs, site: _ } = record;
    let arg = |arg: &Arg| match arg {
        Arg::Float(f) => format!("float {:x}", f.to_bits()),
        Arg::Floats(list) => {
            format!("floats {:?}", list.iter().map(|f| f.to_bits()).collect::<Vec<_>>())
        }
        Arg::Scalar { kind, number: _ } => format!("scalar {kind:?}"),
        other => format!("{other:?}"),
    };
    let out = |Write { old, view, value: _ }: &Write| format!("{old:?} {view:?}");
    let (args, outs): (Vec<_>, Vec<_>) =
        (args.iter().map(arg).collect(), outs.iter().map(out).collect());
    format!("{op:?} {args:?} {outs:?}")
}

/// Every record that differs from `r` in one thing, with the name of the thing.
fn neighbours(r: &Record) -> Vec<(String, Record)> {
    let mut all = Vec::new();
    let mut add = |what: &str, change: &dyn Fn(&mut Record)| {
        let mut other = r.clone();
        change(&mut other);
        all.push((what.to_string(), other));
    };
    add("operator", &|r| r.op = Operator::Native(77));
    add("argument more", &|r| r.args.push(Arg::None));
    add("result more", &|r| {
        r.outs.push(Write { old: None, view: r.outs[0].view.clone(), value: 9 })
    });
    add("argument fewer", &|r| drop(r.args.pop()));
    add("dtype of a result", &|r| r.outs[0].view.dtype = DType::F64);
    add("size of a result", &|r| r.outs[0].view.layout.sizes[1] += 1);
    add("stride of a result", &|r| r.outs[0].view.layout.strides[0] += 1);
    add("offset of a result", &|r| r.outs[0].view.layout.offset += 1);
    add("rank of a result", &|r| {
        r.outs[0].view.layout.sizes.push(1);
        r.outs[0].view.layout.strides.push(1);
    });
    add("what a result keeps", &|r| r.outs[0].old = Some(0));
    add("which value a result keeps", &|r| r.outs[1].old = Some(5));
    add("whether a result covers", &|r| r.outs[1].old = None);
    for index in 0..r.args.len() {
        for (what, arg) in other_args(&r.args[index]) {
            add(&format!("argument {index}: {what}"), &|r| r.args[index] = arg.clone());
        }
        add("order of arguments", &|r| r.args.rotate_left(index + 1));
    }
    // Rotated by its whole length a record is the same.
    all.retain(|(_, other)| other != r);
    all
}

fn other_reads(read: &Read) -> Vec<(&'static str, Read)> {
    let mut all = vec![("value", Read { value: read.value + 1, ..read.clone() })];
    let mut add = |what, change: &dyn Fn(&mut View)| {
        let mut view = read.view.clone();
        change(&mut view);
        all.push((what, Read { view, ..read.clone() }));
    };
    add("dtype", &|v| v.dtype = DType::BF16);
    add("size", &|v| v.layout.sizes[0] += 1);
    add("stride", &|v| v.layout.strides[1] += 1);
    add("offset", &|v| v.layout.offset += 1);
    add("dimensions", &|v| v.layout.sizes.swap(0, 1));
    all
}

fn other_args(arg: &Arg) -> Vec<(&'static str, Arg)> {
    let mut all = match arg {
        Arg::None => vec![],
        Arg::Tensor(read) => {
            other_reads(read).into_iter().map(|(what, read)| (what, Arg::Tensor(read))).collect()
        }
        Arg::Tensors(list) => {
            let first = list[0].as_ref().expect("the sample has one there");
            let with = |read: Option<Read>| {
                let mut list = list.clone();
                list[0] = read;
                Arg::Tensors(list)
            };
            let mut all: Vec<_> =
                other_reads(first).into_iter().map(|(what, r)| (what, with(Some(r)))).collect();
            all.push(("absent", with(None)));
            all.push(("fewer", Arg::Tensors(list[1..].to_vec())));
            all
        }
        Arg::Scalar { .. } => [ScalarKind::Bool, ScalarKind::Int]
            .map(|kind| ("kind", Arg::Scalar { kind, number: 0 }))
            .to_vec(),
        Arg::Int(i) => vec![("number", Arg::Int(i + 1)), ("bool", Arg::Bool(*i != 0))],
        Arg::Float(_) => vec![("sign of zero", Arg::Float(-0.0)), ("NaN", Arg::Float(f64::NAN))],
        Arg::Bool(b) => vec![("other", Arg::Bool(!b)), ("int", Arg::Int(*b as i64))],
        Arg::Ints(list) => vec![
            ("one", Arg::Ints(list.iter().map(|n| n + 1).collect())),
            ("longer", Arg::Ints(list.iter().copied().chain([0]).collect())),
        ],
        Arg::Floats(list) => vec![("sign", Arg::Floats(list.iter().map(|f| -f).collect()))],
        Arg::Bools(list) => vec![("other", Arg::Bools(list.iter().map(|b| !b).collect()))],
        Arg::DType(_) => vec![("other", Arg::DType(DType::BF16))],
        Arg::Str(s) => vec![("longer", Arg::Str(format!("{s} ")))],
    };
    all.push(("nothing", Arg::None));
    all
}

/// A record with every kind of argument.
fn sample() -> Record {
    let view = |offset| View {
        dtype: DType::F32,
        layout: Layout { offset, ..Layout::contiguous(&[2, 3]) },
    };
    let read = |value| Read { value, view: view(0) };
    let args = vec![
        Arg::Tensor(read(0)),
        Arg::Tensors(vec![Some(read(1)), None, Some(read(0))]),
        Arg::Scalar { kind: ScalarKind::Float, number: 0 },
        Arg::Int(1),
        Arg::Float(0.0),
        Arg::Bool(true),
        Arg::Ints(Dims::from_slice(&[1, 2])),
        Arg::Floats(vec![0.0, 1.0]),
        Arg::Bools(vec![true, false]),
        Arg::DType(DType::F16),
        Arg::Str("mean".into()),
        Arg::None,
    ];
    let outs = vec![
        Write { old: None, view: view(0), value: 2 },
        Write { old: Some(1), view: view(1), value: 3 },
    ];
    Record { op: Operator::Native(3), args, outs, site: 7 }
}

#[test]
fn one_thing_that_changes_changes_the_bytes() {
    let record = sample();
    let neighbours = neighbours(&record);
    assert!(neighbours.len() > 60);
    for (what, other) in &neighbours {
        assert_ne!(bytes(&record), bytes(other), "{what}");
    }
}

#[test]
fn sites_and_slots_are_no_part_of_the_bytes() {
    let mut other = Record { site: 8, ..sample() };
    other.args[2] = Arg::Scalar { kind: ScalarKind::Float, number: 5 };
    assert_eq!(bytes(&sample()), bytes(&other));
}

#[test]
fn host_operators_are_told_by_their_keys() {
    let host = |key: &str| {
        let function = Box::new(|_: &[host::HostArg], _: &[host::HostTensor]| Ok(()));
        Operator::Host(register(HostOp {
            name: "same".into(),
            key: key.into(),
            function,
            shape: None,
            cuda: None,
            device_function: None,
        }))
    };
    let with = |op| bytes(&Record { op, ..sample() });
    assert_ne!(with(host("encode a")), with(host("encode b")));
    assert_eq!(with(host("encode a")), with(host("encode a")));
    let key = b"encode a";
    assert!(with(host("encode a")).windows(key.len()).any(|w| w == key), "not only its hash");
}

/// Hash of the bytes of [`sample`], in every process and on every machine.
const GOLDEN: u128 = 88627338773550817877207009064560269441;

#[test]
fn bytes_are_the_same_in_every_process() {
    assert_eq!(xxhash_rust::xxh3::xxh3_128(&bytes(&sample())), GOLDEN);
}

#[test]
fn what_is_found_left_and_overwritten_is_distinguished() {
    let value = |origin, sizes: &[i64], dtype| Value {
        origin,
        format: Format { dtype, sizes: sizes.into() },
        nbytes: 24,
    };
    let kinds = [
        vec![value(Origin::Leaf(0), &[6], DType::F32)],
        vec![value(Origin::Zeros, &[6], DType::F32)],
        vec![value(Origin::Leaf(0), &[2, 3], DType::F32)],
        vec![value(Origin::Leaf(0), &[6], DType::I32)],
        vec![value(Origin::Leaf(0), &[6], DType::F32), value(Origin::Leaf(1), &[6], DType::F32)],
        vec![
            value(Origin::Written { record: 0, out: 0 }, &[6], DType::F32),
            value(Origin::Leaf(0), &[6], DType::F32),
        ],
    ];
    let all: std::collections::HashSet<Vec<u8>> = kinds.iter().map(|v| leaves(v)).collect();
    assert_eq!(all.len(), kinds.len());
    let output = |value, donor| Output { value, donor };
    assert_ne!(outputs(&[output(1, None)]), outputs(&[output(2, None)]));
    assert_ne!(outputs(&[output(1, None)]), outputs(&[output(1, None), output(2, None)]));
    assert_eq!(outputs(&[output(1, None)]), outputs(&[output(1, Some(0))]));
    assert_ne!(donors(&[output(1, None)]), donors(&[output(1, Some(0))]));
    assert_ne!(donors(&[output(1, Some(1))]), donors(&[output(1, Some(0))]));
}
