"""The manifest survives its bytes, and refuses those of another format."""

from __future__ import annotations

import json

import pytest

from watersmeet.errors import StateError
from watersmeet.state.manifest import FORMAT, Entry, Manifest, total_bytes, total_rows


def test_a_manifest_survives_its_bytes() -> None:
    entry = Entry("id", ["part/1", "part/2"], 10, 1000, 5000, -5, 2**61, marked=3)
    manifest = Manifest("the query", [[entry], []], [None, -(2**61)], timer=7)
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_an_empty_manifest_has_a_window_for_each_stream() -> None:
    manifest = Manifest.empty("the query", 3)
    assert manifest.windows == [[], [], []]
    assert manifest.settled == [None, None, None]
    manifest.windows[0].append(Entry("id", [], 0, 0, 0, 0, 0))
    assert manifest.windows[1] == [], "the windows share nothing"
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_the_bytes_of_another_format_are_refused() -> None:
    fields = json.loads(Manifest.empty("q", 2).to_bytes()) | {"format": FORMAT + 1}
    with pytest.raises(StateError, match=f"of format {FORMAT + 1}, .* reads format {FORMAT}"):
        Manifest.from_bytes(json.dumps(fields).encode())


def test_small_values_are_part_of_it() -> None:
    manifest = Manifest("the query", [[]], [None], small={"part/1": bytes(range(256)), "b": b""})
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_the_first_format_is_still_read() -> None:
    fields = json.loads(Manifest.empty("q", 2).to_bytes()) | {"format": 1}
    del fields["small"]
    assert Manifest.from_bytes(json.dumps(fields).encode()) == Manifest.empty("q", 2)


def test_totals_are_sums() -> None:
    entries = [Entry("a", [], 2, 30, 90, 0, 0), Entry("b", [], 5, 70, 90, 0, 0)]
    assert (total_rows(entries), total_bytes(entries)) == (7, 100)
    assert (total_rows([]), total_bytes([])) == (0, 0)
