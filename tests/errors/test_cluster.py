"""A tile to Cluster without a tile to Block below, or with too many blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fireiron import RF, Block, Cluster, FireironError, Thread, matmul


def finished(build: Callable[[Any], Any]) -> Any:
    clusters = matmul(256, 256, 64).tile(256, 128).to(Cluster)
    return build(clusters).epilog(memory=RF).tile(8, 8).to(Thread).split(1).tile(1, 1).unroll().done()


def test_a_cluster_without_blocks():
    with pytest.raises(FireironError) as caught:
        finished(lambda clusters: clusters.tile(128, 64).unroll())
    assert caught.value.code == "level-nests"
    assert caught.value.underlined == "to(Thread)"
    assert caught.value.fix == "tile to Block first, then to Thread"


def test_a_cluster_of_too_many_blocks():
    with pytest.raises(FireironError) as caught:
        finished(lambda clusters: clusters.tile(32, 32).to(Block))
    assert caught.value.code == "cluster-blocks"
    assert caught.value.message == "a cluster of 32 blocks is larger than the 8 that every GPU takes"
    assert caught.value.fix == "use clusters of at most 8 blocks"
