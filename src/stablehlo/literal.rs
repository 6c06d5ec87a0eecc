//! Constants: `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`, `dense<0.5>`, `dense<"0x0000803F…">`.

use super::cursor::{Cursor, error_at};
use super::types::{carrier, tensor};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::op::Ty;
use crate::op::array::Array;

/// A constant as it is written, parsed once its type is known.
#[derive(Clone, Debug)]
pub struct Literal<'a> {
    /// The text between `<` and `>`.
    content: &'a str,
    at: usize,
    pub ty: Ty,
    /// Whether the bytes are outside this text.
    is_resource: bool,
}

/// The numbers of a constant, in the dtype that they are computed in; complex ones as pairs in a last dimension.
pub enum Elements {
    /// All equal to this one, of rank 0 (a complex one has rank 1).
    Splat(Array),
    All(Array),
}

impl<'a> Literal<'a> {
    /// Reads from the word `dense` or `dense_resource` on.
    pub fn read(c: &mut Cursor<'a>) -> Result<Literal<'a>> {
        let is_resource = c.word() == "dense_resource";
        c.peek();
        let at = c.at + 1;
        c.skip_brackets()?;
        let content = c.text.get(at..c.at - 1).unwrap_or("");
        c.expect(":")?;
        Ok(Literal { content, at, ty: tensor(c)?, is_resource })
    }

    /// The integers of a small constant: sizes, paddings.
    pub fn ints(&self) -> Result<Vec<i64>> {
        if self.ty.dtype.is_float() || self.ty.numel() > 4096 {
            return Err(error_at(self.at, "expected a few whole numbers"));
        }
        match self.elements()? {
            Elements::Splat(one) => Ok(vec![one.i64(0); self.ty.numel() as usize]),
            Elements::All(all) => Ok((0..all.len()).map(|i| all.i64(i)).collect()),
        }
    }

    pub fn elements(&self) -> Result<Elements> {
        if self.is_resource {
            let message = format!("the bytes of resource `{}` are not in this text", self.content);
            return Err(error_at(self.at, message));
        }
        let is_complex = self.ty.dtype.is_complex();
        let part = self.ty.dtype.part().unwrap_or(carrier(self.ty.dtype));
        let mut sizes = self.ty.sizes.clone();
        if is_complex {
            sizes.push(2);
        }
        let all = Ty { dtype: part, sizes };
        let one = Ty::new(part, if is_complex { &[2] } else { &[] });
        let mut c = Cursor::new(self.content);
        if c.peek() == b'"' {
            let hex = c.string().map_err(|e| error_at(self.at, e.message))?;
            return self.of_bytes(hex, one, all);
        }
        let written = self.content.trim();
        if written.is_empty() {
            return match self.ty.numel() {
                0 => Ok(Elements::All(Array::zeros(&all))),
                n => Err(error_at(self.at, format!("no numbers where {n} are expected"))),
            };
        }
        if !written.starts_with('[') {
            let mut array = Array::zeros(&one);
            let count = self.numbers(&mut array, 0)?;
            let n = one.numel() as usize;
            return match count == n {
                true => Ok(Elements::Splat(array)),
                false => Err(error_at(self.at, format!("{count} numbers where {n} is expected"))),
            };
        }
        // A number takes at least one character: no memory is allocated for numbers that are not there.
        if all.numel() > self.content.len() as i64 {
            let message = format!("fewer numbers than the {} of its type", all.numel());
            return Err(error_at(self.at, message));
        }
        let mut array = Array::zeros(&all);
        let count = self.numbers(&mut array, self.ty.rank())?;
        match count == array.len() {
            true => Ok(Elements::All(array)),
            false => {
                let message = format!("{count} numbers where {} are expected", array.len());
                Err(error_at(self.at, message))
            }
        }
    }

    /// Reads numbers in lists of `rank` levels, each as long as the type says; returns their count.
    fn numbers(&self, array: &mut Array, rank: usize) -> Result<usize> {
        let bytes = self.content.as_bytes();
        let (mut at, mut count) = (0, 0);
        let mut lengths: Vec<i64> = Vec::new();
        let fail = |at: usize, message: &str| Err(error_at(self.at + at, message));
        while at < bytes.len() {
            match bytes[at] {
                b'[' => {
                    if lengths.len() >= rank {
                        return fail(at, "more levels of lists than dimensions");
                    }
                    lengths.push(0);
                    at += 1;
                }
                b']' => {
                    let Some(length) = lengths.pop() else {
                        return fail(at, "no list is open here");
                    };
                    if length != self.ty.sizes[lengths.len()] {
                        return fail(at, "this list is not as long as its type says");
                    }
                    lengths.last_mut().into_iter().for_each(|n| *n += 1);
                    at += 1;
                }
                b',' | b'(' | b')' | b' ' | b'\n' | b'\t' | b'\r' => at += 1,
                _ => {
                    let is_end = |b: &u8| matches!(b, b',' | b']' | b')' | b' ' | b'\n' | b'\r');
                    let len = bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at);
                    if count >= array.len() || lengths.len() != rank {
                        return fail(at, "a number where its type has none");
                    }
                    let written = self.content.get(at..at + len).unwrap_or("");
                    if !set(array, count, written) {
                        return fail(at, &format!("`{written}` is no {}", self.ty.dtype));
                    }
                    count += 1;
                    // A complex number counts at its second part.
                    if array.ty.rank() == rank || count % 2 == 0 {
                        lengths.last_mut().into_iter().for_each(|n| *n += 1);
                    }
                    at += len;
                }
            }
        }
        match lengths.is_empty() {
            true => Ok(count),
            false => fail(at, "a list is not closed"),
        }
    }

