"""Figures 4 (a) and (b), 5 (a) to (f), 6 (a) to (d), with the paper's claims about them.

**The bound.** What a cache can save at all follows from how often keys come (theorem 1), so it is
computed for each data set (:func:`~experiments.semi_stream.runs.most`) and drawn beside what was
measured. For Zipf's law it is known in closed form
(:func:`~experiments.semi_stream.model.zipf_gain`).

**Three service rates.** *Rows of a cycle* are the service rate where nothing but reading the table
takes time: the paper's regime, and what the bound is about. *By the clock* is what this machine
and its disk did. *CPU alone* is what they would do if reading took no time.

Sizes are scaled: tables of up to 4 million rows instead of 100 million.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf

import numpy as np

from experiments.report import Claim, Outcome, lines
from experiments.semi_stream import datasets
from experiments.semi_stream.datasets import Dataset, MissingPackageError, synthetic
from experiments.semi_stream.model import loop_seconds, waiting_rows, zipf_gain, zipf_memory
from experiments.semi_stream.runs import ROW_BYTES, Measured, at_memory, at_rows, least, most

ROWS = 500_000
SHARES = (0.01, 0.03, 0.1, 0.3, 0.5)
#: ... and for data sets whose tables are small.
SMALL_SHARES = (0.05, 0.1, 0.3, 0.5)
SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: The sizes of the table for figure 4 (b), with partitions of so many rows, and for 5 (b).
GROWING, PARTITION = (250_000, 500_000, 1_000_000), 12_500
SIZES = (250_000, 1_000_000, 4_000_000)
#: Rows of an iteration for figure 4 (a) and 4 (b).
ARRIVALS, ARRIVING = (5_000, 40_000, 160_000), 10_000
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
BUFFERS = (12, 20, 40, 80, 160)
#: The disks, in bytes a second, for which rates are computed beside those that are measured. Rows
#: that a database hands over one by one, as in the paper, are of the slower kind.
SLOWER = (40e6, 4e6)

Pair = tuple[Measured, Measured]


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in values)


def _percent(shares: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:.2g}" for share in shares) + "%"


def _both(run: Callable[..., Measured], dataset: Dataset, given: float, **settings: int) -> Pair:
    """SSBJ and MESHJOIN."""
    ssbj = run(dataset, given, cached=True, **settings)
    return ssbj, run(dataset, given, cached=False, **settings)


def _ratios(pairs: Sequence[Pair], name: str) -> list[float]:
    return [getattr(ssbj, name) / getattr(mesh, name) for ssbj, mesh in pairs]


def _curves(pairs: Sequence[Pair], name: str) -> dict[str, Sequence[float]]:
    return {
        "SSBJ": [getattr(ssbj, name) for ssbj, _ in pairs],
        "MESHJOIN": [getattr(mesh, name) for _, mesh in pairs],
    }


def _most(dataset: Dataset, memory: float, pair: Pair) -> float:
    """How many times the rows of MESHJOIN SSBJ can take in, with the memory of a run."""
    room, partitions = memory - pair[0].buffer, pair[0].partitions
    return most(dataset, room, partitions, cached=True) / most(
        dataset, room, partitions, cached=False
    )


def _three(pairs: Sequence[Pair]) -> str:
    """The ratios of the three service rates."""
    return (
        f"rows of a cycle {_shown(_ratios(pairs, 'cycle'))}; by the clock "
        f"{_shown(_ratios(pairs, 'rate'))}; CPU alone {_shown(_ratios(pairs, 'cpu_rate'))} times"
    )


def _rates(pairs: Sequence[Pair], bounds: Sequence[float]) -> dict[str, Sequence[float]]:
    """Ratios for a plot."""
    return {
        "rows of a cycle": _ratios(pairs, "cycle"),
        "by the clock": _ratios(pairs, "rate"),
        "CPU alone": _ratios(pairs, "cpu_rate"),
        "bound": [min(bound, 20) for bound in bounds],
    }


# --- figure 4: memory


def _memory(
    name: str, claimed: str, x: Sequence[int], label: str, runs: Sequence[tuple[Dataset, Pair]]
) -> Outcome:
    pairs = [pair for _, pair in runs]
    less = [1 / ratio for ratio in _ratios(pairs, "memory")]
    best: list[tuple[float, float]] = []
    for dataset, (ssbj, _) in runs:
        of_both = [
            ssbj.buffer + least(dataset, ssbj.cycle, ssbj.partitions, cached=cached)
            for cached in (True, False)
        ]
        best.append((of_both[0], of_both[1]))
    shares = [mesh.waiting / dataset.table.nbytes for dataset, (_, mesh) in runs]
    claim = Claim(
        name.replace("-4", " 4 (") + ")",
        claimed,
        f"{_shown(less)} times, with {_shown(x)} {label}; MESHJOIN's rows take {_percent(shares)} "
        "of the table",
        min(less) >= 5,
        bound=f"{_shown([mesh / ssbj for ssbj, mesh in best])} times",
    )
    curves = _curves(pairs, "memory") | {"SSBJ, bound": [ssbj for ssbj, _ in best]}
    figure = lines("Memory", label, "bytes", x, curves)
    return Outcome(name, [claim], figure)


@cache
def _by_rate() -> list[tuple[Dataset, Pair]]:
    dataset = synthetic(ROWS, 1.0)
    return [(dataset, _both(at_rows, dataset, rows)) for rows in ARRIVALS]


def memory_by_rate() -> Outcome:
    """Figure 4 (a): memory, by the rows that arrive."""
    claimed = "MESHJOIN uses about 7 times the memory of SSBJ, at every arrival rate"
    return _memory("figure-4a", claimed, ARRIVALS, "rows an iteration", _by_rate())


def memory_by_size() -> Outcome:
    """Figure 4 (b): memory, by the size of the table."""
    runs = [
        (dataset, _both(at_rows, dataset, ARRIVING, partitions=rows // PARTITION))
        for rows in GROWING
        for dataset in [synthetic(rows, 1.0)]
    ]
    claimed = "the ratio falls from 7 to 5 when the table grows to four times its size"
    return _memory("figure-4b", claimed, GROWING, "rows of the table", runs)


# --- figure 5: service rate


@cache
def _synthetic(skew: float, share: float) -> tuple[Pair, float]:
    """The runs with a skew, and a share of the table as memory; and the bound."""
    dataset = synthetic(ROWS, skew)
    memory = share * dataset.table.nbytes
    pair = _both(at_memory, dataset, memory)
    return pair, _most(dataset, memory, pair)


@cache
def _by_memory(name: str) -> tuple[Sequence[float], list[Pair], list[float]]:
    """Shares of the table as memory, the runs with these, and the bound."""
    if name == "synthetic":
        known = [_synthetic(1.0, share) for share in SHARES]
        return SHARES, [pair for pair, _ in known], [bound for _, bound in known]
    dataset: Dataset = getattr(datasets, name)()
    memory = [share * dataset.table.nbytes for share in SMALL_SHARES]
    pairs = [_both(at_memory, dataset, given) for given in memory]
    bounds = [_most(dataset, given, pair) for given, pair in zip(memory, pairs, strict=True)]
    return SMALL_SHARES, pairs, bounds


def rate_by_memory() -> Outcome:
    """Figure 5 (a): service rate, by memory."""
    shares, pairs, bounds = _by_memory("synthetic")
    ratios = _ratios(pairs, "rate")
    read = [1e3 / run.read for pair in pairs for run in pair]
    claim = Claim(
        "figure 5 (a)",
        "SSBJ is 7 to 8 times as fast as MESHJOIN, with 1% to 10% of the table as memory",
        f"{_three(pairs)}, with {_percent(shares)}; the disk read {_shown(sorted(read))} MB/s",
        min(ratios) >= 7,
        "The paper's own bound, for 100 million keys, is "
        f"{_shown([zipf_gain(1e8, share) for share in (0.01, 0.1)])} with 1% and 10%.",
        bound=f"{_shown(bounds)} times",
    )
    figure = lines(
        "SSBJ / MESHJOIN, by memory", "share of the table", "ratio", shares, _rates(pairs, bounds)
    )
    figure.axes[0].set_xscale("log")
    return Outcome("figure-5a", [claim], figure)


def rates() -> Outcome:
    """Figure 5 (a): the service rates themselves."""
    shares, pairs, _ = _by_memory("synthetic")
    curves = _curves(pairs, "rate") | {
        f"{name}, CPU alone": values for name, values in _curves(pairs, "cpu_rate").items()
    }
    figure = lines("Service rate", "share of the table", "rows a second", shares, curves)
    figure.axes[0].set_xscale("log")
    return Outcome("figure-5a-rates", [], figure)


def rate_by_size() -> Outcome:
    """Figure 5 (b): service rate, by the size of the table, with the same memory."""
    sets = [synthetic(rows, 1.0) for rows in SIZES]
    memory = 0.1 * sets[1].table.nbytes
    pairs = [_both(at_memory, dataset, memory) for dataset in sets]
    bounds = [_most(dataset, memory, pair) for dataset, pair in zip(sets, pairs, strict=True)]
    ratios = _ratios(pairs, "rate")
    claim = Claim(
        "figure 5 (b)",
        "7 times as fast with the smallest table, 5.7 times with one of five times its size",
        f"{_three(pairs)}, with {_shown(SIZES)} rows and {memory / 1e6:.0f} MB",
        min(ratios) >= 5 and ratios[0] > ratios[-1],
        bound=f"{_shown(bounds)} times",
    )
    figure = lines(
        "SSBJ / MESHJOIN, by size", "rows of the table", "ratio", SIZES, _rates(pairs, bounds)
    )
    figure.axes[0].set_xscale("log")
    return Outcome("figure-5b", [claim], figure)


def _by_skew() -> tuple[list[Pair], list[float]]:
    known = [_synthetic(skew, 0.1) for skew in SKEWS]
    return [pair for pair, _ in known], [bound for _, bound in known]


def rate_by_skew() -> Outcome:
    """Figure 5 (c): service rate, by the skew of the stream's keys."""
    pairs, bounds = _by_skew()
    ratios = _ratios(pairs, "cycle")
    claim = Claim(
        "figure 5 (c)",
        "the difference grows with the skew, to 8 times at a skew of 1",
        f"{_three(pairs)}, with skews {_shown(SKEWS)} and 10% of the table",
        ratios[-1] >= 7 and ratios[-1] == max(ratios),
        "That it grows with the skew holds." if ratios == sorted(ratios) else "",
        bound=f"{_shown(bounds)} times",
    )
    figure = lines("SSBJ / MESHJOIN, by skew", "skew", "ratio", SKEWS, _rates(pairs, bounds))
    return Outcome("figure-5c", [claim], figure)


