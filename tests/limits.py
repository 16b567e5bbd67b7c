"""Joins whose pieces are so small that a few rows behave as millions do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from watersmeet.testing import LocalJoin


def with_limits(**sizes: int) -> AbstractContextManager[Any]:
    """Joins that are begun meanwhile work with these sizes, and otherwise with those of before."""
    return mock.patch.object(LocalJoin, "limits", replace(LocalJoin.limits, **sizes))
