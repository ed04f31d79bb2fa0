//! Shared by tests of periodic cells: random vectors of fixed seeds, and sums of edges.

// each test uses a part of it
#![allow(dead_code)]

pub type Vector = [f64; 3];
pub type Cell = [Vector; 3];

/// Numbers from 0 to 1, the same in every run (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as f64 / u64::MAX as f64
    }

    pub fn vector(&mut self, size: f64) -> Vector {
        [0; 3].map(|_| (self.next() - 0.5) * size)
    }

    /// From -most to most.
    pub fn counts(&mut self, most: f64) -> Vector {
        [0; 3].map(|_| ((self.next() - 0.5) * 2.0 * (most + 0.49)).round())
    }
}

pub fn combined(counts: Vector, cell: &Cell) -> Vector {
    [0, 1, 2].map(|x| (0..3).map(|i| counts[i] * cell[i][x]).sum())
}

pub fn plus(u: Vector, v: Vector) -> Vector {
    [0, 1, 2].map(|x| u[x] + v[x])
}

pub fn row(positions: &[Vector]) -> Vec<f32> {
    positions.iter().flatten().map(|&x| x as f32).collect()
}