    /// Reads the bytes of all elements, or of one for all.
    fn of_bytes(&self, hex: &str, one: Ty, all: Ty) -> Result<Elements> {
        let fail = |message: String| Err(error_at(self.at, message));
        let digits = hex.strip_prefix("0x").unwrap_or(hex).as_bytes();
        let digit = |b: u8| (b as char).to_digit(16);
        if !digits.len().is_multiple_of(2) || digits.iter().any(|&b| digit(b).is_none()) {
            return fail("expected bytes in hexadecimal".into());
        }
        let value = |b: u8| digit(b).unwrap_or(0) as u8;
        let bytes: Vec<u8> =
            digits.chunks_exact(2).map(|b| value(b[0]) << 4 | value(b[1])).collect();
        let is_bool = self.ty.dtype == DType::Bool;
        let (count, nbytes) = (all.numel(), all.nbytes());
        if bytes.len() == nbytes {
            let bytes =
                if is_bool { bytes.iter().map(|&b| (b != 0) as u8).collect() } else { bytes };
            return Ok(Elements::All(Array { ty: all, bytes }));
        }
        if is_bool && bytes.len() as i64 == (count + 7) / 8 {
            let bit = |i: i64| bytes[i as usize / 8] >> (i % 8) & 1;
            let bits = (0..count).map(bit).collect();
            return Ok(Elements::All(Array { ty: all, bytes: bits }));
        }
        if bytes.len() == one.nbytes() {
            let bytes =
                if is_bool { bytes.iter().map(|&b| (b != 0) as u8).collect() } else { bytes };
            return Ok(Elements::Splat(Array { ty: one, bytes }));
        }
        fail(format!("{} bytes where {nbytes} are expected", bytes.len()))
    }
}

/// Parses a number into element `i`; returns whether it is one.
fn set(array: &mut Array, i: usize, written: &str) -> bool {
    let dtype = array.ty.dtype;
    let hex = written.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    if dtype == DType::Bool {
        let number = match written {
            "true" | "1" => 1,
            "false" | "0" => 0,
            _ => return false,
        };
        array.set_i64(i, number);
        return true;
    }
    if dtype.is_int() {
        let number = match hex {
            Some(bits) => bits.ok().map(i128::from),
            None => written.parse::<i128>().ok(),
        };
        let bits = 8 * dtype.size() as u32;
        let range = -(1i128 << (bits - 1))..1i128 << bits;
        let Some(number) = number.filter(|n| range.contains(n)) else { return false };
        array.set_i64(i, number as i64);
        return true;
    }
    if !dtype.is_float() && Float8::of(dtype).is_none() {
        return false;
    }
    match hex {
        // The bits of a float.
        Some(Ok(bits)) => {
            let size = dtype.size();
            let fits = size == 8 || bits >> (8 * size) == 0;
            if fits {
                array.set_raw(i, &bits.to_le_bytes()[..size]);
            }
            fits
        }
        Some(Err(_)) => false,
        None if !written
            .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) =>
        {
            false
        }
        None => match (dtype, written.parse::<f32>(), written.parse::<f64>()) {
            (DType::F32, Ok(x), _) => {
                array.set_raw(i, &x.to_le_bytes());
                true
            }
            (_, _, Ok(x)) => {
                array.set_f64(i, x);
                true
            }
            _ => false,
        },
    }
}
