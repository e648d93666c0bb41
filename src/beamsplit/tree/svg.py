"""The few elements that a picture is made of, as text.

Looks are attributes, since a page may forbid styles in what it shows. Its styles can change them by class:

bs-paper, bs-text, bs-faint             fill: the ground, words in the result, other words
bs-dropped, bs-leader, bs-rule          stroke: dropped branches, dots to the list, lines between groups
bs-colour-1, ...                        color: all else of a group
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from beamsplit.tree import text

__all__ = ["curve", "document", "dot", "element", "group", "line", "square", "words"]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

_FREE = 2  # letters that no font makes much wider or narrower; to stretch a single one looks odd

# A paper white, text that can be read on it, lines that can be seen on it.
PAPER, TEXT, FAINT_TEXT, FAINT_LINE, RULE = "#ffffff", "#1a1a1a", "#6b6b6b", "#8f8f8f", "#e4e4e4"


def element(name: str, attributes: dict[str, object], content: str = "") -> str:
    """One element; `content` is markup already."""
    written = "".join(f" {key}={quoteattr(_shown(value))}" for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _shown(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def said(content: str) -> str:
    """Text as markup, whatever there is in it."""
    return escape(text.clean(content))


def words(x: float, y: float, content: str, size: float, tip: str = "", **looks: str) -> str:
    """A line of text from x on, squeezed or stretched to what it is taken to be wide, whatever the font."""
    attributes: dict[str, object] = {"x": x, "y": y, "font-size": size}
    length = text.width(content, size) * (text.BOLD if looks.get("font_weight") == "bold" else 1.0)
    if length and len(content) > _FREE:
        attributes |= {"textLength": length, "lengthAdjust": "spacingAndGlyphs"}
    inside = said(content) + (element("title", {}, said(tip)) if tip else "")
    return element("text", attributes | _with_class(looks), inside)


def _with_class(looks: dict[str, str]) -> dict[str, object]:
    return {"class" if key == "kind" else key.replace("_", "-"): value for key, value in looks.items()}


def line(start: float, end: float, y: float, **looks: str) -> str:
    return element("path", {"d": f"M{_at(start, y)}H{_shown(end)}", "fill": "none"} | _with_class(looks))


def curve(start: tuple[float, float], turn: float, end: tuple[float, float], **looks: str) -> str:
    """A line that goes straight to `turn` and from there in a bow to its end."""
    middle = (turn + end[0]) / 2
    bow = f"C{_at(middle, start[1])} {_at(middle, end[1])} {_at(*end)}"
    path = f"M{_at(*start)}H{_shown(turn)}{bow}"
    return element("path", {"d": path, "fill": "none"} | _with_class(looks))


def _at(x: float, y: float) -> str:
    return f"{_shown(x)},{_shown(y)}"


def square(x: float, middle: float, side: float, **looks: str) -> str:
    shape: dict[str, object] = {"x": x, "y": middle - side / 2, "width": side, "height": side}
    return element("rect", shape | _with_class(looks))


def dot(x: float, y: float, radius: float, **looks: str) -> str:
    return element("circle", {"cx": x, "cy": y, "r": radius} | _with_class(looks))


def group(parts: Iterable[str], **looks: str) -> str:
    return element("g", _with_class(looks), "\n" + "\n".join(parts) + "\n")


def document(width: float, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    size = f"{_shown(width)} {_shown(height)}"
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
    head = [element("title", {}, said(title)), element("desc", {}, said(description)), paper]
    return element("svg", attributes, "\n" + "\n".join([*head, *parts]) + "\n") + "\n"
