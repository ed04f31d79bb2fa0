"""Makes the environment of `make test-ml`: torch with what trains on it, and the tests' packages; 2 GB on disk.

It neither builds nor tests Kinema. On Linux torch comes without the libraries of CUDA, which are 3.3 GB to load:
torch_without_cuda.py puts empty ones in their places. `--with-cuda` installs them, for a machine with a GPU.
"""

import argparse
import json
import re
import subprocess
import sys
import venv
from pathlib import Path

from requirements import requirements

ROOT = Path(__file__).resolve().parent.parent
# torch, and what would bring all that torch needs: installed without their requirements
WITH_TORCH = {
    "torch",
    "torchdata",
    "torchmetrics",
    "lightning",
    "pytorch-lightning",
    "deeptime",
    "nequip",
    "e3nn",
    "opt-einsum-fx",
}
# requirements of these that nothing is computed with on a machine without a GPU
OF_CUDA = ("nvidia-", "cuda-", "triton")
# prints what installed packages require here, as pip reads it
REQUIREMENTS = """
import importlib.metadata, json, sys
from pip._vendor.packaging.requirements import Requirement
found = []
for name in sys.argv[1:]:
    for line in importlib.metadata.requires(name) or []:
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            found.append(f"{one.name}{one.specifier}")
print(json.dumps(found))
"""
CHECK = """
import torch, torchdata.stateful_dataloader, lightning.pytorch, deeptime.util.data, nequip.data.dataset
assert torch.equal(torch.ones(2, 3) @ torch.ones(3, 2), torch.full((2, 2), 3.0))
print(f"torch {torch.__version__}, GPU: {torch.cuda.is_available()}")
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the virtual environment")
    parser.add_argument("--with-cuda", action="store_true", help="torch with CUDA's libraries: 5.5 GB on disk")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    stubs = not arguments.with_cuda and sys.platform == "linux"
    venv.create(folder, with_pip=True, clear=True)
    python = str(folder / "bin/python")
    pip = [python, "-m", "pip", "install"]
    wanted = requirements(ROOT / "pyproject.toml", ["test-ml"])
    wanted = [one for one in wanted if not one.startswith("maturin")]
    if stubs:
        versions = {name_of(one): one for one in wanted}
        run([*pip, "--no-deps", *(versions.get(name, name) for name in sorted(WITH_TORCH))])
        needed = json.loads(output_of([python, "-c", REQUIREMENTS, *WITH_TORCH]))
        wanted = [one for one in (*wanted, *needed) if name_of(one) not in WITH_TORCH and not one.startswith(OF_CUDA)]
    run([*pip, *wanted])
    if stubs:
        site = output_of([python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).strip()
        run([sys.executable, str(ROOT / "tools/torch_without_cuda.py"), f"{site}/torch/lib"])
    run([python, "-c", CHECK])


def name_of(requirement: str) -> str:
    """Name of the package, as packages are compared by."""
    return re.match(r"[\w.-]*", requirement)[0].lower().replace("_", "-")


def run(words: list[str]) -> None:
    """Runs a command, and exits if it fails."""
    if subprocess.run(words).returncode != 0:
        sys.exit(f"error: {' '.join(words)} has failed")


def output_of(words: list[str]) -> str:
    """Output of a command."""
    found = subprocess.run(words, capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"error: {' '.join(words)} has failed: {found.stderr}")
    return found.stdout


if __name__ == "__main__":
    main()
