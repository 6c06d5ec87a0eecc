//! torchacc: records tensor operations into lazy graphs, looks their key up in a cache of compiled programs, and
//! launches fused, memory-planned programs.
//!
//! The modules in reading order; `ARCHITECTURE.md` is the map, [`runtime::compile::pipeline`] the pipeline on one screen.

/// One error type: a code, a text, a call site.
pub mod error;
/// Element types.
pub mod dtype;
/// Sizes, strides, layouts.
pub mod shape;
/// Threads of the library's own.
pub mod thread;
/// The numbers in a piece of data.
pub mod number;
/// Numbers that follow from sizes.
pub mod symbolic;
/// Memory that becomes ready.
pub mod buffer;
/// Named arrays in files.
pub mod weights;
/// The primitives of the IR: one row each.
pub mod op;
/// The operations of the user's program, as plain data.
pub mod record;
/// The IR: build, print, parse, verify.
pub mod graph;
/// StableHLO text, read into graphs and printed from them.
pub mod stablehlo;
/// StableHLO modules on OpenXLA, by a plugin.
pub mod openxla;
/// Gradients: reverse mode over a graph.
pub mod grad;
/// How PyTorch's operators are lowered to primitives: one row per operator.
pub mod aten;
/// Graph → Graph, one file and one function each.
pub mod passes;
/// Graph → which kernels, in which order, on which memory.
pub mod plan;
/// Keys by named parts, and the table of compiled programs.
pub mod cache;
/// Backends, which compile and run plans.
pub mod backend;
/// Buffers and the recording of operations on them.
pub mod trace;
/// One program for all sizes.
pub mod dynamic;
/// Compile, execute, count.
pub mod runtime;
/// The exported C functions.
pub mod capi;
