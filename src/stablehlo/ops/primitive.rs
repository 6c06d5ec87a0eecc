//! Primitives of ours that StableHLO has no operation for: calls of `torchacc.<primitive>` with its attributes by name.

use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::op::{Attr, Attrs, Class, Op};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::Call;
use crate::stablehlo::value::{Value, Values};

pub const PREFIX: &str = "torchacc.";

pub fn call<'m>(c: &Call<'_, '_, 'm>, name: &str) -> Result<Values<'m>> {
    let op = match Op::from_name(name) {
        Some(op)
            if !matches!(op.class(), Class::Host | Class::Nested)
                && !matches!(op, Op::Input | Op::Scalar) =>
        {
            op
        }
        _ => return invalid!("no primitive is called `{name}`"),
    };
    let config = c.find(&["backend_config", "composite_attributes"]);
    let attr = |name: &&'static str| match config.and_then(|config| config.entry(name)) {
        Some(value) => of_ours(value).ok_or(*name),
        None => Err(*name),
    };
    let attrs: std::result::Result<Attrs, &'static str> = op.row().attrs.iter().map(attr).collect();
    let attrs = match attrs {
        Ok(attrs) => attrs,
        Err(name) => return invalid!("the attribute `{name}` is missing, or of another kind"),
    };
    let operands: Vec<_> = c.x.iter().map(|x| x.stored()).collect();
    let results = c.math().ops(op, &operands, attrs)?;
    // Unsigned results are carried as signed ones from here on.
    let carried = |v: crate::graph::math::V<'m>| {
        let dtype = v.dtype();
        Value::new(v.bitcast(crate::stablehlo::types::carrier(dtype)), dtype)
    };
    Ok(results.into_iter().map(carried).collect())
}

fn of_ours(value: &Attribute) -> Option<Attr> {
    match value {
        Attribute::Int(n) => Some(Attr::Int(*n)),
        Attribute::Bool(b) => Some(Attr::Bool(*b)),
        Attribute::Float(x) => Some(Attr::Float(*x)),
        Attribute::Text(text) => match text.strip_prefix("bits:") {
            Some(bits) => {
                u64::from_str_radix(bits, 16).ok().map(|bits| Attr::Float(f64::from_bits(bits)))
            }
            None => DType::from_name(text).map(Attr::DType),
        },
        // Artifacts write lists as literals.
        Attribute::List(_) | Attribute::Dense(_) => Some(Attr::Ints(value.ints().ok()?.into())),
        _ => None,
    }
}

/// The text that [`of_ours`] reads. `None`: a kind that only host operators, inputs and modules have.
pub fn text(attr: &Attr) -> Option<String> {
    Some(match attr {
        Attr::Int(n) => format!("{n} : i64"),
        Attr::Bool(b) => b.to_string(),
        Attr::Float(x) => format!("\"bits:{:x}\"", x.to_bits()),
        Attr::Ints(list) if list.is_empty() => "array<i64>".into(),
        Attr::Ints(list) => {
            let numbers: Vec<String> = list.iter().map(i64::to_string).collect();
            format!("array<i64: {}>", numbers.join(", "))
        }
        Attr::DType(dtype) => format!("\"{dtype}\""),
        Attr::Types(_) | Attr::Args(_) | Attr::Body(_) => return None,
    })
}
