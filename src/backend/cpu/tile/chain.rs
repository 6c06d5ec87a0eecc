//! Chains: several operations on f32, each on the result of the one before, which stays in registers.
//! A block of eight vectors goes through all of them before the next one begins. A single operation is a plain loop.

use super::super::element::Bf16;
use super::super::isa::kernel;
use super::super::vector::math;
use super::super::vector::{MAX_LANES, Vector, each as vectors};
use super::link::{BinaryOp, Link, UnaryOp};
use crate::op::Op;
use crate::op::table::primitives;

/// The source of an operand's numbers.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// In the first-level cache.
    Run(&'a [f32]),
    /// In memory, followed by the next tile's numbers.
    Memory(&'a [f32]),
    Bf16(&'a [Bf16]),
    /// One number for all elements.
    One(f32),
    /// The elements that the chain's result overwrites.
    Own,
}

/// Where the result goes.
pub enum Target<'a> {
    Run(&'a mut [f32]),
    Bf16(&'a mut [Bf16]),
}

/// Vectors of a block.
const VECTORS: usize = 8;
type Block<V> = [V; VECTORS];
type Room = [f32; VECTORS * MAX_LANES];

/// A block's position in the tile. Only the last block may be partial.
#[derive(Clone, Copy)]
struct BlockPosition {
    prefetch: bool,
    at: usize,
    len: usize,
}

impl BlockPosition {
    /// The block's elements: in place, or copied to `room` if the block is partial.
    #[inline(always)]
    fn whole<'a, V: Vector>(self, x: &'a [f32], room: &'a mut Room) -> &'a [f32] {
        if self.len == VECTORS * V::LANES {
            return &x[self.at..][..VECTORS * V::LANES];
        }
        room[..self.len].copy_from_slice(&x[self.at..][..self.len]);
        &room[..]
    }

    /// The elements of the block as f32 in `room`.
    #[inline(always)]
    fn widened<'a, V: Vector>(self, x: &[Bf16], room: &'a mut Room) -> &'a [f32] {
        self.prefetch::<V, Bf16>(x);
        let x = &x[self.at..][..self.len];
        // Slices of a length known at compile time.
        if self.len == VECTORS * V::LANES {
            let (to, from) = (&mut room[..VECTORS * V::LANES], &x[..VECTORS * V::LANES]);
            widen(to, from);
        } else {
            widen(&mut room[..], x);
        }
        &room[..]
    }

    #[inline(always)]
    fn load<V: Vector>(self, feed: Feed, own: &Target, room: &mut Room) -> Block<V> {
        loaded(match (feed, own) {
            (Feed::One(v), _) => return [V::splat(v); VECTORS],
            (Feed::Run(x), _) => self.whole::<V>(x, room),
            (Feed::Memory(x), _) => {
                self.prefetch::<V, f32>(x);
                self.whole::<V>(x, room)
            }
            (Feed::Own, Target::Run(x)) => {
                self.prefetch::<V, f32>(x);
                self.whole::<V>(x, room)
            }
            (Feed::Bf16(x), _) => self.widened::<V>(x, room),
            (Feed::Own, Target::Bf16(x)) => self.widened::<V>(x, room),
        })
    }

    /// Prefetches the same position of the next tile; every second cache line, since they
    /// are fetched in pairs.
    #[inline(always)]
    fn prefetch<V: Vector, T>(self, x: &[T]) {
        const LINE: usize = 64;
        if !self.prefetch {
            return;
        }
        for at in (0..VECTORS * V::LANES).step_by(2 * LINE / size_of::<T>()) {
            V::prefetch(x.as_ptr().wrapping_add(x.len() + self.at + at));
        }
    }

    #[inline(always)]
    fn store<V: Vector>(self, block: Block<V>, to: &mut Target, room: &mut Room) {
        match to {
            Target::Run(to) if self.len == VECTORS * V::LANES => {
                stored(block, &mut to[self.at..][..VECTORS * V::LANES]);
            }
            Target::Run(to) => {
                stored(block, room);
                to[self.at..][..self.len].copy_from_slice(&room[..self.len]);
            }
            Target::Bf16(to) => {
                stored(block, room);
                let to = &mut to[self.at..][..self.len];
                if self.len == VECTORS * V::LANES {
                    let (to, from) = (&mut to[..VECTORS * V::LANES], &room[..VECTORS * V::LANES]);
                    narrow(to, from);
                } else {
                    narrow(to, &room[..]);
                }
            }
        }
    }
}

#[inline(always)]
fn widen(to: &mut [f32], from: &[Bf16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = math::bf16_to_f32(from.0);
    }
}

#[inline(always)]
fn narrow(to: &mut [Bf16], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        to.0 = math::f32_to_bf16(*from);
    }
}

