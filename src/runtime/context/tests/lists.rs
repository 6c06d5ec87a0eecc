//! Lists that are put together as bytes hold what their tensors held, whatever is computed before and after.

use super::*;

fn list<'v>(ids: &[BufferId], view: &'v View) -> Vec<TensorRef<'v>> {
    ids.iter().map(|&id| TensorRef::new(id, view)).collect()
}

#[test]
fn parts_are_what_programs_made_and_not_what_they_make_later() {
    let (context, n) = (context("cpu", 0, 0), 1 << 12);
    let (x, fresh) = (stored(&context, n, 1.0), context.new_buffer(4 * n));
    let view = view(n as i64);
    let mut made = Vec::new();
    for _ in 0..50 {
        // In place: the next program takes this memory over.
        scale(&context, x, 2.0, x, n as i64);
        scale(&context, x, 0.5, x, n as i64);
        add(&context, x, x, n as i64);
        assert!(context.concatenate(&list(&[x, x], &view), fresh).is_err());
        context.cut().unwrap();
        let out = context.new_buffer(3 * 4 * n);
        context.concatenate(&list(&[x, fresh, x], &view), out).unwrap();
        made.push(out);
    }
    for (step, out) in made.into_iter().enumerate() {
        let found = floats(&context, out, 3 * n);
        let grown = 2f32.powi(step as i32 + 1);
        let parts = [grown, 0.0, grown];
        assert!((0..3 * n).all(|k| found[k] == parts[k / n]), "step {step}");
    }
    assert_eq!(context.shared.observed.stats.compiles.get(), 1);
    assert_eq!(context.shared.observed.stats.concatenations.get(), 50);
}

#[test]
fn what_failed_is_said_of_the_list_too() {
    let function = Box::new(|_: &[crate::op::host::HostArg], _: &[crate::op::host::HostTensor]| {
        crate::invalid!("it fails")
    });
    let op = HostOp {
        name: "fails".into(),
        key: "fails".into(),
        function,
        shape: None,
        cuda: None,
        device_function: None,
    };
    let context = context("cpu", 0, 0);
    let (x, y, out) = (stored(&context, 3, 1.0), context.new_buffer(12), context.new_buffer(24));
    let view = view(3);
    let args = [ArgRef::Tensor(TensorRef::new(x, &view))];
    let call = crate::trace::Call {
        op: Operator::Host(register(op)),
        args: &args,
        outs: &[TensorRef::new(y, &view)],
    };
    context.record(&call).unwrap();
    context.cut().unwrap();
    context.concatenate(&list(&[x, y], &view), out).unwrap();
    scale(&context, out, 2.0, out, 6);
    let error = context.read(out, 0, &mut [0; 24]).unwrap_err();
    assert!(error.message.contains("it fails"), "{error:?}");
    assert!(context.concatenate(&list(&[x], &view), out).is_err());
}
