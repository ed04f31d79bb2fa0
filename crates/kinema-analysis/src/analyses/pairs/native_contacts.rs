//! Fraction of native contacts: the share of given pairs of atoms that are as near as in a reference, in each frame.
//!
//! The formulas, with r0 the distance of a pair in the reference and r in the frame, angstrom: the share of pairs with
//! `r <= r0` ("hard_cut") or `r <= radius` ("radius_cut"); or the mean of `1 / (1 + exp(beta (r - lambda r0)))`
//! ("soft_cut"), R. B. Best, G. Hummer, W. A. Eaton, PNAS 110, 17874 (2013). As MDAnalysis' `Contacts`.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::geometry::{ContactGroups, ContactRule, ContactScratch};
use crate::registry::KernelInfo;

/// Columns: the fraction of each group of `pairs`, (n, 2); `ends` are the ends of the groups, by default of one. `distances` are
/// those of the pairs in the reference. Nearest images unless `minimum_image` is false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: NativeContacts::ID,
    make: |arguments| Ok(Arc::new(Rows(NativeContacts::from_arguments(arguments)?))),
    examples: |n_atoms, _| {
        let pairs: Vec<[u32; 2]> = (0..n_atoms).rev().map(|atom| [atom, (atom * 7 + 1) % n_atoms]).collect();
        let distances: Vec<f64> = pairs.iter().map(|[first, _]| 4.0 + f64::from(*first)).collect();
        let of_method = |method: &str| {
            let plain = Arguments::new(n_atoms).with("pairs", pairs.clone()).with("distances", distances.clone());
            plain.with("method", method)
        };
        let soft = of_method("soft_cut").with("beta", 0.5).with("lambda_constant", 1.8);
        let ends = vec![n_atoms.div_ceil(2), n_atoms];
        vec![
            of_method("hard_cut"),
            of_method("radius_cut").with("radius", 12.0).with("minimum_image", false),
            if n_atoms > 1 { soft.with("ends", ends) } else { soft },
        ]
    },
};

#[derive(Clone, Copy)]
enum Method {
    Hard,
    Soft,
    Radius,
}

struct NativeContacts {
    cpu: Cpu,
    atoms: AtomSelection,
    contacts: ContactGroups,
    minimum_image: bool,
}

impl NativeContacts {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let pairs = arguments.atom_tuples::<2>("pairs")?;
        let mut distances = arguments.numbers("distances")?.to_vec();
        if distances.len() != pairs.len || distances.iter().any(|r| !r.is_finite() || *r < 0.0) {
            return Err(arguments.wrong("distances", &format!("{} numbers from 0 on", pairs.len)));
        }
        let words = [("hard_cut", Method::Hard), ("soft_cut", Method::Soft), ("radius_cut", Method::Radius)];
        let rule = match arguments.choice("method", &words)? {
            Method::Hard => ContactRule::Hard,
            Method::Soft => {
                let lambda = arguments.positive("lambda_constant")?;
                distances.iter_mut().for_each(|r| *r *= lambda);
                ContactRule::Soft { beta: arguments.positive("beta")? }
            }
            Method::Radius => {
                distances.fill(arguments.positive("radius")?);
                ContactRule::Hard
            }
        };
        let ends: Vec<usize> = if arguments.has("ends") {
            arguments.index_rows::<1>("ends")?.iter().map(|[end]| *end as usize).collect()
        } else {
            vec![pairs.len]
        };
        if !ends.is_sorted_by(|a, b| a < b) || ends.first() == Some(&0) || ends.last() != Some(&pairs.len) {
            return Err(arguments.wrong("ends", &format!("ascending, from 1 to {}", pairs.len)));
        }
        let [first, second] = pairs.columns.each_ref().map(|column| column.atoms());
        let contacts = ContactGroups::new(rule, [first, second], &distances, &ends);
        let minimum_image = arguments.flag("minimum_image", true)?;
        Ok(Self { cpu: arguments.cpu(), atoms: pairs.atoms, contacts, minimum_image })
    }
}

impl PerFrame for NativeContacts {
    const ID: &'static str = "native_contacts/1";
    type Value = f64;
    type Scratch = ContactScratch;

    fn needs(&self) -> Needs {
        let fields = if self.minimum_image { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        Needs { fields, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        self.contacts.len()
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut ContactScratch, values: &mut [f64]) -> Result<()> {
        let lattice = frame.lattice_if(self.minimum_image)?;
        if self.contacts.shares(self.cpu, frame.positions(0), &lattice, scratch, values)? {
            Ok(())
        } else {
            Err(frame.not_finite(Fields::POSITIONS, 0))
        }
    }
}
