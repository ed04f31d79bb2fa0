//! Data of atoms that are written by formats that name the atoms of each frame: one entry an atom, or one a kind of
//! atoms.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Names, masses and charges of the atoms, or of the kinds of which they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AtomLabels {
    /// Name of each.
    pub names: Option<Vec<String>>,
    /// Mass of each, Da.
    pub masses: Option<Vec<f64>>,
    /// Charge of each, elementary charges.
    pub charges: Option<Vec<f64>>,
    /// The kind of each atom; `None` if names, masses and charges are of atoms.
    pub codes: Option<Vec<u32>>,
    /// Whether they are those that the records of the source have: then records may be taken as they are.
    pub of_source: bool,
}

impl AtomLabels {
    /// The same with one name, mass and charge a kind, and the kind of each atom.
    ///
    /// # Errors
    /// `InvalidArgument` if they are not of `n_atoms` atoms, or an atom has no kind.
    pub fn from_kinds(this: Arc<Self>, n_atoms: u32) -> Result<Arc<Self>> {
        let n = n_atoms as usize;
        let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what);
        let lens = [
            this.names.as_ref().map(Vec::len),
            this.masses.as_ref().map(Vec::len),
            this.charges.as_ref().map(Vec::len),
        ];
        if let Some(codes) = &this.codes {
            let kinds = lens.into_iter().flatten().next().unwrap_or(1);
            if lens.into_iter().flatten().any(|len| len != kinds) {
                return Err(invalid(format!("names, masses and charges of kinds of atoms, expected {kinds} of each")));
            }
            if codes.len() != n {
                return Err(invalid(format!("kinds of atoms, expected {n}, one an atom, found {}", codes.len())));
            }
            if let Some(atom) = codes.iter().position(|&code| code as usize >= kinds) {
                let what = format!("kind of atom {} (counted from 1), expected less than {kinds}", atom + 1);
                return Err(invalid(format!("{what}, found {}", codes[atom])));
            }
            return Ok(this);
        }
        if lens.into_iter().flatten().any(|len| len != n) {
            return Err(invalid(format!("names and masses are not of {n} atoms")));
        }
        this.counted(n).map(Arc::new)
    }

    /// Numbers the kinds in the order in which they come.
    fn counted(&self, n: usize) -> Result<Self> {
        let mut made = Self {
            names: self.names.as_ref().map(|_| Vec::new()),
            masses: self.masses.as_ref().map(|_| Vec::new()),
            charges: self.charges.as_ref().map(|_| Vec::new()),
            codes: None,
            of_source: self.of_source,
        };
        let mut codes = Vec::new();
        codes
            .try_reserve_exact(n)
            .map_err(|_| Error::new(ErrorKind::MemoryLimit, format!("no memory for the names of {n} atoms")))?;
        let mut known = HashMap::new();
        for atom in 0..n {
            let name = self.names.as_ref().map(|names| names[atom].as_str());
            let (mass, charge) =
                (self.masses.as_ref().map(|all| all[atom]), self.charges.as_ref().map(|all| all[atom]));
            let next = known.len() as u32;
            let code = *known.entry((name, mass.map(f64::to_bits), charge.map(f64::to_bits))).or_insert(next);
            codes.push(code);
            if code == next {
                made.names.iter_mut().zip(name).for_each(|(names, name)| names.push(name.to_owned()));
                made.masses.iter_mut().zip(mass).for_each(|(masses, mass)| masses.push(mass));
                made.charges.iter_mut().zip(charge).for_each(|(charges, charge)| charges.push(charge));
            }
        }
        made.codes = Some(codes);
        Ok(made)
    }
}
