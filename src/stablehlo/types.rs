//! Types of StableHLO, and the dtypes of ours in which their elements are computed.

use super::cursor::Cursor;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Ty;
use crate::shape::Dims;

/// Names of element types. An index is 64 bits wide.
const ELEMENTS: [(&str, DType); 23] = [
    ("i1", DType::Bool),
    ("ui8", DType::U8),
    ("i8", DType::I8),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("f16", DType::F16),
    ("bf16", DType::BF16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("complex<f32>", DType::C64),
    ("complex<f64>", DType::C128),
    ("ui16", DType::U16),
    ("ui32", DType::U32),
    ("ui64", DType::U64),
    ("complex<f16>", DType::C32),
    ("f8E4M3FN", DType::F8E4M3FN),
    ("f8E5M2", DType::F8E5M2),
    ("f8E4M3FNUZ", DType::F8E4M3FNUZ),
    ("f8E5M2FNUZ", DType::F8E5M2FNUZ),
    ("f8E8M0FNU", DType::F8E8M0FNU),
    ("index", DType::I64),
    ("si32", DType::I32),
];

/// More dimensions than any program has.
const MAX_RANK: usize = 64;

/// The name of `dtype` in StableHLO.
pub fn element_name(dtype: DType) -> &'static str {
    ELEMENTS.iter().find(|row| row.1 == dtype).expect("every dtype has a name").0
}

/// `tensor<2x3xf32>`
pub fn type_name(ty: &Ty) -> String {
    let sizes: String = ty.sizes.iter().map(|s| format!("{s}x")).collect();
    format!("tensor<{sizes}{}>", element_name(ty.dtype))
}

/// The dtype in which numbers of `dtype` are computed, bit by bit: unsigned ones as signed ones of their width, since sums,
/// products and logic are the same there. The operations that differ are in `ops/integers.rs`.
pub fn carrier(dtype: DType) -> DType {
    match dtype {
        DType::U16 => DType::I16,
        DType::U32 => DType::I32,
        DType::U64 => DType::I64,
        other => other,
    }
}

pub fn is_carried(dtype: DType) -> bool {
    carrier(dtype) != dtype
}

pub fn is_unsigned(dtype: DType) -> bool {
    is_carried(dtype) || matches!(dtype, DType::U8 | DType::Bool)
}

/// The type of a value that is an array.
pub fn tensor(c: &mut Cursor) -> Result<Ty> {
    c.peek();
    let start = c.at;
    let word = c.peek_word();
    if word != "tensor" {
        if let Some(dtype) = element(c)? {
            return Ok(Ty::new(dtype, &[]));
        }
        return c.fail(start, "expected the type of an array, `tensor<…>`");
    }
    c.word();
    c.expect("<")?;
    let mut sizes = Dims::new();
    loop {
        match c.peek() {
            b'?' | b'*' => return c.fail(c.at, "sizes that are not known are not supported"),
            b'0'..=b'9' => {
                let at = c.at;
                let word = c.word();
                let Some((size, rest)) = word.split_once('x') else {
                    return c.fail(at, "expected `x` after a size");
                };
                let Ok(size) = size.parse::<i64>() else {
                    return c.fail(at, format!("`{size}` is no size"));
                };
                sizes.push(size);
                // `2x3xf32` is one word: the text after the `x` is read next.
                c.at -= rest.len();
                if sizes.len() > MAX_RANK {
                    return c.fail(start, format!("more than {MAX_RANK} dimensions"));
                }
            }
            _ => break,
        }
    }
    let at = c.at;
    let Some(dtype) = element(c)? else {
        let word = c.peek_word();
        return c.fail(at, format!("elements of type `{word}` are not supported"));
    };
    if c.eat(",") {
        c.attribute(false)?;
    }
    c.expect(">")?;
    let count = sizes.iter().try_fold(dtype.size() as i64, |n, &s| n.checked_mul(s.max(1)));
    match count {
        Some(_) => Ok(Ty { dtype, sizes }),
        None => c.fail(start, "the bytes of this type cannot be counted"),
    }
}

/// An element type, if one is next.
fn element(c: &mut Cursor) -> Result<Option<DType>> {
    let word = c.peek_word();
    if word == "complex" {
        let at = c.at;
        c.word();
        c.expect("<")?;
        let part = c.word();
        c.expect(">")?;
        let name = format!("complex<{part}>");
        return match ELEMENTS.iter().find(|row| row.0 == name) {
            Some(row) => Ok(Some(row.1)),
            None => c.fail(at, format!("elements of type `{name}` are not supported")),
        };
    }
    let found = ELEMENTS.iter().find(|row| row.0 == word);
    if found.is_some() {
        c.word();
    }
    Ok(found.map(|row| row.1))
}
