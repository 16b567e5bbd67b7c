"""Records of what a join did, as text and as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import watersmeet as wm
from watersmeet.joins.metrics import MetricsTable

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
VIEWS = wm.EquiStreamCounters(rows=1200, late=3, state_rows=5000, state_bytes=1_500_000, segments=2)


def record(batch: int, watermark: datetime | None = NOON) -> wm.EquiMetrics:
    nothing = dict.fromkeys(["capped", "cache_hits", "cache_damaged", "cache_unsaved", "owed"], 0)
    return wm.EquiMetrics(
        batch=batch,
        timestamp=NOON + timedelta(seconds=batch),
        join="ad clicks",
        watermark=watermark,
        results=7,
        probes=20,
        step_ms=1234,
        steps=4,
        streams={"views": VIEWS, "clicks": wm.EquiStreamCounters()},
        notes=["views: <index>"],
        largest=wm.Largest(3, "clicks", "42"),
        full_results=0,
        deferred=0,
        cache_misses=9,
        **nothing,
    )


def test_a_record_is_a_few_lines_of_what_is_not_zero() -> None:
    assert str(record(5)).splitlines() == [
        "ad clicks, micro-batch 5 at 2024-01-01 12:00:05 UTC, watermark 2024-01-01 12:00:00 UTC",
        "  1,200 rows in, 7 results, 1,234 ms in 4 shards",
        "  views: 1,200 rows in, late 3, 5,000 stored in 1.5 MB, segments 2",
        "  clicks: 0 rows in",
        "  probes 20, cache_misses 9",
        "  most results of one row: 3, of clicks, key 42",
        "  views: <index>",
    ]
    assert "UTC, no watermark\n" in str(record(0, None))


def test_records_are_a_flat_table() -> None:
    records = MetricsTable([record(0, None), record(1)])
    frame = records.to_pandas()
    assert frame["views.late"].tolist() == [3, 3]
    assert frame["largest.key"].tolist() == ["42", "42"]
    assert frame["notes"].tolist() == ["views: <index>"] * 2
    assert frame["watermark"].isna().tolist() == [True, False]
    assert frame["watermark"][1] == NOON
    assert str(records).count("ad clicks") == 2
    # A notebook shows what is not zero, of the last records.
    html = MetricsTable(map(record, range(30)))._repr_html_()
    assert html.count("<tr") == 21
    assert "views.late" in html
    assert "clicks.rows" not in html
    assert "&lt;index&gt;" in html
    assert "and 10 before" in html
    assert "<table" in MetricsTable()._repr_html_()
