"""The figures as tables in Markdown."""

from __future__ import annotations

__all__ = ["markdown"]

_COLUMNS = {
    "likeness": ("alike", 2),
    "overlap": ("shared words", 2),
    "meanings": ("different in meaning", 1),
    "relevance": ("fits the question", 2),
    "best_relevance": ("the best one fits", 2),
    "log_prob": ("log-prob a token", 2),
    "loops": ("loops", 3),
    "stubs": ("stubs", 3),
    "length": ("tokens", 0),
}


def markdown(figures: dict[str, dict[str, float]]) -> str:
    """Return a table with a row for each setting; time is relative to the fastest."""
    fastest = min(row["seconds"] for row in figures.values())
    lines = [
        "| | " + " | ".join(title for title, _ in _COLUMNS.values()) + " | time |",
        "|---" * (len(_COLUMNS) + 2) + "|",
    ]
    for name, row in figures.items():
        cells = [f"{row[key]:.{digits}f}" for key, (_, digits) in _COLUMNS.items()]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {row['seconds'] / fastest:.1f} |")
    return "\n".join(lines) + "\n"
