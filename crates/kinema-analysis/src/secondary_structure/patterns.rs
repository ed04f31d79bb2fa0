//! States of residues by the patterns of their hydrogen bonds: turns, helices, bridges, ladders, bends.

use super::bonds::Backbone;

/// Cosine of 70 degrees: the chain bends if it turns by more.
const BEND: f64 = 0.342_020_143_325_668_7;
/// Residues that an N-H of a turn is after its C=O, by the helix that such turns make: 3-10, alpha, pi.
const STRIDES: [usize; 3] = [3, 4, 5];
/// Residues of a bridge are at least so far apart.
const APART: usize = 3;

/// The eight states; the letter of a state is its discriminant.
pub(crate) mod states {
    pub(crate) const ALPHA: u8 = b'H';
    pub(crate) const BRIDGE: u8 = b'B';
    pub(crate) const STRAND: u8 = b'E';
    pub(crate) const HELIX_3_10: u8 = b'G';
    pub(crate) const PI: u8 = b'I';
    pub(crate) const TURN: u8 = b'T';
    pub(crate) const BEND: u8 = b'S';
    pub(crate) const NONE: u8 = b' ';
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Parallel,
    Antiparallel,
}

/// Bridges beside each other: residues of both strands, ascending.
#[derive(Debug)]
struct Ladder {
    direction: Direction,
    /// First and last residue of the strand that comes first, and whether there is more than one bridge.
    first: (usize, usize),
    second: (usize, usize),
    is_single: bool,
}

/// Buffers for one frame.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    bridges: Vec<(usize, usize, bool)>,
    ladders: Vec<Ladder>,
    /// By stride: whether a turn begins at the residue.
    turns: [Vec<bool>; 3],
}

impl Patterns {
    /// Writes the letter of each residue. `pi_first`: pi helices are taken before alpha helices.
    pub(crate) fn assign(&mut self, backbone: &Backbone, pi_first: bool, letters: &mut [u8]) {
        letters.fill(states::NONE);
        self.find_turns(backbone);
        self.find_ladders(backbone);
        for ladder in &self.ladders {
            let state = if ladder.is_single { states::BRIDGE } else { states::STRAND };
            for (from, to) in [ladder.first, ladder.second] {
                letters[from..=to].iter_mut().filter(|letter| **letter != states::STRAND).for_each(|one| *one = state);
            }
        }
        self.assign_helices(1, states::ALPHA, |_| true, letters);
        self.assign_helices(
            0,
            states::HELIX_3_10,
            |letter| letter == states::NONE || letter == states::HELIX_3_10,
            letters,
        );
        let free = |letter| letter == states::NONE || letter == states::PI || (pi_first && letter == states::ALPHA);
        self.assign_helices(2, states::PI, free, letters);
        self.assign_turns_and_bends(backbone, letters);
    }

    /// A turn of n begins at i if the N-H of i + n is bonded to the C=O of i.
    fn find_turns(&mut self, backbone: &Backbone) {
        for turns in &mut self.turns {
            turns.clear();
            turns.resize(backbone.len(), false);
        }
        for (donor, acceptor) in backbone.bonds() {
            for (turns, stride) in self.turns.iter_mut().zip(STRIDES) {
                if donor == acceptor + stride && backbone.is_unbroken(acceptor, donor) {
                    turns[acceptor] = true;
                }
            }
        }
    }

    /// A helix is at least two turns in a row; its first residue is the one after the beginning of the first.
    fn assign_helices(&self, which: usize, state: u8, is_free: impl Fn(u8) -> bool, letters: &mut [u8]) {
        let (turns, stride) = (&self.turns[which], STRIDES[which]);
        for at in 1..letters.len().saturating_sub(stride) {
            let residues = at..at + stride;
            if turns[at] && turns[at - 1] && letters[residues.clone()].iter().all(|letter| is_free(*letter)) {
                letters[residues].fill(state);
            }
        }
    }

