"""Platforms: those that come with Kinema have a source for each parameter, and files are checked key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.base.errors import ArgumentError, FileNotFound
from kinema.studies.lab import PLATFORMS
from kinema.studies.lab.platform import read_platform


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_parameter_has_a_source(name: str) -> None:
    found = read_platform(name).as_dict()
    assert found["name"] == name and found["description"]
    assert set(found["sources"]) == set(found["parameters"])
    assert all(len(source) >= 8 for source in found["sources"].values())


def test_values_keep_their_units(tmp_path: Path) -> None:
    found = read_platform("lustre")
    assert found.request_latency == 300_000 and found.metadata_ns == 20_000 and found.read_ns(500) == 1000
    assert found.as_dict()["parameters"]["storage.request_latency"] == 0.0003
    path = tmp_path / "ours.toml"
    path.write_text('like = "lustre"\n[storage]\ntargets = { value = 4, source = "the wiki" }\nread_rate = 1e8\n')
    ours = read_platform(str(path))
    assert (ours.name, ours.targets, ours.read_rate, ours.cores) == ("ours", 4, 10**8, found.cores)
    assert ours.sources["storage.targets"] == "the wiki" and ours.sources["storage.read_rate"] == "not stated"
    assert ours.description.startswith("like lustre: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[storage", "is not a TOML file, "),
        ('like = "gpfs"', "like: expected lustre, beegfs, nfs, hdd, ssd, found 'gpfs'"),
        ("[storage]\ntargets = 4", "storage.read_rate: is missing"),
        ('like = "nfs"\nnetworks = 1', "networks: is not known, expected like, description, storage, "),
        ('like = "nfs"\nnetwork = 1', "network: expected a table, found 1"),
        ('like = "nfs"\ndescription = 1', "description: expected text, found 1"),
        ('like = "nfs"\n[node]\ncore = 1', "node.core: is not known, expected cores, "),
        ('like = "nfs"\n[node]\ncores = 0', "node.cores: expected a whole number from 1 to 1e+06, found 0"),
        ('like = "nfs"\n[node]\ncores = 1.5', "node.cores: expected a whole number from 1 to 1e+06, found 1.5"),
        ('like = "nfs"\n[node]\ncores = true', "node.cores: expected a whole number from 1 to 1e+06, found True"),
        ('like = "nfs"\n[node]\ncores = { value = 1 }', "node.cores: expected a number, or value and source"),
        ('like = "nfs"\n[network]\nlink_rate = nan', "network.link_rate: expected a number from 1 to 1e+15, found nan"),
        ('like = "nfs"\n[storage]\nseek = -1', "storage.seek: expected a number from 0 to 1000, found -1"),
        ('like = "nfs"\n[storage]\nstripes = 2', "storage.stripes: expected at most one for each target"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError) as caught:
        read_platform(str(path))
    assert str(caught.value).startswith(f"{path}: {said}")


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"a platform is lustre, .* or a file NAME\.toml, found 'gpfs'"):
        read_platform("gpfs")
    with pytest.raises(FileNotFound):
        read_platform(str(tmp_path / "none.toml"))
