//! The Fourier transform.

use super::*;

#[test]
fn transforms_of_known_lines() {
    for dtype in [F32, F64] {
        let transform = |x: &[f64], inverse: bool| {
            let x = Array::from_f64(dtype, &[x.len() as i64 / 2, 2], x);
            one(Op::Fft, &[&x], &[Attr::Bool(inverse)]).to_f64s()
        };
        let close = |a: Vec<f64>, b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        // A number at place 1 turns once around.
        let turn = [1., 0., 0., -1., -1., 0., 0., 1.];
        assert!(close(transform(&[0., 0., 1., 0., 0., 0., 0., 0.], false), &turn));
        assert!(close(transform(&turn, true), &[0., 0., 4., 0., 0., 0., 0., 0.]));
        assert!(close(transform(&[1., 2., 1., 2., 1., 2.], false), &[3., 6., 0., 0., 0., 0.]));
        assert_eq!(transform(&[], false).len(), 0);
    }
}
