"""Mapping tiles to clusters, which no kernel launches yet."""

from __future__ import annotations

import pytest

from fireiron import Cluster, FireironError, matmul


def test_tiles_of_a_cluster():
    spec = matmul(256, 256, 64)
    with pytest.raises(FireironError) as caught:
        spec.tile(128, 128).to(Cluster)
    assert caught.value.code == "no-clusters"
    assert caught.value.underlined == "to(Cluster)"
    assert caught.value.message == "cannot map tiles of MatMul 256x256x64 to Cluster: no kernel launches clusters yet"
    assert caught.value.fix == "tile to Block"
