"""Render the templates of the pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import HTMLResponse, Response

from beamsplit.study.claims import Standing
from beamsplit.study.store import Annotator, ShownItem, Study

__all__ = ["Pages"]

_TEMPLATES = Path(__file__).parent / "templates"
_NOTES = {
    "before": "That answer was counted already; your first choice stands.",
    "late": "You were away for a while, and that pair went to someone else. Here is another.",
}
_LATE_AND_DONE = "You were away for a while, and that pair went to someone else."


@dataclass(frozen=True)
class Pages:
    """Renders pages. `base` comes before each path, for a site that is not at the root."""

    base: str = ""
    public_url: str = ""

    def path(self, *parts: str) -> str:
        return "/".join([self.base, *parts])

    def address(self, kind: str, token: str) -> str:
        """Return a link to give to someone."""
        return f"{self.public_url}/{kind}/{token}" if self.public_url else self.path(kind, token)

    def consent(self, study: Study, annotator: Annotator, form: str) -> Response:
        paragraphs = [each.strip() for each in study.consent.split("\n\n") if each.strip()]
        declined = annotator.declined is not None
        here = self.path("a", annotator.token)
        return self.render("consent.html", here=here, form=form, paragraphs=paragraphs, declined=declined)

    def item(
        self, study: Study, annotator: Annotator, form: str, given: ShownItem, standing: Standing, note: str
    ) -> Response:
        return self.render(
            "item.html",
            here=self.path("a", annotator.token),
            form=form,
            question=study.question,
            given=given,
            lists=[("A", "left", given.left), ("B", "right", given.right)],
            done=standing.done,
            total=standing.done + standing.left,
            note=_NOTES.get(note, ""),
        )

    def done(self, annotator: Annotator, standing: Standing, note: str) -> Response:
        text = _LATE_AND_DONE if note == "late" else ""
        here = self.path("a", annotator.token)
        return self.render("done.html", here=here, done=standing.done, busy=standing.busy, note=text)

    def message(self, text: str, status: int) -> Response:
        return self.render("message.html", status=status, text=text)

    def render(self, template: str, status: int = 200, **content: Any) -> Response:
        page = _environment().get_template(template).render(base=self.base, **content)
        return HTMLResponse(page, status)


@cache
def _environment() -> jinja2.Environment:
    """Return an environment that escapes everything put into a page, so that it is never markup."""
    loader = jinja2.FileSystemLoader(_TEMPLATES)
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
