from __future__ import annotations

import pytest

from tests.conformance.ways import LocalWay, Way


@pytest.fixture(scope="session", params=[LocalWay()], ids=["local"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param
