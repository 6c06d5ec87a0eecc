//! Reductions of nothing.

use super::*;

#[test]
fn reductions_of_nothing_give_the_neutral_element() {
    for row in crate::op::table::TABLE.iter().filter(|row| row.neutral.is_some()) {
        let dtype = if matches!(row.op, Op::Any | Op::All) { Bool } else { F32 };
        let x = Array::zeros(&Ty::new(dtype, &[2, 0]));
        match run(row.op, &[&x], &[ints(&[1])]) {
            Ok(y) => assert_eq!(y[0].to_f64s(), [row.neutral.unwrap(); 2]),
            Err(e) => assert!(e.message.contains("dim 1 to have non-zero size"), "{e}"),
        }
        let empty = run(row.op, &[&x], &[ints(&[0])]).unwrap();
        assert_eq!(empty[0].ty.sizes.as_slice(), [0]);
    }
}
