"""Ask people which of two lists of outputs they prefer, as the paper did.

create_study("pilot.db", StudyPlan(first="beam search", second="diverse", items=...))
make_app(open_study("pilot.db"))                  the pages for annotators and administrators
figures(collect_data(open_study("pilot.db")))         the report, ready for JSON
"""

from beamsplit.extras import need

for _module in ("sqlalchemy", "starlette", "jinja2"):
    need(_module, "beamsplit.study", "study")

from beamsplit.study.creation import create_study  # noqa: E402
from beamsplit.study.plan import NewItem, StudyPlan  # noqa: E402
from beamsplit.study.report import collect_data, figures  # noqa: E402
from beamsplit.study.site import make_app  # noqa: E402
from beamsplit.study.store import Store, open_study  # noqa: E402

__all__ = [
    "NewItem",
    "Store",
    "StudyPlan",
    "collect_data",
    "create_study",
    "figures",
    "make_app",
    "open_study",
]