// Blocks are never indexed by a variable: that would keep them in memory.

#[inline(always)]
fn loaded<V: Vector>(x: &[f32]) -> Block<V> {
    let x = &x[..VECTORS * V::LANES];
    let at = |i: usize| V::load(&x[i * V::LANES..]);
    [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)]
}

#[inline(always)]
fn stored<V: Vector>([a, b, c, d, e, f, g, h]: Block<V>, to: &mut [f32]) {
    let to = &mut to[..VECTORS * V::LANES];
    a.store(to);
    b.store(&mut to[V::LANES..]);
    c.store(&mut to[2 * V::LANES..]);
    d.store(&mut to[3 * V::LANES..]);
    e.store(&mut to[4 * V::LANES..]);
    f.store(&mut to[5 * V::LANES..]);
    g.store(&mut to[6 * V::LANES..]);
    h.store(&mut to[7 * V::LANES..]);
}

/// Whether any number is beyond the range of [`math::sin_from`].
#[inline(always)]
fn far(x: &Room) -> bool {
    let mut any = false;
    for x in x {
        any |= x.abs() > math::TRIG_LIMIT;
    }
    any
}

impl Target<'_> {
    fn len(&self) -> usize {
        match self {
            Target::Run(x) => x.len(),
            Target::Bf16(x) => x.len(),
        }
    }
}

// Macros over the names of a block's vectors: arrays of vectors would be copied in memory, and closures would not always
// be part of the function that is compiled for the instruction set.

/// Applies a function to every vector, in registers.
macro_rules! each {
    ([$($x:ident)*] $room:ident |$v:ident| $y:expr) => {{
        $($x = { let $v = $x; $y };)*
    }};
}

/// Applies a function to every vector and its counterpart in another block, in registers.
macro_rules! pairs {
    ([$($x:ident)*], [$($z:ident)*] |$v:ident, $w:ident| $y:expr) => {{
        $($x = { let ($v, $w) = ($x, $z); $y };)*
    }};
}

/// Applies a function of many instructions, in a loop over the block in memory.
macro_rules! through {
    ([$($x:ident)*] $room:ident |$v:ident| $y:expr) => {{
        stored([$($x),*], &mut $room);
        for vector in $room[..VECTORS * V::LANES].chunks_exact_mut(V::LANES) {
            let $v = V::load(vector);
            $y.store(vector);
        }
        [$($x),*] = loaded(&$room);
    }};
}

/// As `through`, for every vector and its counterpart in another block.
macro_rules! pairs_through {
    ([$($x:ident)*], [$($z:ident)*] |$v:ident, $w:ident| $y:expr) => {{
        let (mut results, mut others): (Room, Room) = ([0.0; _], [0.0; _]);
        stored([$($x),*], &mut results);
        stored([$($z),*], &mut others);
        let vectors = results[..VECTORS * V::LANES].chunks_exact_mut(V::LANES);
        for (vector, other) in vectors.zip(others.chunks_exact(V::LANES)) {
            let ($v, $w) = (V::load(vector), V::load(other));
            $y.store(vector);
        }
        [$($x),*] = loaded(&results);
    }};
}

/// As `through`, number by number.
macro_rules! singly {
    ([$($x:ident)*] $room:ident |$v:ident| $y:expr) => {{
        stored([$($x),*], &mut $room);
        for number in &mut $room[..VECTORS * V::LANES] {
            let $v = *number;
            *number = $y;
        }
        [$($x),*] = loaded(&$room);
    }};
}

/// A sine or cosine; `$exact` computes numbers beyond [`math::TRIG_LIMIT`], and all of them without FMA.
macro_rules! transposed {
    ([$($x:ident)*] $room:ident $quarters:literal, $exact:path) => {{
        let mut x: Room = [0.0; VECTORS * MAX_LANES];
        stored([$($x),*], &mut x);
        if FMA {
            through!([$($x)*] $room |a| math::sin_from(a, $quarters));
        }
        if far(&x) || !FMA {
            for (y, x) in $room.iter_mut().zip(&x).take(VECTORS * V::LANES) {
                if x.abs() > math::TRIG_LIMIT || !FMA {
                    *y = $exact(*x as f64) as f32;
                }
            }
            [$($x),*] = loaded(&$room);
        }
    }};
}

