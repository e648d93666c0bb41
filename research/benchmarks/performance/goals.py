"""The goals, and what the figures say about each: reached, missed, or not measured yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from research.benchmarks.performance.figures import Figures, number, with_spread
from research.benchmarks.performance.sizes import CPU, LLAMA, SMALL, Size

__all__ = ["GOALS", "Goal", "Reading"]

COMPILED = "ours, compiled"
CAPTURED = "ours, captured"
OURS = "ours"
BEAM_SEARCH = "transformers, beam search"
GROUPS = "transformers 4.55.4, groups"


@dataclass(frozen=True)
class Reading:
    """A figure for a goal."""

    value: float
    shown: str


@dataclass(frozen=True)
class Goal:
    """Something to reach."""

    title: str
    goal: str
    read: Callable[[Figures], Reading | None]
    reached: Callable[[float], bool] | None
    """None: the figure is to be stated, whatever it is."""
    floor: Callable[[Figures], str] | None = None
    """What the hardware allows; None where there is no such figure."""

    def shown_floor(self, figures: Figures) -> str:
        return "" if self.floor is None else self.floor(figures)


def _step_goal(size: Size, name: str, most: float) -> Goal:
    how = "compiled" if name == COMPILED else "by graphs alone"
    return Goal(
        f"Llama 1.2B {size.key}, {how}: ms a step",
        f"<= {most}",
        lambda figures: _reading(figures.spread("llama", size.key, name, "ms_per_step")),
        lambda value: value <= most,
        lambda figures: _floor(figures, f"llama-1.2b {size.key}", compiled=name == COMPILED),
    )


def _reading(spread: dict[str, float] | None) -> Reading | None:
    return None if spread is None else Reading(spread["median"], with_spread(spread))


def _floor(figures: Figures, key: str, *, compiled: bool, unit: str = "") -> str:
    """Return the bare forward, and the time to read the weights once."""
    row = figures.row("floor", key)
    if row is None:
        return "not measured yet"
    forward = row.get("compiled_ms") if compiled else row["forward_ms"]
    bare = "forward not compiled" if forward is None else f"forward {number(forward['median'])}"
    return f"{bare}, weights {number(row['weights_ms'])}{unit}"


def _search_goal() -> Goal:
    size = LLAMA.full[1]

    def read(figures: Figures) -> Reading | None:
        bare = figures.row("floor", f"llama-thin {size.key}")
        if bare is None:
            return None
        left: dict[float, str] = {}
        for name, forward in ((CAPTURED, bare["forward_ms"]), (COMPILED, bare.get("compiled_ms"))):
            thin = figures.spread("search", size.key, f"{name}: thin model", "ms_per_step")
            if thin is not None and forward is not None:
                both = f"{number(thin['median'])} less its forward's {number(forward['median'])}"
                left[thin["median"] - forward["median"]] = f"a thin model's {both}, {name.split(', ')[1]}"
        return Reading(min(left), f"{number(min(left))} ({left[min(left)]})") if left else None

    return Goal(
        f"search (all but the forward) {size.key}: ms a step", "<= 0.15", read, lambda value: value <= 0.15
    )


def _ratio_goal(size: Size, peer: str, least: float) -> Goal:
    def read(figures: Figures) -> Reading | None:
        ours = figures.fastest_of_ours("llama", size.key)
        ratio = None if ours is None else figures.ratio("llama", size.key, peer, ours)
        return None if ratio is None else Reading(ratio["median"], f"{with_spread(ratio)} ({ours})")

    return Goal(
        f"{size.key}, end to end: times as fast as {peer}", f">= {least}", read, lambda value: value >= least
    )


def _memory_goal() -> Goal:
    size = LLAMA.full[3]

    def floor(figures: Figures) -> str:
        row = figures.row("floor", f"llama-1.2b {size.key}")
        return "not measured yet" if row is None else f"keys and values alone {row['cache_mib']:,.0f}"

    def read(figures: Figures) -> Reading | None:
        mib = figures.of("llama", size.key, CAPTURED).get("mib")
        return None if mib is None else Reading(mib, f"{mib:,.0f}")

    return Goal(f"{size.key}: MiB beyond the weights", "<= 1,500", read, lambda value: value <= 1500, floor)


FLAT = 1.1


def _growth_goal(title: str, goal: str, large: str, small: str, *, judged: bool = True) -> Goal:
    def read(figures: Figures) -> Reading | None:
        steps = [figures.spread("growth", key, CAPTURED, "ms_per_step") for key in (large, small)]
        if steps[0] is None or steps[1] is None:
            return None
        ratio = steps[0]["median"] / steps[1]["median"]
        return Reading(ratio, f"{ratio:.2f} ({number(steps[0]['median'])} / {number(steps[1]['median'])} ms)")

    return Goal(title, goal, read, (lambda value: value <= FLAT) if judged else None)


def _anchor_goal(prompt: int, most: float) -> Goal:
    size = Size(1, 256, 1, prompt, 3)

    def read(figures: Figures) -> Reading | None:
        ours = figures.fastest_of_ours("anchor", size.key)
        return None if ours is None else _reading(figures.spread("anchor", size.key, ours, "end_to_end_ms"))

    return Goal(
        f"Qwen3-1.7B, 256 beams, prompt {prompt:,}, 3 tokens: ms end to end",
        f"<= {most}",
        read,
        lambda value: value <= most,
        lambda figures: _floor(figures, f"qwen3-1.7b {size.key}", compiled=True, unit=" a step"),
    )


def _small_goal(model: str, title: str, before: float) -> Goal:
    key = f"{model} {SMALL.full[0].key}"

    def read(figures: Figures) -> Reading | None:
        ours = figures.fastest_of_ours("small", key)
        return None if ours is None else _reading(figures.spread("small", key, ours, "ms_per_step"))

    most = before / 4
    return Goal(
        f"{title} (8, 20, 20): ms a step", f"<= {most:.2f} (a quarter of {before})", read, lambda v: v <= most
    )


def _caption_goal() -> Goal:
    def read(figures: Figures) -> Reading | None:
        row = figures.row("own", "captioner")
        ours = [] if row is None else [row["figures"].get(name, {}) for name in (CAPTURED, OURS)]
        seconds = next((each["seconds"] for each in ours if "seconds" in each), None)
        if row is None or seconds is None:
            return None
        where = figures.parts["own"]["machine"]["device"]
        return Reading(seconds["median"], f"{with_spread(seconds)} for {row['inputs']:,} pictures ({where})")

    return Goal("captions of the COCO test set, B=20, our captioner: seconds", "stated", read, None)


def _cpu_goal(model: str, title: str, ratio: str, what: str, most: float) -> Goal:
    def read(figures: Figures) -> Reading | None:
        row = figures.row("cpu", model)
        return None if row is None else _reading(row.get(ratio))

    return Goal(f"CPU, one input, {title}: {what}", f"<= {most:.2f}", read, lambda value: value <= most)


def _before_goal() -> Goal:
    """Judge the slowest, and allow for what the same code differs by from itself on a shared machine."""

    def read(figures: Figures) -> Reading | None:
        ratios = [
            (row[name], f"{case.title}, {search}")
            for case in CPU
            for name, search in (("bs_over_before", "beam search"), ("dbs_over_before", "diverse"))
            if (row := figures.row("cpu", case.model)) is not None and name in row
        ]
        if not ratios:
            return None
        worst, which = max(ratios, key=lambda each: each[0]["median"])
        return Reading(worst["median"], f"{with_spread(worst)} ({which})")

    return Goal("CPU, now / before, the slowest of all", "<= 1.05", read, lambda v: v <= 1.05)


_ONE, _EIGHT, _ONE_LONG, _EIGHT_LONG = LLAMA.full

GOALS: list[Goal] = [
    _step_goal(_ONE, COMPILED, 2.0),
    _step_goal(_ONE, CAPTURED, 3.8),
    _step_goal(_EIGHT, COMPILED, 3.0),
    _step_goal(_EIGHT, CAPTURED, 6.0),
    _step_goal(_ONE_LONG, COMPILED, 2.2),
    _step_goal(_EIGHT_LONG, COMPILED, 3.4),
    _search_goal(),
    *(_ratio_goal(size, GROUPS, 15) for size in (_ONE, _ONE_LONG)),
    *(_ratio_goal(size, BEAM_SEARCH, 7) for size in (_ONE, _ONE_LONG)),
    *(_ratio_goal(size, GROUPS, 20) for size in (_EIGHT, _EIGHT_LONG)),
    *(_ratio_goal(size, BEAM_SEARCH, 6) for size in (_EIGHT, _EIGHT_LONG)),
    _memory_goal(),
    _growth_goal(
        "growth: 20 groups over 1",
        f"flat (<= {FLAT})",
        "(8, 20, 20), prompt 128",
        "(8, 20, 1), prompt 128",
    ),
    _growth_goal(
        "growth: prompt 8192 over 128",
        "flat but for attention",
        "(8, 20, 20), prompt 8192",
        "(8, 20, 20), prompt 128",
        judged=False,
    ),
    _growth_goal(
        "growth: 256 beams over 20",
        "B up to 256",
        "(1, 256, 256), prompt 128",
        "(1, 20, 20), prompt 128",
        judged=False,
    ),
    _anchor_goal(1000, 17.6),
    _anchor_goal(5000, 42.3),
    _small_goal("gpt2", "GPT-2", 10.5),
    _small_goal("marian-74m", "Marian", 4.1),
    _caption_goal(),
    *(_cpu_goal(case.model, case.title, "dbs_over_bs", "diverse / beam search", 1.10) for case in CPU),
    *(_cpu_goal(case.model, case.title, "bs_over_bare", "beam search / bare calls", 1.15) for case in CPU),
    _before_goal(),
]
