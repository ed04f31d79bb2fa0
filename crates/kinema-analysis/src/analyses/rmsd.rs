//! Root mean square deviation from a reference, after superposition; of further groups too, after the same motion.
//!
//! It does not align the frames for others: that is [`crate::transforms::superpose`]. The formula, with weights relative to their
//! mean, is `sqrt(sum_i w_i |R (x_i - c) + c_ref - y_i|^2 / n)`, angstrom, as in MDAnalysis.analysis.rms.RMSD.

use kinema_core::Result;
use kinema_core::frame::{BlockView, Fields};
use kinema_core::reduce::{AtomMap, Buffers, Kernel, Needs, ResultArray};

use crate::blocks;
use crate::partials::series::Series;
use crate::superposition::AtomsAndReference;
use crate::superposition::qcp::Motion;

const ID: &str = "rmsd/1";

/// How each frame is moved before its deviation is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fit {
    /// Not at all.
    None,
    /// The centre of the set is put on the centre of its reference.
    Centre,
    /// The best superposition: centre and rotation.
    #[default]
    Superpose,
}

impl Fit {
    /// From the two switches of MDAnalysis.analysis.rms.rmsd; a superposition centres in any case.
    pub fn from_switches(superposition: bool, centre: bool) -> Self {
        match (superposition, centre) {
            (true, _) => Self::Superpose,
            (false, true) => Self::Centre,
            (false, false) => Self::None,
        }
    }
}

/// The RMSD of each frame. Results: "time" (n), ps; "values" (n, 1 + groups), angstrom.
#[derive(Debug, Clone)]
pub struct Rmsd {
    fitted: AtomsAndReference,
    groups: Vec<AtomsAndReference>,
    fit: Fit,
}

impl Rmsd {
    /// The RMSD of `fitted`, and of each of `groups` after the motion that was found for `fitted`.
    pub fn new(fitted: AtomsAndReference, groups: Vec<AtomsAndReference>, fit: Fit) -> Self {
        Self { fitted, groups, fit }
    }

    fn width(&self) -> usize {
        1 + self.groups.len()
    }

    /// The first set's RMSD, and the motion for the groups; `None` where a position is not finite.
    #[inline]
    fn deviation(&self, row: &[f32]) -> Option<(f64, Motion)> {
        let reference = &self.fitted.reference();
        match self.fit {
            Fit::Superpose if self.groups.is_empty() => Some((reference.least_rmsd(row)?, Motion::NONE)),
            Fit::Superpose => reference.least_motion(row),
            Fit::Centre => {
                let motion = reference.centring(row)?;
                Some((reference.moved_rmsd(&motion, row)?, motion))
            }
            Fit::None => Some((reference.moved_rmsd(&Motion::NONE, row)?, Motion::NONE)),
        }
    }

    fn add_row(&self, row: &[f32], maps: &[AtomMap], buffers: &mut Buffers, values: &mut Vec<f64>) -> Result<()> {
        let [fitted_map, group_maps @ ..] = maps else {
            return Ok(());
        };
        let fitted = blocks::gather(ID, fitted_map, row, &mut buffers.first)?;
        let (rmsd, motion) = self.deviation(fitted).ok_or_else(|| blocks::not_finite(self.fitted.atoms(), fitted))?;
        values.push(rmsd);
        for (group, map) in self.groups.iter().zip(group_maps) {
            let gathered = blocks::gather(ID, map, row, &mut buffers.second)?;
            let rmsd = group.reference().moved_rmsd(&motion, gathered);
            values.push(rmsd.ok_or_else(|| blocks::not_finite(group.atoms(), gathered))?);
        }
        Ok(())
    }
}

impl Kernel for Rmsd {
    type Partial = Series;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        let groups = self.groups.iter().map(|group| group.atoms().clone());
        let atom_sets = std::iter::once(self.fitted.atoms().clone()).chain(groups).collect();
        Needs { fields: Fields::POSITIONS, atom_sets }
    }

    fn empty(&self) -> Series {
        Series::default()
    }

    fn accumulate(
        &self,
        partial: &mut Series,
        block: &BlockView<'_>,
        maps: &[AtomMap],
        buffers: &mut Buffers,
    ) -> Result<()> {
        let sets: Vec<_> = std::iter::once(&self.fitted).chain(&self.groups).map(|group| group.atoms()).collect();
        blocks::check(ID, block, maps, &sets)?;
        let rows = partial.open(block.rows(), self.width());
        for (row, (frame, stamp)) in block.frames.iter().zip(block.stamps).enumerate() {
            self.add_row(block.positions_of(row), maps, buffers, &mut rows.values)
                .map_err(|error| error.at_frame(*frame))?;
            rows.times.push(stamp.time);
        }
        Ok(())
    }

    fn merge(&self, left: &mut Series, right: Series) -> Result<()> {
        left.append(right);
        Ok(())
    }

    fn finish(&self, partial: Series) -> Result<Vec<ResultArray>> {
        partial.results(ID, self.width())
    }

    fn to_bytes(&self, partial: &Series) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(ID, self.width()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Series> {
        Series::from_bytes(ID, self.width(), bytes)
    }
}
