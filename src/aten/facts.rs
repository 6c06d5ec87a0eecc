//! Facts about PyTorch's operators that a recorder needs but schemas do not state: flags of rows and of operators
//! without one. Each flag is documented at its name in the header, `TORCHACC_FACT_*` in `capi/constants.rs`.

use super::{Entry, entry, find};

pub const SHAPED_BY_VALUES: u32 = 1;
pub const SHAPED_BY_MASKS: u32 = 2;
pub const BEARS_VALUES: u32 = 4;
pub const CHECKS_INTEGERS: u32 = 8;
pub const ONE_FLOAT: u32 = 16;
pub const LEAVES_BOOLS: u32 = 32;
pub const LEAVES_INTEGERS: u32 = 64;
pub const F32_STATISTICS: u32 = 128;
pub const UPDATES_STATISTICS: u32 = 256;
pub const DROPOUT: u32 = 512;
pub const FOLLOWS_LAYOUT: u32 = 1024;
pub const COUNTS_TERMS_LATE: u32 = 2048;
pub const REFUSES_OF_NOTHING: u32 = 4096;

/// Flags of operators without a row, sorted by name: without `aten::` and the underscore of the in-place form.
const OTHERS: &[(&str, u32)] = &[
    ("_ctc_loss", SHAPED_BY_VALUES),
    ("_ctc_loss_backward", SHAPED_BY_VALUES),
    ("_histogramdd_bin_edges", SHAPED_BY_VALUES),
    ("_histogramdd_from_bin_cts", SHAPED_BY_VALUES),
    ("_histogramdd_from_bin_tensors", SHAPED_BY_VALUES),
    ("_linalg_det", FOLLOWS_LAYOUT),
    ("_linalg_slogdet", FOLLOWS_LAYOUT),
    ("_pack_padded_sequence", SHAPED_BY_VALUES),
    ("_pack_padded_sequence_backward", SHAPED_BY_VALUES),
    ("_to_sparse", SHAPED_BY_VALUES),
    ("_unique", SHAPED_BY_VALUES | BEARS_VALUES),
    ("_unique2", SHAPED_BY_VALUES | BEARS_VALUES),
    ("batch_norm_backward", F32_STATISTICS),
    ("bincount", SHAPED_BY_VALUES),
    ("equal", SHAPED_BY_VALUES),
    ("histogram", SHAPED_BY_VALUES),
    ("linalg_lstsq", SHAPED_BY_VALUES),
    ("masked_select", SHAPED_BY_VALUES | BEARS_VALUES),
    ("nonzero", SHAPED_BY_VALUES | BEARS_VALUES),
    ("repeat_interleave", SHAPED_BY_VALUES),
    ("unique_consecutive", SHAPED_BY_VALUES | BEARS_VALUES),
    ("unique_dim", SHAPED_BY_VALUES | BEARS_VALUES),
    ("unique_dim_consecutive", SHAPED_BY_VALUES | BEARS_VALUES),
];

/// Flags of an operator by its full name; 0 if it has none. All overloads of one of [`OTHERS`] have the same.
pub fn facts(name: &str) -> u32 {
    match find(name).map(entry) {
        Some(Entry::Aten(row)) => row.facts,
        Some(Entry::Primitive(_)) => 0,
        None => facts_of_other(name).unwrap_or(0),
    }
}

fn facts_of_other(name: &str) -> Option<u32> {
    let plain = name.strip_prefix("aten::")?.split('.').next()?;
    let of = |plain: &str| OTHERS.binary_search_by_key(&plain, |other| other.0).ok();
    of(plain).or_else(|| of(plain.strip_suffix('_')?)).map(|at| OTHERS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_once_in_order() {
        assert!(OTHERS.is_sorted_by(|a, b| a.0 < b.0));
        for &(name, flags) in OTHERS {
            let full = format!("aten::{name}");
            assert!(find(&full).is_none(), "{name} has a row, which carries its facts");
            for form in [full.clone(), format!("{full}_"), format!("{full}.out")] {
                assert_eq!(facts(&form), flags, "{form}");
            }
        }
    }

    #[test]
    fn every_form_of_an_operator_has_its_facts() {
        let cases = [
            ("aten::index.Tensor", SHAPED_BY_MASKS),
            ("aten::_index_put_impl_", ONE_FLOAT | REFUSES_OF_NOTHING),
            ("aten::addmm_", ONE_FLOAT),
            ("aten::div_.Tensor", LEAVES_INTEGERS),
            ("aten::div_.Tensor_mode", 0),
            ("aten::mul_.Scalar", LEAVES_BOOLS),
            ("aten::native_batch_norm", UPDATES_STATISTICS),
            ("aten::native_batch_norm_backward", F32_STATISTICS),
            ("other::nonzero", 0),
            ("add", 0),
            ("", 0),
        ];
        for (name, flags) in cases {
            assert_eq!(facts(name), flags, "{name}");
        }
    }
}
