"""The SVG elements that a picture is made of, as text.

Colours and lines are set by attributes, since a page may forbid inline styles. Its own styles can change them
by class:

bs-paper, bs-text, bs-faint             fill: the background, words in the result, other words
bs-dropped, bs-leader, bs-rule          stroke: dropped branches, dots to the list, lines between groups
bs-colour-1, ...                        color: everything else of a group
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from beamsplit.tree import text

__all__ = ["curve", "document", "dot", "element", "group", "line", "square", "words"]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

_UNSTRETCHED = 2  # texts of so few letters are not stretched: widths differ little, and it would look odd

# A white background, text that can be read on it, lines that can be seen on it.
PAPER, TEXT, FAINT_TEXT, FAINT_LINE, RULE = "#ffffff", "#1a1a1a", "#6b6b6b", "#8f8f8f", "#e4e4e4"


def element(name: str, attributes: dict[str, object], content: str = "") -> str:
    """Return one element. `content` is markup already."""
    written = "".join(f" {key}={quoteattr(_formatted(value))}" for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _formatted(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def escaped(content: str) -> str:
    """Return any text as markup."""
    return escape(text.clean(content))


def words(x: float, y: float, content: str, size: float, tip: str = "", **looks: str) -> str:
    """Return a line of text that starts at x, stretched to the width that we assume, whatever the font."""
    attributes: dict[str, object] = {"x": x, "y": y, "font-size": size}
    length = text.width(content, size) * (text.BOLD if looks.get("font_weight") == "bold" else 1.0)
    if length and len(content) > _UNSTRETCHED:
        attributes |= {"textLength": length, "lengthAdjust": "spacingAndGlyphs"}
    inside = escaped(content) + (element("title", {}, escaped(tip)) if tip else "")
    return element("text", attributes | _with_class(looks), inside)


def _with_class(looks: dict[str, str]) -> dict[str, object]:
    return {"class" if key == "kind" else key.replace("_", "-"): value for key, value in looks.items()}


def line(start: float, end: float, y: float, **looks: str) -> str:
    return element("path", {"d": f"M{_at(start, y)}H{_formatted(end)}", "fill": "none"} | _with_class(looks))


def curve(start: tuple[float, float], turn: float, end: tuple[float, float], **looks: str) -> str:
    """Return a line that goes straight to `turn`, and from there in a curve to its end."""
    middle = (turn + end[0]) / 2
    bow = f"C{_at(middle, start[1])} {_at(middle, end[1])} {_at(*end)}"
    path = f"M{_at(*start)}H{_formatted(turn)}{bow}"
    return element("path", {"d": path, "fill": "none"} | _with_class(looks))


def _at(x: float, y: float) -> str:
    return f"{_formatted(x)},{_formatted(y)}"


def square(x: float, middle: float, side: float, **looks: str) -> str:
    shape: dict[str, object] = {"x": x, "y": middle - side / 2, "width": side, "height": side}
    return element("rect", shape | _with_class(looks))


def dot(x: float, y: float, radius: float, **looks: str) -> str:
    return element("circle", {"cx": x, "cy": y, "r": radius} | _with_class(looks))


def group(parts: Iterable[str], **looks: str) -> str:
    return element("g", _with_class(looks), "\n" + "\n".join(parts) + "\n")


def document(width: float, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    size = f"{_formatted(width)} {_formatted(height)}"
    attributes: dict[str, object] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {size}",
        "width": width,
        "height": height,
        "role": "img",
        "font-family": FONT,
        "class": "bs-tree",
    }
    paper = element("rect", {"width": width, "height": height, "fill": PAPER, "class": "bs-paper"})
    head = [element("title", {}, escaped(title)), element("desc", {}, escaped(description)), paper]
    return element("svg", attributes, "\n" + "\n".join([*head, *parts]) + "\n") + "\n"
