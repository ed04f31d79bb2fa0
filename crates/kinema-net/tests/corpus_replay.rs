//! Replays the corpus of the fuzz target `peers`, and every finding, on the stable toolchain.
//!
//! It searches nothing: `fuzz/run.sh` does.

#[path = "../../../fuzz/src/peers.rs"]
mod peers;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn what_peers_say() {
    replay::inputs("peers", peers::speak);
}
