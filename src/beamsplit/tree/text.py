"""Text in a picture: characters that can be shown, widths, shortening, and numbers."""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable

__all__ = ["clean", "label", "logarithm", "penalty", "shorten", "shorten_middle", "steps", "width"]

MARK = "·"  # before a token that continues a word
CUT = "…"
BOLD = 1.06  # the width of bold text, relative to normal
_SPACE, _CIRCLE = "␣", "◌"  # for white space, and for an accent to stand on

# Widths of Helvetica, approximately, in thousandths of the font size.
_WIDTHS = {
    222: "ijl'‘’",
    278: "ftI.,:;!/\\|[] ·\u00a0\u202f",
    333: "r()-`“”",
    355: '"',
    389: "*",
    469: "^",
    400: "J",
    500: "cksvxyz",
    556: "abdeghnopquL0123456789_#$?«»–",
    584: "+<>=~−",
    611: "FTZß",
    667: "ABEKPSVXY&",
    722: "wCDHNRU",
    778: "GOQ",
    833: "mM",
    889: "%",
    944: "W",
    1000: "—…",
    1015: "@",
}
_WIDTH_OF = {letter: thousandths / 1000 for thousandths, letters in _WIDTHS.items() for letter in letters}
_USUAL = 0.6
_ALLOWANCE = 1.05  # other fonts are wider
_JOINER = "\u200d"
_SKIN = range(0x1F3FB, 0x1F400)  # skin colours of the emoji before them

_UNSPACED = ("CJK ", "HIRAGANA ", "KATAKANA ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ")
_INSIDE_WORDS = "'’-"
_DIRECTIONS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BREAKS = {"\n": "⏎", "\r": "␍", "\t": "⇥", "\u2028": "⏎", "\u2029": "⏎", "\x85": "⏎", "\x7f": "␡"}


def clean(text: str) -> str:
    r"""Replace characters that cannot be shown, and remove those that change the direction of text.

    >>> clean("a\nb\0")
    'a⏎b␀'
    """
    return text if text.isprintable() else "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if letter in _BREAKS:
        return _BREAKS[letter]
    if letter in _DIRECTIONS:
        return ""
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    # Control characters, surrogates, and codes that are not characters.
    forbidden = unicodedata.category(letter) in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE
    return "\ufffd" if forbidden else letter


@functools.lru_cache(maxsize=4096)
def label(text: str, before: str) -> str:
    """Return a token's text as it is shown in the picture; `before` is the text of its prefix.

    >>> label(" boul", "un nouveau"), label("ot", "un nouveau boul"), label(" ", "un")
    ('boul', '·ot', '␣')
    """
    shown = clean(text).strip()
    if not width(shown, 1.0):
        return _CIRCLE + shown if shown else _SPACE if text else ""
    return MARK + shown if _continues(text, before) else shown


def _continues(text: str, before: str) -> bool:
    """Tell whether a text continues the word before it, in a script that puts spaces between words."""
    if not text or not before:
        return False
    return (before[-1] in _INSIDE_WORDS or _in_word(before[-1])) and _in_word(text[0])


def _in_word(letter: str) -> bool:
    word = unicodedata.category(letter)[0] in "LNM"
    return word and not unicodedata.name(letter, "").startswith(_UNSPACED)


@functools.lru_cache(maxsize=4096)
def width(text: str, size: float) -> float:
    """Return the approximate width of a text in a font such as Helvetica."""
    return round(size * sum(_ems(text)), 1)


def _ems(text: str) -> Iterable[float]:
    for last, letter in zip(" " + text, text, strict=False):
        # Joined emoji are shown as one.
        yield 0.0 if last == _JOINER or ord(letter) in _SKIN else _em(letter) * _ALLOWANCE


def _em(letter: str) -> float:
    if letter in _WIDTH_OF:
        return _WIDTH_OF[letter]
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if unicodedata.bidirectional(letter) == "AL":
        return 0.5
    plain = unicodedata.normalize("NFD", letter)[0]
    return _WIDTH_OF.get(plain, _USUAL)


def shorten(text: str, size: float, room: float) -> str:
    """Return as much of the beginning of a text as there is room for.

    >>> shorten("antidisestablishmentarianism", 12, 80)
    'antidisestab…'
    """
    if width(text, size) <= room:
        return text
    return _fitting(text, size, room - width(CUT, size)) + CUT


def shorten_middle(text: str, size: float, room: float) -> str:
    """Return as much of the beginning and the end of a text as there is room for.

    >>> shorten_middle("on top of a wooden table", 12, 80)
    'on to…table'
    """
    if width(text, size) <= room:
        return text
    half = (room - width(CUT, size)) / 2
    return _fitting(text, size, half).rstrip() + CUT + _fitting(text[::-1], size, half)[::-1].lstrip()


def _fitting(text: str, size: float, room: float) -> str:
    used = 0.0
    for end, em in enumerate(_ems(text)):
        used += size * em
        if used > room:
            return text[:end].rstrip(_JOINER)
    return text


def penalty(cost: float) -> str:
    """Format a penalty; empty if it is next to nothing.

    >>> penalty(0.5), penalty(2.41), penalty(123.4), penalty(0.001)
    ('−0.5', '−2.4', '−123', '')
    """
    if cost < 0.005:
        return ""
    if cost >= 1e5:
        return "−∞" if math.isinf(cost) else f"−{cost:.0e}"
    digits = 2 if cost < 1 else 1 if cost < 10 else 0
    return f"−{cost:.{digits}f}".rstrip("0").rstrip(".") if digits else f"−{cost:.0f}"


def logarithm(value: float) -> str:
    """Format a log-probability.

    >>> logarithm(-1.084), logarithm(-0.0)
    ('−1.08', '0.00')
    """
    if math.isinf(value):
        return "−∞"
    return f"{value + 0.0:.2f}".replace("-", "−").replace("−0.00", "0.00")


def steps(of: range) -> str:
    """Format steps, counted from 1.

    >>> steps(range(0, 1)), steps(range(3, 7))
    ('1', '4–7')
    """
    return str(of.stop) if len(of) == 1 else f"{of.start + 1}–{of.stop}"
