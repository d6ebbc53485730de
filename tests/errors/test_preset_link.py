"""A mistake in a preset's link: the error shows the link and the call of the preset."""

from __future__ import annotations

import pytest

from fireiron import FireironError, matmul
from fireiron.schedules import simt


def test_preset_link() -> None:
    with pytest.raises(FireironError) as caught:
        simt.listing2(matmul(512, 512, 512), m=8)
    error = caught.value
    assert error.code == "tile-extent"
    assert error.message == "a tile of 0 elements along M is empty"
    assert error.underlined == "tile(m // 16, n // 16)"
    assert error.link is not None
    assert error.link.called_from is not None
    assert error.link.called_from.underlined == "listing2(matmul(512, 512, 512), m=8)"
    assert "called from " in str(error)
    assert error.fix == "tile sizes are whole numbers of 1 and more"
