"""The manifest survives its bytes, and refuses those of another format."""

from __future__ import annotations

import json

import pytest

from watersmeet.errors import StateError
from watersmeet.state.manifest import FORMAT, Entry, Manifest, StoredWindow, total_bytes, total_rows


def test_a_manifest_survives_its_bytes() -> None:
    entry = Entry("id", ["part/1", "part/2"], 10, 1000, 5000, -5, 2**61, marked=3)
    manifest = Manifest("the query", [StoredWindow([entry], -(2**61)), StoredWindow()], timer=7)
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@pytest.mark.parametrize("found", [FORMAT - 1, FORMAT + 1])
def test_the_bytes_of_another_format_are_refused(found: int) -> None:
    fields = json.loads(Manifest("q", [StoredWindow(), StoredWindow()]).to_bytes()) | {
        "format": found
    }
    with pytest.raises(StateError, match=f"of format {found}, .* reads format {FORMAT}"):
        Manifest.from_bytes(json.dumps(fields).encode())


def test_small_values_are_part_of_it() -> None:
    manifest = Manifest(
        "the query", [StoredWindow()], small={"part/1": bytes(range(256)), "b": b""}
    )
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_totals_are_sums() -> None:
    entries = [Entry("a", [], 2, 30, 90, 0, 0), Entry("b", [], 5, 70, 90, 0, 0)]
    assert (total_rows(entries), total_bytes(entries)) == (7, 100)
    assert (total_rows([]), total_bytes([])) == (0, 0)
