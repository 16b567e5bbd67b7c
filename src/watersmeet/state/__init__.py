"""State: what a join remembers between two micro-batches, and how it is kept.

Nothing here knows Spark. A :class:`~watersmeet.state.store.Store` is a small
durable map from names to bytes; a :class:`~watersmeet.state.window.Window`
keeps one stream's rows in it, as immutable segments.
"""
