//! Every row's meaning against its oracle.

use super::data::absolute;
use super::*;

fn check(case: &Case, bound: &Bound) {
    let operands = case.dense(&case.sample());
    let results = case.evaluate(&operands);
    if let Bound::Fails(code, message) = bound {
        let error = results.expect_err("it fails");
        assert_eq!((error.code, &error.message), (*code, message), "{case}");
        return;
    }
    let got = results.unwrap_or_else(|e| panic!("{case}: {e}"));
    let types = case.results();
    assert!(got.iter().map(|a| &a.ty).eq(&types), "{case} gives other types than it says");
    let oracle = oracle(case.op).unwrap_or_else(|| panic!("{} has no oracle", case.op.name()));
    let want = oracle(&operands, &case.attrs, &types);
    assert!(!want.is_empty(), "{case}");
    let of_absolute = || {
        let magnitudes: Vec<Array> = operands.iter().map(absolute).collect();
        oracle(&magnitudes, &case.attrs, &types)
    };
    compare(case, &got, &want, bound.allowed(&want, of_absolute));
}

fn check_all(family: Vec<Case>) {
    for case in family {
        case.meaning.iter().for_each(|bound| check(&case, bound));
    }
}

families!(tests check_all);
