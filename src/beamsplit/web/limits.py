"""How much one request may ask for, and all requests together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from beamsplit import checks

__all__ = ["DemoLimits"]


@dataclass(frozen=True, kw_only=True)
class DemoLimits:
    """Limits that protect the machine. A request beyond one of them is refused with a line that names it."""

    body_bytes: int = 12_000_000
    """Size of a request. Base64 makes a picture a third larger."""
    rest_bytes: int = 64_000
    """Size of a request without its picture."""
    picture_bytes: int = 8_000_000
    pixels: int = 32_000_000
    """Pixels of a picture, as its header says. Larger pictures are not decoded."""
    text_letters: int = 1_000
    beams: int = 96
    """Beams of all searches of a request together."""
    max_length: int = 100
    """Tokens of an output."""
    searches: int = 2
    """Requests that search at the same time. Others are told to try again."""
    seconds: float = 60.0
    """Time for the searches of a request."""
    read_seconds: float = 20.0
    """Time for the body of a request to arrive."""
    send_seconds: float = 20.0
    """Time for a client to read what was sent."""
    waiting_bytes: int = 4_000_000
    """Size of the steps that wait for a client to read. Beyond it, the oldest are dropped."""
    requests: int = 64
    """Requests that are answered at the same time. Others are told to try again."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("seconds"):
                checks.positive(each.name, value)
            else:
                checks.at_least(each.name, value, 1)
