//! Groups of atoms as an argument of kernels, such as the atoms of each residue.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::selection::AtomSelection;

use super::Arguments;

/// Groups of atoms, such as residues: the set of all their atoms, and the atoms of each group as places in that set.
#[derive(Debug, Clone)]
pub struct GroupedAtoms {
    /// All atoms.
    pub atoms: AtomSelection,
    /// Atoms of the first group, of the second, and so on, in the given order.
    pub places: Vec<u32>,
    /// End of each group in `places`, ascending: no group is empty.
    pub ends: Vec<u32>,
}

impl GroupedAtoms {
    /// The range of each group in `places`.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start as usize..end as usize)
    }
}

impl Arguments {
    /// Groups of atoms: `atoms` has the atoms of the first group, of the second, and so on, `ends` the end of each group
    /// among them, counted from 0. Without `ends` all atoms are one group. Groups may overlap; an atom is in a group once.
    ///
    /// # Errors
    /// As [`Arguments::atoms`]; `InvalidArgument` for ends that do not ascend to the number of atoms, and for an atom
    /// that is twice in a group.
    pub fn groups(&self, atoms: &'static str, ends: &'static str) -> Result<GroupedAtoms> {
        let requested = self.atoms(atoms)?;
        let places: Vec<u32> = match requested.columns() {
            Some(columns) => columns.to_vec(),
            None => (0..requested.len() as u32).collect(),
        };
        let whole = [places.len() as u32];
        let ends_given = if self.has(ends) { self.index_rows::<1>(ends)?.as_flattened() } else { &whole };
        let ascend = ends_given.first() != Some(&0) && ends_given.is_sorted_by(|a, b| a < b);
        if !ascend || ends_given.last() != Some(&whole[0]) {
            return Err(self.wrong(ends, &format!("ascending, from 1 or more to {}", places.len())));
        }
        // only the set: results are one a group, not one an atom
        let set = AtomSelection::union(self.n_atoms, [&requested]);
        let groups = GroupedAtoms { atoms: set, places, ends: ends_given.to_vec() };
        let mut last_seen = vec![usize::MAX; groups.atoms.len()];
        for (number, range) in groups.ranges().enumerate() {
            for &place in &groups.places[range] {
                if std::mem::replace(&mut last_seen[place as usize], number) == number {
                    return Err(self.wrong(atoms, &format!("atoms that are once in a group, unlike group {number}")));
                }
            }
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_may_overlap_and_are_never_empty() {
        let of = |atoms: Vec<u32>, ends: Vec<u32>| Arguments::new(10).with("atoms", atoms).with("ends", ends);
        let found = of(vec![7, 2, 7, 9], vec![2, 4]).groups("atoms", "ends").unwrap();
        assert_eq!(found.atoms.indices(), Some(&[2, 7, 9][..]));
        assert_eq!(found.places, [1, 0, 1, 2]);
        assert_eq!(found.ranges().collect::<Vec<_>>(), [0..2, 2..4]);
        let whole = Arguments::new(10).with("atoms", vec![3_u32, 4]).groups("atoms", "ends").unwrap();
        assert_eq!((whole.places, whole.ends), (vec![0, 1], vec![2]));
        for ends in [vec![], vec![0, 4], vec![2, 2, 4], vec![3, 2, 4], vec![2], vec![2, 5]] {
            assert!(of(vec![7, 2, 7, 9], ends.clone()).groups("atoms", "ends").is_err(), "{ends:?}");
        }
        let twice = of(vec![7, 2, 7, 9], vec![4]).groups("atoms", "ends").unwrap_err().to_string();
        assert!(twice.contains("once in a group, unlike group 0"), "{twice}");
    }
}
