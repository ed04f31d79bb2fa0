"""Makes dftracer.pfw.gz: a small program that DFTracer has traced. Needs the package `dftracer` 2.2.0.

cd /tmp/samples && DFTRACER_ENABLE=1 DFTRACER_INC_METADATA=1 DFTRACER_TRACE_COMPRESSION=1 DFTRACER_INIT=FUNCTION \\
    python make_dftracer.py
"""

import os
import threading
from pathlib import Path

from dftracer.python import ai, dft_fn, dftracer

SAMPLES, SAMPLE = 4, 4096

folder = Path.cwd() / "data"
folder.mkdir(exist_ok=True)
log = dftracer.initialize_log(logfile=str(Path.cwd() / "dftracer"), data_dir=str(folder), process_id=-1)
reader = dft_fn("reader")


@reader.log
def read(number: int, epoch: int, step: int) -> bytes:
    """A sample."""
    reader.update(epoch=epoch, step=step, image_idx=number, image_size=SAMPLE)
    file = os.open(folder / "samples.bin", os.O_RDONLY)
    data = os.pread(file, SAMPLE, SAMPLE * number)
    os.close(file)
    return data


@ai.compute
def compute(data: bytes) -> int:
    """Something to wait for."""
    return sum(data)


(folder / "samples.bin").write_bytes(bytes(range(256)) * (SAMPLES * SAMPLE // 256))
for epoch in range(2):
    with dft_fn("pipeline", name="epoch.block", epoch=epoch):
        for step in range(SAMPLES):
            compute(read(step, epoch, step))
# from a thread of its own
thread = threading.Thread(target=lambda: list(os.scandir(folder)))
thread.start()
thread.join()
log.finalize()
