"""How much one request may ask for, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from beamsplit import checks

__all__ = ["DemoLimits"]


@dataclass(frozen=True, kw_only=True)
class DemoLimits:
    """What a stranger may use up. A request that asks for more is refused with one line that says so."""

    body_bytes: int = 12_000_000
    """Of a request; a picture grows by a third when it is written as base64."""
    rest_bytes: int = 64_000
    """Of a request, without its picture."""
    picture_bytes: int = 8_000_000
    pixels: int = 32_000_000
    """Of a picture, by its header: nothing larger is decoded."""
    text_letters: int = 1_000
    beams: int = 96
    """Of all searches of a request together."""
    max_length: int = 100
    """Tokens of an output."""
    searches: int = 2
    """Requests that search at the same time; the next one is asked to come again."""
    seconds: float = 60.0
    """That the searches of a request may take."""
    read_seconds: float = 20.0
    """For the body of a request to arrive in."""
    send_seconds: float = 20.0
    """For a client to take in what has been sent."""
    waiting_bytes: int = 4_000_000
    """Of steps that a client has yet to take in; of more, the oldest are left out."""
    requests: int = 64
    """Requests that are answered at the same time; the next one is asked to come again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("seconds"):
                checks.positive(each.name, value)
            else:
                checks.at_least(each.name, value, 1)
