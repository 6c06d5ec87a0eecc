//! Packed weights, operands of products that are used again: by several steps of a run, or from run to run.
//!
//! **Invariant:** a step computes the same whether its operand was packed by it, by another step or by an earlier run.

use super::access::{Bound, Source};
use crate::backend::Call;
use crate::backend::memory::{Memory, Pool};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::op::Op;
use crate::plan::{Kernel, MemRef, Operand, Plan};
use crate::shape::Layout;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Rows of a product for which packing costs little compared with multiplying.
const MOST_ROWS: i64 = 256;
/// A product of fewer rows does not pay for packing; nor do products of a run that have fewer than the second number
/// together, if the next run packs again.
const LEAST_ROWS: i64 = 16;
const LEAST_ROWS_OF_ALL: i64 = 64;
/// Bytes of packed inputs that are kept from run to run, of all programs of a backend.
const MOST_KEPT: u64 = 1 << 30;
/// Most layouts in which an input is kept.
const MOST_LAYOUTS: usize = 4;

/// The slabs that the right operand of a product is packed into, if it is, and the pool of their memory.
pub type PackTarget<'a> = (Option<&'a Slabs>, &'a Arc<Pool>);

/// A packed operand: slabs of columns, each packed at its first use.
#[derive(Default)]
pub struct Slabs {
    /// `None` within: there was no memory.
    room: OnceLock<Option<Room>>,
    _quota: Option<CacheQuota>,
}

pub struct Room {
    slabs: Vec<(Bound, OnceLock<()>)>,
    _memory: Memory,
}

impl Slabs {
    /// Room for `count` slabs of `len` elements of f32, the same numbers in every call; `None` when there is no memory for them.
    pub fn room(&self, pool: &Arc<Pool>, count: usize, len: usize) -> Option<&Room> {
        self.room.get_or_init(|| Room::new(pool, count, len)).as_ref()
    }
}

impl Room {
    pub fn new(pool: &Arc<Pool>, count: usize, len: usize) -> Option<Room> {
        let nbytes = len * size_of::<f32>();
        let memory = pool.allocate(count * nbytes).ok()?;
        let layout = Layout::contiguous(&[len as i64]);
        let slab = |n| {
            let start = Source::Memory(memory.addr() + n * nbytes);
            let bound = Bound::at(start, DType::F32, layout.clone()).ok()?;
            Some((bound, OnceLock::new()))
        };
        let slabs = (0..count).map(slab).collect::<Option<_>>()?;
        Some(Room { slabs, _memory: memory })
    }

    /// A slab, which `pack` writes at its first use.
    pub fn slab(&self, index: usize, pack: impl FnOnce(&mut [f32])) -> &[f32] {
        let (bound, packed) = &self.slabs[index];
        packed.get_or_init(|| pack(bound.result()));
        bound.dense()
    }
}

/// An input's share of the bytes that may be kept.
struct CacheQuota {
    kept: Arc<AtomicU64>,
    nbytes: u64,
}

impl Drop for CacheQuota {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.nbytes, Relaxed);
    }
}

/// The packed layouts of one input, cached with its memory. A layout that was used only once is not kept: where every
/// step has new weights, that would take memory for nothing.
#[derive(Default)]
struct PackedLayouts(Mutex<Vec<PackedLayout>>);

/// The packed form of an input with this layout.
struct PackedLayout {
    layout: Layout,
    dtype: DType,
    slabs: Option<Arc<Slabs>>,
}

impl PackedLayouts {
    fn get(&self, operand: &Operand, kept: &Arc<AtomicU64>) -> Option<Arc<Slabs>> {
        let mut layouts = self.0.lock();
        let is_it = |packed: &&mut PackedLayout| {
            packed.layout == operand.layout && packed.dtype == operand.dtype
        };
        let Some(packed) = layouts.iter_mut().find(is_it) else {
            if layouts.len() < MOST_LAYOUTS {
                let (layout, dtype) = (operand.layout.clone(), operand.dtype);
                layouts.push(PackedLayout { layout, dtype, slabs: None });
            }
            return None;
        };
        if packed.slabs.is_none() {
            let nbytes = operand.layout.numel() as u64 * operand.dtype.size() as u64;
            let quota = CacheQuota { kept: kept.clone(), nbytes };
            // If it was too much, it is given back with the quota.
            if kept.fetch_add(nbytes, Relaxed) + nbytes <= MOST_KEPT {
                let slabs = Slabs { room: OnceLock::new(), _quota: Some(quota) };
                packed.slabs = Some(Arc::new(slabs));
            }
        }
        packed.slabs.clone()
    }
}

/// The owner of a step's packed operand.
#[derive(Clone, Copy)]
enum Owner {
    /// The run: number among its packed operands.
    Run(usize),
    /// In the input's derived cache.
    Input(u32),
}

/// The steps of a plan that multiply by a packed operand.
pub struct PackedOperands {
    steps: HashMap<usize, Owner>,
    /// Operands that several steps of a run read.
    several: usize,
    /// Bytes cached with inputs.
    kept: Arc<AtomicU64>,
}

impl PackedOperands {
    pub fn new(plan: &Plan, kept: &Arc<AtomicU64>) -> PackedOperands {
        // Inputs do not change; other memory holds one value after the other.
        type Read<'a> = (Option<ValueId>, &'a Operand);
        let mut steps = HashMap::new();
        let mut of_operand: HashMap<Read, (Vec<usize>, i64)> = HashMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let (Kernel::Node { op, .. } | Kernel::Fused { op, .. }) = &step.kernel else {
                continue;
            };
            if *op != Op::Matmul {
                continue;
            }
            let rows: i64 = step.reads[0].layout.sizes.iter().rev().skip(1).product();
            if (LEAST_ROWS..=MOST_ROWS).contains(&rows) {
                let operand = &step.reads[1];
                let value = match operand.mem {
                    MemRef::Input(_) => None,
                    _ => Some(step.reads_of[1]),
                };
                let (users, all) = of_operand.entry((value, operand)).or_default();
                users.push(index);
                *all += rows;
            }
        }
        let mut several = 0;
        for ((_, operand), (users, rows)) in of_operand {
            let keep = match operand.mem {
                MemRef::Input(n) if !plan.donors.contains(&Some(n)) => Owner::Input(n),
                _ if users.len() > 1 && rows >= LEAST_ROWS_OF_ALL => {
                    several += 1;
                    Owner::Run(several - 1)
                }
                _ => continue,
            };
            steps.extend(users.into_iter().map(|step| (step, keep)));
        }
        PackedOperands { steps, several, kept: kept.clone() }
    }

    /// The slabs of one run.
    pub fn of_run(&self) -> Vec<Arc<Slabs>> {
        (0..self.several).map(|_| Arc::default()).collect()
    }

    /// The slabs that a step's right operand is packed into; `None` if it is read as it is.
    pub fn slabs(
        &self,
        step: usize,
        operand: &Operand,
        call: &Call,
        of_run: &[Arc<Slabs>],
    ) -> Option<Arc<Slabs>> {
        Some(match *self.steps.get(&step)? {
            Owner::Run(n) => of_run[n].clone(),
            Owner::Input(n) => {
                let derived = call.derived.get(n as usize).copied().flatten();
                let kept = derived.and_then(|b| b.get::<PackedLayouts>().get(operand, &self.kept));
                kept.unwrap_or_default()
            }
        })
    }
}
