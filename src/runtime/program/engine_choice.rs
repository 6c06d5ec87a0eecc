//! Which of two engines a program runs on, where the backend has a second one for its memory (`TORCHACC_BACKEND=auto`): a
//! program that runs often is compiled for that one too, then runs on both in turns, and stays on the faster one.

use super::compiled::Compiled;
use parking_lot::Mutex;
use std::sync::Arc;

/// Runs after which a program is worth compiling for the second engine, ...
const RUNS: u32 = 50;
/// ... and nanoseconds that they took.
const RUNS_NS: u64 = 100_000_000;
/// Runs that are measured, on each engine, after one on each that is not.
const MEASURED: usize = 10;

/// The choice for a program's code.
#[derive(Default)]
pub struct EngineChoice(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    New,
    Counting {
        runs: u32,
        ns: u64,
    },
    /// The background thread has it.
    InBackground,
    Measuring {
        other: Arc<Compiled>,
        /// Of the own engine, and of the other.
        times: [Vec<u64>; 2],
    },
    /// Final: the program's code runs.
    Made,
}

/// The role of a run in the choice.
pub enum Trial {
    Nothing,
    Counted,
    /// Measured, on the own engine.
    Own,
    Other(Arc<Compiled>),
}

/// The next task for a choice.
pub enum What {
    /// Look up the choice of an earlier process.
    Recall,
    Compile,
    /// Median times on the own engine and on the other, and the other's code.
    Choose([u64; 2], Arc<Compiled>),
}

impl EngineChoice {
    /// The trial of the run that begins.
    pub fn next(&self) -> Trial {
        match &*self.0.lock() {
            State::New | State::Counting { .. } => Trial::Counted,
            State::InBackground | State::Made => Trial::Nothing,
            State::Measuring { times: [own, other], .. } if own.len() <= other.len() => Trial::Own,
            State::Measuring { other, .. } => Trial::Other(other.clone()),
        }
    }

    /// Ends the choice: the program keeps its present code.
    pub fn give_up(&self) {
        *self.0.lock() = State::Made;
    }

    /// Counts runs, since no earlier choice is known.
    pub fn count(&self) {
        *self.0.lock() = State::Counting { runs: 0, ns: 0 };
    }

    /// Measures runs on the own engine and on this one.
    pub fn measure(&self, other: Arc<Compiled>) {
        *self.0.lock() = State::Measuring { other, times: Default::default() };
    }

    /// Notes a run by its time, `None` if it failed. Returns the next task.
    pub fn ran(&self, took_ns: Option<u64>, is_other: bool) -> Option<What> {
        let mut state = self.0.lock();
        let task = match (&mut *state, took_ns) {
            (State::New, _) => What::Recall,
            (State::Counting { runs, ns }, Some(took)) => {
                (*runs, *ns) = (*runs + 1, *ns + took);
                if *runs < RUNS || *ns < RUNS_NS {
                    return None;
                }
                What::Compile
            }
            (State::Measuring { other, times }, Some(took)) => {
                times[is_other as usize].push(took);
                if times.iter().any(|times| times.len() <= MEASURED) {
                    return None;
                }
                let medians = times.clone().map(|times| median(times[1..].to_vec()));
                What::Choose(medians, other.clone())
            }
            (State::Measuring { .. }, None) if is_other => {
                *state = State::Made;
                return None;
            }
            _ => return None,
        };
        *state = State::InBackground;
        Some(task)
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

impl Trial {
    /// The code to run instead of the program's.
    pub fn other(&self) -> Option<Arc<Compiled>> {
        match self {
            Trial::Other(code) => Some(code.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::Null;
    use crate::graph::text::parse;
    use crate::plan::tests::plan_of;

    const MS: u64 = 1_000_000;

    fn counting() -> EngineChoice {
        EngineChoice(State::Counting { runs: 0, ns: 0 }.into())
    }

    fn measuring() -> EngineChoice {
        let graph =
            parse("%0: f32[2] = input() {index=0, type=(f32[2])}\n%1: f32[2] = neg(%0)\nreturn %1");
        let plan = plan_of(&graph.unwrap(), &[None]);
        let other = Arc::new(Compiled::new(Arc::new(plan), &Null::default()).unwrap());
        EngineChoice(State::Measuring { other, times: Default::default() }.into())
    }

    #[test]
    fn it_is_looked_up_first_and_compiled_when_it_has_run_often_and_long() {
        let choice = EngineChoice::default();
        assert!(matches!(choice.next(), Trial::Counted));
        assert!(matches!(choice.ran(Some(1), false), Some(What::Recall)));
        assert!(matches!(choice.next(), Trial::Nothing));
        for (took, runs) in [(10 * MS, RUNS), (MS, 100)] {
            let choice = counting();
            // One that fails says nothing.
            assert!(choice.ran(None, false).is_none());
            for _ in 1..runs {
                assert!(choice.ran(Some(took), false).is_none());
            }
            assert!(matches!(choice.ran(Some(took), false), Some(What::Compile)));
            assert!(choice.ran(Some(took), false).is_none());
        }
    }

    #[test]
    fn runs_on_both_are_measured_in_turns_but_for_the_first() {
        let choice = measuring();
        for run in 0..=MEASURED {
            assert!(matches!(choice.next(), Trial::Own));
            assert!(choice.ran(Some(if run == 0 { 900 * MS } else { 7 * MS }), false).is_none());
            assert!(matches!(choice.next(), Trial::Other(_)));
            let task = choice.ran(Some(if run == 0 { MS } else { 8 * MS }), true);
            match (run == MEASURED, task) {
                (false, None) => {}
                (true, Some(What::Choose(ns, _))) => assert_eq!(ns, [7 * MS, 8 * MS]),
                _ => panic!("run {run}"),
            }
        }
        assert!(matches!(choice.next(), Trial::Nothing));
    }

    #[test]
    fn an_engine_that_fails_is_not_chosen() {
        let choice = measuring();
        assert!(choice.ran(None, false).is_none());
        assert!(matches!(choice.next(), Trial::Own));
        assert!(choice.ran(None, true).is_none());
        assert!(matches!(choice.next(), Trial::Nothing));
    }
}