/// Applies a function to every number of `$x`, in vectors of `$v`, and writes `$y`.
macro_rules! straight {
    ([$x:ident $y:ident] $v:ident |$a:ident| $e:expr) => {
        vectors!($v, $y, |$a in $x| $e)
    };
}

/// As `straight`, for a function of two numbers.
macro_rules! straight_pairs {
    ([$x:ident $y:ident $v:ident], $z:ident |$a:ident, $b:ident| $e:expr) => {
        vectors!($v, $y, |$a in $x, $b in $z| $e)
    };
}

/// As `straight`, for a function of a number and the vector `$z`.
macro_rules! straight_first {
    ([$x:ident $y:ident $v:ident], $z:ident |$a:ident, $b:ident| $e:expr) => {{
        let $b = $z;
        vectors!($v, $y, |$a in $x| $e)
    }};
}

/// As `straight`, for a function of the vector `$z` and a number.
macro_rules! straight_second {
    ([$x:ident $y:ident $v:ident], $z:ident |$a:ident, $b:ident| $e:expr) => {{
        let $a = $z;
        vectors!($v, $y, |$b in $x| $e)
    }};
}

/// The functions of unary operations; `$short` and `$long` are macros that apply functions of few and of many
/// instructions. The arms `$own` come first; `$none` is for operations without a function.
macro_rules! alone {
    ($op:expr, $short:ident, $long:ident, $x:tt, $with:ident, { $($own:tt)* }, $none:expr) => {
        match $op {
            $($own)*
            UnaryOp::Square => $short!($x $with |a| a * a),
            UnaryOp::Cube => $short!($x $with |a| a * a * a),
            #[allow(unreachable_patterns)]
            UnaryOp::ToF16 | UnaryOp::ToBF16 => $none,
            UnaryOp::Primitive(op) => primitives!(functions [op, $short, $long, $x, $with, $none]),
        }
    };
}