def _rate_of(name: str, where: str, claimed: str, remark: str) -> Outcome:
    try:
        shares, pairs, bounds = _by_memory(name)
    except MissingPackageError as missing:
        return Outcome(where, [Claim(where, claimed, f"not run: {missing}", holds=False)])
    claim = Claim(
        where,
        claimed,
        f"{_three(pairs)}, with {_percent(shares)}; hits {_percent([s.hits for s, _ in pairs])}",
        all(ratio > 1 for ratio in _ratios(pairs, "rate")),
        remark,
        bound=f"{_shown(bounds)} times",
    )
    title = f"SSBJ / MESHJOIN, {name}"
    figure = lines(title, "share of the table", "ratio", shares, _rates(pairs, bounds))
    plain = where.replace("(", "").replace(")", "").replace(",", "").replace("figure 5 ", "5")
    return Outcome(f"figure-{plain.replace(' ', '-')}", [claim], figure)


def rate_of_tpch() -> Outcome:
    """Figure 5 (d): service rate with TPC-H."""
    return _rate_of(
        "tpch",
        "figure 5 (d)",
        "3.4 times as fast with 1% of the table as memory, 7.4 times with 10%",
        "Orders of TPC-H are spread evenly over two thirds of the customers, so that no key is "
        "frequent, as the bound says. The paper does not say how it adapted them.",
    )


