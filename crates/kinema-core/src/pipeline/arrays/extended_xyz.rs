//! Frames as text of extended XYZ, which programs that train potentials read: one line of keys, one line an atom.
//!
//! Numbers are the shortest decimals that read back to the same bits of their type.

use std::fmt::Write;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::pool::{Pool, Progress};
use crate::trajectory::Threads;

/// Atoms of the frames that a task has, at least.
const TASK_ATOMS: usize = 1 << 14;

/// Numbers of one type.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
    /// Whole numbers.
    I64(&'a [i64]),
}

impl Numbers<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// The numbers of a range, with blanks between.
    fn put(&self, range: Range<usize>, text: &mut String) -> std::fmt::Result {
        for i in range.clone() {
            if i > range.start {
                text.push(' ');
            }
            match self {
                Self::F32(values) => write!(text, "{:?}", values[i])?,
                Self::F64(values) => write!(text, "{:?}", values[i])?,
                Self::I64(values) => write!(text, "{}", values[i])?,
            }
        }
        Ok(())
    }
}

/// A key of the second line with the values that all frames have, `width` numbers each.
#[derive(Debug, Clone)]
pub struct Key<'a> {
    /// Its name.
    pub name: String,
    /// Values of all frames, concatenated.
    pub values: Numbers<'a>,
    /// Numbers of a frame; more than one are put into quotation marks.
    pub width: usize,
}

/// Frames of any numbers of atoms.
#[derive(Debug)]
pub struct Frames<'a> {
    /// Index of the first atom of each frame among all atoms, followed by the number of all atoms.
    pub begins: &'a [i64],
    /// Number of the element of each atom, in `symbols`.
    pub species: &'a [u8],
    /// Names of elements.
    pub symbols: &'a [String],
    /// Cells, nine numbers a frame, row by row; nine zeros if a frame has no cell.
    pub cells: &'a [f64],
    /// The text of `Properties=`.
    pub properties: &'a str,
    /// Vectors of the atoms, three numbers each.
    pub vectors: &'a [Numbers<'a>],
    /// Further keys.
    pub keys: &'a [Key<'a>],
}

