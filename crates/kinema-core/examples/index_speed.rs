//! Loading the stored index of 10^6 frames as an opening does it, beside loading it without a look at the frames.
//!
//! `cargo run --release -p kinema-core --example index_speed`: milliseconds, the least of several in turn.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kinema_core::format::Format;
use kinema_core::format::xtc::Xtc;
use kinema_core::index::TableIndex;
use kinema_core::index::store::{LoadOutcome, load, places};
use kinema_core::source::FileSource;
use kinema_core::trajectory::{IndexOrigin, OpenOptions, Trajectory, stored_index_fault};

const FRAMES: i32 = 1_000_000;
const TRIES: usize = 50;

/// A frame of three atoms, whose coordinates are plain numbers.
fn frame(number: i32) -> [u8; 92] {
    let mut words = [0_i32; 23];
    (words[0], words[1], words[2], words[3]) = (1995, 3, number, (number as f32 * 0.5).to_bits() as i32);
    [4, 8, 12].iter().for_each(|&at| words[at] = 5.0_f32.to_bits() as i32);
    words[13] = 3;
    (14..23).for_each(|at| words[at] = (at as f32 * 0.1).to_bits() as i32);
    let mut bytes = [0; 92];
    bytes.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_be_bytes()));
    bytes
}

fn milliseconds(what: &mut f64, work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    work()?;
    *what = what.min(1e3 * began.elapsed().as_secs_f64());
    Ok(())
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    fs::write(path, (0..FRAMES).flat_map(frame).collect::<Vec<u8>>())?;
    let write = |place: &Path, bytes: &[u8]| {
        fs::write(place, bytes).map(|()| None).map_err(|error| kinema_core::Error::io("cannot write", &error))
    };
    let options = OpenOptions { write_index: Some(Arc::new(write)), ..OpenOptions::default() };
    let open = || Trajectory::open(vec![path.to_path_buf()], options.clone());
    open()?.scan(1, &|_| Ok(()))?;
    let (mut opened, mut compared, mut believed) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let source = FileSource::open(path)?;
    let decoder = Xtc.open(&source)?;
    let loaded = |fault: &dyn Fn(&TableIndex) -> kinema_core::Result<Option<String>>| match load(
        &places(path),
        &source,
        "XTC",
        3,
        fault,
    )? {
        LoadOutcome::Fits(_) => Ok(()),
        other => Err(format!("not loaded: {other:?}").into()),
    };
    for _ in 0..TRIES {
        milliseconds(&mut opened, || {
            let trajectory = open()?;
            let origin = trajectory.scan(1, &|_| Ok(()))?.parts[0].origin;
            if origin == IndexOrigin::Stored { Ok(()) } else { Err("the index is not used".into()) }
        })?;
        milliseconds(&mut compared, || loaded(&|table| stored_index_fault(&source, &*decoder, table)))?;
        milliseconds(&mut believed, || loaded(&|_| Ok(None)))?;
    }
    println!("opened {opened:.2} ms   compared {compared:.2} ms   believed {believed:.2} ms");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::temp_dir().join(format!("kinema-index-speed-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = measure(&folder.join("md.xtc"));
    fs::remove_dir_all(&folder)?;
    outcome
}
