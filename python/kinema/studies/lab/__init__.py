"""The laboratory: runs on emulated clusters, in virtual time. `docs/laboratory.md` says what it can and cannot show.

`operations` are what ranks do, `platform` the parameters of a cluster; `machine` carries out programs of ranks,
`replay` makes reports of their times, `experiment` carries out the designs of `kinema scaling`.
"""

__all__ = ["PLATFORMS"]

PLATFORMS = ("lustre", "beegfs", "nfs", "hdd", "ssd")
