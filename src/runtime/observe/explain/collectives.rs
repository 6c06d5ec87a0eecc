//! The flight recorder: the last collectives of each communicator, with those that run or wait on its lane.

use crate::error::Site;
use crate::runtime::observe::clock::now;
use std::collections::{BTreeMap, VecDeque};

/// Number of collectives kept of a communicator, besides those that have not ended, ...
const LAST: usize = 16;
/// ... and of communicators with any.
const COMMUNICATORS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Running,
    Done,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Collective {
    /// From 0 on, since the communicator was first used.
    pub number: u64,
    pub name: String,
    /// Type and sizes of the tensor that this rank gives; empty for a receive.
    pub tensor: String,
    pub bytes: u64,
    pub site: Site,
    pub began_ns: u64,
    /// Until now, for the one that runs.
    pub took_ns: u64,
    pub state: State,
    pub hiding: Hiding,
}

/// The steps that hide a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hiding {
    /// The part of the collective's time in which nothing else ran.
    pub exposed_ns: u64,
    /// Steps of the program between its start and where it is waited for, and the lines of the first and the last one.
    pub steps: usize,
    pub sites: [Site; 2],
}

#[derive(Default)]
pub struct Collectives(BTreeMap<String, VecDeque<Collective>>);

impl Collectives {
    /// Notes a collective that begins, or is put on a lane: `new` without its number. Those of a communicator run one after the
    /// other.
    pub fn begin(&mut self, communicator: &str, new: Collective) {
        if self.0.len() >= COMMUNICATORS && !self.0.contains_key(communicator) {
            // The communicator whose last use is the longest ago.
            let began = |last: &VecDeque<Collective>| last.back().map(|one| one.began_ns);
            let oldest = self.0.iter().min_by_key(|(_, last)| began(last));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.0.remove(&name);
            }
        }
        let last = self.0.entry(communicator.to_string()).or_default();
        let number = last.back().map_or(0, |one| one.number + 1);
        last.push_back(Collective { number, ..new });
        trim(last);
    }

    /// Notes that the first of those that run, or wait on a lane, has ended. `times`: when it really began, and ended.
    pub fn end(&mut self, communicator: &str, times: (u64, u64), hiding: Hiding, failed: bool) {
        let Some(last) = self.0.get_mut(communicator) else { return };
        if let Some(one) = last.iter_mut().find(|c| c.state == State::Running) {
            (one.began_ns, one.took_ns) = (times.0, times.1 - times.0);
            one.state = if failed { State::Failed } else { State::Done };
            one.hiding = hiding;
        }
        trim(last);
    }

    /// Removes the first of those, which was not done after all.
    pub fn withdraw(&mut self, communicator: &str) {
        let Some(last) = self.0.get_mut(communicator) else { return };
        if let Some(at) = last.iter().position(|one| one.state == State::Running) {
            last.remove(at);
            last.range_mut(at..).for_each(|one| one.number -= 1);
        }
    }

    /// All of them by communicator, the oldest first.
    pub fn rows(&self) -> Vec<(String, Collective)> {
        let rows = self.0.iter().flat_map(|(name, last)| last.iter().map(move |one| (name, one)));
        rows.map(|(name, one)| {
            let took_ns = match one.state {
                State::Running => now() - one.began_ns,
                _ => one.took_ns,
            };
            (name.clone(), Collective { took_ns, ..one.clone() })
        })
        .collect()
    }

    pub fn sites(&self) -> Vec<Site> {
        let sites = |one: &Collective| [one.site, one.hiding.sites[0], one.hiding.sites[1]];
        self.0.values().flatten().flat_map(sites).collect()
    }

    /// Replaces sites by lines.
    pub fn place(&mut self, line: impl Fn(Site) -> Site) {
        for one in self.0.values_mut().flatten() {
            one.site = line(one.site);
            one.hiding.sites = one.hiding.sites.map(&line);
        }
    }
}

/// Drops the oldest of those that have ended.
fn trim(last: &mut VecDeque<Collective>) {
    let ended = last.iter().take_while(|one| one.state != State::Running).count();
    drop(last.drain(..ended.saturating_sub(LAST)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDING: Hiding = Hiding { exposed_ns: 1, steps: 2, sites: [7; 2] };

    fn collective(name: &str) -> Collective {
        Collective {
            number: 0,
            name: name.into(),
            tensor: "f32 [3]".into(),
            bytes: 12,
            site: 7,
            began_ns: now(),
            took_ns: 0,
            state: State::Running,
            hiding: Hiding { sites: [7; 2], ..Hiding::default() },
        }
    }

    #[test]
    fn the_last_ones_are_kept_with_their_numbers() {
        let mut log = Collectives::default();
        for _ in 0..LAST + 5 {
            log.begin("a", collective("all_reduce"));
            log.end("a", (3, 5), HIDING, false);
        }
        log.begin("b", collective("broadcast"));
        log.end("b", (3, 5), HIDING, true);
        log.begin("b", collective("send"));
        let rows = log.rows();
        assert_eq!(rows.len(), LAST + 2);
        assert_eq!((rows[0].1.number, rows[LAST - 1].1.number), (5, LAST as u64 + 4));
        let states = rows[LAST - 1..].iter().map(|(_, one)| (one.number, one.state));
        let expected = [(LAST as u64 + 4, State::Done), (0, State::Failed), (1, State::Running)];
        assert_eq!(states.collect::<Vec<_>>(), expected);
        (0..2).for_each(|_| log.begin("b", collective("reduce")));
        log.end("b", (5, 6), HIDING, true);
        log.withdraw("b");
        log.end("b", (6, 7), HIDING, false);
        let of_b = log.0["b"].iter().map(|one| (one.number, one.name.as_str(), one.state));
        let expected = [
            (0, "broadcast", State::Failed),
            (1, "send", State::Failed),
            (2, "reduce", State::Done),
        ];
        assert_eq!(of_b.collect::<Vec<_>>(), expected);
        for _ in 0..3 * LAST {
            log.begin("c", collective("all_reduce"));
        }
        log.end("c", (3, 5), HIDING, false);
        log.end("c", (5, 6), HIDING, true);
        (0..3 * LAST - 2).for_each(|_| log.withdraw("c"));
        let of_c = log.0["c"].iter().map(|one| (one.number, one.state));
        assert_eq!(of_c.collect::<Vec<_>>(), [(0, State::Done), (1, State::Failed)]);
        log.place(|site| site + 1);
        assert!(log.sites().iter().all(|site| *site == 8));
    }

    #[test]
    fn communicators_that_are_used_no_more_go() {
        let mut log = Collectives::default();
        for number in 0..2 * COMMUNICATORS {
            log.begin("kept", collective("all_reduce"));
            log.begin(&number.to_string(), collective("all_reduce"));
        }
        assert_eq!(log.0.len(), COMMUNICATORS);
        assert!(log.0.contains_key("kept"));
    }
}
