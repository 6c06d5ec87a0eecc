//! The sizes at which a template's plans were compared with plans of their own: only for sizes like these is the template taken
//! to be right without a comparison.

/// Up to this many symbols, sums of two are recorded, and more residues.
const FEW: usize = 6;

/// Properties of the points at which plans were compared.
pub struct Proved {
    /// Least and largest sums of symbols: a corner of the box may not be a point, and a plan that changes with a sum (by one more
    /// round) changes before that corner.
    sums: Vec<(i64, i64)>,
    /// The symbols' residues: a window that ends beyond the last element (`ceil_mode`), or a division without a remainder, has a
    /// plan for every other size, or for every third.
    residues: Vec<u16>,
    /// The sets of symbols that were odd at once: half of a sum has a plan for every other sum.
    parities: u32,
    /// Points on a line say nothing about those beside it.
    hull: AffineHull,
}

impl Proved {
    pub fn new(points: &[Vec<i64>]) -> Proved {
        let sums = vec![(i64::MAX, i64::MIN); sums(&points[0]).len()];
        let mut proved = Proved {
            sums,
            residues: vec![0; points[0].len()],
            parities: 0,
            hull: AffineHull::new(&points[0]),
        };
        points.iter().for_each(|point| proved.add(point));
        proved
    }

    pub fn add(&mut self, point: &[i64]) {
        for ((least, most), sum) in self.sums.iter_mut().zip(sums(point)) {
            (*least, *most) = (sum.min(*least), sum.max(*most));
        }
        self.residues.iter_mut().zip(residues(point)).for_each(|(seen, of)| *seen |= of);
        self.parities |= parity(point);
        self.hull.add(point);
    }

    pub fn contains(&self, point: &[i64]) -> bool {
        let within = |((least, most), sum): (&(i64, i64), i64)| (*least..=*most).contains(&sum);
        self.sums.iter().zip(sums(point)).all(within)
            && self.residues.iter().zip(residues(point)).all(|(seen, of)| seen & of == of)
            && self.parities & parity(point) == parity(point)
            && self.hull.contains(point)
    }
}

/// A bit for the residue of each symbol by each divisor. With many symbols some residue would be new for long.
fn residues(point: &[i64]) -> impl Iterator<Item = u16> {
    let divisors = if point.len() <= FEW { 2..6 } else { 2..3 };
    point.iter().map(move |n| {
        let place = |(bits, first): (u16, i64), divisor: i64| {
            (bits | 1 << (first + n.rem_euclid(divisor)), first + divisor)
        };
        divisors.clone().fold((0, 0), place).0
    })
}

/// A bit for the set of odd symbols, for up to five symbols.
fn parity(point: &[i64]) -> u32 {
    match point.len() {
        ..=5 => 1 << point.iter().fold(0, |odd, n| odd << 1 | n & 1),
        _ => 0,
    }
}

/// The sum of all symbols, and of each two if there are few.
fn sums(point: &[i64]) -> Vec<i64> {
    let mut sums = vec![point.iter().fold(0, |sum: i64, n| sum.saturating_add(*n))];
    if (3..=FEW).contains(&point.len()) {
        let pairs = (1..point.len()).flat_map(|t| (0..t).map(move |s| (s, t)));
        sums.extend(pairs.map(|(s, t)| point[s].saturating_add(point[t])));
    }
    sums
}

/// All combinations of points whose weights add up to one: by Gaussian elimination modulo a large prime, so that no number grows.
/// For many symbols there are never enough points: everything counts as in their hull.
struct AffineHull {
    origin: Vec<i64>,
    rows: Vec<Vec<i128>>,
}

const PRIME: i128 = (1 << 61) - 1;

impl AffineHull {
    fn new(origin: &[i64]) -> AffineHull {
        AffineHull { origin: origin.to_vec(), rows: Vec::new() }
    }

    fn add(&mut self, point: &[i64]) {
        if !self.contains(point) {
            self.rows.push(self.rest(point));
        }
    }

    fn contains(&self, point: &[i64]) -> bool {
        let is_full = self.rows.len() == point.len();
        is_full || point.len() > FEW || self.rest(point).iter().all(|&n| n == 0)
    }

    /// The vector from the origin to a point, reduced by those of the hull.
    fn rest(&self, point: &[i64]) -> Vec<i128> {
        let way = point.iter().zip(&self.origin).map(|(to, from)| *to as i128 - *from as i128);
        let way: Vec<i128> = way.map(|n| n.rem_euclid(PRIME)).collect();
        self.rows.iter().fold(way, |way, row| {
            let Some(lead) = row.iter().position(|&n| n != 0) else { return way };
            let by = way[lead];
            let without = |(n, of): (i128, &i128)| (n * row[lead] - of * by).rem_euclid(PRIME);
            way.into_iter().zip(row).map(without).collect()
        })
    }
}
