//! Numbers of the header. Literals, because the header generator does not evaluate Rust; a test compares them with the enums.

/// Type of an element: one of the `TORCHACC_*` dtypes. Those from C64 on are only stored, moved and passed to host operators,
/// except for C64 and C128, which many operators of PyTorch compute with (a complex number is given as two FLOATS), and the F8
/// ones up to F8E5M2FNUZ, which are cast and multiplied.
pub type torchacc_dtype = u32;
/// A byte, 0 or 1. Any other value given counts as 1.
pub const TORCHACC_BOOL: torchacc_dtype = 0;
pub const TORCHACC_U8: torchacc_dtype = 1;
pub const TORCHACC_I8: torchacc_dtype = 2;
pub const TORCHACC_I16: torchacc_dtype = 3;
pub const TORCHACC_I32: torchacc_dtype = 4;
pub const TORCHACC_I64: torchacc_dtype = 5;
pub const TORCHACC_F16: torchacc_dtype = 6;
pub const TORCHACC_BF16: torchacc_dtype = 7;
pub const TORCHACC_F32: torchacc_dtype = 8;
pub const TORCHACC_F64: torchacc_dtype = 9;
pub const TORCHACC_C64: torchacc_dtype = 10;
pub const TORCHACC_C128: torchacc_dtype = 11;
pub const TORCHACC_U16: torchacc_dtype = 12;
pub const TORCHACC_U32: torchacc_dtype = 13;
pub const TORCHACC_U64: torchacc_dtype = 14;
pub const TORCHACC_C32: torchacc_dtype = 15;
pub const TORCHACC_F8E4M3FN: torchacc_dtype = 16;
pub const TORCHACC_F8E5M2: torchacc_dtype = 17;
pub const TORCHACC_F8E4M3FNUZ: torchacc_dtype = 18;
pub const TORCHACC_F8E5M2FNUZ: torchacc_dtype = 19;
pub const TORCHACC_F8E8M0FNU: torchacc_dtype = 20;

/// Kind of an error.
pub type torchacc_code = u32;
/// The call was invalid and had no effect; the message says why.
pub const TORCHACC_INVALID_ARGUMENT: torchacc_code = 1;
/// There is no such operator, file, communicator or program.
pub const TORCHACC_NOT_FOUND: torchacc_code = 2;
/// The system has no memory left: release something, or compute in smaller pieces. For a program, the message says how much
/// memory it wants, where its peak is, and which values take it; lines are named by their sites, as `<site 12>`.
pub const TORCHACC_OUT_OF_MEMORY: torchacc_code = 3;
/// An index in a tensor of indices is out of range; found when the operator runs.
pub const TORCHACC_INDEX_ERROR: torchacc_code = 4;
/// A kernel or a host operator failed, or the system refused a file.
pub const TORCHACC_OPERATOR_ERROR: torchacc_code = 5;
/// This library contradicts itself. The call failed, and all else is unchanged; please report it.
pub const TORCHACC_INTERNAL: torchacc_code = 6;
/// A panic in this library was caught. As INTERNAL, but the state that the call was changing may be half changed: save the
/// values that can still be read, and start again with a new context.
pub const TORCHACC_PANIC: torchacc_code = 7;
/// The call is valid, but nothing here implements it: for these dtypes, on this backend or this machine, or in a process forked
/// since. The message says what is missing.
pub const TORCHACC_UNSUPPORTED: torchacc_code = 8;
/// For bindings, to report that `torchacc_abi_version` is not the version they were built for: install the library and the
/// header of one version.
pub const TORCHACC_ABI_MISMATCH: torchacc_code = 9;
/// Strict mode forbids this (`torchacc_set_strict`). It has run all the same.
pub const TORCHACC_STRICT: torchacc_code = 10;
/// A host operator refused a value.
pub const TORCHACC_VALUE_ERROR: torchacc_code = 11;
/// A host operator refused a type.
pub const TORCHACC_TYPE_ERROR: torchacc_code = 12;
/// A host operator of linear algebra cannot process this matrix: it is singular, or has no factors.
pub const TORCHACC_LINALG_ERROR: torchacc_code = 13;

/// Events that are errors in strict mode: a sum of flags.
pub type torchacc_strict = u32;
/// Recompiles of one line beyond the limit.
pub const TORCHACC_STRICT_RECOMPILES: torchacc_strict = 1;
/// CPU fallbacks.
pub const TORCHACC_STRICT_HOST_CALLS: torchacc_strict = 2;

/// Severity of a message.
pub type torchacc_log_level = u32;
pub const TORCHACC_LOG_WARNING: torchacc_log_level = 1;
/// A recompile, and its reason.
pub const TORCHACC_LOG_INFO: torchacc_log_level = 2;