def rate_of_weather() -> Outcome:
    """Figure 5 (e): service rate with real data, many-to-many."""
    return _rate_of(
        "weather",
        "figure 5 (e)",
        "SSBJ is faster with every memory",
        "The bound is for a stream in which keys come at random, and all days have about as many "
        "flights. Flights of one day come together: a key is cached when it is needed no more, and "
        "stays until the tenth cycle.",
    )


def rate_of_planes() -> Outcome:
    """Figure 5 (e): service rate with real data, one row a key."""
    return _rate_of("planes", "figure 5 (e), planes", "SSBJ is faster with every memory", "")


def cache_share() -> Outcome:
    """Figure 5 (f): the share of rows that the cache answers, by memory."""
    shares, pairs, _ = _by_memory("synthetic")
    hits = [ssbj.hits for ssbj, _ in pairs]
    claim = Claim(
        "figure 5 (f)",
        "39% of the rows with 1% of the table as memory, growing to 54% with 9%",
        f"{_percent(hits)}, with {_percent(shares)}",
        hits[-1] > hits[0] and 0.3 < hits[2] < 0.7,
    )
    figure = lines("Cache", "share of the table", "share of rows", shares, {"SSBJ": hits})
    figure.axes[0].set_xscale("log")
    return Outcome("figure-5f", [claim], figure)


