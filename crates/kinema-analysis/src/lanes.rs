//! Twelve-lane arithmetic over packed coordinates: four atoms `x y z x y z x y z x y z` are three vectors of four.
//!
//! It knows no analysis. Sums stay separate for each lane until the end, so no value is ever shuffled. [`Plain`] and
//! [`Wide`] do the same IEEE operations, so they give the same bits.

mod eight;
mod fours;
mod sixteen;

#[cfg(target_arch = "x86_64")]
pub(crate) use eight::PLACES;
pub(crate) use eight::{EIGHT, Eight, WithEight, count_bits, lanes_before, room};
pub(crate) use fours::Fours;
use sixteen::PlainSixteen;
pub(crate) use sixteen::Sixteen;
#[cfg(target_arch = "x86_64")]
use sixteen::WideSixteen;

/// Atoms in one group of lanes.
pub(crate) const ATOMS: usize = 4;

/// One `f64` for each coordinate of four atoms; aligned so that no vector straddles a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Lanes(pub(crate) [f64; 12]);

impl Lanes {
    /// The same x, y, z for each of the four atoms.
    #[inline(always)]
    pub(crate) fn repeat(xyz: [f64; 3]) -> Self {
        let [x, y, z] = xyz;
        Self([x, y, z, x, y, z, x, y, z, x, y, z])
    }

    /// One value for all three coordinates of an atom.
    pub(crate) fn each_atom(values: [f64; ATOMS]) -> Self {
        let mut lanes = [0.0; 12];
        for (of_atom, value) in lanes.as_chunks_mut::<3>().0.iter_mut().zip(values) {
            *of_atom = [value; 3];
        }
        Self(lanes)
    }

    /// The sum over the four atoms, for x, y and z.
    #[inline(always)]
    pub(crate) fn fold(&self) -> [f64; 3] {
        let l = &self.0;
        [(l[0] + l[3]) + (l[6] + l[9]), (l[1] + l[4]) + (l[7] + l[10]), (l[2] + l[5]) + (l[8] + l[11])]
    }
}

/// Four lanes of `f64` with the few operations that the kernels need.
pub(crate) trait Quad: Copy + WithEight {
    /// Yes or no in each lane.
    type Mask: Copy;
    /// Sixteen lanes of single precision.
    type Sixteen: Sixteen<Quad = Self>;
    /// One value in all lanes.
    fn all(value: f64) -> Self;
    /// The values as they are.
    fn load(values: &[f64; 4]) -> Self;
    /// The values converted, which is exact.
    fn widen(values: &[f32; 4]) -> Self;
    /// The values back.
    fn store(self) -> [f64; 4];
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    fn square_root(self) -> Self;
    /// Without the sign.
    fn magnitude(self) -> Self;
    /// With the sign of `other`.
    fn with_sign_of(self, other: Self) -> Self;
    /// Whether `self < other`; false if one of them is not a number.
    fn less(self, other: Self) -> Self::Mask;
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Whether the answer is yes in any lane.
    fn any(mask: Self::Mask) -> bool;
    /// The greater one; `other` if one of them is not a number.
    fn maximum(self, other: Self) -> Self;
    /// The x, the y and the z of four atoms, converted.
    fn xyz(atoms: [&[f32; 3]; 4]) -> [Self; 3];
    /// The same of atoms that follow each other.
    fn xyz_of_row(atoms: &[[f32; 3]; 4]) -> [Self; 3];
    /// Puts the x, the y and the z of four atoms back, rounded.
    fn put_xyz(xyz: [Self; 3], atoms: &mut [[f32; 3]; 4]);
    /// Whole numbers, converted.
    fn whole(values: &[i32; 4]) -> Self;
    /// Converts back to whole numbers; `i32::MIN` for values that do not fit into 32 bits.
    fn store_whole(self) -> [i32; 4];
    /// The values rounded.
    fn narrow(self) -> [f32; 4];
}

