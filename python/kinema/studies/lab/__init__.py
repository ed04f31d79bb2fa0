"""The laboratory: runs on emulated clusters, in virtual time. `docs/laboratory.md` tells what it can and cannot say.

`operations` are what ranks do, `platform` the parameters of a cluster, `machine` carries programs out.
"""
