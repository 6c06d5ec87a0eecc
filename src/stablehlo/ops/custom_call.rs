//! Functions of other systems, by the names under which modules call them.

use super::{control, linalg, order, primitive};
use crate::error::Result;
use crate::invalid;
use crate::stablehlo::lower::Call;
use crate::stablehlo::value::Values;

/// Whether JAX calls a function of Python, such as `xla_ffi_python_cpu_callback`.
fn is_python(target: &str) -> bool {
    target.starts_with("xla_") && target.contains("python") && target.ends_with("callback")
}

pub fn custom_call<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let target = control::callee(c, &["callee", "call_target_name"])?;
    if let Some(name) = target.strip_prefix(primitive::PREFIX) {
        return primitive::call(c, name);
    }
    // XLA's calls for operations that StableHLO lacks, such as GELU's error function.
    let chlo = target.strip_prefix("mhlo.").map(|name| match name {
        "topk" => "chlo.top_k".to_string(),
        name => format!("chlo.{name}"),
    });
    if let Some((operands, rule)) = chlo.and_then(|name| (c.lowering.rules)(&name)) {
        return c.apply(operands, rule);
    }
    match target {
        // Calls for their effects, such as prints.
        _ if is_python(target) && c.op.types.is_empty() => Ok(Values::new()),
        // Annotations of placement or layout change no number.
        "Sharding"
        | "SPMDFullToShardShape"
        | "SPMDShardToFullShape"
        | "annotate_device_placement"
        | "LayoutConstraint"
        | "MoveToDevice"
        | "MoveToHost" => Ok(c.x.clone()),
        "ApproxTopK" => order::approx_top_k(c),
        "LuDecomposition" => linalg::lu(c),
        "Eigh" => linalg::eigh(c),
        "Qr" => linalg::geqrf(c),
        "ProductOfElementaryHouseholderReflectors" => linalg::orgqr(c),
        _ => match linalg::lapack(c, target) {
            Some(results) => results,
            None if is_python(target) => invalid!(
                "`{target}` calls a function of the Python program that wrote this module (a `pure_callback`, or a check such as those of equinox, which EQX_ON_ERROR=nan leaves out), which is not here"
            ),
            None if matches!(target, "lapack_sgesdd_ffi" | "lapack_dgesdd_ffi") => invalid!(
                "LAPACK's function `{target}` is not supported: `jax.export.export(f, platforms=[\"tpu\"])` writes the same without LAPACK"
            ),
            None => invalid!("the function `{target}` of another system is not supported"),
        },
    }
}
