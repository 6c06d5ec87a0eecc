//! Operations of one loop each: on tiles, or on memory used directly.

use super::super::code::Arg;
use super::super::compute;
use super::super::space::Position;
use super::{Run, TileElement, Tiles};
use crate::backend::cpu::element::TileType;
use crate::backend::cpu::pool::Scratch;
use crate::dtype::{DType, Float8};
use crate::op::Op;
use crate::op::philox::Drawn;

impl Run<'_> {
    /// False when an integer was divided by zero.
    #[allow(clippy::too_many_arguments, reason = "the fields of an instruction")]
    pub(super) fn compute(
        &self,
        op: Op,
        tile_type: TileType,
        dtype: DType,
        args: &[Arg],
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) -> bool {
        if dtype == DType::Bool && is_comparison(op) {
            self.into::<u8>(to, at, tiles, |t, y| self.compare(op, tile_type, args, at, t, y));
            return true;
        }
        let mut defined = true;
        match (op, args) {
            (Op::Select, &[c, a, b]) => self.select(tile_type, c, a, b, to, at, tiles),
            (Op::Random, &[s, o, i]) => self.draw::<f32>([s, o, i], to, at, tiles),
            (Op::RandomBits, &[s, o, i]) => self.draw::<i64>([s, o, i], to, at, tiles),
            (_, &[a]) => {
                match tile_type {
                    TileType::F32 => self
                        .into(to, at, tiles, |t, y| compute::unary_f32(op, self.arg(a, at, t), y)),
                    TileType::F64 => self
                        .into(to, at, tiles, |t, y| compute::unary_f64(op, self.arg(a, at, t), y)),
                    TileType::I64 => self.into(to, at, tiles, |t, y| {
                        compute::unary_i64(op, self.arg(a, at, t), y, dtype)
                    }),
                    _ => self
                        .into(to, at, tiles, |t, y| compute::unary_bool(op, self.arg(a, at, t), y)),
                }
            }
            (_, &[a, b]) => match tile_type {
                TileType::F32 => self.into(to, at, tiles, |t, y| {
                    compute::binary_f32(op, self.numbers(a, at, t), self.numbers(b, at, t), y);
                }),
                TileType::F64 => self.into(to, at, tiles, |t, y| {
                    compute::binary_f64(op, self.arg(a, at, t), self.arg(b, at, t), y);
                }),
                TileType::I64 => self.into(to, at, tiles, |t, y| {
                    defined =
                        compute::binary_i64(op, self.arg(a, at, t), self.arg(b, at, t), y, dtype);
                }),
                _ => self.into(to, at, tiles, |t, y| {
                    compute::binary_bool(op, self.arg(a, at, t), self.arg(b, at, t), y);
                }),
            },
            _ => panic!("{} with {} operands", op.name(), args.len()),
        }
        defined
    }

    /// Draws random numbers from a seed, an offset and element indices.
    fn draw<T: TileElement + Scratch + Drawn>(
        &self,
        [seed, offset, index]: [Arg; 3],
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) {
        self.into::<T>(to, at, tiles, |t, y| {
            compute::random(
                self.arg(seed, at, t),
                self.arg(offset, at, t),
                self.arg(index, at, t),
                y,
            );
        });
    }

    fn compare(
        &self,
        op: Op,
        tile_type: TileType,
        args: &[Arg],
        at: &Position,
        t: &Tiles,
        y: &mut [u8],
    ) {
        let (a, b) = (args[0], args[1]);
        match tile_type {
            TileType::F32 => compute::compare_f32(op, self.arg(a, at, t), self.arg(b, at, t), y),
            TileType::F64 => compute::compare_f64(op, self.arg(a, at, t), self.arg(b, at, t), y),
            TileType::I64 => compute::compare_i64(op, self.arg(a, at, t), self.arg(b, at, t), y),
            _ => compute::compare_u8(op, self.arg(a, at, t), self.arg(b, at, t), y),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of an instruction")]
    fn select(
        &self,
        tile_type: TileType,
        c: Arg,
        a: Arg,
        b: Arg,
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) {
        by_lane!(tile_type, T => self.select_as::<T>(c, a, b, to, at, tiles));
    }

    fn select_as<T: TileElement>(
        &self,
        c: Arg,
        a: Arg,
        b: Arg,
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) {
        self.into::<T>(to, at, tiles, |t, y| {
            compute::select(self.arg(c, at, t), self.arg(a, at, t), self.arg(b, at, t), y);
        });
    }

    pub(super) fn cast(
        &self,
        from: DType,
        dtype: DType,
        arg: Arg,
        to: Arg,
        at: &Position,
        tiles: &mut Tiles,
    ) {
        // Tiles hold 8-bit floats as codes.
        if let Some(format) = Float8::of(dtype) {
            return self
                .into(to, at, tiles, |t, y| compute::encode(format, self.arg(arg, at, t), y));
        }
        if let Some(format) = Float8::of(from) {
            return self
                .into(to, at, tiles, |t, y| compute::decode(format, self.arg(arg, at, t), y));
        }
        let half = matches!(dtype, DType::F16 | DType::BF16);
        match (TileType::of(from), TileType::of(dtype)) {
            (TileType::F32, TileType::F32) => panic!("chains round to half types"),
            (TileType::F32, TileType::F64) => {
                self.into(to, at, tiles, |t, y| compute::f32_to_f64(self.arg(arg, at, t), y))
            }
            (TileType::F32, TileType::I64) => {
                self.into(to, at, tiles, |t, y| compute::f32_to_i64(self.arg(arg, at, t), y, dtype))
            }
            (TileType::F32, _) => {
                self.into(to, at, tiles, |t, y| compute::f32_to_u8(self.arg(arg, at, t), y))
            }
            (TileType::F64, TileType::F32) => {
                self.into(to, at, tiles, |t, y| compute::f64_to_f32(self.arg(arg, at, t), y))
            }
            (TileType::F64, TileType::F64) => self.copy::<f64>(arg, to, at, tiles),
            (TileType::F64, TileType::I64) => {
                self.into(to, at, tiles, |t, y| compute::f64_to_i64(self.arg(arg, at, t), y, dtype))
            }
            (TileType::F64, _) => {
                self.into(to, at, tiles, |t, y| compute::f64_to_u8(self.arg(arg, at, t), y))
            }
            (TileType::I64, TileType::F32) => {
                self.into(to, at, tiles, |t, y| compute::i64_to_f32(self.arg(arg, at, t), y))
            }
            (TileType::I64, TileType::F64) => {
                self.into(to, at, tiles, |t, y| compute::i64_to_f64(self.arg(arg, at, t), y))
            }
            (TileType::I64, TileType::I64) => {
                self.into(to, at, tiles, |t, y| compute::i64_to_i64(self.arg(arg, at, t), y, dtype))
            }
            (TileType::I64, _) => {
                self.into(to, at, tiles, |t, y| compute::i64_to_u8(self.arg(arg, at, t), y))
            }
            (_, TileType::F32) => {
                self.into(to, at, tiles, |t, y| compute::u8_to_f32(self.arg(arg, at, t), y))
            }
            (_, TileType::F64) => {
                self.into(to, at, tiles, |t, y| compute::u8_to_f64(self.arg(arg, at, t), y))
            }
            (_, TileType::I64) => {
                self.into(to, at, tiles, |t, y| compute::u8_to_i64(self.arg(arg, at, t), y))
            }
            _ => self.copy::<u8>(arg, to, at, tiles),
        }
        if half {
            self.into(to, at, tiles, |_, y: &mut [f32]| {
                let exact = y.to_vec();
                compute::round_f32(dtype, &exact, y);
            });
        }
    }

    fn copy<T: TileElement>(&self, arg: Arg, to: Arg, at: &Position, tiles: &mut Tiles) {
        self.into::<T>(to, at, tiles, |t, y| y.copy_from_slice(self.arg(arg, at, t)));
    }
}

fn is_comparison(op: Op) -> bool {
    matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge)
}
