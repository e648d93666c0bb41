"""Requests that cannot be answered: one line, and a status code that says whose fault it is."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from fastapi.responses import JSONResponse

from beamsplit.errors import BeamsplitError, ModelError, TermError

__all__ = ["LOG", "Problem", "error_response", "problem_from", "server_stopping"]

LOG = logging.getLogger("beamsplit.web")

_LINE_LENGTH = 300


class Problem(Exception):  # noqa: N818 (the fault may be the client's)
    """A request that is not answered, and why."""

    def __init__(self, status: int, line: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(line)
        self.status = status
        self.line = _one_line(line)
        self.headers = headers or {}

    def as_dict(self) -> dict[str, str]:
        return {"error": self.line}


def server_stopping() -> Problem:
    return Problem(503, "the server is stopping: try again later")


def error_response(problem: Problem) -> JSONResponse:
    return JSONResponse(problem.as_dict(), problem.status, problem.headers)


def problem_from(error: Exception) -> Problem:
    """Return the problem that an exception stands for."""
    match error:
        case Problem():
            return error
        case ModelError() | TermError():
            return Problem(500, str(error))
        case BeamsplitError():
            return Problem(422, _without_index(str(error)))
        case ImportError():
            return Problem(503, str(error))
        case _:
            return _unexpected(error)


def _unexpected(error: Exception) -> Problem:
    """Log where an error of ours happened, but not its message, which may quote what someone typed."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    LOG.error("unexpected %s%s", type(error).__name__, where)
    return Problem(500, f"something went wrong here, a {type(error).__name__}: the server's log says where")


def _without_index(line: str) -> str:
    """Remove the index of the input from a message: a request has one input, not a list."""
    for name, here in (("pictures[0]", "the picture"), ("text 0 ", "the text ")):
        line = line.replace(name, here, 1) if line.startswith(name) else line
    return line


def _one_line(text: Any) -> str:
    """Return a short line that JSON can hold, even where someone sent lone surrogates."""
    line = " ".join(str(text).split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 3] + "..."
