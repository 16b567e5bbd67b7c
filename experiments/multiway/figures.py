"""Figures 5 to 8 and tables 4 and 5, with the paper's claims about them, and claims of ours.

Where the paper says that a policy takes *about* so much less time, the claim holds if it
takes that much less, or more than that. A policy is the best only if it is clearly so:
``auto`` is run beside the policy that it stands for, which shows how far apart two runs of
the same thing are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.figure import Figure

from experiments.multiway.datasets import DATASETS, STREAMS, UNITS
from experiments.multiway.runs import (
    FIRST_HALF,
    LAST,
    PERIODS,
    POLICIES,
    SECOND_HALF,
    WAYS,
    Load,
    Measured,
    Part,
    measured,
    trace,
)
from experiments.report import Claim, Outcome, lines
from watersmeet.joins.equi import drivers
from watersmeet.joins.equi.policy import DRIVER_FOR

FULL = Load(divided=4, repetitions=3)
UNIFORM, BURSTY = ("I", "II", "III"), ("IV", "V", "VI")
EARLY = ("initial-output-size", "output-rate")
#: What auto stands for.
CHOSEN = (("auto", DRIVER_FOR["throughput"]), ("auto, early", DRIVER_FOR["early"]))
#: The policies that take a stream's new rows at once.
WHOLE = ("consumption-rate", *EARLY)
TIMES = np.linspace(0, 1.2, 49)
#: Times that are closer than this are alike, and so are shares of results.
ALIKE = 0.05
SHORT_RUNS = "What saves time is to take a stream's rows at once, in any order (see short-runs)."
AT_ONCE = "The policies that take a stream's new rows at once are alike."


def _values(
    load: Load,
    names: Iterable[str],
    ways: Iterable[str],
    value: Callable[[Measured, str], float],
    periods: Iterable[str] = PERIODS,
) -> list[float]:
    """A value of each dataset, size of micro-batches and way."""
    return [
        value(measured(name, period, load), way)
        for way in ways
        for name in names
        for period in periods
    ]


def _times(load: Load, names: Iterable[str], ways: Iterable[str], **more: Any) -> list[float]:
    return _values(load, names, ways, Measured.time, **more)


def _shares(
    load: Load, names: Iterable[str], ways: Iterable[str], at: float, **more: Any
) -> list[float]:
    return _values(load, names, ways, lambda one, way: one.share(way, at), **more)


def _clearly_least(time: dict[str, float], way: str) -> bool:
    """Does one way take less time than all others, by more than chance?"""
    return time[way] < (1 - ALIKE) * min(time[other] for other in time if other != way)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{way} {value:.3f}" for way, value in values.items())


def _range(values: Iterable[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def _curves(title: str, load: Load, names: Iterable[str], part: Part) -> Figure:
    """Results over time in a micro-batch, for each dataset and size of micro-batches."""
    figure = Figure(figsize=(15, 8), layout="constrained")
    panels = figure.subplots(len(PERIODS), 3, sharex=True, sharey=True)
    for period, row in zip(PERIODS, panels, strict=True):
        for name, axes in zip(names, row, strict=True):
            one = measured(name, period, load)
            for policy in POLICIES:
                shares = [one.share(policy, at, part) for at in TIMES]
                (line,) = axes.plot(TIMES, shares, label=policy)
                axes.axvline(one.time(policy, part), color=line.get_color(), linestyle=":")
            axes.set(title=f"Dataset {name}, {period} time units", xlabel="time", ylabel="results")
            axes.grid(alpha=0.3)
    panels[0][0].legend()
    figure.suptitle(f"{title} (dotted: the end of the micro-batch)")
    return figure


def _table(title: str, load: Load, value: Callable[[Measured, str], float]) -> Figure:
    """A value of each way, for each dataset and size of micro-batches, and its averages."""
    head = [f"{way}\n{period}" for way in WAYS for period in PERIODS]
    cells = np.array(
        [
            [value(measured(name, period, load), way) for way in WAYS for period in PERIODS]
            for name in DATASETS
        ]
    )
    cells = np.vstack([cells, cells.mean(axis=0)])
    figure = Figure(figsize=(18, 3))
    axes = figure.subplots()
    axes.axis("off")
    text = [[f"{cell:.3f}" for cell in row] for row in cells]
    table = axes.table(text, rowLabels=[*DATASETS, "average"], colLabels=head, loc="center")
    table.scale(1, 1.5)
    for column in range(len(head)):
        table[0, column].set_height(2 * table[0, column].get_height())
    axes.set_title(title)
    return figure


def figure_5(load: Load = FULL) -> Outcome:
    """Figure 5: arrival rates"""
    figure = Figure(figsize=(15, 7), layout="constrained")
    ends = []
    for dataset, axes in zip(DATASETS.values(), figure.subplots(2, 3).flat, strict=True):
        for position, name in enumerate(STREAMS):
            _, times = dataset.divided(load.divided).stream(position)
            counts, edges = np.histogram(times, bins=100, range=(0, UNITS))
            axes.plot(edges[:-1] / 1e6, counts * load.divided / np.diff(edges), label=name)
            ends.append(times[-1] / UNITS)
        axes.set(title=f"Dataset {dataset.name}", xlabel="M time units", ylabel="rows a time unit")
        axes.legend()
        axes.grid(alpha=0.3)
    claim = Claim(
        "section 4.1",
        "the streams of a dataset end at about the same time",
        f"at {min(ends):.3f} to {max(ends):.3f} of the run",
        min(ends) > 0.95,
    )
    return Outcome("figure-05", [claim], figure)


def figure_6(load: Load = FULL) -> Outcome:
    """Figure 6: time and results, datasets I to III"""
    turns = _times(load, UNIFORM, ["round-robin"])
    times, early = _times(load, UNIFORM, EARLY), _shares(load, UNIFORM, EARLY, 0.3)
    equal = _times(load, UNIFORM, ["consumption-rate"])
    claims = [
        Claim(
            "figure 6",
            "timestamp and round-robin act alike",
            f"round-robin takes {_range(turns)} of timestamp's time",
            all(abs(time - 1) < 0.1 for time in turns),
        ),
        Claim(
            "figure 6",
            "initial-output-size and output-rate give 60% of the results in less than 30% of "
            "timestamp's time",
            f"a share of {_range(early)} by then",
            min(early) >= 0.6,
        ),
        Claim(
            "figure 6",
            "their total time is about 20% lower",
            f"{_range(times)} of timestamp's",
            max(times) <= 0.85,
            SHORT_RUNS,
        ),
        Claim(
            "section 4.2",
            "with equal selectivities consumption-rate is as slow as round-robin",
            f"it takes {_range(equal)} of timestamp's time",
            all(abs(a / b - 1) < 0.1 for a, b in zip(equal, turns, strict=True)),
            "Here it takes the streams one after the other, which is what saves time.",
        ),
    ]
    return Outcome("figure-06", claims, _curves("Figure 6", load, UNIFORM, LAST))


def figure_7(load: Load = FULL) -> Outcome:
    """Figure 7: time and results, datasets IV to VI, first half"""
    halves = [
        np.mean(_values(load, ["IV"], EARLY, partial(Measured.time, part=part)))
        for part in (FIRST_HALF, SECOND_HALF)
    ]
    saved = _times(load, ["IV"], EARLY)
    claims = [
        Claim(
            "figures 7 and 8, IV",
            "initial-output-size and output-rate save 20% to 25% of the total time",
            f"they take {_range(saved)} of timestamp's time",
            max(saved) <= 0.8,
            SHORT_RUNS,
        ),
        Claim(
            "figures 7 and 8, IV",
            "they save more in the first half of the run, when little is stored",
            f"they take {halves[0]:.2f} of timestamp's time in the first half, {halves[1]:.2f} in "
            "the second",
            halves[0] < halves[1],
        ),
    ]
    return Outcome("figure-07", claims, _curves("Figure 7", load, BURSTY, FIRST_HALF))


def figure_8(load: Load = FULL) -> Outcome:
    """Figure 8: time and results, datasets IV to VI, second half"""
    early = _shares(load, ["V"], EARLY, 0.3)
    consuming, rate = (_times(load, ["V"], [way]) for way in ("consumption-rate", "output-rate"))
    late = _values(
        load,
        ["V"],
        ["consumption-rate"],
        lambda one, way: one.share(way, 0.7, relative_to=way),
    )
    large = {way: _times(load, ["V"], [way], periods=["1M"])[0] for way in POLICIES}
    last = {way: float(np.mean(_times(load, ["VI"], [way]))) for way in POLICIES}
    whole = _times(load, ["V", "VI"], WHOLE)
    claims = [
        Claim(
            "figures 7 and 8, V",
            "initial-output-size and output-rate give 80% of the results in the first 20% to "
            "30% of the time",
            f"a share of {_range(early)} at 30%",
            min(early) >= 0.8,
        ),
        Claim(
            "figures 7 and 8, V",
            "consumption-rate gives a very small part of the results in the first 70% of its time",
            f"a share of {_range(late)} by then",
            max(late) < 0.2,
            "A share of its own time here: all of it is less than 70% of timestamp's.",
        ),
        Claim(
            "figures 7 and 8, V",
            "consumption-rate saves as much time as output-rate",
            f"they take {_range(consuming)} and {_range(rate)} of timestamp's",
            all(a / b < 1.1 for a, b in zip(consuming, rate, strict=True)),
        ),
        Claim(
            "figures 7 and 8, V, 1M",
            "initial-output-size saves most, about half of the time",
            _listed(large),
            _clearly_least(large, "initial-output-size") and large["initial-output-size"] <= 0.55,
            AT_ONCE,
        ),
        Claim(
            "figures 7 and 8, VI",
            "initial-output-size takes the least time",
            _listed(last),
            _clearly_least(last, "initial-output-size"),
            AT_ONCE,
        ),
        Claim(
            "figures 7 and 8, V and VI",
            "timestamp takes longer than each of the three proposed policies",
            f"they take {_range(whole)} of its time",
            max(whole) < 1,
        ),
    ]
    return Outcome("figure-08", claims, _curves("Figure 8", load, BURSTY, SECOND_HALF))


def table_4(load: Load = FULL) -> Outcome:
    """Table 4: total time"""
    average = {way: float(np.mean(_times(load, DATASETS, [way]))) for way in POLICIES}
    every = [measured(name, period, load) for name in DATASETS for period in PERIODS]
    slower = [one.time("auto") / min(one.time(policy) for policy in POLICIES) for one in every]
    apart = [abs(one.time(auto) / one.time(policy) - 1) for one in every for auto, policy in CHOSEN]
    counts = {
        name: set().union(*(measured(name, period, load).results() for period in PERIODS))
        for name in DATASETS
    }
    claims = [
        Claim(
            "table 4",
            "initial-output-size takes the least time of all on average",
            _listed(average),
            _clearly_least(average, "initial-output-size"),
            AT_ONCE,
        ),
        Claim(
            "table 4",
            "(ours) a policy takes the same time, called by its name or chosen by auto",
            f"{np.mean(apart):.0%} apart on average, {max(apart):.0%} at most",
            max(apart) <= 0.1,
            "Smaller differences between policies mean nothing.",
        ),
        Claim(
            "table 4",
            "(ours) auto is never more than 10% slower than the best fixed policy",
            f"it takes {_range(slower)} times as long",
            max(slower) <= 1.1,
        ),
        Claim(
            "section 3.1",
            "(ours) every policy gives the same number of results, all there are",
            ", ".join(f"{name} {sorted(found)}" for name, found in counts.items()),
            all(
                found == {DATASETS[name].divided(load.divided).results}
                for name, found in counts.items()
            ),
        ),
    ]
    figure = _table("Table 4: time, relative to timestamp", load, Measured.time)
    return Outcome("table-04", claims, figure)


def table_5(load: Load = FULL) -> Outcome:
    """Table 5: results at half the time"""

    def at_half(one: Measured, way: str) -> float:
        return one.share(way, 0.5)

    average = {way: float(np.mean(_values(load, DATASETS, [way], at_half))) for way in POLICIES}
    pairs = zip(
        _values(load, DATASETS, ["auto, early"], at_half),
        _values(load, DATASETS, ["timestamp"], at_half),
        strict=True,
    )
    gain = min(ours - timestamp for ours, timestamp in pairs)
    others = max(average[policy] for policy in POLICIES if policy not in EARLY)
    claims = [
        Claim(
            "table 5",
            "at half of timestamp's time initial-output-size and output-rate have given clearly "
            "more results than the others",
            _listed(average),
            min(average[policy] for policy in EARLY) > others + ALIKE,
            "By then every policy that takes a stream's new rows at once is through.",
        ),
        Claim(
            "table 5",
            "consumption-rate gives the fewest early results",
            f"{average['consumption-rate']:.2f}, timestamp {average['timestamp']:.2f}",
            min(average, key=average.__getitem__) == "consumption-rate",
        ),
        Claim(
            "table 5",
            '(ours) with goal="early" at least as many results are out by then as with timestamp',
            f"the share is larger by {gain:.2f} or more",
            gain >= 0,
        ),
    ]
    figure = _table("Table 5: share of results at half of timestamp's time", load, at_half)
    return Outcome("table-05", claims, figure)


def early(load: Load = FULL) -> Outcome:
    """(ours) Early results, in the time of the policies that take a stream's rows at once"""

    def share(one: Measured, way: str, at: float = 0.5) -> float:
        return one.share(way, at, relative_to="initial-output-size")

    average = {
        at: {
            way: float(np.mean(_values(load, DATASETS, [way], partial(share, at=at))))
            for way in (*WHOLE, "auto", "auto, early")
        }
        for at in (0.3, 0.5, 0.7)
    }
    figure = Figure(figsize=(15, 7), layout="constrained")
    for name, axes in zip(DATASETS, figure.subplots(2, 3).flat, strict=True):
        for period, style in zip(PERIODS, ("-", "--"), strict=True):
            for number, way in enumerate(WHOLE):
                shares = [share(measured(name, period, load), way, at) for at in TIMES]
                axes.plot(TIMES, shares, style, color=f"C{number}", label=f"{way}, {period}")
        axes.set(title=f"Dataset {name}", xlabel="time", ylabel="results")
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.suptitle("Results over time, relative to initial-output-size")
    half = average[0.5]
    claim = Claim(
        "table 5",
        '(ours) of the policies that take a stream\'s new rows at once, the one of goal="early" '
        "gives most results in half of initial-output-size's time",
        "; ".join(f"at {at}: {_listed(shares)}" for at, shares in average.items()),
        half[DRIVER_FOR["early"]] == max(half[way] for way in WHOLE),
    )
    return Outcome("early", [claim], figure)


