//! The step after which nothing in a plan touches an output any more: whoever waits for it can have it while the rest runs, as
//! the loss of a training step while its optimizer does.

use super::{Kernel, MemRef, Plan};

/// With fewer steps left to run, it is not worth waking a waiting thread sooner.
const LEAST_LEFT: usize = 16;

/// Steps, and outputs that are final after them, in the order of the steps. None of the outputs reuses an input's memory, and
/// none is final before the last step that runs the program's own code, which may ask for anything.
pub struct FinalUses(Vec<(usize, usize)>);

impl FinalUses {
    pub fn of(plan: &Plan, calls_host: impl Fn(&Kernel) -> bool) -> FinalUses {
        let mut last = vec![None; plan.outputs.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            for operand in step.reads.iter().chain(&step.writes) {
                if let MemRef::Output(output) = operand.mem {
                    last[output as usize] = Some(index);
                }
            }
        }
        let host = plan.steps.iter().rposition(|step| calls_host(&step.kernel)).unwrap_or(0);
        let mut uses: Vec<(usize, usize)> = (last.into_iter().enumerate())
            .filter(|&(output, _)| plan.donors[output].is_none())
            .filter_map(|(output, last)| Some((last?.max(host), output)))
            .filter(|(step, _)| step + LEAST_LEFT < plan.steps.len())
            .collect();
        uses.sort_unstable();
        FinalUses(uses)
    }

    /// The outputs that are final before a step, from index `from` on, which is moved behind them.
    pub fn before<'a>(&'a self, step: usize, from: &mut usize) -> impl Iterator<Item = usize> + 'a {
        let rest = &self.0[*from..];
        let final_now = rest.iter().take_while(|(last, _)| *last < step).count();
        *from += final_now;
        rest[..final_now].iter().map(|&(_, output)| output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan_of;
    use crate::plan::training::training_step;

    #[test]
    fn the_loss_of_a_training_step_is_final_before_the_update_and_touched_no_more() {
        let (graph, donors) = training_step(3, 2, 8, 16, 32);
        let plan = plan_of(&graph, &donors);
        let uses = FinalUses::of(&plan, |_| false);
        let (mut from, mut given) = (0, Vec::new());
        for (index, step) in plan.steps.iter().enumerate() {
            given.extend(uses.before(index, &mut from));
            for operand in step.reads.iter().chain(&step.writes) {
                let is_given = |&output: &usize| operand.mem == MemRef::Output(output as u32);
                assert!(!given.iter().any(is_given), "step {index}\n{plan}");
            }
        }
        assert!(given.iter().all(|&output| plan.donors[output].is_none()));
        let is_loss = |&n: &usize| plan.outputs[n].sizes.is_empty() && plan.donors[n].is_none();
        let loss = (0..plan.outputs.len()).find(is_loss).unwrap();
        assert!(given.contains(&loss), "{given:?}\n{plan}");
        assert!(FinalUses::of(&plan, |_| true).0.is_empty());
    }
}
