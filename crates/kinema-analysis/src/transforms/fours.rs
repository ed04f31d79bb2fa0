//! Groups of atoms that are processed four at a time: their centres, and their moves.

use super::groups::Groups;
use super::images::{Vector, shift, shift_all};
use crate::geometry::vectors::{Vectors, plus_times};
use crate::lanes::Quad;

/// Groups of as many atoms each.
#[derive(Debug, Clone)]
pub(super) struct Alike<M> {
    /// Four at a time.
    pub(super) groups: Vec<[u32; 4]>,
    /// Their atoms.
    pub(super) members: M,
}

/// The atoms of groups, four groups at a time.
pub(super) trait Members {
    /// The centres of some four groups.
    fn centres<Q: Quad>(&self, four: usize, rows: &[[f32; 3]]) -> Vectors<Q>;

    /// Moves one of four groups.
    fn shift<Q: Quad>(&self, four: usize, which: usize, by: Vector, rows: &mut [[f32; 3]]);
}

/// Adjacent atoms, with the same weights in all groups: above all, water.
#[derive(Debug, Clone)]
pub(super) struct InOrder {
    /// The first atoms of four groups.
    firsts: Vec<[u32; 4]>,
    weights: Vec<f64>,
}

impl Members for InOrder {
    #[inline(always)]
    fn centres<Q: Quad>(&self, four: usize, rows: &[[f32; 3]]) -> Vectors<Q> {
        let [a, b, c, d] = self.firsts[four];
        let (a, b) = (&rows[a as usize..][..self.weights.len()], &rows[b as usize..][..self.weights.len()]);
        let (c, d) = (&rows[c as usize..][..self.weights.len()], &rows[d as usize..][..self.weights.len()]);
        let mut centres = [Q::all(0.0); 3];
        for (atom, weight) in self.weights.iter().enumerate() {
            centres = plus_times(centres, Q::all(*weight), Q::xyz([&a[atom], &b[atom], &c[atom], &d[atom]]));
        }
        centres
    }

    #[inline(always)]
    fn shift<Q: Quad>(&self, four: usize, which: usize, by: Vector, rows: &mut [[f32; 3]]) {
        let first = self.firsts[four][which] as usize;
        shift_all::<Q>(&mut rows[first..first + self.weights.len()], by);
    }
}

/// Any atoms.
#[derive(Debug, Clone)]
pub(super) struct Anywhere {
    size: usize,
    /// The first atoms of four groups, their second atoms, and so on; then the atoms of the next four groups.
    fours: Vec<Four>,
}

#[derive(Debug, Clone)]
struct Four {
    atoms: [u32; 4],
    weights: [f64; 4],
}

impl Members for Anywhere {
    #[inline(always)]
    fn centres<Q: Quad>(&self, four: usize, rows: &[[f32; 3]]) -> Vectors<Q> {
        let mut centres = [Q::all(0.0); 3];
        for Four { atoms: [a, b, c, d], weights } in &self.fours[four * self.size..(four + 1) * self.size] {
            let atoms = [&rows[*a as usize], &rows[*b as usize], &rows[*c as usize], &rows[*d as usize]];
            centres = plus_times(centres, Q::load(weights), Q::xyz(atoms));
        }
        centres
    }

    #[inline(always)]
    fn shift<Q: Quad>(&self, four: usize, which: usize, by: Vector, rows: &mut [[f32; 3]]) {
        for Four { atoms, .. } in &self.fours[four * self.size..(four + 1) * self.size] {
            shift(&mut rows[atoms[which] as usize], by);
        }
    }
}

/// Groups of adjacent atoms, by their weights, and all other groups.
pub(super) fn split_consecutive(groups: &Groups) -> (Vec<Alike<InOrder>>, Vec<u32>) {
    let weights = |group: &u32| groups.weights(*group as usize);
    let follow = |group: &u32| groups.atoms(*group as usize).windows(2).all(|two| two[0] + 1 == two[1]);
    let (mut order, mut others): (Vec<u32>, Vec<u32>) = (0..groups.len() as u32).partition(follow);
    order.sort_by(|a, b| {
        weights(a)
            .len()
            .cmp(&weights(b).len())
            .then_with(|| weights(a).iter().map(|w| w.to_bits()).cmp(weights(b).iter().map(|w| w.to_bits())))
    });
    let mut made = Vec::new();
    for alike in order.chunk_by(|a, b| weights(a) == weights(b)) {
        let (fours, rest) = alike.as_chunks::<4>();
        others.extend(rest);
        if let Some([first, ..]) = fours.first() {
            let firsts = fours.iter().map(|four| four.map(|group| groups.atoms(group as usize)[0])).collect();
            made.push(Alike { groups: fours.to_vec(), members: InOrder { firsts, weights: weights(first).to_vec() } });
        }
    }
    (made, others)
}

/// Some groups by their numbers of atoms, and those that are left.
pub(super) fn alike(groups: &Groups, mut some: Vec<u32>) -> (Vec<Alike<Anywhere>>, Vec<u32>) {
    let size = |group: &u32| groups.atoms(*group as usize).len();
    some.sort_by_key(|group| (size(group), *group));
    let (mut made, mut alone) = (Vec::new(), Vec::new());
    for alike in some.chunk_by(|a, b| size(a) == size(b)) {
        let (fours, rest) = alike.as_chunks::<4>();
        alone.extend(rest);
        if fours.is_empty() {
            continue;
        }
        let mut members = Anywhere { size: size(&alike[0]), fours: Vec::new() };
        for four in fours {
            members.fours.extend((0..members.size).map(|atom| Four {
                atoms: four.map(|group| groups.atoms(group as usize)[atom]),
                weights: four.map(|group| groups.weights(group as usize)[atom]),
            }));
        }
        made.push(Alike { groups: fours.to_vec(), members });
    }
    (made, alone)
}
