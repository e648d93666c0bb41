"""Headers of the pages, and reading of their forms.

Links contain tokens, so browsers are told to send no referrers and to store no pages.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from beamsplit.serving import HEADERS

__all__ = ["RESPONSE_HEADERS", "read_form"]

_MAX_BYTES = 4096  # our forms have a few hundred

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
    """Return the fields of a form. Raise if it was not sent by our own page with this form token."""
    if not _is_own_page(request.headers, origin):
        raise HTTPException(403, "This form was sent by another page: open your link again.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise HTTPException(413, "That is more than any of our forms holds.")
    fields = _parse_fields(bytes(body))
    if not hmac.compare_digest(fields.get("form", "").encode(), token.encode()):
        raise HTTPException(403, "This form is not from your page: open your link again.")
    return fields


def _parse_fields(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error
    return {name: values[0] for name, values in fields.items()}


def _is_own_page(headers: Mapping[str, str], origin: str) -> bool:
    """Return whether our own page sent a form, as far as the browser tells.

    Since our pages send no referrer, some browsers give "null" as the origin.
    """
    site, given = headers.get("sec-fetch-site"), headers.get("origin", "null")
    if site is not None:
        return site in ("same-origin", "none")
    return given in ("null", origin) or urlsplit(given).netloc == headers.get("host")
