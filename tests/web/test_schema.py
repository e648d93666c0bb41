"""The interface against its own description: requests that a machine makes up."""

from __future__ import annotations

from typing import Any

import pytest

schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis import checks  # noqa: E402
from schemathesis.specs.openapi import checks as openapi  # noqa: E402

from web.doubles import app_with  # noqa: E402

APP = app_with(beams=24, max_length=12, text_letters=200)
CHECKS = [
    checks.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_schema_conformance,
    openapi.negative_data_rejection,
]
schema = schemathesis.openapi.from_asgi("/api/openapi.json", APP, headers={"host": "127.0.0.1"})


@schema.parametrize()  # type: ignore[untyped-decorator]
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: Any) -> None:
    case.call_and_validate(checks=CHECKS, headers={"host": "127.0.0.1"})
