//! The trace of a family at other sizes, if such a trace is possible.

use super::symbol_map::SymbolMap;
use crate::number::{Number, Numbers};
use crate::record::{Arg, Read, Records, View};
use crate::symbolic::Datum;

/// Bytes of one value beyond which no point is tried.
pub const LARGEST: i64 = 1 << 40;

/// The trace at a point, if such a trace is possible.
pub fn at_point(symbol_map: &SymbolMap, records: &Records, point: &[i64]) -> Option<Records> {
    resized(symbol_map, records.clone(), point)
}

/// [`at_point`], in place of the trace.
pub fn resized(symbol_map: &SymbolMap, mut records: Records, point: &[i64]) -> Option<Records> {
    let mut numbers = symbol_map.at(point)?.into_iter();
    let mut sound = true;
    records.numbers(&mut |number| {
        if !matches!(number, Number::Float(_)) {
            let datum = numbers.next().map(Datum::Int);
            sound &= datum.and_then(|datum| datum.put(number)).is_some();
        }
    });
    (sound && is_possible(&records)).then_some(records)
}

/// The bounds that the program declares for a symbol, if it does.
pub fn said(
    symbol_map: &SymbolMap,
    records: &Records,
    base: &[i64],
    s: usize,
) -> Option<(i64, i64)> {
    let numbers = symbol_map.at(base)?;
    records.varying.iter().find_map(|varying| {
        let (symbol, more) = symbol_map.symbol_of(&numbers, varying.size)?;
        (symbol == s).then(|| (varying.least - more, varying.most - more))
    })
}

/// The value nearest to `limit` that is possible; `good` and all values between the two are possible.
pub fn last_possible(possible: &dyn Fn(i64) -> bool, good: i64, limit: i64) -> i64 {
    if possible(limit) {
        return limit;
    }
    let (mut good, mut bad) = (good, limit);
    while good.abs_diff(bad) > 1 {
        let middle = good + (bad - good) / 2;
        if possible(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Whether every view of the trace is inside its memory.
fn is_possible(records: &Records) -> bool {
    let nbytes = |value: u32| records.values.get(value as usize).map_or(0, |v| v.nbytes as i64);
    let fits = |view: &View, value: u32| {
        let end = view.layout.end().saturating_mul(view.dtype.size() as i64);
        let positive = |list: &[i64]| list.iter().all(|&n| n >= 0);
        positive(&view.layout.sizes)
            && positive(&view.layout.strides)
            && view.layout.offset >= 0
            && end <= nbytes(value)
    };
    let reads = |read: &Read| fits(&read.view, read.value);
    let is_sound = |arg: &Arg| match arg {
        Arg::Tensor(read) => reads(read),
        Arg::Tensors(list) => list.iter().flatten().all(reads),
        _ => true,
    };
    let values = records.values.iter().all(|value| {
        let bytes = value.format.numel().saturating_mul(value.format.dtype.size() as i64);
        value.format.sizes.iter().all(|&n| n >= 0)
            && bytes == value.nbytes as i64
            && bytes <= LARGEST
    });
    values
        && records.records.iter().all(|record| {
            record.args.iter().all(is_sound)
                && record.outs.iter().all(|out| fits(&out.view, out.value))
        })
}
