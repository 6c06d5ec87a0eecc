//! Horizontal fusion: one launch for consecutive steps that have the same kernels and do not touch each other's memory. An
//! optimizer's step has hundreds of these, each of which takes as long as a launch.
//!
//! The blocks of one launch find their arguments in a *table* with a row for each step, in the program's memory: it is
//! written before a run at other addresses. Only steps that cannot fail are fused, so that no step has run when
//! another one before it fails.

use super::actions::{Action, Actions};
use super::emit::{KernelArg, Task, may_fail};
use crate::plan::{MemRef, Operand, Plan, Step};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Most blocks of a launch.
const MOST_BLOCKS: u64 = i32::MAX as u64;
/// Alignment of a step's part of the scratch memory.
const ALIGN: u64 = 256;

/// Steps that a run launches together.
pub enum LaunchGroup<T> {
    Step(usize),
    /// Several steps, with one launch for each of their kernels.
    Fused(Vec<usize>, Vec<T>),
}

impl<T> LaunchGroup<T> {
    pub fn steps(&self) -> &[usize] {
        match self {
            LaunchGroup::Step(step) => std::slice::from_ref(step),
            LaunchGroup::Fused(steps, _) => steps,
        }
    }
}

/// The launch groups of a plan, whose steps have the actions `lowered`, and the arguments in the table. Steps of a group can
/// still be launched one by one: `lowered` becomes launches of the same kernels, each of one item.
pub fn fuse_horizontally(
    plan: &Plan,
    lowered: &mut [Actions],
) -> (Vec<LaunchGroup<Task>>, Vec<KernelArg>) {
    let (mut groups, mut table) = (Vec::new(), Vec::new());
    let mut window = Window::default();
    for (index, step) in plan.steps.iter().enumerate() {
        let fuses_horizontally = is_fusable(step, &lowered[index]);
        if !fuses_horizontally || window.waits(plan, step) {
            window.close(lowered, &mut groups, &mut table);
        }
        match fuses_horizontally {
            true => window.add(plan, index),
            false => groups.push(LaunchGroup::Step(index)),
        }
    }
    window.close(lowered, &mut groups, &mut table);
    (groups, table)
}

fn is_fusable(step: &Step, actions: &Actions) -> bool {
    let of_many = |action: &Action| match action {
        Action::Launch(task) => task.source.of_many().is_some(),
        _ => false,
    };
    !step.kernel.body().is_some_and(may_fail) && actions.actions.iter().all(of_many)
}

/// Steps that do not touch each other's memory.
#[derive(Default)]
pub struct Window {
    steps: Vec<usize>,
    reads: Touched,
    writes: Touched,
}

/// Bytes by the memory that they belong to.
type Touched = HashMap<MemRef, Vec<Range<u64>>>;

impl Window {
    /// Whether a step has to wait for one of the window's steps.
    pub fn waits(&self, plan: &Plan, step: &Step) -> bool {
        let within = |touched: &Touched, operand: &Operand| {
            let Some((memory, bytes)) = bytes(plan, operand) else { return false };
            let known = touched.get(&memory).map_or(&[][..], |known| known);
            known.iter().any(|known| known.start < bytes.end && bytes.start < known.end)
        };
        step.reads.iter().any(|read| within(&self.writes, read))
            || step.writes.iter().any(|w| within(&self.writes, w) || within(&self.reads, w))
    }

    fn add(&mut self, plan: &Plan, index: usize) {
        let Step { reads, writes, .. } = &plan.steps[index];
        self.touch(plan, reads, writes);
        self.steps.push(index);
    }

    /// Adds a step's reads and writes.
    pub fn touch(&mut self, plan: &Plan, reads: &[Operand], writes: &[Operand]) {
        for (operands, touched) in [(reads, &mut self.reads), (writes, &mut self.writes)] {
            for (memory, bytes) in operands.iter().filter_map(|operand| bytes(plan, operand)) {
                touched.entry(memory).or_default().push(bytes);
            }
        }
    }

    /// Appends the launch groups of the window's steps, in the order of their first steps, and empties the window.
    fn close(
        &mut self,
        lowered: &mut [Actions],
        groups: &mut Vec<LaunchGroup<Task>>,
        table: &mut Vec<KernelArg>,
    ) {
        let steps = std::mem::take(self).steps.into_iter().map(|index| {
            let names: Vec<_> = lowered[index].sources().map(|source| &source.name).collect();
            let blocks = lowered[index].tasks().map(|task| u64::from(task.shape.grid[0])).max();
            (index, names, blocks.unwrap_or(0))
        });
        groups.extend(grouped(steps).into_iter().map(|steps| match steps[..] {
            [index] => LaunchGroup::Step(index),
            _ => {
                let launches = together(&steps, lowered, table);
                LaunchGroup::Fused(steps, launches)
            }
        }));
    }
}

