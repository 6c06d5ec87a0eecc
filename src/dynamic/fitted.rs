//! The known polynomials of the numbers of examples, by their values, and those of others that follow from their relations.

use super::relations::{Product, Relations, Role, Sum};
use crate::symbolic::Poly;
use std::collections::{HashMap, HashSet};

/// A whole with this many varying parts is a region of its own: no part can be as large as each of them alone. If this many
/// siblings vary, each may.
pub const PARTS: usize = 3;

/// A number that is the sum of others, in each example.
pub struct Whole {
    values: Vec<i64>,
    parts: HashSet<Vec<i64>>,
}

/// The polynomials of the numbers of examples, by their values.
pub struct FittedNumbers<'a> {
    examples: &'a [Vec<i64>],
    /// Whether each number varies.
    varies: Vec<bool>,
    polys: HashMap<Vec<i64>, Poly>,
}

impl<'a> FittedNumbers<'a> {
    pub fn new(examples: &'a [Vec<i64>]) -> FittedNumbers<'a> {
        let differs = |at: usize| examples.iter().any(|e| e[at] != examples[0][at]);
        let varies = (0..examples[0].len()).map(differs).collect();
        FittedNumbers { examples, varies, polys: HashMap::new() }
    }

    pub fn add(&mut self, list: Vec<i64>, poly: Poly) {
        self.polys.insert(list, poly);
    }

    pub fn of(&self, list: &[i64]) -> Option<Poly> {
        self.polys.get(list).cloned()
    }

    /// The value of the number at a position in each example.
    pub fn values(&self, at: usize) -> Vec<i64> {
        self.examples.iter().map(|example| example[at]).collect()
    }

    fn poly(&self, at: usize) -> Option<Poly> {
        if self.varies[at] {
            self.of(&self.values(at))
        } else {
            Some(Poly::constant(self.examples[0][at]))
        }
    }

    /// The polynomial of a number that is the product of others.
    pub fn by_product(&self, Product { times, factors, .. }: &Product) -> Option<Poly> {
        let all =
            factors.iter().try_fold(Poly::constant(*times), |all, &at| all.by(&self.poly(at)?));
        all.filter(|poly| !poly.is_constant())
    }

    /// The numbers that vary, with their positions.
    pub fn varying(&self) -> Vec<(usize, Vec<i64>)> {
        (0..self.varies.len())
            .filter(|&at| self.varies[at])
            .map(|at| (at, self.values(at)))
            .collect()
    }

    /// Marks `parts` as varying even where they are the same in all examples, and the numbers that follow from them: products,
    /// and the starts of slices.
    pub fn vary(
        &mut self,
        parts: &HashSet<Vec<i64>>,
        relations: &Relations,
        sums: &[&Sum],
        products: &HashMap<usize, &Product>,
    ) {
        for at in 0..self.varies.len() {
            self.varies[at] |= parts.contains(&self.values(at));
        }
        let is_start = |at: usize| relations.role(at) == Role::Offset;
        let mut starts: HashSet<Vec<i64>> = HashSet::new();
        // Repeats, since a stride is a product of another one.
        loop {
            let varies = |&at: &usize| self.varies[at];
            let of_products = products.values().filter(|p| p.factors.iter().any(varies));
            let of_sums = sums.iter().filter(|sum| is_start(sum.whole));
            let of_sums = of_sums.filter(|sum| sum.parts.iter().any(|(_, at)| varies(at)));
            let wholes = of_products.map(|p| p.whole).chain(of_sums.map(|sum| sum.whole));
            let more: Vec<usize> = wholes.filter(|at| !varies(at)).collect();
            if more.is_empty() {
                break;
            }
            starts.extend(more.iter().filter(|&&at| is_start(at)).map(|&at| self.values(at)));
            more.into_iter().for_each(|at| self.varies[at] = true);
        }
        for at in 0..self.varies.len() {
            self.varies[at] |= is_start(at) && starts.contains(&self.values(at));
        }
    }

    /// The numbers that are parts of a whole with several varying parts.
    pub fn parts(&self, sums: &[&Sum]) -> HashSet<Vec<i64>> {
        let of = |sum: &&Sum| -> Vec<Vec<i64>> {
            sum.parts.iter().map(|&(_, at)| self.values(at)).collect()
        };
        let lists = sums.iter().map(of);
        lists.filter(|lists| lists.iter().filter(varies).count() >= PARTS).flatten().collect()
    }

    /// The sizes that vary independently because several of their siblings do.
    pub fn siblings(&self, relations: &Relations) -> HashSet<Vec<i64>> {
        let of = |group: &[usize]| -> HashSet<Vec<i64>> {
            group.iter().map(|&at| self.values(at)).collect()
        };
        let lists = relations.siblings().map(of);
        lists.filter(|lists| lists.iter().filter(varies).count() >= PARTS).flatten().collect()
    }

    /// The wholes of the sums, with their parts.
    pub fn wholes(&self, sums: &[&Sum]) -> Vec<Whole> {
        let of = |sum: &&Sum| Whole {
            values: self.values(sum.whole),
            parts: sum.parts.iter().map(|&(_, at)| self.values(at)).collect(),
        };
        sums.iter().map(of).collect()
    }

    /// A part of a whole as a multiple of a part of another whole, of which the first whole is the same multiple: elements of
    /// rows.
    pub fn by_wholes(&self, wholes: &[Whole], list: &[i64]) -> Option<Poly> {
        let mut of_list = wholes.iter().filter(|whole| whole.parts.contains(list));
        of_list.find_map(|whole| {
            wholes.iter().find_map(|smaller| {
                let times = ratio(&whole.values, &smaller.values)?;
                let part: Option<Vec<i64>> =
                    list.iter().map(|n| (n % times == 0).then_some(n / times)).collect();
                let part = part.filter(|part| smaller.parts.contains(part))?;
                self.of(&part)?.line(times, 0)
            })
        })
    }

    /// A number as the sum of others, or as the remainder of a sum; in the latter case, also how many parts of that sum vary.
    pub fn by_sums(&self, sums: &[&Sum], list: &[i64]) -> Option<(Poly, usize)> {
        let is_it = |at: usize| self.examples.iter().zip(list).all(|(e, n)| e[at] == *n);
        let total = |mut parts: Vec<(i64, usize)>| {
            let add = |sum: Poly, (times, at): (i64, usize)| {
                let part = self.poly(at)?.line(times, 0)?;
                sum.plus(&part)
            };
            parts.drain(..).try_fold(Poly::constant(0), add)
        };
        sums.iter().find_map(|Sum { whole, parts }| {
            if is_it(*whole) {
                return Some((total(parts.clone())?, 0));
            }
            let place = parts.iter().position(|&(times, at)| times == 1 && is_it(at))?;
            let others = parts.iter().enumerate().filter(|(i, _)| *i != place);
            let mut left: Vec<(i64, usize)> =
                others.map(|(_, &(times, at))| (-times, at)).collect();
            left.push((1, *whole));
            let varying = parts.iter().filter(|&&(_, at)| self.varies[at]);
            Some((total(left)?, varying.count()))
        })
    }
}

fn varies(list: &&Vec<i64>) -> bool {
    list.iter().any(|n| n != &list[0])
}

/// The factor between the numbers and `others`, if it is a whole number above 1 and the same for all.
fn ratio(numbers: &[i64], others: &[i64]) -> Option<i64> {
    let times = numbers[0].checked_div(others[0]).filter(|times| *times > 1)?;
    let is_it = |(number, other): (&i64, &i64)| other.checked_mul(times) == Some(*number);
    numbers.iter().zip(others).all(is_it).then_some(times)
}
