"""Look figures up by part, case, contestant and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from research.benchmarks.performance.turns import ratio

__all__ = ["Figures", "number", "with_spread"]


@dataclass(frozen=True)
class Figures:
    """The figures of a file. What is not there is None, or nothing."""

    parts: dict[str, Any]

    def rows(self, part: str) -> list[dict[str, Any]]:
        """Return the cases of a part; none of a trial with tiny sizes."""
        found = self.parts.get(part)
        return [] if found is None or found["machine"].get("tiny") else list(found["rows"])

    def row(self, part: str, key: str) -> dict[str, Any] | None:
        return next((row for row in self.rows(part) if row["key"] == key), None)

    def of(self, part: str, key: str, name: str) -> dict[str, Any]:
        """Return the figures of a contestant."""
        row = self.row(part, key)
        return {} if row is None else row["figures"].get(name, {})

    def spread(self, part: str, key: str, name: str, figure: str) -> dict[str, float] | None:
        return self.of(part, key, name).get(figure)

    def best(self, part: str, key: str, wanted: Callable[[str], bool]) -> dict[str, float] | None:
        """Return the fastest step of the contestants that are wanted."""
        steps = [each["ms_per_step"] for name, each in self._measured(part, key).items() if wanted(name)]
        return min(steps, key=lambda each: each["median"], default=None)

    def fastest_of_ours(self, part: str, key: str) -> str | None:
        """Return which variant of ours is the fastest, end to end."""
        ours = {name: each for name, each in self._measured(part, key).items() if name.startswith("ours")}
        return min(ours, key=lambda name: ours[name]["end_to_end_ms"]["median"], default=None)

    def ratio(self, part: str, key: str, first: str, second: str) -> dict[str, float] | None:
        """Return first over second, end to end, turn by turn."""
        all_times = [self.of(part, key, name).get("all_end_to_end_ms") for name in (first, second)]
        return ratio(all_times[0], all_times[1]) if all_times[0] and all_times[1] else None

    def _measured(self, part: str, key: str) -> dict[str, dict[str, Any]]:
        row = self.row(part, key)
        found = {} if row is None else row["figures"]
        return {name: each for name, each in found.items() if "error" not in each}


def with_spread(spread: dict[str, float]) -> str:
    """Return a median with its quartiles.

    >>> with_spread({"median": 1.5, "low": 1.42, "high": 1.613})
    '1.50 [1.42-1.61]'
    """
    return f"{number(spread['median'])} [{number(spread['low'])}-{number(spread['high'])}]"


def number(value: float) -> str:
    """Return three digits, or all before the point.

    >>> number(0.12345), number(2.0), number(12.345), number(1234.5)
    ('0.123', '2.00', '12.3', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"
