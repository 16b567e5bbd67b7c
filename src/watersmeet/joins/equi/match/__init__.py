"""How new rows are matched: :mod:`.pairs` of two streams; :mod:`.combinations` of more, which find
where their matches are (:mod:`.combination_probe`) and gather them (:mod:`.gathering`).
:mod:`.discard` is about stored rows that cannot match any more."""