/// Plain Rust, for every processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain([f64; 4]);

impl Quad for Plain {
    type Mask = [bool; 4];
    type Sixteen = PlainSixteen;
    #[inline(always)]
    fn all(value: f64) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    fn load(values: &[f64; 4]) -> Self {
        Self(*values)
    }
    #[inline(always)]
    fn widen(values: &[f32; 4]) -> Self {
        Self(values.map(f64::from))
    }
    #[inline(always)]
    fn store(self) -> [f64; 4] {
        self.0
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(factor.0[i], sum.0[i])))
    }
    #[inline(always)]
    fn divide(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] / other.0[i]))
    }
    #[inline(always)]
    fn square_root(self) -> Self {
        Self(self.0.map(f64::sqrt))
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        Self(self.0.map(f64::abs))
    }
    #[inline(always)]
    fn with_sign_of(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].copysign(other.0[i])))
    }
    #[inline(always)]
    fn less(self, other: Self) -> [bool; 4] {
        std::array::from_fn(|i| self.0[i] < other.0[i])
    }
    #[inline(always)]
    fn select(mask: [bool; 4], yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| if mask[i] { yes.0[i] } else { no.0[i] }))
    }
    #[inline(always)]
    fn any(mask: [bool; 4]) -> bool {
        mask.contains(&true)
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn xyz(atoms: [&[f32; 3]; 4]) -> [Self; 3] {
        std::array::from_fn(|c| Self(atoms.map(|atom| f64::from(atom[c]))))
    }
    #[inline(always)]
    fn xyz_of_row([a, b, c, d]: &[[f32; 3]; 4]) -> [Self; 3] {
        Self::xyz([a, b, c, d])
    }
    #[inline(always)]
    fn put_xyz([x, y, z]: [Self; 3], atoms: &mut [[f32; 3]; 4]) {
        for (i, atom) in atoms.iter_mut().enumerate() {
            *atom = [x.0[i] as f32, y.0[i] as f32, z.0[i] as f32];
        }
    }
    #[inline(always)]
    fn whole(values: &[i32; 4]) -> Self {
        Self(values.map(f64::from))
    }
    #[inline(always)]
    fn store_whole(self) -> [i32; 4] {
        self.0.map(|value| if value.abs() < 2_147_483_648.0 { value as i32 } else { i32::MIN })
    }
    #[inline(always)]
    fn narrow(self) -> [f32; 4] {
        self.0.map(|value| value as f32)
    }
}

/// One AVX2 register; the compiler does not find these by itself in so large a body.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide(std::arch::x86_64::__m256d);