/// Groups of `steps` (number, kernels, blocks) that can be one launch: with the same kernels, and no more blocks than a
/// launch can have. In the order of their first steps.
fn grouped<K: Eq + Hash>(steps: impl Iterator<Item = (usize, K, u64)>) -> Vec<Vec<usize>> {
    let mut alike: Vec<(Vec<usize>, u64)> = Vec::new();
    let mut known: HashMap<K, usize> = HashMap::new();
    for (index, kernels, blocks) in steps {
        let at = known.entry(kernels).or_insert(alike.len());
        match alike.get_mut(*at) {
            Some((steps, all)) if *all + blocks <= MOST_BLOCKS => {
                steps.push(index);
                *all += blocks;
            }
            _ => {
                *at = alike.len();
                alike.push((vec![index], blocks));
            }
        }
    }
    alike.into_iter().map(|(steps, _)| steps).collect()
}

/// One launch for each of the kernels that all `steps` have.
fn together(steps: &[usize], lowered: &mut [Actions], table: &mut Vec<KernelArg>) -> Vec<Task> {
    let mut scratch = 0u64;
    for &step in steps {
        let actions = &mut lowered[step];
        for kernel_arg in actions.tasks_mut().flat_map(|task| &mut task.kernel_args) {
            if let KernelArg::Scratch(offset) = kernel_arg {
                *offset += scratch;
            }
        }
        actions.scratch += scratch;
        scratch = actions.scratch.next_multiple_of(ALIGN);
    }
    let one = |kernel: usize| {
        let (start, items) = (8 * table.len() as u64, steps.len() as u64);
        let mut blocks = 0u64;
        for &step in steps {
            let task = lowered[step].tasks_mut().nth(kernel)?;
            table.push(KernelArg::Number(blocks));
            table.append(&mut task.kernel_args);
            task.kernel_args = vec![
                KernelArg::Status,
                KernelArg::Table(start),
                KernelArg::Number(items),
                KernelArg::Number(blocks),
            ];
            task.source = task.source.of_many()?;
            blocks += u64::from(task.shape.grid[0]);
        }
        let mut all = lowered[steps[0]].tasks_mut().nth(kernel)?.clone();
        all.shape.grid[0] = blocks as u32;
        Some(all)
    };
    (0..).map_while(one).collect()
}

/// The memory that an operand is in, and the range of bytes there that it spans.
fn bytes(plan: &Plan, operand: &Operand) -> Option<(MemRef, Range<u64>)> {
    let (memory, start) = match operand.mem {
        MemRef::Arena(start) => (MemRef::Arena(0), start),
        MemRef::Host(start) => (MemRef::Host(0), start),
        MemRef::Results(start) => (MemRef::Results(0), start),
        MemRef::Output(k) => match plan.place_of_result(k) {
            Some(start) => (MemRef::Results(0), start),
            None => (plan.donors[k as usize].map_or(operand.mem, MemRef::Input), 0),
        },
        MemRef::Input(_) => (operand.mem, 0),
        MemRef::Scalar(_) | MemRef::Index => return None,
    };
    let (layout, size) = (&operand.layout, operand.dtype.size() as u64);
    let [first, end] = [layout.offset, layout.end()].map(|element| element as u64 * size);
    Some((memory, start + first..start + end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;

    #[test]
    fn every_step_is_in_one_launch_that_has_room_for_it() {
        let mut random = Random::new(27);
        for _ in 0..3000 {
            // Some have nearly as many blocks as there can be.
            let steps: Vec<(usize, usize, u64)> = (0..random.size(6))
                .map(|index| (index, random.below(3), random.size(32) as u64 - 1))
                .collect();
            let groups = grouped(steps.iter().copied());
            let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..steps.len()).collect::<Vec<_>>());
            assert!(groups.windows(2).all(|two| two[0][0] < two[1][0]), "{groups:?}");
            for group in groups {
                assert!(
                    group.is_sorted() && group.iter().all(|&n| steps[n].1 == steps[group[0]].1)
                );
                let blocks: u64 = group.iter().map(|&n| steps[n].2).sum();
                assert!(group.len() == 1 || blocks <= MOST_BLOCKS, "{blocks} blocks");
            }
        }
    }
}
