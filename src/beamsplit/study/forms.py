"""What every answer of the site has in common: headers that keep browsers to what our pages need.

Links carry tokens, so addresses are never sent elsewhere, and nothing with a token in it is kept.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from beamsplit.serving import HEADERS

__all__ = ["LARGEST", "RESPONSE_HEADERS", "read_form"]

LARGEST = 4096
"""Bytes of a form; ours have a few hundred."""

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
RESPONSE_HEADERS = {
    **HEADERS,
    "content-security-policy": _POLICY,
    "x-robots-tag": "noindex, nofollow",
    "cache-control": "no-store",
}


async def read_form(request: Request, token: str, origin: str) -> dict[str, str]:
    """The fields of a form that our own page sent, and that only the page with this form token can send."""
    if not _from_ours(request.headers, origin):
        raise HTTPException(403, "This form was sent by another page: open your link again.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise HTTPException(413, "That is more than any of our forms holds.")
    fields = _fields(bytes(body))
    if not hmac.compare_digest(fields.get("form", "").encode(), token.encode()):
        raise HTTPException(403, "This form is not from your page: open your link again.")
    return fields


def _fields(body: bytes) -> dict[str, str]:
    try:
        found = parse_qs(body.decode("utf-8"), max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error
    return {name: values[0] for name, values in found.items()}


def _from_ours(headers: Mapping[str, str], origin: str) -> bool:
    """As far as the browser says: since our pages send no referrer, some say only that they do not say."""
    site, given = headers.get("sec-fetch-site"), headers.get("origin", "null")
    if site is not None:
        return site in ("same-origin", "none")
    return given in ("null", origin) or urlsplit(given).netloc == headers.get("host")
