"""Launches of clusters, dependent and cooperative launches: the driver's launch configuration as ctypes structures."""

from __future__ import annotations

import ctypes

from fireiron.algebra.arch import WIDEST_CLUSTER
from fireiron.base.errors import CallError

_COOPERATIVE = 2  # CUlaunchAttributeID
_CLUSTER_DIMENSION = 4
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class Attribute(ctypes.Structure):
    """Lay out CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16))


class Configuration(ctypes.Structure):
    """Lay out CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_nbytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint32),
    )


def configuration(
    grid: int, threads: int, shared_nbytes: int, cluster: int, dependent: bool = False, cooperative: bool = False
) -> Configuration:
    """Describe launches of a grid of clusters; the caller fills in the stream.

    Args:
        grid: blocks, a multiple of `cluster`.
        threads: of a block.
        shared_nbytes: dynamic shared memory of a block.
        cluster: blocks of a cluster.
        dependent: whether a launch may begin while the launch before it in the stream ends.
        cooperative: whether the driver refuses grids whose blocks do not all run at once.
    """
    wanted: list[tuple[int, tuple[int, ...]]] = []
    if cluster > 1:
        wanted.append((_CLUSTER_DIMENSION, (cluster, 1, 1)))
    if dependent:
        wanted.append((_PROGRAMMATIC_STREAM_SERIALIZATION, (1,)))
    if cooperative:
        wanted.append((_COOPERATIVE, (1,)))
    attributes = (Attribute * len(wanted))()
    for attribute, (number, value) in zip(attributes, wanted, strict=True):
        attribute.id = number
        attribute.value[: len(value)] = value
    # Assigning the array makes the configuration keep it alive.
    return Configuration((grid, 1, 1), (threads, 1, 1), shared_nbytes, None, attributes, len(wanted))


def check_cluster(entry: str, cluster: int) -> None:
    """Refuse clusters of more blocks than any GPU runs (16).

    Raises:
        CallError: `cluster-size`.
    """
    if cluster > WIDEST_CLUSTER:
        raise CallError(
            "cluster-size",
            f"{entry} has clusters of {cluster} blocks, a launch takes at most {WIDEST_CLUSTER}",
            fix=f"map at most {WIDEST_CLUSTER} blocks to a cluster",
        )
