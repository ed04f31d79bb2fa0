//! Frames whose deflated chunks are decoded together, against the same frames segment by segment, and damage.

mod common;

use common::Random;
use kinema_core::container::hdf5::array::{Array, Description};
use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredFilter};
use kinema_core::container::hdf5::number::Number;
use kinema_core::format::h5md::{Field, H5mdDecoder, Rows, Told};
use kinema_core::format::{Decoded, Decoder, Loaded, Request, ScanOptions, Scratch, Segment, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{Extent, Gather, MemorySource};
use kinema_core::{ErrorKind, Result};

const N_FRAMES: u64 = 45;
const N_ATOMS: u64 = 150;

/// Data sets of float32 without a pattern, a deflated chunk a frame, by turns in one file.
struct Stored {
    file: Vec<u8>,
    positions: Description,
    velocities: Description,
    values: [Vec<f32>; 2],
}

fn stored() -> Stored {
    let mut random = Random(77);
    let filters = vec![StoredFilter { id: 1, values: vec![1] }];
    let pipeline = Pipeline::new(&filters, 4, 12 * N_ATOMS as usize).unwrap();
    let mut file = vec![0; 64];
    let mut values = [Vec::new(), Vec::new()];
    let mut places = [Vec::new(), Vec::new()];
    for _ in 0..N_FRAMES {
        for (values, places) in values.iter_mut().zip(&mut places) {
            let frame: Vec<f32> = (0..3 * N_ATOMS).map(|_| random.below(1 << 24) as f32 / 1000.0 - 8000.0).collect();
            let raw: Vec<u8> = frame.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut chunk = Vec::new();
            pipeline.encode(&raw, &mut chunk, &mut FilterScratch::default()).unwrap();
            places.push(Extent { offset: file.len() as u64, len: chunk.len() as u64 });
            file.extend(chunk);
            values.extend(frame);
        }
    }
    let describe = |places: &[Extent]| Description {
        name: "value".into(),
        file: 0,
        shape: [N_FRAMES, N_ATOMS, 3],
        number: Number::from_name("<f4").unwrap(),
        chunks: Some([1, N_ATOMS, 3]),
        addresses: places.iter().map(|place| place.offset).collect(),
        sizes: places.iter().map(|place| place.len).collect(),
        masks: vec![0; places.len()],
        filters: filters.clone(),
        partial_chunks_unfiltered: false,
        fill: Vec::new(),
        inline: None,
    };
    Stored { positions: describe(&places[0]), velocities: describe(&places[1]), file, values }
}

impl Stored {
    fn decoder(&self) -> H5mdDecoder {
        let field = |name, description: &Description| {
            let rows = Rows::Stored(vec![(0, Array::new(description.clone()).unwrap())]);
            Some(Field { name, rows, row_of: None, fixed: false, scale: 1.0, flat: false })
        };
        let vectors = [field("positions", &self.positions), field("velocities", &self.velocities), None];
        H5mdDecoder::new(Told {
            n_atoms: N_ATOMS as u32,
            n_frames: N_FRAMES,
            steps: None,
            times: None,
            time_scale: 1.0,
            vectors,
            cell: None,
            other_files: Vec::new(),
            variant: String::new(),
            remarks: Vec::new(),
            warnings: Vec::new(),
        })
        .unwrap()
    }

    /// Decodes frames, a batch from segment `first` on, and the segments before it and in other batches one by one.
    fn read(&self, frames: &[u64], atoms: &[u32], first: Option<usize>) -> Result<Block> {
        let decoder = self.decoder();
        let source = MemorySource::new("together", self.file.clone());
        let index = decoder.scan(&source, &ScanOptions { known: None, workers: 1, progress: &|_| Ok(()) })?.index;
        let atoms = AtomSelection::from_sorted(atoms.to_vec(), N_ATOMS as u32)?;
        let fields = Fields::POSITIONS | Fields::VELOCITIES;
        let request = Request { fields, atoms, scales: Scales::NATIVE };
        let mut wanted: Vec<Wanted> = frames.iter().zip(0..).map(|(&frame, row)| Wanted { frame, row }).collect();
        wanted.sort_by_key(|one| one.frame);
        let mut segments: Vec<Segment> = Vec::new();
        decoder.segments(&index, &wanted, &request, &mut segments)?;
        let mut gather = Gather::default();
        gather.read(&source, segments.iter().map(|segment| segment.extent))?;
        let mut block = Block::default();
        block.reset(frames.iter().copied(), request.atoms.len(), fields);
        let mut scratch = Scratch::default();
        let loaded = Loaded::new(&segments, &gather);
        for (_, segment, bytes) in loaded.from(0).take(first.unwrap_or(segments.len())) {
            let outcome = decoder.decode(segment, bytes, &wanted, &request, &mut block.as_mut(), &mut scratch)?;
            assert_eq!(outcome, Decoded::Done);
        }
        if let Some(first) = first {
            let longer = decoder.decode_from(first, loaded, &wanted, &request, &mut block.as_mut(), &mut scratch)?;
            assert_eq!(longer, None);
        }
        Ok(block)
    }
}

#[test]
fn the_frames_are_those_that_stand_alone() {
    let stored = stored();
    let array = Array::new(stored.positions.clone()).unwrap();
    let bytes = &stored.file[stored.positions.addresses[31] as usize..][..stored.positions.sizes[31] as usize];
    let chunk = array.to_decode_together(&array.chunk_at(31, 0, 0), bytes);
    assert!(chunk.is_some(), "chunks that are not decoded together test nothing here");
    assert!(array.decoding_bytes() > array.chunk_bytes() * 10, "memory for several chunks is planned");
    let every_third: Vec<u32> = (0..N_ATOMS as u32).step_by(3).collect();
    // all; some backwards; one twice; fewer than go together; none
    let backwards: Vec<u64> = (0..N_FRAMES).rev().step_by(2).collect();
    for frames in [(0..N_FRAMES).collect(), backwards, vec![3, 40, 3], vec![8], vec![]] {
        let alone = stored.read(&frames, &every_third, None).unwrap();
        for first in [0, 1, 4] {
            let together = stored.read(&frames, &every_third, Some(first)).unwrap();
            let expected = |values: &[f32]| -> Vec<f32> {
                let numbers = frames.iter().flat_map(|frame| every_third.iter().map(move |atom| (frame, atom)));
                let numbers = numbers.map(|(frame, atom)| 3 * (frame * N_ATOMS + u64::from(*atom)) as usize);
                numbers.flat_map(|at| values[at..at + 3].iter().copied()).collect()
            };
            assert!(together.positions == expected(&stored.values[0]), "{frames:?} from {first}");
            assert!(together.velocities == expected(&stored.values[1]), "{frames:?} from {first}");
            assert!(together.positions == alone.positions && together.velocities == alone.velocities);
        }
    }
}

#[test]
fn damage_is_an_error_of_the_first_damaged_frame() {
    let mut stored = stored();
    let (address, size) = (stored.positions.addresses[31], stored.positions.sizes[31]);
    let later = stored.velocities.addresses[33];
    for at in [address + size / 2, later + 20] {
        stored.file[at as usize] ^= 4;
    }
    let frames: Vec<u64> = (0..N_FRAMES).collect();
    for first in [None, Some(0), Some(2)] {
        let error = stored.read(&frames, &[0, 7], first).unwrap_err();
        let place = (error.kind(), error.frame(), error.offset());
        assert_eq!(place, (ErrorKind::Corrupt, Some(31), Some(address)), "{error}");
    }
    let sound: Vec<u64> = (0..31).collect();
    assert!(stored.read(&sound, &[0, 7], Some(0)).is_ok());
}