# --- the goals, which are less than the paper's claims


def goals() -> Outcome:
    """At least 4 times the service rate in equal memory; a third of the memory at an equal rate."""
    shares, pairs, bounds = _by_memory("synthetic")
    cycle, clock = _ratios(pairs, "cycle"), _ratios(pairs, "rate")
    reached = [share for share, ratio in zip(shares, cycle, strict=True) if ratio >= 4]
    possible = [share for share, bound in zip(shares, bounds, strict=True) if bound >= 4]
    slower = "; ".join(
        f"{disk / 1e6:.0f} MB/s: "
        + _shown([ssbj.rate_with(disk) / mesh.rate_with(disk) for ssbj, mesh in pairs])
        for disk in SLOWER
    )
    published = [
        ssbj.cycle / _published(share, ssbj) for share, (ssbj, _) in zip(shares, pairs, strict=True)
    ]
    less = [1 / ratio for ratio in _ratios([pair for _, pair in _by_rate()], "memory")]
    claims = [
        Claim(
            "goal: rate, if nothing but reading takes time",
            "at least 4 times the service rate of MESHJOIN, in equal memory, at a skew of 1",
            f"rows of a cycle {_shown(cycle)} times, with {_percent(shares)}: reached with "
            f"{_percent(reached) if reached else 'none'}",
            max(cycle) >= 4,
            f"Possible with {_percent(possible) if possible else 'none'}. By the closed form, with "
            f"10% for tables of {_keys(0.1):.0e} keys and more, with 30% from {_keys(0.3):.0e} on.",
            bound=f"{_shown(bounds)} times",
        ),
        Claim(
            "goal: rate, by the clock of this machine",
            "the same",
            f"{_shown(clock)} times, with {_percent(shares)}",
            max(clock) >= 4,
            f"Computed, not measured, for slower disks: {slower} times.",
            bound=f"{_shown(bounds)} times, if reading takes most of the time",
        ),
        Claim(
            "goal: rate, against MESHJOIN as published",
            "the same, if every row waits for a whole cycle in MESHJOIN, as in an unsorted table "
            "without filters",
            f"{_shown(published)} times the rows of a cycle, with {_percent(shares)}; its rows are "
            "computed by equation 1",
            max(published) >= 4,
        ),
        Claim(
            "goal: memory",
            "at an equal rate, at most a third of MESHJOIN's memory",
            f"{_shown(less)} times less, with {_shown(ARRIVALS)} rows an iteration",
            max(less) >= 3,
            "By the closed form: 3 times less is possible if MESHJOIN's rows take "
            + "; ".join(f"{_third(keys):.0%} of a table of {keys:.0e} keys" for keys in _TABLES)
            + ".",
        ),
    ]
    return Outcome("goals", claims)


#: Numbers of keys: ours, five million, and as many as the paper has.
_TABLES = (ROWS, 5_000_000, 100_000_000)


def _keys(share: float) -> float:
    """From how many keys on SSBJ can be 4 times as fast."""
    numbers = np.logspace(3, 12, 400)
    return float(next((keys for keys in numbers if zipf_gain(keys, share) >= 4), inf))


def _third(keys: float) -> float:
    """What share of the table MESHJOIN's rows must take, for SSBJ to need a third of it."""
    shares = np.logspace(-3, 1, 400)
    return float(next((share for share in shares if zipf_memory(keys, share) <= 1 / 3), inf))


def _published(share: float, run: Measured) -> float:
    """The rows of a cycle that MESHJOIN takes in as the paper has it: by equation 1."""
    R_t = run.b * run.partitions
    v_R = run.buffer / run.b
    memory = share * R_t * v_R
    w_S = waiting_rows(memory, b=run.b, h_R=0, R_t=R_t, v_R=v_R, v_S=ROW_BYTES, v_P=0)
    return w_S * run.partitions


# --- figure 6: sensitivity, and the cost model