/// The `cpu` columns of the table of primitives.
macro_rules! functions {
    ([$op:expr, $short:ident, $long:ident, $x:tt, $with:ident, $none:expr]
     $($(#[$doc:meta])* $row:ident $facts:tt $($column:ident $of:tt)*;)*) => {
        functions!(@each [$op] [$short $long $x $with $none] $($row [$($column $of)*])*)
    };
    (@each [$op:expr] $how:tt $($row:ident $columns:tt)*) => {
        match $op { $(Op::$row => function!($how $columns),)* }
    };
}

/// The function of a row.
macro_rules! function {
    ([$short:ident $long:ident $x:tt $with:ident $none:expr] [cpu (short |$a:ident| $y:expr) $($others:tt)*]) => {
        $short!($x $with |$a| $y)
    };
    ([$short:ident $long:ident $x:tt $with:ident $none:expr] [cpu (long |$a:ident| $y:expr) $($others:tt)*]) => {
        $long!($x $with |$a| $y)
    };
    ([$short:ident $long:ident $x:tt $with:ident $none:expr] [cpu (own) $($others:tt)*]) => { $none };
    ($how:tt [$other:ident $of:tt $($others:tt)*]) => { function!($how [$($others)*]) };
    ([$short:ident $long:ident $x:tt $with:ident $none:expr] []) => { $none };
}

/// As `alone`, for [`BinaryOp`].
macro_rules! with {
    ($op:expr, $pairs:ident, $long:ident, $x:tt, $z:tt) => {
        match $op {
            BinaryOp::Add => $pairs!($x, $z | a, b | a + b),
            BinaryOp::Sub => $pairs!($x, $z | a, b | a - b),
            BinaryOp::RSub => $pairs!($x, $z | a, b | b - a),
            BinaryOp::Mul => $pairs!($x, $z | a, b | a * b),
            BinaryOp::Div => $pairs!($x, $z | a, b | a / b),
            BinaryOp::RDiv => $pairs!($x, $z | a, b | b / a),
            BinaryOp::Max => $pairs!($x, $z | a, b | math::larger(a, b)),
            BinaryOp::RMax => $pairs!($x, $z | a, b | math::larger(b, a)),
            BinaryOp::Min => $pairs!($x, $z | a, b | math::smaller(a, b)),
            BinaryOp::RMin => $pairs!($x, $z | a, b | math::smaller(b, a)),
            BinaryOp::Atan2 => $long!($x, $z | a, b | math::atan2(a, b)),
            BinaryOp::RAtan2 => $long!($x, $z | a, b | math::atan2(b, a)),
        }
    };
}

/// Applies a function to one vector.
macro_rules! now {
    ([$x:ident] $same:ident |$a:ident| $e:expr) => {{
        let $a = $x;
        $e
    }};
}

/// Applies a function to two vectors.
macro_rules! now_both {
    ([$x:ident], [$z:ident] |$a:ident, $b:ident| $e:expr) => {{
        let ($a, $b) = ($x, $z);
        $e
    }};
}

/// Applies an operation to one vector, if it can be done in f32 for all numbers.
pub fn of_vector<V: Vector>(op: UnaryOp, x: V) -> Option<V> {
    Some(alone!(op, now, now, [x], x, {}, return None))
}

/// Applies an operation to two vectors.
pub fn of_two<V: Vector>(op: BinaryOp, x: V, z: V) -> V {
    with!(op, now_both, now_both, [x], [z])
}

/// Runs one operation in a loop of its own, without the jumps that every block of a chain costs. Returns whether there is one.
#[inline(always)]
fn single<V: Vector>(start: Feed, link: Link<Feed>, y: &mut [f32]) -> bool {
    use Feed::{Memory, One, Run};
    match (start, link) {
        (Run(x) | Memory(x), Link::Unary(op)) => {
            alone!(op, straight, straight, [x y], V, {}, return false);
        }
        (Run(x) | Memory(x), Link::Binary(op, Run(z) | Memory(z))) => {
            with!(op, straight_pairs, straight_pairs, [x y V], z);
        }
        (Run(x) | Memory(x), Link::Binary(op, One(z))) => {
            let z = V::splat(z);
            with!(op, straight_first, straight_first, [x y V], z);
        }
        (One(z), Link::Binary(op, Run(x) | Memory(x))) => {
            let z = V::splat(z);
            with!(op, straight_second, straight_second, [x y V], z);
        }
        _ => return false,
    }
    true
}

kernel! {
    /// Sets `to[i]` to the result of the links applied to `start[i]`. Runs are as long as the target. `prefetch`: the tile is
    /// computed in several chains, so the processor cannot predict which memory is read next.
    pub fn run(start: Feed<'a>, links: &'a [Link<Feed<'a>>], to: Target<'a>, prefetch: bool) {
        let mut to = to;
        if let ([link], Target::Run(y)) = (links, &mut to)
            && single::<V>(start, *link, y)
        {
            return;
        }
        let mut room = [0.0; VECTORS * MAX_LANES];
        let (mut at, len) = (0, to.len());
        while at < len {
            let position = BlockPosition { prefetch, at, len: (len - at).min(VECTORS * V::LANES) };
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] =
                position.load::<V>(start, &to, &mut room);
            for &link in links {
                match link {
                    Link::Unary(op) => alone!(op, each, through, [a b c d e f g h], room, {
                        UnaryOp::Primitive(Op::Sin) =>
                            transposed!([a b c d e f g h] room 0.0, f64::sin),
                        UnaryOp::Primitive(Op::Cos) =>
                            transposed!([a b c d e f g h] room 1.0, f64::cos),
                        UnaryOp::ToF16 => singly!([a b c d e f g h] room
                            |v| math::f16_to_f32(math::f32_to_f16(v))),
                        UnaryOp::ToBF16 => singly!([a b c d e f g h] room
                            |v| math::bf16_to_f32(math::f32_to_bf16(v))),
                    }, unreachable!("no function of one number")),
                    Link::Binary(op, feed) => {
                        let [i, j, k, l, m, n, o, p] = position.load::<V>(feed, &to, &mut room);
                        with!(op, pairs, pairs_through, [a b c d e f g h], [i j k l m n o p]);
                    }
                }
            }
            position.store([a, b, c, d, e, f, g, h], &mut to, &mut room);
            at += position.len;
        }
    }
}