/// A `Wide` is made and used only in bodies that `dispatch!` compiles for AVX2 and FMA, and calls if `Cpu::detect` has
/// found both: therefore each intrinsic below may be called. Its safe twin is [`Plain`].
#[cfg(target_arch = "x86_64")]
impl Quad for Wide {
    type Mask = std::arch::x86_64::__m256d;
    type Sixteen = WideSixteen;
    #[inline(always)]
    fn all(value: f64) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_set1_pd(value) })
    }
    #[inline(always)]
    fn load(values: &[f64; 4]) -> Self {
        // SAFETY: AVX is present (see above); the 32 bytes read are those of `values`, of any alignment.
        Self(unsafe { std::arch::x86_64::_mm256_loadu_pd(values.as_ptr()) })
    }
    #[inline(always)]
    fn widen(values: &[f32; 4]) -> Self {
        // SAFETY: AVX is present (see above); the 16 bytes read are those of `values`, of any alignment.
        Self(unsafe { std::arch::x86_64::_mm256_cvtps_pd(std::arch::x86_64::_mm_loadu_ps(values.as_ptr())) })
    }
    #[inline(always)]
    fn store(self) -> [f64; 4] {
        let mut values = [0.0; 4];
        // SAFETY: AVX is present (see above); the 32 bytes written are those of `values`, of any alignment.
        unsafe { std::arch::x86_64::_mm256_storeu_pd(values.as_mut_ptr(), self.0) };
        values
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_sub_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: FMA is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_fmadd_pd(self.0, factor.0, sum.0) })
    }
    #[inline(always)]
    fn divide(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_div_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn square_root(self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        use std::arch::x86_64::{_mm256_andnot_pd, _mm256_set1_pd};
        // SAFETY: AVX is present (see above).
        Self(unsafe { _mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0) })
    }
    #[inline(always)]
    fn with_sign_of(self, other: Self) -> Self {
        use std::arch::x86_64::{_mm256_and_pd, _mm256_andnot_pd, _mm256_or_pd, _mm256_set1_pd};
        // SAFETY: AVX is present (see above).
        Self(unsafe {
            let sign = _mm256_set1_pd(-0.0);
            _mm256_or_pd(_mm256_and_pd(sign, other.0), _mm256_andnot_pd(sign, self.0))
        })
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self::Mask {
        // SAFETY: AVX is present (see above).
        unsafe { std::arch::x86_64::_mm256_cmp_pd::<{ std::arch::x86_64::_CMP_LT_OQ }>(self.0, other.0) }
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_blendv_pd(no.0, yes.0, mask) })
    }
    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        // SAFETY: AVX is present (see above).
        unsafe { std::arch::x86_64::_mm256_movemask_pd(mask) != 0 }
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        // SAFETY: AVX is present (see above).
        Self(unsafe { std::arch::x86_64::_mm256_max_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn xyz(atoms: [&[f32; 3]; 4]) -> [Self; 3] {
        use std::arch::x86_64::{
            _mm_maskload_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_setr_epi32, _mm_unpackhi_ps, _mm_unpacklo_ps,
            _mm256_cvtps_pd,
        };
        let [a, b, c, d] = atoms;
        // SAFETY: AVX is present (see above); the mask limits the read to the 12 bytes of each atom.
        unsafe {
            let three = _mm_setr_epi32(-1, -1, -1, 0);
            let (a, b) = (_mm_maskload_ps(a.as_ptr(), three), _mm_maskload_ps(b.as_ptr(), three));
            let (c, d) = (_mm_maskload_ps(c.as_ptr(), three), _mm_maskload_ps(d.as_ptr(), three));
            let (xy, xy_after) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
            let (z, z_after) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
            [
                Self(_mm256_cvtps_pd(_mm_movelh_ps(xy, xy_after))),
                Self(_mm256_cvtps_pd(_mm_movehl_ps(xy_after, xy))),
                Self(_mm256_cvtps_pd(_mm_movelh_ps(z, z_after))),
            ]
        }
    }
    #[inline(always)]
    fn xyz_of_row(atoms: &[[f32; 3]; 4]) -> [Self; 3] {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_shuffle_ps, _mm256_cvtps_pd};
        let at = atoms.as_ptr().cast::<f32>();
        // SAFETY: AVX is present (see above); the 3 x 16 bytes read are the 48 of `atoms`, of any alignment.
        unsafe {
            // x y z x | y z x y | z x y z
            let (a, b, c) = (_mm_loadu_ps(at), _mm_loadu_ps(at.add(4)), _mm_loadu_ps(at.add(8)));
            let xy_after = _mm_shuffle_ps::<0b10_01_11_10>(b, c);
            let yz = _mm_shuffle_ps::<0b01_00_10_01>(a, b);
            [
                Self(_mm256_cvtps_pd(_mm_shuffle_ps::<0b10_00_11_00>(a, xy_after))),
                Self(_mm256_cvtps_pd(_mm_shuffle_ps::<0b11_01_10_00>(yz, xy_after))),
                Self(_mm256_cvtps_pd(_mm_shuffle_ps::<0b11_00_11_01>(yz, c))),
            ]
        }
    }
    #[inline(always)]
    fn put_xyz([x, y, z]: [Self; 3], atoms: &mut [[f32; 3]; 4]) {
        use std::arch::x86_64::{_mm_shuffle_ps, _mm_storeu_ps, _mm256_cvtpd_ps};
        let to = atoms.as_mut_ptr().cast::<f32>();
        // SAFETY: AVX is present (see above); the 3 x 16 bytes written are the 48 of `atoms`, of any alignment.
        unsafe {
            let (x, y, z) = (_mm256_cvtpd_ps(x.0), _mm256_cvtpd_ps(y.0), _mm256_cvtpd_ps(z.0));
            // the first and third x and y, the second and fourth y and z, z of the former and x of the latter
            let xy = _mm_shuffle_ps::<0b10_00_10_00>(x, y);
            let yz = _mm_shuffle_ps::<0b11_01_11_01>(y, z);
            let zx = _mm_shuffle_ps::<0b11_01_10_00>(z, x);
            _mm_storeu_ps(to, _mm_shuffle_ps::<0b10_00_10_00>(xy, zx));
            _mm_storeu_ps(to.add(4), _mm_shuffle_ps::<0b11_01_10_00>(yz, xy));
            _mm_storeu_ps(to.add(8), _mm_shuffle_ps::<0b11_01_11_01>(zx, yz));
        }
    }
    #[inline(always)]
    fn whole(values: &[i32; 4]) -> Self {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtepi32_pd};
        // SAFETY: AVX is present (see above); the 16 bytes read are those of `values`, of any alignment.
        Self(unsafe { _mm256_cvtepi32_pd(_mm_loadu_si128(values.as_ptr().cast())) })
    }
    #[inline(always)]
    fn store_whole(self) -> [i32; 4] {
        let mut values = [0; 4];
        let to = values.as_mut_ptr().cast();
        // SAFETY: AVX is present (see above); the 16 bytes written are those of `values`, of any alignment.
        unsafe { std::arch::x86_64::_mm_storeu_si128(to, std::arch::x86_64::_mm256_cvttpd_epi32(self.0)) };
        values
    }
    #[inline(always)]
    fn narrow(self) -> [f32; 4] {
        let mut values = [0.0; 4];
        // SAFETY: AVX is present (see above); the 16 bytes written are those of `values`, of any alignment.
        unsafe { std::arch::x86_64::_mm_storeu_ps(values.as_mut_ptr(), std::arch::x86_64::_mm256_cvtpd_ps(self.0)) };
        values
    }
}

