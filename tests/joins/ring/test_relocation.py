"""Stored rows get new homes, and the join goes on as if nothing had happened."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.rings import RingRun, ring_runs, translated
from tests.conformance.strategies import examples, limited, until_shown
from tests.conformance.ways import restarted
from tests.oracle import assert_same_rows
from watersmeet.errors import StateError
from watersmeet.joins.ring.layout import ORDER, of_hop
from watersmeet.joins.ring.relocation import Relocation, hop_of, order_of
from watersmeet.state.fingerprint import fingerprint_of
from watersmeet.state.manifest import Manifest, StoredWindow
from watersmeet.state.store import MemoryStore
from watersmeet.testing import LocalJoin


def relocated(
    stores: list[list[MemoryStore]], *, slices: int, order: list[str] | None = None
) -> list[list[MemoryStore]]:
    """The stores of each hop's shards, after relocation."""
    manifests = [[Manifest.from_bytes(s.values["manifest"]) for s in of_hop] for of_hop in stores]
    plan = Relocation.of(manifests, slices=slices, order=order)
    moved = [
        part
        for hop, of_hop in enumerate(stores)
        for store in of_hop
        for part in plan.leaving(store, hop)
    ]
    result = []
    for hop, own in enumerate(stores):
        new = []
        for shard, store in enumerate(own):
            here = [part for part in moved if (part.hop, part.shard) == (hop, shard)]
            new.append(MemoryStore())
            new[-1].values = dict(plan.arriving(store, hop, here))
        result.append(new)
    return result


@pytest.mark.parametrize(
    ("how", "streams"), [("inner", "ab"), ("left", "ab"), ("anti", "ab"), ("inner", "abc")]
)
def test_a_join_goes_on_with_other_slices_and_another_order(how: str, streams: str) -> None:
    moves = 0

    @examples(25)
    @given(run=ring_runs(how, streams), data=st.data())
    def check(run: RingRun, data: st.DataObject) -> None:
        nonlocal moves
        join = run.join
        with limited(**run.limits), translated(join), tempfile.TemporaryDirectory() as folder:
            local = LocalJoin(join.streams, shards=run.shards, folder=folder, **join.options)
            results = []
            for number, batch in enumerate(run.batches):
                if number in run.slices and number:
                    # Given a join that is stopped, when its rows get new homes,
                    slices, order = run.slices[number], join.further.get("order")
                    if order is not None:
                        order = data.draw(st.permutations(order))
                    stored = local.state_rows()
                    new = relocated([r.stores for r in local.runs], slices=slices, order=order)
                    for hop, stores in zip(local.runs, new, strict=True):
                        hop.stores = stores
                    tuned = {"slices": slices} | ({} if order is None else {"order": order})
                    join = replace(join, further=tuned)
                    # then nothing need drain: new rows are sent to these slices only.
                    local = restarted(local, join)
                    assert all(
                        now <= before
                        for now, before in zip(local.state_rows(), stored, strict=True)
                    )
                    moves += sum(stored) > 0
                results.append(local.batch(**batch))
            results.append(local.finish())
        assert_same_rows(pa.concat_tables(results), run.join.expected(run.batches))

    until_shown(check, lambda: moves > 5, "rows that move")


def test_an_order_must_name_the_streams() -> None:
    ordered = fingerprint_of({ORDER: ["b", "a", "c"]})
    manifests = [[Manifest(of_hop(ordered, hop, 3), [StoredWindow()])] for hop in range(3)]
    assert order_of(ordered) == ["b", "a", "c"]
    assert hop_of(manifests[2][0].fingerprint) == (2, 3)
    assert hop_of(ordered) is None
    with pytest.raises(StateError, match="must name every stream of the join once: b, a, c"):
        Relocation.of(manifests, slices=1, order=["a", "b"])
    plan = Relocation.of(manifests, slices=1, order=["a", "b", "c"])
    assert plan.hops == (1, 0, 2)
    assert order_of(plan.fingerprints[0]) == ["a", "b", "c"]
