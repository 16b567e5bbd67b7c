"""A inline is a store, wherever its values are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.state.store import SMALL, TOGETHER, InlineStore, MemoryStore

names = st.sampled_from("abcdefghijkl")
sizes = st.sampled_from([0, 1, SMALL, SMALL + 1])
changes = st.tuples(names, st.one_of(st.none(), sizes))


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.lists(changes, max_size=15), max_size=5))
def test_a_pocket_holds_what_was_put_in(steps: list[list[tuple[str, int | None]]]) -> None:
    store, small, expected = MemoryStore(), dict[str, bytes](), dict[str, bytes]()
    for number, step in enumerate(steps):
        # Given a inline that is opened again for every step,
        inline = InlineStore(store, small)
        for name, size in step:
            # when values are replaced and deleted,
            assert inline.get(name) == expected.get(name)
            if size is None:
                inline.delete(name)
                expected.pop(name, None)
            else:
                expected[name] = bytes([number]) * size
                inline.put(name, expected[name])
        # then each is in one place, the large ones and what is too much outside.
        assert store.values | small == expected
        assert not store.values.keys() & small.keys()
        assert all(len(value) <= SMALL for value in small.values())
        assert sum(map(len, small.values())) <= TOGETHER
