//! Which gradients are refused, and that those that come again are not looked at twice.

use super::tests::{Driver, arg, whole};
use super::*;
use crate::shape::Layout;

const SIZES: [i64; 2] = super::tests::SIZES;

/// The first element of a tensor.
fn first() -> View {
    View { dtype: DType::F32, layout: Layout::contiguous(&[1, 1]) }
}

fn native(name: &str) -> Operator {
    Operator::Native(aten::find(name).unwrap())
}

impl Driver {
    /// A new tensor that is computed from others.
    fn made(&mut self, from: &[BufferId]) -> BufferId {
        let first = self.empty();
        self.apply("neg", &from[..1], first);
        from[1..].iter().fold(first, |sum, &next| {
            let out = self.empty();
            self.apply("add", &[sum, next], out);
            out
        })
    }

    fn apply(&mut self, name: &str, from: &[BufferId], out: BufferId) {
        let view = whole(&SIZES);
        let args: Vec<ArgRef> = from.iter().map(|&id| arg(id, &view)).collect();
        let outs = [TensorRef::new(out, &view)];
        self.call(&Call { op: native(name), args: &args, outs: &outs }).unwrap();
    }

    fn gradient(&mut self, loss: BufferId, params: &[BufferId]) -> Result<Recorded> {
        let (one, view) = (first(), whole(&SIZES));
        let params: Vec<Option<TensorRef>> =
            params.iter().map(|&id| Some(TensorRef::new(id, &view))).collect();
        let outs: Vec<BufferId> = params.iter().map(|_| self.empty()).collect();
        let outs: Vec<TensorRef> = outs.iter().map(|&id| TensorRef::new(id, &view)).collect();
        let args = [arg(loss, &one), ArgRef::Tensors(params)];
        self.call(&Call { op: native("torchacc::grad"), args: &args, outs: &outs })
    }

    fn refused(&mut self, loss: BufferId, params: &[BufferId], why: &str) {
        let recorded = self.trace.len();
        let error = self.gradient(loss, params).unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert_eq!((error.code, self.trace.len()), (Code::InvalidArgument, recorded));
    }
}

#[test]
fn a_loss_must_be_in_the_trace() {
    let mut d = Driver::default();
    let p = d.stored();
    d.refused(p, &[p], "nothing has computed it");
    for (ended, why) in [(0, "a cut or sync"), (1, "a read"), (2, "trace_limit")] {
        let loss = d.made(&[p]);
        d.gradient(loss, &[p]).unwrap();
        match ended {
            0 => d.trace.cut(true),
            1 => d.trace.cut(false),
            _ => d.trace.cut_long(),
        };
        d.refused(loss, &[p], why);
    }
}

#[test]
fn a_loss_is_one_float_and_so_are_parameters() {
    let mut d = Driver::default();
    let p = d.stored();
    let loss = d.made(&[p]);
    let view = whole(&SIZES);
    let number = View { dtype: DType::I32, ..view.clone() };
    let mut fails = |loss: ArgRef, param: &View, why: &str| {
        let args = [loss, ArgRef::Tensors(vec![Some(TensorRef::new(p, param))])];
        let call = Call { op: native("torchacc::grad"), args: &args, outs: &[] };
        let error = d.call(&call).unwrap_err();
        assert!(error.message.contains(why), "{error}");
    };
    fails(arg(loss, &view), &view, "one float, but is f32 of sizes [2, 3]");
    let integer = View { dtype: DType::I32, ..first() };
    fails(arg(loss, &integer), &view, "one float, but is i32");
    fails(arg(loss, &first()), &number, "tensor 0 is i32");
}

#[test]
fn what_was_written_since_is_refused() {
    let mut d = Driver::default();
    let (p, other) = (d.stored(), d.stored());
    let loss = d.made(&[p]);
    d.write("double_", &[arg(p, &whole(&SIZES))], p, &whole(&SIZES)).unwrap();
    d.refused(loss, &[other, p], "tensor 1 was written since the loss");
    // Of the value that it holds now there is a loss.
    let later = d.made(&[p]);
    d.gradient(later, &[p]).unwrap();
    // From outside.
    let loss = d.made(&[other]);
    d.fill(other);
    d.refused(loss, &[other], "was written since");
    // In another trace the old values do not count.
    d.trace.cut(true);
    let loss = d.made(&[p]);
    d.gradient(loss, &[p, other]).unwrap();
}

#[test]
fn what_lies_before_the_cut_is_not_taken_for_a_constant() {
    let mut d = Driver::default();
    for p in [d.stored(), d.empty()] {
        let hidden = d.made(&[p]);
        d.trace.cut_long();
        let further = d.made(&[hidden]);
        d.trace.cut(false);
        let loss = d.made(&[further, p]);
        d.refused(loss, &[p], "by way of what was computed before the last cut");
        // It has another value now, of which the hidden one is no function.
        d.fill(p);
        let loss = d.made(&[further, p]);
        d.gradient(loss, &[p]).unwrap();
        d.trace.cut(true);
    }
}

/// Everything computed from everything: 20^8 ways, each value looked at once.
#[test]
fn many_ways_back_are_gone_once() {
    let mut d = Driver::default();
    let p = d.stored();
    let mut layer: Vec<BufferId> = (0..20).map(|_| d.stored()).collect();
    for _ in 0..8 {
        let next = layer.iter().map(|_| d.made(&layer)).collect();
        d.trace.cut(false);
        layer = next;
    }
    layer.push(p);
    let loss = d.made(&layer);
    d.gradient(loss, &[p]).unwrap();
}

#[test]
fn steps_of_optimizers_are_no_way_for_gradients() {
    let mut d = Driver::default();
    let (view, p, q) = (whole(&SIZES), d.stored(), d.stored());
    let slope = d.made(&[p, q]);
    let list = |id| ArgRef::Tensors(vec![Some(TensorRef::new(id, &view))]);
    let args = [list(q), list(slope), ArgRef::Tensors(vec![])];
    let outs = [TensorRef::new(q, &view)];
    d.call(&Call { op: native("torchacc::sgd"), args: &args, outs: &outs }).unwrap();
    d.trace.cut(true);
    let loss = d.made(&[p, q]);
    d.gradient(loss, &[p]).unwrap();
}

#[test]
fn a_gradient_that_comes_again_is_compared_and_still_checked() {
    let mut d = Driver::default();
    let (view, p) = (whole(&SIZES), d.stored());
    let step = |d: &mut Driver| {
        let loss = d.made(&[p]);
        let recorded = d.gradient(loss, &[p]).unwrap();
        d.write("double_", &[arg(p, &view)], p, &view).unwrap();
        d.trace.cut(true);
        recorded
    };
    assert_ne!(step(&mut d), Recorded::Again);
    assert_eq!(step(&mut d), Recorded::Again);
    // The same operations, but the loss now comes from before a cut as well.
    let hidden = d.made(&[p]);
    d.trace.cut(false);
    let q = hidden;
    let loss = d.made(&[q]);
    d.refused(loss, &[p], "by way of");
}
