from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.ways import LocalWay, Way
from watersmeet.spec.limits import Limits
from watersmeet.state.store import InlineStore
from watersmeet.testing import LocalJoin


@pytest.fixture(scope="session", params=[LocalWay()], ids=["local"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(scope="module", params=["tiny segments", "as if they were large"])
def kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """The few rows of a test are kept as few rows are: in the manifest, in one segment. And they
    are kept as many are: in segments by slots of time, and in the cache."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "tiny segments":
            patch.setattr(LocalJoin, "limits", Limits(tiny_bytes=0))
            patch.setattr(InlineStore, "at_hand", lambda self, name: False)
        yield
