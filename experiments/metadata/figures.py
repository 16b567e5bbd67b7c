"""Figures 8 to 11, with the paper's claims about them, and the algorithm 1-NC."""

from __future__ import annotations

from matplotlib.figure import Figure

from experiments.metadata.news import Rolling, Trace, trace
from experiments.metadata.schedules import Runs
from experiments.report import Claim, Outcome

DRIVEN = Runs("priority", "value", quota=200)
PLAIN = Runs("random", "sequential", quota=20)


def _drawn(title: str, ylabel: str, traces: dict[str, Trace], what: str) -> Figure:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, one in traces.items():
        axes.plot(one.results, getattr(one, what), label=name)
    axes.set(title=title, xlabel="results", ylabel=ylabel)
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


def figure_8() -> Outcome:
    """Figure 8: stream and tuple scheduling"""
    claims, traces = [], {}
    for pattern in ("ordered", "random"):
        load = Rolling(pattern=pattern, items=600, step=20)
        for name, schedule in (("priority, value", DRIVEN), ("random, sequential", PLAIN)):
            traces[f"{name} ({pattern})"] = trace(
                load, "1-NP, immediate", schedule, emit_punctuations=True
            )
        ours, other = (
            traces[f"{name} ({pattern})"] for name in ("priority, value", "random, sequential")
        )
        ratio = other.seconds[-1] / ours.seconds[-1]
        claims.append(
            Claim(
                f"figure 8, {pattern}",
                "priority-driven, value-oriented scheduling is faster than random, sequential",
                f"random, sequential / priority, value: {ratio:.2f}; both handed on "
                f"{ours.handed_on} and {other.handed_on} punctuations",
                ratio > 1,
            )
        )
    figure = _drawn("Figure 8: scheduling", "CPU seconds", traces, "seconds")
    return Outcome("figure-08", claims, figure)


def figure_9() -> Outcome:
    """Figure 9: MJoin and XJoin, time"""
    load = Rolling(pattern="random")
    names = ("1-NP, batch", "SHJ", "XJoin")
    traces = {name: trace(load, name) for name in names}
    ours, xjoin = traces["1-NP, batch"], traces["XJoin"]
    first = next(
        (
            ours.results[i]
            for i in range(len(ours.results))
            if all(a <= b for a, b in zip(ours.seconds[i:], xjoin.seconds[i:], strict=True))
        ),
        None,
    )
    claim = Claim(
        "figure 9",
        "MJoin takes somewhat longer than XJoin up to 7,500 results, and less from then on",
        f"less from {first} results on; at the end {ours.seconds[-1]:.2f} s, XJoin "
        f"{xjoin.seconds[-1]:.2f} s, symmetric hash join {traces['SHJ'].seconds[-1]:.2f} s",
        first is not None,
        "A probe of an index hardly grows with the state, so keeping it small saves memory, not "
        "time; what is known about keys has to be kept, too.",
    )
    return Outcome("figure-09", [claim], _drawn("Figure 9", "CPU seconds", traces, "seconds"))


def figure_10() -> Outcome:
    """Figure 10: MJoin and XJoin, rows stored"""
    claims, traces = [], {}
    for pattern in ("random", "ordered"):
        load = Rolling(pattern=pattern)
        for name in ("1-NP, batch", "XJoin"):
            traces[f"{name} ({pattern})"] = trace(load, name)
        ours, other = (max(traces[f"{n} ({pattern})"].stored) for n in ("1-NP, batch", "XJoin"))
        claims.append(
            Claim(
                f"figure 10, {pattern}",
                "MJoin stores significantly less as more data streams in",
                f"at most {ours:,} rows; XJoin {other:,}",
                ours < other / 10,
            )
        )
    return Outcome("figure-10", claims, _drawn("Figure 10", "rows stored", traces, "stored"))


def figure_11() -> Outcome:
    """Figure 11: immediate and batch purging"""
    load = Rolling(pattern="random")
    traces = {name: trace(load, name) for name in ("1-NP, immediate", "1-NP, batch")}
    now, later = traces["1-NP, immediate"], traces["1-NP, batch"]
    ratio = now.seconds[-1] / later.seconds[-1]
    claims = [
        Claim(
            "figure 11",
            "for small, frequent punctuations immediate purging takes longer than batch purging",
            f"immediate / batch: {ratio:.2f}",
            ratio > 1,
            "An index makes purging follow what is purged, so the difference is small.",
        ),
        Claim(
            "section 4.3",
            "immediate purging needs the least memory",
            f"at most {max(now.stored)} rows; batch purging {max(later.stored)}",
            max(now.stored) < max(later.stored),
        ),
    ]
    return Outcome("figure-11", claims, _drawn("Figure 11", "CPU seconds", traces, "seconds"))


def one_nc() -> Outcome:
    """Section 5.4: a clustered many side"""
    load = Rolling(pattern="clustered")
    traces = {name: trace(load, name) for name in ("1-NC", "SHJ")}
    ours, other = (max(traces[name].stored) for name in ("1-NC", "SHJ"))
    claim = Claim(
        "section 5.4",
        "with clusters the state is bounded without punctuations",
        f"1-NC stores at most {ours} rows, a symmetric hash join {other:,}",
        ours < other / 10,
    )
    return Outcome("one-nc", [claim], _drawn("1-NC", "rows stored", traces, "stored"))


ALL = (figure_8, figure_9, figure_10, figure_11, one_nc)