/// Lanes in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers<Q>([Q; 3]);

impl<Q: Quad> Registers<Q> {
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self([Q::load(&[0.0; 4]); 3])
    }

    #[inline(always)]
    pub(crate) fn load(lanes: &Lanes) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = &lanes.0;
        Self([Q::load(&[*a, *b, *c, *d]), Q::load(&[*e, *f, *g, *h]), Q::load(&[*i, *j, *k, *l])])
    }

    /// Coordinates relative to an origin; exact for coordinates of like size.
    #[inline(always)]
    pub(crate) fn relative(group: &[f32; 12], origin: &Self) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = group;
        Self([
            Q::widen(&[*a, *b, *c, *d]).subtract(origin.0[0]),
            Q::widen(&[*e, *f, *g, *h]).subtract(origin.0[1]),
            Q::widen(&[*i, *j, *k, *l]).subtract(origin.0[2]),
        ])
    }

    /// Lane by lane product.
    #[inline(always)]
    pub(crate) fn times(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].multiply(other.0[i])))
    }

    /// `self += a`
    #[inline(always)]
    pub(crate) fn add(&mut self, a: &Self) {
        for i in 0..3 {
            self.0[i] = self.0[i].add(a.0[i]);
        }
    }

    /// `self += a * b`, rounded once.
    #[inline(always)]
    pub(crate) fn add_product(&mut self, a: &Self, b: &Self) {
        for i in 0..3 {
            self.0[i] = a.0[i].multiply_add(b.0[i], self.0[i]);
        }
    }

    /// The sum over the four atoms, for x, y and z.
    #[inline(always)]
    pub(crate) fn fold(&self) -> [f64; 3] {
        let [a, b, c, d] = self.0[0].store();
        let [e, f, g, h] = self.0[1].store();
        let [i, j, k, l] = self.0[2].store();
        Lanes([a, b, c, d, e, f, g, h, i, j, k, l]).fold()
    }
}