/// Kind of an argument.
pub type torchacc_arg_kind = u32;
pub const TORCHACC_ARG_NONE: torchacc_arg_kind = 0;
/// `v.p` points at a `torchacc_view`.
pub const TORCHACC_ARG_VIEW: torchacc_arg_kind = 1;
/// `v.p` points at `len` `torchacc_view`s, a list of tensors; a NULL buffer is an absent element.
pub const TORCHACC_ARG_VIEWS: torchacc_arg_kind = 2;
/// `v.p` is a `torchacc_tensor*`.
pub const TORCHACC_ARG_TENSOR: torchacc_arg_kind = 3;
/// `v.p` points at `len` `torchacc_tensor*`.
pub const TORCHACC_ARG_TENSORS: torchacc_arg_kind = 4;
/// An attribute `v.i`: compiled into the program.
pub const TORCHACC_ARG_INT: torchacc_arg_kind = 5;
/// An attribute `v.f`.
pub const TORCHACC_ARG_FLOAT: torchacc_arg_kind = 6;
/// An attribute: `v.i` is 0 or not.
pub const TORCHACC_ARG_BOOL: torchacc_arg_kind = 7;
/// A number `v.i` that may change from call to call without a recompile. Where a native operator must know its value (a
/// dimension, a size, a flag: `int` or `bool` in its signature), it is an attribute.
pub const TORCHACC_ARG_SCALAR_INT: torchacc_arg_kind = 8;
/// Likewise `v.f`.
pub const TORCHACC_ARG_SCALAR_FLOAT: torchacc_arg_kind = 9;
/// Likewise `v.i`, 0 or not.
pub const TORCHACC_ARG_SCALAR_BOOL: torchacc_arg_kind = 10;
/// `v.p` points at `len` int64_t.
pub const TORCHACC_ARG_INTS: torchacc_arg_kind = 11;
/// `v.p` points at `len` double.
pub const TORCHACC_ARG_FLOATS: torchacc_arg_kind = 12;
/// `v.p` points at `len` bytes, 0 or not.
pub const TORCHACC_ARG_BOOLS: torchacc_arg_kind = 13;
/// `v.i` is a `torchacc_dtype`.
pub const TORCHACC_ARG_DTYPE: torchacc_arg_kind = 14;
/// `v.p` points at `len` bytes of UTF-8.
pub const TORCHACC_ARG_STR: torchacc_arg_kind = 15;
/// The context's generator (`torchacc_seed`): for an argument of type "generator", or after the last argument of any other
/// operator that draws random numbers. Every call gets numbers of its own.
pub const TORCHACC_ARG_RANDOM: torchacc_arg_kind = 16;
/// `v.p` points at `len` bytes of UTF-8: the name of a communicator (`torchacc_communicator_register`). The last argument of a
/// collective.
pub const TORCHACC_ARG_COMMUNICATOR: torchacc_arg_kind = 17;

/// Facts about an operator of PyTorch that its schema does not state: a sum of flags.
pub type torchacc_facts = u32;
/// The sizes of its results are unknown until it has run.
pub const TORCHACC_FACT_SHAPED_BY_VALUES: torchacc_facts = 1;
/// Likewise if there is a mask among its indices.
pub const TORCHACC_FACT_SHAPED_BY_MASKS: torchacc_facts = 2;
/// Its kernels tolerate all values. A GPU kernel that meets a value it cannot tolerate ends the process's use of the GPU.
pub const TORCHACC_FACT_BEARS_VALUES: torchacc_facts = 4;
/// Its CPU kernel only compares its integers, or checks them before it uses them as indices.
pub const TORCHACC_FACT_CHECKS_INTEGERS: torchacc_facts = 8;
/// Its floats must have one type.
pub const TORCHACC_FACT_ONE_FLOAT: torchacc_facts = 16;
/// From bools it computes another type, which cannot be stored in place.
pub const TORCHACC_FACT_LEAVES_BOOLS: torchacc_facts = 32;
/// Likewise from bools and integers.
pub const TORCHACC_FACT_LEAVES_INTEGERS: torchacc_facts = 64;
/// It takes statistics. For halves these are f32 here, as on CUDA, whereas the CPU kernel wants halves.
pub const TORCHACC_FACT_F32_STATISTICS: torchacc_facts = 128;
/// It updates its running statistics.
pub const TORCHACC_FACT_UPDATES_STATISTICS: torchacc_facts = 256;
/// A dropout without an argument for a generator.
pub const TORCHACC_FACT_DROPOUT: torchacc_facts = 512;
/// The factors that it returns depend on the matrix's layout in memory, and its gradient reads the matrix that it was given.
pub const TORCHACC_FACT_FOLLOWS_LAYOUT: torchacc_facts = 1024;
/// A product that checks only when it runs whether the contracted dimensions of its operands agree.
pub const TORCHACC_FACT_COUNTS_TERMS_LATE: torchacc_facts = 2048;
/// It checks types and sizes even if all results are empty; other operators then compute nothing, whatever their operands.
pub const TORCHACC_FACT_REFUSES_OF_NOTHING: torchacc_facts = 4096;

