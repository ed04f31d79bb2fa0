//! DCD files of any variant, built byte by byte.

/// Writes DCD files of any variant.
#[derive(Clone)]
pub struct Builder {
    pub big_endian: bool,
    pub wide: bool,
    pub magic: &'static [u8; 4],
    pub n_atoms: usize,
    pub n_frames: usize,
    pub free: Option<Vec<usize>>,
    pub cell: Option<[f64; 6]>,
    pub four_dimensional: bool,
    pub version: i32,
    pub claimed: i32,
    pub bytes: Vec<u8>,
}

impl Builder {
    pub fn new(n_atoms: usize, n_frames: usize) -> Self {
        Self {
            big_endian: false,
            wide: false,
            magic: b"CORD",
            n_atoms,
            n_frames,
            free: None,
            cell: None,
            four_dimensional: false,
            version: 24,
            claimed: n_frames as i32,
            bytes: Vec::new(),
        }
    }

    fn int(&self, value: i32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn float(&self, value: f32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn double(&self, value: f64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn record(&mut self, payload: &[u8]) {
        let len = payload.len() as i32;
        let marker = if self.wide {
            let len = i64::from(len);
            if self.big_endian { len.to_be_bytes().to_vec() } else { len.to_le_bytes().to_vec() }
        } else {
            self.int(len).to_vec()
        };
        self.bytes.extend_from_slice(&marker);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(&marker);
    }

    /// The coordinate of an atom: every value differs.
    pub fn value(&self, frame: usize, atom: usize, axis: usize) -> f32 {
        let fixed = self.free.as_ref().is_some_and(|free| !free.contains(&atom));
        let frame = if fixed { 0 } else { frame };
        (frame * 1000 + atom) as f32 + 0.25 * axis as f32
    }

    pub fn build(mut self) -> Vec<u8> {
        let mut words = [[0_u8; 4]; 20];
        words[0] = self.int(self.claimed);
        words[1] = self.int(100);
        words[2] = self.int(10);
        words[8] = self.int(self.free.as_ref().map_or(0, |free| (self.n_atoms - free.len()) as i32));
        if self.version == 0 {
            let delta = self.double(0.5);
            words[9].copy_from_slice(&delta[..4]);
            words[10].copy_from_slice(&delta[4..]);
        } else {
            words[9] = self.float(0.5);
            words[10] = self.int(i32::from(self.cell.is_some()));
            words[11] = self.int(i32::from(self.four_dimensional));
        }
        words[19] = self.int(self.version);
        let header = [&self.magic[..], words.as_flattened()].concat();
        self.record(&header);
        let mut title = self.int(2).to_vec();
        title.extend_from_slice(format!("{:80}{:80}", "REMARKS first", "REMARKS second").as_bytes());
        self.record(&title);
        let n_atoms = self.int(self.n_atoms as i32);
        self.record(&n_atoms);
        if let Some(free) = self.free.clone() {
            let list: Vec<u8> = free.iter().flat_map(|&atom| self.int(atom as i32 + 1)).collect();
            self.record(&list);
        }
        for frame in 0..self.n_frames {
            if let Some(cell) = self.cell {
                let numbers = cell.map(|value| self.double(value));
                self.record(numbers.as_flattened());
            }
            let stored: Vec<usize> = match &self.free {
                Some(free) if frame > 0 => free.clone(),
                _ => (0..self.n_atoms).collect(),
            };
            for axis in 0..if self.four_dimensional { 4 } else { 3 } {
                let plane: Vec<u8> =
                    stored.iter().flat_map(|&atom| self.float(self.value(frame, atom, axis))).collect();
                self.record(&plane);
            }
        }
        self.bytes
    }
}