impl Frames<'_> {
    /// The text, in consecutive pieces; the same for any number of `workers`.
    ///
    /// # Errors
    /// `InvalidArgument` for arrays that do not match each other; `Cancelled`.
    pub fn text(&self, workers: usize, progress: &Progress) -> Result<Vec<String>> {
        self.check()?;
        let tasks = self.tasks();
        let pool = Pool::new(tasks.into_iter().enumerate().collect::<Vec<_>>(), progress);
        let found = pool.run(&Threads::default(), workers, |_| {
            let mut texts = Vec::new();
            while let Some((number, frames)) = pool.next()? {
                let mut text = String::new();
                for frame in frames {
                    self.put(frame, &mut text)
                        .map_err(|_| Error::new(ErrorKind::Internal, "a frame was not made into text"))?;
                }
                texts.push((number, text));
            }
            Ok(texts)
        })?;
        let mut all: Vec<(usize, String)> = found.into_iter().flatten().collect();
        all.sort_unstable_by_key(|&(number, _)| number);
        Ok(all.into_iter().map(|(_, text)| text).collect())
    }

    fn n_frames(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(ErrorKind::InvalidArgument, what));
        let (n, atoms) = (self.n_frames(), self.species.len());
        let ascending = self.begins.windows(2).all(|pair| pair[0] <= pair[1]);
        if self.begins.first() != Some(&0) || !ascending || self.begins.last().copied() != i64::try_from(atoms).ok() {
            return wrong("begins are not those of the atoms");
        }
        if self.species.iter().any(|&number| usize::from(number) >= self.symbols.len()) {
            return wrong("an atom has an element without a name");
        }
        let keys = self.keys.iter().all(|key| key.values.len() == n.saturating_mul(key.width));
        if self.cells.len() != 9 * n || !keys || self.vectors.iter().any(|values| values.len() != 3 * atoms) {
            return wrong("the arrays have other lengths than the frames");
        }
        Ok(())
    }

    fn tasks(&self) -> Vec<Range<usize>> {
        let mut tasks = Vec::new();
        let mut start = 0;
        for frame in 0..self.n_frames() {
            if self.begins[frame + 1] - self.begins[start] >= TASK_ATOMS as i64 || frame + 1 == self.n_frames() {
                tasks.push(start..frame + 1);
                start = frame + 1;
            }
        }
        tasks
    }

    fn put(&self, frame: usize, text: &mut String) -> std::fmt::Result {
        let atoms = self.begins[frame] as usize..self.begins[frame + 1] as usize;
        writeln!(text, "{}", atoms.len())?;
        let cell = 9 * frame..9 * frame + 9;
        // an edge without a length is open
        let edges = self.cells[cell.clone()].as_chunks::<3>().0;
        let periodic = edges.iter().map(|edge| edge.iter().any(|&value| value != 0.0));
        if periodic.clone().any(|one| one) {
            text.push_str("Lattice=\"");
            Numbers::F64(self.cells).put(cell, text)?;
            text.push_str("\" ");
        }
        write!(text, "Properties={}", self.properties)?;
        for key in self.keys {
            let quote = if key.width == 1 { "" } else { "\"" };
            write!(text, " {}={quote}", key.name)?;
            key.values.put(frame * key.width..(frame + 1) * key.width, text)?;
            text.push_str(quote);
        }
        let flags: Vec<&str> = periodic.map(|one| if one { "T" } else { "F" }).collect();
        writeln!(text, " pbc=\"{}\"", flags.join(" "))?;
        for atom in atoms {
            text.push_str(&self.symbols[usize::from(self.species[atom])]);
            for values in self.vectors {
                text.push(' ');
                values.put(3 * atom..3 * atom + 3, text)?;
            }
            text.push('\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames<'a>(begins: &'a [i64], species: &'a [u8], symbols: &'a [String], cells: &'a [f64]) -> Frames<'a> {
        Frames { begins, species, symbols, cells, properties: "species:S:1:pos:R:3", vectors: &[], keys: &[] }
    }

    #[test]
    fn text_has_shortest_numbers_and_does_not_depend_on_workers() {
        let symbols: Vec<String> = ["X", "H", "He"].map(String::from).to_vec();
        let cells = [3.0, 0.0, 0.0, 0.1, 4.0, 0.0, 0.0, 0.0, 5.5, 0., 0., 0., 0., 0., 0., 0., 0., 0.];
        let positions = [0.1f32, -2.0, 1e-7, 16_777_216.0, f32::MIN_POSITIVE, 3.4e38, 1.0, 2.0, 3.0];
        let vectors = [Numbers::F32(&positions)];
        let energy = [-1.5f64, 2.0];
        let keys = [
            Key { name: "energy".into(), values: Numbers::F64(&energy), width: 1 },
            Key { name: "step".into(), values: Numbers::I64(&[7, 8]), width: 1 },
        ];
        let all = Frames { vectors: &vectors, keys: &keys, ..frames(&[0, 2, 3], &[1, 2, 1], &symbols, &cells) };
        let text = all.text(1, &Progress::default()).unwrap().concat();
        let expected = "2\nLattice=\"3.0 0.0 0.0 0.1 4.0 0.0 0.0 0.0 5.5\" Properties=species:S:1:pos:R:3 energy=-1.5 \
                        step=7 pbc=\"T T T\"\nH 0.1 -2.0 1e-7\nHe 16777216.0 1.1754944e-38 3.4e38\n\
                        1\nProperties=species:S:1:pos:R:3 energy=2.0 step=8 pbc=\"F F F\"\nH 1.0 2.0 3.0\n";
        assert_eq!(text, expected);
        for workers in [2, 3] {
            assert_eq!(all.text(workers, &Progress::default()).unwrap().concat(), text);
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let symbols = [String::from("X"), String::from("H")];
        let cells = [0.0; 9];
        assert!(frames(&[0, 1], &[1], &symbols, &cells).text(1, &Progress::default()).is_ok());
        for wrong in [
            frames(&[0, 2], &[1], &symbols, &cells),
            frames(&[0, 1], &[2], &symbols, &cells),
            frames(&[0, 1], &[1], &symbols, &cells[1..]),
            Frames { vectors: &[Numbers::F64(&[1.0])], ..frames(&[0, 1], &[1], &symbols, &cells) },
        ] {
            let error = wrong.text(1, &Progress::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