    fn assign_turns_and_bends(&self, backbone: &Backbone, letters: &mut [u8]) {
        for at in 1..letters.len().saturating_sub(1) {
            if letters[at] != states::NONE {
                continue;
            }
            let within = |(turns, stride): (&Vec<bool>, usize)| (1..stride).any(|k| at >= k && turns[at - k]);
            if self.turns.iter().zip(STRIDES).any(within) {
                letters[at] = states::TURN;
            } else if backbone.cosine_of_turn(at).is_some_and(|cosine| cosine < BEND) {
                letters[at] = states::BEND;
            }
        }
    }

    /// Bridges, joined to ladders; ladders with a bulge between them count as one.
    fn find_ladders(&mut self, backbone: &Backbone) {
        self.find_bridges(backbone);
        self.ladders.clear();
        for &(i, j, is_parallel) in &self.bridges {
            let direction = if is_parallel { Direction::Parallel } else { Direction::Antiparallel };
            match self.ladders.iter_mut().find(|ladder| ladder.is_continued_by(direction, i, j)) {
                Some(ladder) => ladder.extend((i, i), (j, j)),
                None => self.ladders.push(Ladder { direction, first: (i, i), second: (j, j), is_single: true }),
            }
        }
        let mut at = 0;
        while at < self.ladders.len() {
            let mut later = at + 1;
            while later < self.ladders.len() {
                if self.ladders[at].has_bulge_before(&self.ladders[later], backbone) {
                    let next = self.ladders.remove(later);
                    self.ladders[at].extend(next.first, next.second);
                } else {
                    later += 1;
                }
            }
            at += 1;
        }
    }

    /// Pairs of residues i < j with a bridge, ascending, and whether it is parallel. Each pattern has a bond; the pairs
    /// that a bond can belong to are tried.
    fn find_bridges(&mut self, backbone: &Backbone) {
        self.bridges.clear();
        for (donor, acceptor) in backbone.bonds() {
            let is_bonded = |donor, acceptor| backbone.is_bonded(donor, acceptor);
            let (before, two_before) = (donor.wrapping_sub(1), donor.wrapping_sub(2));
            // antiparallel, both bonds between i and j; those beside them; parallel, in both roles of i and j: most bonds
            // have no second one
            let tried = [
                is_bonded(acceptor, donor).then_some((donor, acceptor)),
                (donor > 1 && is_bonded(acceptor + 2, two_before)).then_some((before, acceptor + 1)),
                (donor > 1 && is_bonded(acceptor, two_before)).then_some((before, acceptor)),
                is_bonded(acceptor + 2, donor).then_some((donor, acceptor + 1)),
            ];
            for (one, other) in tried.into_iter().flatten() {
                let (i, j) = (one.min(other), one.max(other));
                if let Some(is_parallel) = bridge(backbone, i, j) {
                    self.bridges.push((i, j, is_parallel));
                }
            }
        }
        self.bridges.sort_unstable();
        self.bridges.dedup();
    }
}

/// Whether residues i < j have a bridge, and whether it is parallel.
fn bridge(backbone: &Backbone, i: usize, j: usize) -> Option<bool> {
    if i < 1 || j < i + APART || !backbone.is_unbroken(i - 1, i + 1) || !backbone.is_unbroken(j - 1, j + 1) {
        return None;
    }
    let bonded = |donor, acceptor| backbone.is_bonded(donor, acceptor);
    if (bonded(i + 1, j) && bonded(j, i - 1)) || (bonded(j + 1, i) && bonded(i, j - 1)) {
        return Some(true);
    }
    ((bonded(i, j) && bonded(j, i)) || (bonded(j + 1, i - 1) && bonded(i + 1, j - 1))).then_some(false)
}

impl Ladder {
    /// Whether a bridge is the next one of this ladder.
    fn is_continued_by(&self, direction: Direction, i: usize, j: usize) -> bool {
        let follows = match direction {
            Direction::Parallel => j == self.second.1 + 1,
            Direction::Antiparallel => j + 1 == self.second.0,
        };
        self.direction == direction && i == self.first.1 + 1 && follows
    }

