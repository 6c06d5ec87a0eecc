//! The options of a compilation by a plugin: a `CompileOptionsProto` of XLA, written byte by byte.

/// Options of XLA whose defaults do not suit, all of them turned off. With `fast_min_max` the greater of a number and NaN may be
/// the number; with `excess_precision` a number that is rounded to a half type may keep its excess bits.
const OFF: [&str; 2] = ["xla_cpu_enable_fast_min_max", "xla_allow_excess_precision"];

/// One replica of one partition, with those options.
pub fn compile_options() -> Vec<u8> {
    // executable_build_options (3): num_replicas (4) and num_partitions (5).
    let mut bytes = message(3, &[4 << 3, 1, 5 << 3, 1]);
    for name in OFF {
        // env_option_overrides (7), a map: key (1) and value (2), which has the field bool_field (2).
        let entry = [message(1, name.as_bytes()), message(2, &[2 << 3, 0])].concat();
        bytes.extend(message(7, &entry));
    }
    bytes
}

/// A field of fewer than 128 bytes, so that its length is one byte.
fn message(field: u8, bytes: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    debug_assert!(bytes.len() < 128);
    let mut all = vec![field << 3 | LENGTH_DELIMITED, bytes.len() as u8];
    all.extend(bytes);
    all
}
