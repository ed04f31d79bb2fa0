//! Pairs of N-H and C=O that may be bonded: near each other, in the order of donors and then of acceptors.
//!
//! Most pairs are far apart. Distances are estimated eight at a time in single precision, relative to an atom of the
//! chain; pairs that pass are measured in double precision.

use kinema_core::frame::lattice::Lattice;

use super::bonds::{Residue, Vector, dot, minus, plus};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{EIGHT, Eight, Quad};

/// C-alphas that are farther apart, angstrom, have no bond between their residues.
const NEAR: f64 = 9.0;

/// A donor, an acceptor, and what moves the acceptor to its image that is nearest to the donor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) donor: u32,
    pub(super) acceptor: u32,
    pub(super) shift: Vector,
}

/// Buffers for one frame.
#[derive(Debug, Default)]
pub(super) struct NearPairs {
    pairs: Vec<Pair>,
    /// x, y and z of the middles of C=O, of the middles of N-H, and of C-alphas, eight by eight; nan if there is none.
    c_o: Places,
    n_h: Places,
    alphas: Places,
    /// Places that one search has found.
    found: Vec<u32>,
}

type Places = Vec<[[f32; EIGHT]; 3]>;

impl NearPairs {
    /// The pairs whose C-alphas are near and of whose middles the squared distance is at most `reach`.
    pub(super) fn find(&mut self, cpu: Cpu, residues: &[Residue], lattice: &Lattice, reach: f64) -> &[Pair] {
        self.pairs.clear();
        dispatch!(cpu, (), find, (
            near: &mut NearPairs = self, residues: &[Residue] = residues, lattice: &Lattice = lattice, reach: f64 = reach,
        ));
        &self.pairs
    }
}

#[inline(always)]
fn find<Q: Quad>(near: &mut NearPairs, residues: &[Residue], lattice: &Lattice, reach: f64) {
    let NearPairs { pairs, c_o, n_h, alphas, found } = near;
    let Some(origin) = residues.first().map(|residue| residue.ca) else { return };
    let middle = |a: Vector, b: Vector| plus(minus(a, origin), minus(b, origin)).map(|x| 0.5 * x);
    let mut size = 0.0;
    place(residues, c_o, &mut size, |residue| Some(middle(residue.c, residue.o)));
    place(residues, n_h, &mut size, |residue| residue.h.map(|h| middle(residue.n, h)));
    if !lattice.is_open() {
        place(residues, alphas, &mut size, |residue| Some(minus(residue.ca, origin)));
    }
    found.resize(EIGHT * c_o.len() + EIGHT, 0);
    // more than what single precision loses of places, and of squares
    let lost = 1e-6 * size;
    let limit = Q::Eight::all(((reach.sqrt() * (1.0 + 1e-5) + lost).powi(2)) as f32);
    for (donor, residue) in residues.iter().enumerate().filter(|(_, residue)| residue.h.is_some()) {
        let n = search::<Q::Eight>(at(n_h, donor), c_o, 0, found, |square| square.at_most(limit));
        for &acceptor in &found[..n] {
            // the C=O before an N-H is bonded to it
            if acceptor as usize != donor && acceptor as usize + 1 != donor {
                let apart = minus(residues[acceptor as usize].ca, residue.ca);
                let pair = Pair { donor: donor as u32, acceptor, shift: [0.0; 3] };
                if dot(apart, apart) <= NEAR * NEAR && pair.is_within(reach, residues) {
                    pairs.push(pair);
                }
            }
        }
    }
    if lattice.is_open() {
        return;
    }
    let n_plain = pairs.len();
    // twice the distance up to which all is its own nearest image is the least length of what moves to an image
    let sure = lattice.sure().sqrt();
    let beyond = Q::Eight::all(((sure.max(2.0 * sure - NEAR) * (1.0 - 1e-5) - lost).max(0.0).powi(2)) as f32);
    for first in 0..residues.len() {
        let n = search::<Q::Eight>(at(alphas, first), alphas, first / EIGHT, found, |square| beyond.at_most(square));
        for &second in found[..n].iter().filter(|second| **second as usize > first) {
            add_images(first, second as usize, residues, lattice, reach, pairs);
        }
    }
    if pairs.len() > n_plain {
        pairs.sort_unstable_by_key(|pair| (pair.donor, pair.acceptor));
    }
}

/// Adds the pairs of two residues, in both roles, if other images of them are near than those that are stored.
fn add_images(first: usize, second: usize, residues: &[Residue], lattice: &Lattice, reach: f64, pairs: &mut Vec<Pair>) {
    let apart = minus(residues[second].ca, residues[first].ca);
    let square = dot(apart, apart);
    if square <= NEAR * NEAR || square <= lattice.sure() {
        return;
    }
    let nearest = lattice.nearest(apart);
    if dot(nearest, nearest) > NEAR * NEAR {
        return;
    }
    let shift = minus(nearest, apart);
    let mut add = |donor: usize, acceptor: usize, shift: Vector| {
        let pair = Pair { donor: donor as u32, acceptor: acceptor as u32, shift };
        if pair.is_within(reach, residues) {
            pairs.push(pair);
        }
    };
    add(first, second, shift);
    if second != first + 1 {
        add(second, first, shift.map(|x| -x));
    }
}

impl Pair {
    /// Whether the residue has an N-H whose middle is near that of the C=O.
    fn is_within(&self, reach: f64, residues: &[Residue]) -> bool {
        let (donor, acceptor) = (&residues[self.donor as usize], &residues[self.acceptor as usize]);
        let Some(hydrogen) = donor.h else { return false };
        let (c, o) = (plus(acceptor.c, self.shift), plus(acceptor.o, self.shift));
        let twice = minus(plus(c, o), plus(donor.n, hydrogen));
        dot(twice, twice) <= 4.0 * reach
    }
}

/// Puts a place of each residue into lanes; `size` is the largest coordinate of all.
#[inline(always)]
fn place(residues: &[Residue], places: &mut Places, size: &mut f64, of: impl Fn(&Residue) -> Option<Vector>) {
    places.clear();
    places.resize(residues.len().div_ceil(EIGHT), [[f32::NAN; EIGHT]; 3]);
    for (number, residue) in residues.iter().enumerate() {
        if let Some(place) = of(residue) {
            let lanes = &mut places[number / EIGHT];
            for axis in 0..3 {
                *size = size.max(place[axis].abs());
                lanes[axis][number % EIGHT] = place[axis] as f32;
            }
        }
    }
}

#[inline(always)]
fn at(places: &Places, number: usize) -> [f32; 3] {
    places[number / EIGHT].map(|lanes| lanes[number % EIGHT])
}

/// Writes which of the places from a block on have a squared distance that passes; returns how many these are.
#[inline(always)]
fn search<E: Eight>(
    from: [f32; 3],
    places: &Places,
    first_block: usize,
    found: &mut [u32],
    passes: impl Fn(E) -> u32,
) -> usize {
    let [x, y, z] = from;
    let from = [E::all(x), E::all(y), E::all(z)];
    let mut n = 0;
    for (block, lanes) in places.iter().enumerate().skip(first_block) {
        let [x, y, z] = lanes;
        let [x, y, z] = [E::load(x).subtract(from[0]), E::load(y).subtract(from[1]), E::load(z).subtract(from[2])];
        let bits = passes(x.multiply(x).add(y.multiply(y)).add(z.multiply(z)));
        if bits != 0
            && let Some(room) = found.get_mut(n..).and_then(|rest| rest.first_chunk_mut())
        {
            n += E::put_places(bits, (EIGHT * block) as u32, room);
        }
    }
    n
}
