from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.conformance.ways import LocalWay, Way
from tests.limits import with_limits
from watersmeet.state.store import InlineStore


@pytest.fixture(scope="session", params=[LocalWay()], ids=["local"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(scope="module", params=["tiny segments", "as if they were large"])
def kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """The few rows of a test are kept as few rows are: in the manifest, in one segment. And they
    are kept as many are: in segments by slots of time, and in the cache."""
    with contextlib.ExitStack() as changed:
        if request.param != "tiny segments":
            changed.enter_context(with_limits(tiny_bytes=0))
            changed.enter_context(mock.patch.object(InlineStore, "at_hand", return_value=False))
        yield
