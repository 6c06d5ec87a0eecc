//! The 8-bit floats and their conversions: a sign, an exponent and a mantissa of two or three bits (Micikevicius et
//! al., "FP8 Formats for Deep Learning", arXiv 2209.05433; the `fnuz` ones: Noune et al., arXiv 2206.02915).

use super::DType;

/// One format. Codes without their sign grow with the magnitudes that they represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float8 {
    /// Bits of the mantissa.
    pub mantissa: u32,
    /// Bias of the exponent.
    pub bias: u32,
    /// The first code beyond the largest number; 0x80 where every code without a sign is a number: such a format has
    /// one zero, and the code of its negative is NaN.
    pub end: u32,
    /// The code of numbers that are too large: infinity or, where there is none, NaN.
    pub beyond: u32,
    pub nan: u32,
}

const E4M3FN: Float8 = Float8 { mantissa: 3, bias: 7, end: 0x7f, beyond: 0x7f, nan: 0x7f };
const E5M2: Float8 = Float8 { mantissa: 2, bias: 15, end: 0x7c, beyond: 0x7c, nan: 0x7f };
const E4M3FNUZ: Float8 = Float8 { mantissa: 3, bias: 8, end: 0x80, beyond: 0x80, nan: 0x80 };
const E5M2FNUZ: Float8 = Float8 { mantissa: 2, bias: 16, end: 0x80, beyond: 0x80, nan: 0x80 };

const INFINITY: u32 = f32::INFINITY.to_bits();

impl Float8 {
    /// `None` if it is not a signed 8-bit float.
    pub const fn of(dtype: DType) -> Option<Float8> {
        match dtype {
            DType::F8E4M3FN => Some(E4M3FN),
            DType::F8E5M2 => Some(E5M2),
            DType::F8E4M3FNUZ => Some(E4M3FNUZ),
            DType::F8E5M2FNUZ => Some(E5M2FNUZ),
            _ => None,
        }
    }

    /// Rounds to nearest, ties to even. Numbers that round to more than the largest one do not become that one.
    #[inline(always)]
    pub fn encode(self, x: f32) -> u8 {
        let Float8 { mantissa, bias, end, beyond, nan } = self;
        let (shift, lift) = (23 - mantissa, (127 - bias) << 23);
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let odd = (magnitude >> shift) & 1;
        let half = (1 << (shift - 1)) - 1;
        let normal = magnitude.wrapping_sub(lift).wrapping_add(half + odd) >> shift;
        // Its last bit is the smallest number: the addition aligns and rounds the bits as a denormal needs them.
        let aligner = (127 + 24 - bias - mantissa) << 23;
        let denormal = f32::from_bits(magnitude) + f32::from_bits(aligner);
        let denormal = denormal.to_bits().wrapping_sub(aligner);
        let code = if magnitude < lift + (1 << 23) { denormal } else { normal };
        let beyond = if magnitude > INFINITY { nan } else { beyond };
        let code = if magnitude >= (end << shift) + lift { beyond } else { code };
        let one_zero = end == 0x80;
        let unsigned = one_zero && code & 0x7f == 0;
        let sign = if unsigned { 0 } else { (x.to_bits() >> 24) & 0x80 };
        (code | sign) as u8
    }

    /// Exact.
    #[inline(always)]
    pub fn decode(self, code: u8) -> f32 {
        let Float8 { mantissa, bias, end, beyond, nan } = self;
        let (code, magnitude) = (code as u32, code as u32 & 0x7f);
        // As an f32 with the exponent of the format; the multiplication also makes denormals right.
        let scale = f32::from_bits((254 - bias) << 23);
        let finite = f32::from_bits(magnitude << (23 - mantissa)) * scale;
        let is_infinite = magnitude == beyond && beyond != nan;
        let special = if is_infinite { f32::INFINITY } else { f32::NAN };
        let is_special = magnitude >= end || code == end;
        let number = if is_special { special } else { finite };
        f32::from_bits(number.to_bits() | (code & 0x80) << 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [Float8; 4] = [E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ];

    #[test]
    fn numbers_are_those_of_the_papers() {
        let largest = [448.0, 57344.0, 240.0, 57344.0];
        let least = [2f32.powi(-9), 2f32.powi(-16), 2f32.powi(-10), 2f32.powi(-17)];
        for ((format, largest), least) in FORMATS.into_iter().zip(largest).zip(least) {
            let numbers = (0..=255).map(|code| format.decode(code));
            let finite = numbers.filter(|x| x.is_finite());
            assert_eq!(finite.clone().fold(0.0, f32::max), largest);
            assert_eq!(finite.filter(|&x| x > 0.0).fold(f32::INFINITY, f32::min), least);
        }
        assert_eq!(E5M2.decode(0x7c), f32::INFINITY);
        assert_eq!(E4M3FN.decode(0x38), 1.0);
    }

    /// Every number is its own, and between two neighbours the nearer one is taken, of equally near ones the even one.
    #[test]
    fn the_nearest_is_taken() {
        for format in FORMATS {
            let number = |code: u32| format.decode(code as u8);
            for code in 0..format.end {
                let x = number(code);
                assert_eq!(format.encode(x), code as u8, "{x}");
                let step = x - number(code.saturating_sub(1));
                let next = if code + 1 < format.end { number(code + 1) } else { x + step };
                let middle = x + (next - x) / 2.0;
                let above = if code + 1 < format.end { code + 1 } else { format.beyond };
                let even = if code % 2 == 0 { code } else { above };
                assert_eq!(format.encode(middle) as u32, even, "{x} {next}");
                assert_eq!(format.encode(middle.next_down()) as u32, code, "{x} {next}");
                assert_eq!(format.encode(middle.next_up()) as u32, above, "{x} {next}");
                let negative = if format.end == 0x80 && code == 0 { 0 } else { code | 0x80 };
                assert_eq!(format.encode(-x) as u32, negative, "{x}");
            }
            for x in [f32::INFINITY, f32::MAX] {
                assert_eq!(format.encode(x) as u32, format.beyond);
            }
            assert!(format.decode(format.encode(f32::NAN)).is_nan());
        }
    }
}
