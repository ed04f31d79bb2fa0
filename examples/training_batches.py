"""Shuffled batches of frames, decoded in Rust by several threads while the loop computes."""

import sys

import kinema as kn
import kinema.ml

topology, trajectory = sys.argv[1:3]
frames = kinema.ml.FrameDataset(kn.open(trajectory, topology=topology), select="name CA")
loader = kinema.ml.Loader(frames, batch_size=32, seed=1)
for epoch in range(2):
    for batch in loader:
        positions = batch["positions"]  # (32, atoms, 3), float32, angstrom
    print(f"epoch {epoch}: {len(loader)} batches, the last one {positions.shape}")
