//! Numbers that follow from sizes: polynomials in the sizes that vary, and floats made of these, both found from examples.
//!
//! **Invariant:** touches integers and floats only. A polynomial is found only where more points agree than determine it.

mod expr;
mod poly;

pub use expr::{Datum, Expr, Finder, SMALLEST};
pub use poly::{Fit, Fitter, LineFitter, Poly};
