//! Gradients through the trace so far.

use crate::aten::call::Call;
use crate::aten::{Outs, Row, read, row};
use crate::error::Result;
use crate::grad::gradients;
use crate::graph::math::V;
use crate::invalid;
use crate::record::{Arg, Read};

pub const ROWS: &[Row] = &[row("torchacc::grad", &[""], gradient).differentiates().flows_by(2)];

/// `(loss, params, tokens)` → the derivatives of the loss with respect to the current values of the params, each in its
/// param's view, then the tokens; these may be left out.
fn gradient<'a>(c: &Call<'a>) -> Outs<'a> {
    let Arg::Tensors(params) = c.arg(1) else {
        return invalid!("the second argument must be a list of tensors");
    };
    let reads: Vec<&Read> = params.iter().flatten().collect();
    let whole = |read: &&Read| c.values.whole(c.math, read);
    let values: Vec<V> = reads.iter().map(whole).collect::<Result<_>>()?;
    let tokens = match c.arg(2) {
        Arg::Tensors(list) => list.iter().flatten().map(|token| c.read(token)).collect(),
        _ => Ok(Vec::new()),
    };
    let (found, tokens) = gradients(c.math, c.tensor(0)?, &values, tokens?)?;
    let shown = found.into_iter().zip(reads).map(|(v, param)| read::read(v, &param.view));
    Ok(shown.chain(tokens).collect())
}