/// Reduction of the elements of all ranks: `how` of `torchacc_collective_fn`.
pub const TORCHACC_REDUCE_SUM: i64 = 0;
pub const TORCHACC_REDUCE_PRODUCT: i64 = 1;
pub const TORCHACC_REDUCE_MIN: i64 = 2;
pub const TORCHACC_REDUCE_MAX: i64 = 3;
/// The sum, divided by the number of ranks.
pub const TORCHACC_REDUCE_AVG: i64 = 4;
/// Bitwise.
pub const TORCHACC_REDUCE_BAND: i64 = 5;
pub const TORCHACC_REDUCE_BOR: i64 = 6;
pub const TORCHACC_REDUCE_BXOR: i64 = 7;

/// Kinds of collectives, of a `torchacc_pending_collective`.
pub const TORCHACC_COLLECTIVE_ALL_REDUCE: u32 = 0;
pub const TORCHACC_COLLECTIVE_ALL_GATHER: u32 = 1;
pub const TORCHACC_COLLECTIVE_REDUCE_SCATTER: u32 = 2;
pub const TORCHACC_COLLECTIVE_BROADCAST: u32 = 3;
pub const TORCHACC_COLLECTIVE_ALL_TO_ALL: u32 = 4;
pub const TORCHACC_COLLECTIVE_REDUCE: u32 = 5;
pub const TORCHACC_COLLECTIVE_ALL_TO_ALL_V: u32 = 6;
pub const TORCHACC_COLLECTIVE_SEND: u32 = 7;
pub const TORCHACC_COLLECTIVE_RECEIVE: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aten::facts;
    use crate::dtype::DType;
    use crate::error::Code;
    use crate::runtime::Level;

    #[test]
    fn numbers_are_those_of_the_enums() {
        let dtypes = [
            TORCHACC_BOOL,
            TORCHACC_U8,
            TORCHACC_I8,
            TORCHACC_I16,
            TORCHACC_I32,
            TORCHACC_I64,
            TORCHACC_F16,
            TORCHACC_BF16,
            TORCHACC_F32,
            TORCHACC_F64,
            TORCHACC_C64,
            TORCHACC_C128,
            TORCHACC_U16,
            TORCHACC_U32,
            TORCHACC_U64,
            TORCHACC_C32,
            TORCHACC_F8E4M3FN,
            TORCHACC_F8E5M2,
            TORCHACC_F8E4M3FNUZ,
            TORCHACC_F8E5M2FNUZ,
            TORCHACC_F8E8M0FNU,
        ];
        assert_eq!(dtypes.to_vec(), DType::all().map(|d| d as u32).collect::<Vec<_>>());
        let codes = [
            (TORCHACC_INVALID_ARGUMENT, Code::InvalidArgument),
            (TORCHACC_NOT_FOUND, Code::NotFound),
            (TORCHACC_OUT_OF_MEMORY, Code::OutOfMemory),
            (TORCHACC_INDEX_ERROR, Code::IndexError),
            (TORCHACC_OPERATOR_ERROR, Code::OperatorError),
            (TORCHACC_INTERNAL, Code::Internal),
            (TORCHACC_PANIC, Code::Panic),
            (TORCHACC_UNSUPPORTED, Code::Unsupported),
            (TORCHACC_ABI_MISMATCH, Code::AbiMismatch),
            (TORCHACC_STRICT, Code::Strict),
            (TORCHACC_VALUE_ERROR, Code::ValueError),
            (TORCHACC_TYPE_ERROR, Code::TypeError),
            (TORCHACC_LINALG_ERROR, Code::LinAlgError),
        ];
        let facts = [
            (TORCHACC_FACT_SHAPED_BY_VALUES, facts::SHAPED_BY_VALUES),
            (TORCHACC_FACT_SHAPED_BY_MASKS, facts::SHAPED_BY_MASKS),
            (TORCHACC_FACT_BEARS_VALUES, facts::BEARS_VALUES),
            (TORCHACC_FACT_CHECKS_INTEGERS, facts::CHECKS_INTEGERS),
            (TORCHACC_FACT_ONE_FLOAT, facts::ONE_FLOAT),
            (TORCHACC_FACT_LEAVES_BOOLS, facts::LEAVES_BOOLS),
            (TORCHACC_FACT_LEAVES_INTEGERS, facts::LEAVES_INTEGERS),
            (TORCHACC_FACT_F32_STATISTICS, facts::F32_STATISTICS),
            (TORCHACC_FACT_UPDATES_STATISTICS, facts::UPDATES_STATISTICS),
            (TORCHACC_FACT_DROPOUT, facts::DROPOUT),
            (TORCHACC_FACT_FOLLOWS_LAYOUT, facts::FOLLOWS_LAYOUT),
            (TORCHACC_FACT_COUNTS_TERMS_LATE, facts::COUNTS_TERMS_LATE),
            (TORCHACC_FACT_REFUSES_OF_NOTHING, facts::REFUSES_OF_NOTHING),
        ];
        assert!(facts.iter().all(|&(number, fact)| number == fact));
        let levels = [(TORCHACC_LOG_WARNING, Level::Warning), (TORCHACC_LOG_INFO, Level::Info)];
        assert!(levels.iter().all(|&(number, level)| number == level as u32));
        assert!(codes.iter().all(|&(number, code)| number == code as u32));
    }
}
