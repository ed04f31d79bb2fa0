//! Reads the frames of an XTC file with molly and prints seconds and frames as JSON.
//!
//! It computes nothing with them: the figure is an upper limit for any analysis on top of molly.
//!
//! Usage: molly-bench FILE FRAMES [LAST_ATOM]: begins again at the end of the file until FRAMES are read; decodes the
//! atoms up to LAST_ATOM, or all. A few frames are read first, untimed; then FRAMES again and again for 0.3 s.

use std::error::Error;
use std::hint::black_box;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use molly::selection::AtomSelection;
use molly::{Frame, XTCReader};

/// Frames of the untimed run.
const FEW: usize = 10;
/// Least time of all timed runs together.
const LEAST: Duration = Duration::from_millis(300);

/// CPU time of this thread so far, from the kernel's accounting in nanoseconds.
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: molly-bench FILE FRAMES [LAST_ATOM]")?;
    let frames: usize = arguments.next().ok_or("usage: molly-bench FILE FRAMES [LAST_ATOM]")?.parse()?;
    let selection = match arguments.next() {
        Some(last) => AtomSelection::Until(last.parse()?),
        None => AtomSelection::All,
    };
    let buffered = !matches!(selection, AtomSelection::All);
    let mut reader = XTCReader::open(path)?;
    let mut frame = Frame::default();
    let mut since_start = 0;
    let mut read = |frames: usize| -> Result<(), Box<dyn Error>> {
        let mut done = 0;
        while done < frames {
            let outcome = if buffered {
                reader.read_frame_with_selection_buffered(&mut frame, &selection)
            } else {
                reader.read_frame(&mut frame)
            };
            match outcome {
                Ok(()) => {
                    black_box(&frame);
                    done += 1;
                    since_start += 1;
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && since_start > 0 => {
                    reader.home()?;
                    since_start = 0;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    };
    read(frames.min(FEW))?;
    let cpu_before = cpu_time();
    let start = Instant::now();
    let mut repeats = 0;
    while start.elapsed() < LEAST {
        read(frames)?;
        repeats += 1;
    }
    let wall = start.elapsed().as_secs_f64() / f64::from(repeats);
    let cpu = match (cpu_before, cpu_time()) {
        (Some(before), Some(after)) => (after - before).as_secs_f64() / f64::from(repeats),
        _ => wall,
    };
    println!("{{\"frames\": {frames}, \"wall\": {wall}, \"cpu\": {cpu}, \"repeats\": {repeats}}}");
    Ok(())
}
