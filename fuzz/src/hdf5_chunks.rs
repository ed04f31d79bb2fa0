//! Bytes as the chunk map of an HDF5 data set and a file that it points into: refused, or frames of the right size.
//!
//! The right values are not known; but a frame read alone must equal the frame read among others.

use std::sync::Arc;

use kinema_core::container::hdf5::array::{Array, ArrayDescription, NOT_STORED};
use kinema_core::container::hdf5::filters::StoredFilter;
use kinema_core::container::hdf5::number::Number;
use kinema_core::format::h5md::{Field, H5mdDecoder, H5mdDescription, Rows};
use kinema_core::format::{Decoded, Decoder, Request, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{Gather, MemorySource};
use kinema_core::{ErrorKind, Result};

const NUMBERS: [&str; 8] = ["<f4", ">f4", "<f8", ">i2", "|u1", "<i8", "<f2", ">u4"];

/// Takes the fields of an input one after another; missing ones are zero.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// A value of one byte, or of eight bytes after 0xff.
    fn value(&mut self) -> u64 {
        match self.byte() {
            0xff => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            byte => u64::from(byte),
        }
    }
}

/// Kind of number, shape, chunk shape, filters, rows, chunks (address, size, mask); the rest is the file.
fn described(input: &mut Input<'_>) -> Result<(H5mdDescription, u64)> {
    let number = Number::from_name(NUMBERS[usize::from(input.byte()) % NUMBERS.len()])?;
    let flags = input.byte();
    let flat = flags & 1 != 0;
    let (n_frames, n_atoms) = (input.value(), input.value());
    let shape = if flat { [n_frames, n_atoms.saturating_mul(3), 1] } else { [n_frames, n_atoms, 3] };
    let chunks = (flags & 2 != 0).then(|| std::array::from_fn(|_| input.value()));
    let mut filters = Vec::new();
    if flags & 4 != 0 {
        filters.push(StoredFilter { id: 2, values: vec![number.size() as u32] });
    }
    if flags & 8 != 0 {
        filters.push(StoredFilter { id: 1, values: vec![6] });
    }
    if flags & 16 != 0 {
        filters.push(StoredFilter { id: 3, values: Vec::new() });
    }
    let row_of = (flags & 32 != 0)
        .then(|| (0..n_frames.min(64)).map(|_| i64::from(input.byte() as i8)).collect::<Vec<i64>>().into());
    let n_chunks = usize::from(input.byte());
    let (mut addresses, mut sizes, mut masks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..n_chunks {
        addresses.push(match input.value() {
            254 => NOT_STORED,
            address => address,
        });
        sizes.push(input.value());
        masks.push(u32::from(input.byte()));
    }
    let inline = (flags & 128 != 0).then(|| input.0.to_vec());
    let description = ArrayDescription {
        name: "value".into(),
        file: 0,
        shape,
        number,
        chunks,
        addresses,
        sizes,
        masks,
        filters,
        partial_chunks_unfiltered: flags & 64 != 0,
        fill: Vec::new(),
        inline,
    };
    let rows = Rows::Stored(vec![(0, Array::new(description)?)]);
    let field = Field { name: "positions", rows, row_of, fixed: false, scale: 10.0, flat, fills: Vec::new() };
    let described = H5mdDescription {
        reads_forward: false,
        cut_at: None,
        format: None,
        n_atoms: u32::try_from(n_atoms).unwrap_or(u32::MAX),
        n_frames,
        steps: None,
        times: None,
        time_scale: 1.0,
        vectors: [Some(field), None, None],
        cell: None,
        periodic: [true; 3],
        other_files: Vec::new(),
        variant: String::new(),
        remarks: Vec::new(),
        warnings: Vec::new(),
    };
    Ok((described, n_frames))
}

/// Reads frames of some atoms as `reader` does.
fn read(decoder: &dyn Decoder, source: &MemorySource, frames: &[u64], atoms: &AtomSelection) -> Result<Vec<f32>> {
    let index = decoder
        .scan(source, &ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false })?
        .index;
    let request = Request { fields: Fields::POSITIONS, atoms: atoms.clone(), scales: Scales::NATIVE };
    let wanted: Vec<Wanted> = frames.iter().zip(0..).map(|(&frame, row)| Wanted { frame, row }).collect();
    let mut block = Block::default();
    block.reset(frames.iter().copied(), atoms.len(), Fields::POSITIONS);
    let (mut segments, mut gather, mut scratch) = (Vec::new(), Gather::default(), Scratch::default());
    decoder.segments(&index, &wanted, &request, &mut segments)?;
    for segment in &segments {
        gather.read(source, [segment.extent])?;
        let given = SegmentBytes { segment, bytes: gather.bytes(0), wanted: &wanted, request: &request };
        let done = decoder.decode(given, &mut block.as_mut(), &mut scratch)?;
        assert_eq!(done, Decoded::Done);
    }
    Ok(block.positions)
}

/// For any bytes: nothing panics, and one frame is the same alone and among others.
pub fn decode(data: &[u8]) {
    let mut input = Input(data);
    let described = match described(&mut input) {
        Ok(described) => described,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
            return;
        }
    };
    let (described, n_frames) = described;
    let n_atoms = described.n_atoms;
    let Ok(decoder) = H5mdDecoder::new(described) else { return };
    let decoder: Arc<dyn Decoder> = Arc::new(decoder);
    // what a caller has memory for
    if n_frames == 0 || n_atoms == 0 || n_atoms > 4096 {
        return;
    }
    let source = MemorySource::new("fuzz", input.0.to_vec());
    let frames: Vec<u64> = (0..n_frames.min(16)).collect();
    let Ok(every) = AtomSelection::from_sorted((0..n_atoms).filter(|atom| atom % 3 != 1).collect(), n_atoms) else {
        return;
    };
    for atoms in [AtomSelection::all(n_atoms), every] {
        let batched = read(&*decoder, &source, &frames, &atoms);
        let width = 3 * atoms.len();
        for (row, &frame) in frames.iter().enumerate() {
            match (&batched, read(&*decoder, &source, &[frame], &atoms)) {
                (Ok(batched), Ok(alone)) => {
                    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
                    assert_eq!(bits(&batched[row * width..][..width]), bits(&alone), "frame {frame}");
                }
                (_, Err(error)) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
                (Err(error), Ok(_)) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
            }
        }
    }
}