    /// Whether a later ladder continues this one after a bulge: at most one extra residue on one strand, and at most four
    /// on the other.
    fn has_bulge_before(&self, later: &Self, backbone: &Backbone) -> bool {
        let extra = |from: usize, to: usize| to.checked_sub(from + 1);
        let on_second = match self.direction {
            Direction::Parallel => extra(self.second.1, later.second.0),
            Direction::Antiparallel => extra(later.second.1, self.second.0),
        };
        let (Some(first), Some(second)) = (extra(self.first.1, later.first.0), on_second) else { return false };
        self.direction == later.direction
            && first.min(second) <= 1
            && first.max(second) <= 4
            && backbone.is_unbroken(self.first.0, later.first.1)
            && backbone.is_unbroken(self.second.0.min(later.second.0), self.second.1.max(later.second.1))
    }

    fn extend(&mut self, first: (usize, usize), second: (usize, usize)) {
        let span = |one: (usize, usize), other: (usize, usize)| (one.0.min(other.0), one.1.max(other.1));
        (self.first, self.second, self.is_single) = (span(self.first, first), span(self.second, second), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(n: usize, bonds: &[(usize, usize)], pi_first: bool) -> String {
        let mut letters = vec![0; n];
        Patterns::default().assign(&Backbone::with_bonds(n, bonds), pi_first, &mut letters);
        String::from_utf8(letters).unwrap()
    }

    /// Turns of `stride` that begin at these residues.
    fn turns(stride: usize, begin: std::ops::Range<usize>) -> Vec<(usize, usize)> {
        begin.map(|at| (at + stride, at)).collect()
    }

    #[test]
    fn one_turn_is_a_turn_and_two_in_a_row_are_a_helix() {
        assert_eq!(letters(8, &turns(4, 1..2), true), "  TTT   ");
        assert_eq!(letters(9, &turns(4, 1..3), true), "  HHHH   ");
        assert_eq!(letters(8, &turns(3, 1..3), true), "  GGG   ");
        assert_eq!(letters(10, &turns(5, 1..3), true), "  IIIII   ");
    }

    #[test]
    fn of_helices_that_are_both_the_argument_chooses() {
        let both = [turns(4, 1..4), turns(5, 1..3)].concat();
        assert_eq!(letters(10, &both, true), "  IIIII   ");
        assert_eq!(letters(10, &both, false), "  HHHHH   ");
    }

    #[test]
    fn strands_are_bridges_beside_each_other() {
        // i, j = 2, 9 by both bonds between them: a bridge alone
        assert_eq!(letters(12, &[(2, 9), (9, 2)], true), "  B      B  ");
        // and 4, 7 by the next pair: antiparallel pairs 2-9, 3-8, 4-7
        let hairpin = [(2, 9), (9, 2), (4, 7), (7, 4)];
        assert_eq!(letters(12, &hairpin, true).replace(['T', 'S'], " "), "  EEE  EEE  ");
        // parallel: 2-8 by (3, 8) and (8, 1); 3-9 is not one
        assert_eq!(letters(12, &[(3, 8), (8, 1)], true), "  B     B   ");
        // a residue on the border of the chain has no neighbour
        assert_eq!(letters(8, &[(0, 7), (7, 0)], true), "        ");
    }

    #[test]
    fn a_bulge_joins_two_ladders_of_one_direction() {
        let one = [(2, 19), (19, 2)];
        // one extra residue on the first strand, four on the second
        let near = [one, [(4, 14), (14, 4)]].concat();
        assert_eq!(letters(22, &near, true), "  EEE         EEEEEE  ");
        let far = [one, [(4, 13), (13, 4)]].concat();
        assert_eq!(letters(22, &far, true), "  B B        B     B  ");
    }
}
