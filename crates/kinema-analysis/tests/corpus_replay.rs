//! Replays the corpus of the fuzz target `partials`, and every finding, on the stable toolchain.
//!
//! It searches nothing: `fuzz/run.sh` does.

#[path = "../../../fuzz/src/partials.rs"]
mod partials;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn partials_of_every_kernel() {
    replay::inputs("partials", partials::load);
}