/// The last atoms of a row, filled up with copies of an atom that is the origin, so that they add nothing.
#[inline(always)]
pub(crate) fn fill_up(tail: &[f32], origin: [f32; 3]) -> [f32; 12] {
    let [x, y, z] = origin;
    let mut group = [x, y, z, x, y, z, x, y, z, x, y, z];
    for (value, &given) in group.iter_mut().zip(tail) {
        *value = given;
    }
    group
}

/// Per-atom values as lanes, one entry for each started group of four atoms; missing atoms are zero.
pub(crate) fn atoms_as_lanes(values: &[f64]) -> Vec<Lanes> {
    let in_group = |group: &[f64]| std::array::from_fn(|i| group.get(i).copied().unwrap_or(0.0));
    values.chunks(ATOMS).map(|group| Lanes::each_atom(in_group(group))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_fold_by_component() {
        let mut sum = Registers::<Plain>::zero();
        let group: [f32; 12] = std::array::from_fn(|i| i as f32);
        sum.add(&Registers::relative(&group, &Registers::load(&Lanes::repeat([0.0, 1.0, 2.0]))));
        assert_eq!(sum.fold(), [18.0, 18.0, 18.0]);
    }

    #[inline(always)]
    fn there_and_back<Q: Quad>(atoms: &[[f32; 3]; 4], whole: &[i32; 4]) -> ([[f64; 4]; 3], [[f32; 3]; 4], [f32; 4]) {
        let ([x, y, z], mut back) = (Q::xyz_of_row(atoms), [[0.0; 3]; 4]);
        Q::put_xyz([x, y, z], &mut back);
        ([x.store(), y.store(), z.store()], back, Q::whole(whole).narrow())
    }

    #[inline(always)]
    fn stored_whole<Q: Quad>(values: &[f64; 4]) -> [i32; 4] {
        Q::load(values).store_whole()
    }

    #[test]
    fn atoms_are_taken_apart_and_put_together() {
        let atoms: [[f32; 3]; 4] = std::array::from_fn(|i| [0, 1, 2].map(|x| (10 * x + i) as f32));
        for cpu in [crate::Cpu::detect(), crate::Cpu::baseline()] {
            let found = crate::cpu::dispatch!(
                cpu,
                ([[f64; 4]; 3], [[f32; 3]; 4], [f32; 4]),
                there_and_back,
                (atoms: &[[f32; 3]; 4] = &atoms, whole: &[i32; 4] = &[-3, 0, 7, i32::MIN])
            );
            let xyz = [[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0], [20.0, 21.0, 22.0, 23.0]];
            assert_eq!(found, (xyz, atoms, [-3.0, 0.0, 7.0, -2_147_483_648.0]));
            let values = &[-5.0, 2_147_483_647.0, 2_147_483_648.0, f64::NAN];
            let whole = crate::cpu::dispatch!(cpu, [i32; 4], stored_whole, (values: &[f64; 4] = values));
            assert_eq!(whole, [-5, i32::MAX, i32::MIN, i32::MIN]);
        }
    }

    #[test]
    fn a_tail_is_filled_up_with_the_origin() {
        let group = fill_up(&[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]);
        assert_eq!(group, [1.0, 2.0, 3.0, 7.0, 8.0, 9.0, 7.0, 8.0, 9.0, 7.0, 8.0, 9.0]);
        let lanes = atoms_as_lanes(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(lanes.len(), 2);
        assert_eq!(lanes[1].0, [5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