def short_runs(load: Load = FULL) -> Outcome:
    """(ours) What makes timestamp slow"""
    counts, claims, series = (1, 4, 16), [], {}
    for name in ("I", "V"):
        dataset = DATASETS[name].divided(load.divided)
        seconds: dict[int | str, list[float]] = {}
        for _ in range(load.repetitions):
            for count in counts:
                with patch.object(drivers, "RUNS", count):
                    one = trace(dataset, PERIODS["1M"], "timestamp")
                seconds.setdefault(count, []).append(one.seconds.sum())
            one = trace(dataset, PERIODS["1M"], "initial-output-size")
            seconds.setdefault("at once", []).append(one.seconds.sum())
        unit = np.median(seconds["at once"])
        time = {count: np.median(seconds[count]) / unit for count in counts}
        series[f"Dataset {name}"] = [time[count] for count in counts]
        claims.append(
            Claim(
                f"short runs, {name}",
                "(ours) timestamp is slow for the number of its runs: with one of each stream it "
                "is about as fast as the others",
                f"it takes {time[1]:.2f} of initial-output-size's time in one run of each stream, "
                f"{time[4]:.2f} in 4, {time[16]:.2f} in 16",
                bool(time[1] - 1 < 0.2 * (time[16] - 1)),
            )
        )
    title, ylabel = "timestamp, in runs of different length", "time / initial-output-size's"
    figure = lines(title, "runs of a micro-batch of 1M time units", ylabel, counts, series)
    return Outcome("short-runs", claims, figure)


ALL = (figure_5, figure_6, figure_7, figure_8, table_4, table_5, early, short_runs)