def switching_factor() -> Outcome:
    """Figure 6 (a): service rate, by the switching factor."""
    dataset = synthetic(ROWS // 4, 1.0)
    runs = [
        at_memory(dataset, 0.1 * dataset.table.nbytes, cached=True, policy={"switching": factor})
        for factor in FACTORS
    ]
    rows = [run.cycle for run in runs]
    claim = Claim(
        "figure 6 (a)",
        "a factor of 1 is best",
        f"rows of a cycle: {_shown(rows)}, with factors {_shown(FACTORS)} and 10% of the table",
        rows[FACTORS.index(1.0)] > 0.95 * max(rows),
        "Holds if 1 is within 5% of the best.",
    )
    figure = lines("Switching", "factor", "rows of a cycle", FACTORS, {"SSBJ": rows})
    figure.axes[0].set_xscale("log")
    return Outcome("figure-6a", [claim], figure)


def disk_buffer() -> Outcome:
    """Figure 6 (b): service rate of the disk phase, by the size of the disk buffer."""
    dataset = synthetic(ROWS // 4, 1.0)
    memory = 0.1 * dataset.table.nbytes
    runs = [at_memory(dataset, memory, cached=False, partitions=count) for count in BUFFERS]
    sizes, rates = [run.buffer for run in runs], [run.disk_rate for run in runs]
    best = int(np.argmax(rates))
    claim = Claim(
        "figure 6 (b)",
        "a larger disk buffer is better up to some size, then worse",
        f"{_shown(rates)} rows a second, with buffers of {_shown([s / 1000 for s in sizes])} kB",
        0 < best < len(rates) - 1,
    )
    figure = lines("Disk buffer", "bytes", "rows a second", sizes, {"disk phase": rates})
    figure.axes[0].set_xscale("log")
    return Outcome("figure-6b", [claim], figure)


def cost_model() -> Outcome:
    """Figures 6 (c) and (d): seconds of an iteration, by equation 2 and as measured."""
    by_skew, by_memory = _by_skew()[0], _by_memory("synthetic")[1]
    known = [run for pair in {*by_skew, *by_memory} - {by_skew[0], by_skew[-1]} for run in pair]
    costs = fitted_costs(known)
    checked = {"skew 0": by_skew[0], "skew 1": by_skew[-1]}
    ratios = {
        name: [calculated(run, costs) / run.clock for run in pair] for name, pair in checked.items()
    }
    every = [ratio for pair in ratios.values() for ratio in pair]
    claim = Claim(
        "figures 6 (c), (d)",
        "the calculated cost of an iteration closely resembles the measured one",
        "; ".join(f"{name}: {_shown(pair)} (SSBJ, MESHJOIN)" for name, pair in ratios.items())
        + ", calculated / measured",
        all(0.7 < ratio < 1.4 for ratio in every),
        "Equation 2 is linear in the rows of a partition, those that the cache answers and those "
        "that the disk phase does. Its costs are fitted to the other runs.",
    )
    figure = lines(
        "Equation 2, calculated / measured",
        "skew",
        "ratio",
        [0, 1],
        {
            name: [ratios["skew 0"][i], ratios["skew 1"][i]]
            for i, name in enumerate(("SSBJ", "MESHJOIN"))
        },
    )
    return Outcome("figure-6cd", [claim], figure)


#: The costs of equation 2 that are fitted. Of the others only sums with these could be told: the
#: rows of a partition are looked up and switched (c_H, c_B), all rows of the stream read and joined
#: (c_S, c_O), those of the disk phase appended and removed as well (c_A, c_E). They count as 0.
_FITTED = ("c_IO", "c_B", "c_O", "c_A")
_OTHERS = {"c_H": 0.0, "c_S": 0.0, "c_E": 0.0}


def fitted_costs(runs: Sequence[Measured]) -> dict[str, float]:
    """The costs with which equation 2 comes closest to the seconds of an iteration of these runs.
    Relative errors count, so that long iterations do not outweigh short ones."""
    none = dict.fromkeys(_FITTED, 0.0)
    # The equation is linear in each cost: what it gives for one second of one of them.
    terms = [[calculated(run, none | {name: 1e9}) for name in _FITTED] for run in runs]
    seconds = np.array([run.clock for run in runs])
    costs, *_ = np.linalg.lstsq(np.array(terms) / seconds[:, None], np.ones(len(runs)), rcond=None)
    return dict(zip(_FITTED, (costs * 1e9).tolist(), strict=True))


def calculated(run: Measured, costs: Mapping[str, float]) -> float:
    """Seconds of an iteration, by equation 2."""
    return loop_seconds(run.b, run.w_N, run.w_S, **_OTHERS, **costs)


FIGURES = (
    memory_by_rate,
    memory_by_size,
    rate_by_memory,
    rates,
    rate_by_size,
    rate_by_skew,
    rate_of_tpch,
    rate_of_weather,
    rate_of_planes,
    cache_share,
    goals,
    switching_factor,
    disk_buffer,
    cost_model,
)
