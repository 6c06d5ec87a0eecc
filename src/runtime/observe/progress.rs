//! The compile that is running, with an estimate of its duration.

use super::clock::now;
use super::json::Object;
use crate::error::Site;
use parking_lot::Mutex;

/// Ratio of the time of a compile to that of lowering: 6.0 and 5.4 for training steps of 12 and 48 layers on the CPU.
const OF_LOWERING: u64 = 6;

/// The stage that a compile begins with.
const GRAPH: &str = "graph";

/// The program that is being compiled: the launch thread waits for each, its background work included.
#[derive(Default)]
pub struct Progress(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    compiling: Option<Compiling>,
    /// Operations and nanoseconds of the last large compile: a small one takes longer per operation.
    large: Option<(u64, u64)>,
}

#[derive(Clone)]
struct Compiling {
    operations: u64,
    site: Site,
    began_ns: u64,
    stage: &'static str,
    stage_began_ns: u64,
    /// 0 while it is not known.
    expected_ns: u64,
}

/// Guard for as long as a program is compiled.
pub struct UnderWay<'a>(&'a Progress);

impl Progress {
    pub fn begins(&self, operations: usize, site: Site) -> UnderWay<'_> {
        let mut inner = self.0.lock();
        let (began_ns, operations) = (now(), operations as u64);
        let alike = inner.large.filter(|&(large, _)| large >= operations / 4);
        let expected_ns = alike.map_or(0, |(large, took_ns)| took_ns * operations / large.max(1));
        // The first stage, until one is reported.
        let (stage, stage_began_ns) = (GRAPH, began_ns);
        let new = Compiling { operations, site, began_ns, stage, stage_began_ns, expected_ns };
        inner.compiling = Some(new);
        UnderWay(self)
    }

    pub fn is_at(&self, stage: &'static str) {
        let now = now();
        if let Some(it) = &mut self.0.lock().compiling {
            if it.stage == GRAPH && stage != GRAPH && it.expected_ns == 0 {
                it.expected_ns = (now - it.began_ns) * OF_LOWERING;
            }
            (it.stage, it.stage_began_ns) = (stage, now);
        }
    }

    /// `kernels`: numbers of kernels that the backend has compiled, and of all.
    pub fn json(&self, kernels: (u64, u64)) -> String {
        let Some(it) = self.0.lock().compiling.clone() else { return "{}".into() };
        let now = now();
        let elapsed_ns = now - it.began_ns;
        let (done, of) = if it.stage == "code" { kernels } else { (0, 0) };
        let expected_ns = match done {
            0 => it.expected_ns,
            done => elapsed_ns + (now - it.stage_began_ns) / done * (of - done),
        };
        Object::default()
            .raw("operations", it.operations)
            .text("stage", it.stage)
            .raw("elapsed_ns", elapsed_ns)
            .raw("expected_ns", expected_ns)
            .raw("kernels_done", done)
            .raw("kernels", of)
            .raw("site", it.site)
            .end()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.0.lock();
        if let Some(done) = inner.compiling.take() {
            let took_ns = now() - done.began_ns;
            if inner.large.is_none_or(|(large, _)| done.operations >= large / 2) {
                inner.large = Some((done.operations, took_ns));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_is_told_until_it_ends() {
        let progress = Progress::default();
        assert_eq!(progress.json((0, 0)), "{}");
        let under_way = progress.begins(100, 7);
        assert!(progress.json((0, 0)).contains("\"stage\": \"graph\""));
        progress.is_at("graph");
        assert!(progress.json((1, 2)).contains("\"expected_ns\": 0, \"kernels_done\": 0"));
        std::thread::sleep(std::time::Duration::from_millis(1));
        progress.is_at("code");
        let text = progress.json((1, 4));
        assert!(text.contains("\"kernels_done\": 1, \"kernels\": 4, \"site\": 7}"), "{text}");
        drop(under_way);
        assert_eq!(progress.json((1, 4)), "{}");
        // What a small one took says nothing of a large one, and does not take the place of what a large one took.
        let is_known = |operations| {
            let _under_way = progress.begins(operations, 0);
            !progress.json((0, 0)).contains("\"expected_ns\": 0,")
        };
        assert!(!is_known(1000));
        assert!(is_known(1000));
        assert!(is_known(10));
        assert!(is_known(1000));
    }
}
