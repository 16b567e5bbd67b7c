"""The demo's data: ad views and clicks, as Parquet files that are read one after the other."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

WITHIN = timedelta(minutes=5)
VIEW_DELAY = timedelta(seconds=10)
CLICK_DELAY = timedelta(seconds=20)

VIEW_COLUMNS = "ad_id bigint, user_id bigint, campaign string, price double, viewed_at timestamp"
CLICK_COLUMNS = "ad_id bigint, device string, clicked_at timestamp"

#: Each stream is this number of files, and each file so much time of it; a micro-batch reads one
#: of each. Large ones: every micro-batch takes Spark some time that does not depend on its rows.
FILES, FILE_TIME = 40, timedelta(minutes=5)
#: So many of them are there from the start: three times ``WITHIN``, so that the state has all that
#: it will have. The others are put there for the race.
FIRST_FILES = 3
#: The streams tell of so much time, however many rows they have.
SPAN = FILES * FILE_TIME
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
_STREAMS = ("views", "clicks")
_WRITTEN = 1_700_000_000

_CAMPAIGNS = ("spring sale", "new shoes", "city trips", "coffee club", "phone plan", "museum night")
_DEVICES = ("phone", "tablet", "desktop")
_CLICKS_PER_VIEW = 0.2


class Ads:
    """People see ads and click on some, a little out of order.

    :meth:`step` tells what arrives in the next stretch of time. A view arrives up
    to 8 seconds after its time, a click up to 15. One in five views is clicked on,
    a minute later on average, now and then more than ``WITHIN`` later, and
    sometimes twice. From the third file on there are late clicks too, from
    phones that were offline for minutes.
    """

    def __init__(self, views_per_second: float, *, seed: int = 7) -> None:
        self._rate = views_per_second
        self._random = np.random.default_rng(seed)
        self._now = 0.0
        self._next_ad = 1_000_000
        self._coming = pl.DataFrame(
            schema={"ad_id": pl.Int64, "clicked_at": pl.Float64, "arrives": pl.Float64}
        )

    def step(self, seconds: float) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The views and the clicks that arrive within the next ``seconds``."""
        start, self._now = self._now, self._now + seconds
        views = self._views(start, round(self._rate * seconds))
        self._coming = pl.concat([self._coming, self._clicks_on(views)])
        arrived = self._coming.filter(pl.col("arrives") < self._now).sort("arrives")
        self._coming = self._coming.filter(pl.col("arrives") >= self._now)
        if start >= 2 * FILE_TIME.total_seconds():
            arrived = pl.concat([arrived, self._late(start, len(arrived) // 200)])
        clicks = arrived.with_columns(device=self._choice(_DEVICES, len(arrived)))
        return (
            views.with_columns(_as_time("viewed_at")),
            clicks.select("ad_id", "device", _as_time("clicked_at")),
        )

    def _views(self, start: float, count: int) -> pl.DataFrame:
        random = self._random
        ids = np.arange(self._next_ad, self._next_ad + count)
        self._next_ad += count
        arrives = np.sort(random.uniform(start, self._now, count))
        held_up = random.uniform(0, 8, count) * (random.random(count) < 0.1)
        return pl.DataFrame(
            {
                "ad_id": ids,
                "user_id": random.integers(1, 5_000_000, count),
                "campaign": self._choice(_CAMPAIGNS, count),
                "price": random.gamma(4, 0.3, count).round(3),
                "viewed_at": arrives - held_up,
            }
        )

    def _clicks_on(self, views: pl.DataFrame) -> pl.DataFrame:
        random = self._random
        often = random.poisson(_CLICKS_PER_VIEW, len(views))
        ads = np.repeat(views["ad_id"].to_numpy(), often)
        times = np.repeat(views["viewed_at"].to_numpy(), often)
        times = times + random.exponential(60, len(ads))
        arrives = times + random.uniform(0, 15, len(ads))
        return pl.DataFrame({"ad_id": ads, "clicked_at": times, "arrives": arrives})

    def _late(self, start: float, count: int) -> pl.DataFrame:
        ads = self._random.integers(0, 1_000_000, count)
        times = start - self._random.uniform(300, 600, count)
        arrives = np.full(count, start)
        return pl.DataFrame({"ad_id": ads, "clicked_at": times, "arrives": arrives})

    def _choice(self, names: tuple[str, ...], count: int) -> pl.Series:
        return pl.Series(names).gather(self._random.integers(0, len(names), count))


def _as_time(column: str) -> pl.Expr:
    micros = (pl.col(column) * 1e6).cast(pl.Int64).cast(pl.Duration("us"))
    return (pl.lit(NOON) + micros).alias(column)


def write(folder: Path, rows: int) -> int:
    """Write about that number of rows, as files of both streams; how many they are. Those that are
    not among the first are put aside."""
    views_per_second = rows / (1 + _CLICKS_PER_VIEW) / SPAN.total_seconds()
    ads, written = Ads(views_per_second), 0
    for number in range(FILES):
        for stream, given in zip(_STREAMS, ads.step(FILE_TIME.total_seconds()), strict=True):
            path = folder / stream / f"{number:05}.parquet"
            if number >= FIRST_FILES:
                path = _aside(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            given.write_parquet(path, compression="snappy")
            # Spark reads files in the order of these times.
            os.utime(path, (_WRITTEN + number, _WRITTEN + number))
            written += len(given)
    return written


def add_the_rest(folder: Path) -> None:
    """Put the files there that were put aside."""
    for stream in _STREAMS:
        for path in sorted(_aside(folder / stream / "*").parent.iterdir()):
            path.rename(folder / stream / path.name)


def _aside(path: Path) -> Path:
    return path.parent.parent / "aside" / path.parent.name / path.name


def expected(folder: Path, files: int) -> pl.DataFrame:
    """The result by a plain join of the first files of both streams."""
    views, clicks = (
        pl.scan_parquet(sorted((folder / stream).glob("*.parquet"))[:files]) for stream in _STREAMS
    )
    apart = pl.col("clicked_at") - pl.col("viewed_at")
    return (
        views.join(clicks, on="ad_id")
        .filter(apart.abs() <= WITHIN)
        .with_columns(event_time=pl.max_horizontal("viewed_at", "clicked_at"))
        .collect()
    )
