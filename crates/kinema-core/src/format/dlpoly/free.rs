//! Free-format CONFIG files: lines of words, of any width.

use super::shown;
use crate::container::text::{Words, parse_f64, parse_i64};
use crate::error::{Error, ErrorKind, Result};

/// Lines of some bytes, without their ends, each with its first byte.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    bytes.split_inclusive(|&byte| byte == b'\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_ascii_end())
    })
}

/// Three numbers at the front of a line that begins at byte `at`.
pub(super) fn three(line: &[u8], at: u64, what: &str) -> Result<[f64; 3]> {
    let mut words = Words::new(line);
    let mut values = [0.0; 3];
    for value in &mut values {
        let (start, word) = words.next().unwrap_or((line.len(), &[]));
        *value = parse_f64(word).ok_or_else(|| {
            Error::corrupt(what, "three numbers", shown(line)).with_byte(at.saturating_add(start as u64))
        })?;
    }
    Ok(values)
}

/// Name and index, if there is one, in the first line of an atom.
pub(super) fn name_and_index(line: &[u8]) -> Option<(&[u8], Option<i64>)> {
    let mut words = Words::new(line);
    let (_, name) = words.next()?;
    let second = words.next().map(|(_, word)| word);
    let index = second.and_then(parse_i64).or_else(|| {
        // names may touch the index after them, or have blanks
        let (_, word) = Words::new(line.get(8..)?).next()?;
        parse_i64(word)
    });
    let by_columns = index.is_some() && second.and_then(parse_i64).is_none();
    Some((if by_columns { line.get(..8)?.trim_ascii() } else { name }, index))
}

/// Lines of atoms up to the first blank line: their number, and the byte after the last.
pub(super) fn count(bytes: &[u8]) -> usize {
    lines(bytes).take_while(|(_, line)| !line.is_empty()).count()
}

/// The atoms of a file, in its order.
#[derive(Debug)]
pub(super) struct Atoms<'a> {
    pub names: Vec<&'a [u8]>,
    pub indices: Vec<Option<i64>>,
    /// Positions, velocities, forces, up to the levels of the file; the others are empty.
    pub vectors: [Vec<[f64; 3]>; 3],
}

impl<'a> Atoms<'a> {
    /// The atoms in bytes that begin at byte `at` of the file.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` with the byte.
    pub fn parse(bytes: &'a [u8], at: u64, levels: usize) -> Result<Self> {
        let mut atoms = Self { names: Vec::new(), indices: Vec::new(), vectors: Default::default() };
        let mut lines = lines(bytes);
        while let Some((start, line)) = lines.next() {
            let Some((name, index)) = name_and_index(line) else { break };
            atoms.names.push(name);
            atoms.indices.push(index);
            for vectors in &mut atoms.vectors[..levels] {
                let Some((begin, line)) = lines.next().filter(|(_, line)| !line.is_empty()) else {
                    let what = format!("the file ends within atom {}", atoms.names.len());
                    return Err(Error::new(ErrorKind::Truncated, what).with_byte(at.saturating_add(start as u64)));
                };
                vectors.push(three(line, at.saturating_add(begin as u64), "vector of an atom")?);
            }
        }
        Ok(atoms)
    }

    /// The atoms of the file in the order of their indices. `None` if they are in that order already, if any has no
    /// index, or if two have the same index: then the file's order counts, as for DL_POLY.
    pub fn order(&self) -> Option<Vec<usize>> {
        let indices: Option<Vec<i64>> = self.indices.iter().copied().collect();
        let indices = indices?;
        let mut order: Vec<usize> = (0..indices.len()).collect();
        order.sort_by_key(|&atom| indices[atom]);
        let distinct = order.windows(2).all(|pair| indices[pair[0]] != indices[pair[1]]);
        (distinct && !order.is_sorted()).then_some(order)
    }
}
