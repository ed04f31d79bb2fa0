"""How many workers and how much memory: the machine's limits, and what users write."""

import os
from types import SimpleNamespace

import pytest

import kinema as kn
from kinema.base import resources


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("256 MiB", 256 << 20),
        ("1GB", 10**9),
        ("4g", 4 << 30),
        ("1.5 KiB", 1536),
        (1000, 1000),
        ("77", 77),
        ("1 TB", 10**12),
    ],
)
def test_memory_is_understood(text, size):
    assert resources.parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "much", "MiB", "-1", "1 XB", 0, -5, 1.5, True, "0"])
def test_memory_is_refused(text):
    with pytest.raises(kn.ArgumentError, match="memory"):
        resources.parse_memory(text)


def test_workers_heed_slurm(monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert resources.default_workers() == 1
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "100000")
    assert resources.default_workers() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "some")
    assert resources.default_workers() >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_workers_heed_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert resources.default_workers() == 1


@pytest.mark.parametrize(
    ("files", "membership", "limit"),
    [
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "200000 100000"}, "0::/", 2),
        ({"cpu.max": "max 100000", "a/b/cpu.max": "150000 100000"}, "0::/a/b", 2),
        ({"a/cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000"}, "0::/a/b", 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/", None),
        ({"cpu/job/cpu.cfs_quota_us": "300000", "cpu/job/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/job", 3),
        ({}, "", None),
        ({"cpu.max": "nonsense"}, "0::/", None),
    ],
)
def test_control_groups(tmp_path, files, membership, limit):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    (tmp_path / "membership").write_text(membership + "\n")
    assert resources._cgroup_limit(tmp_path, tmp_path / "membership") == limit


@pytest.mark.parametrize(
    ("files", "membership", "limit"),
    [
        ({}, "", 16 << 30),
        ({"memory.max": "max"}, "0::/", 16 << 30),
        ({"memory.max": "max", "a/b/memory.max": str(2 << 30)}, "0::/a/b", 2 << 30),
        ({"memory/job/memory.limit_in_bytes": str(3 << 30)}, "5:memory:/job", 3 << 30),
        ({"a/memory.max": str(100 << 20)}, "0::/a", 1 << 30),
    ],
)
def test_default_memory_is_a_quarter_of_what_the_process_may_use(tmp_path, monkeypatch, files, membership, limit):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    (tmp_path / "membership").write_text(membership + "\n")
    found = list(resources._cgroup_memory(tmp_path, tmp_path / "membership"))
    monkeypatch.setattr(resources, "physical_memory", lambda: 16 << 30)
    monkeypatch.setattr(resources, "_cgroup_memory_in", lambda _: tuple(found))
    assert resources.default_memory() == limit // 4


def test_limits_of_memory_are_read_once_a_second(monkeypatch):
    seconds, reads = iter([1.2, 1.9, 2.1]), []
    monkeypatch.setattr(resources, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(resources, "physical_memory", lambda: 16 << 30)
    monkeypatch.setattr(resources, "_cgroup_memory", lambda root: iter([reads.append(root) or 4 << 30]))
    resources._cgroup_memory_in.cache_clear()
    assert [resources.default_memory() for _ in range(3)] == [1 << 30] * 3
    assert len(reads) == 2
    # what was read here is not this machine's
    resources._cgroup_memory_in.cache_clear()


@pytest.mark.parametrize(("limit", "files"), [(256, 64), (1024, 256), (1 << 20, 4096), (-1, 4096)])
def test_open_files_follow_the_limit_of_the_process(monkeypatch, limit, files):
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert resources.default_open_files() == files
