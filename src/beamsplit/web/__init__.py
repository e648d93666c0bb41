"""The web demo: beam search and diverse beam search side by side, on a page and as a JSON interface.

beamsplit demo                              starts it; `pip install 'beamsplit[web]'`
uvicorn.run(make_app(Settings(...)))        the same, in a server of your own
"""

from beamsplit.extras import need

need("fastapi", "beamsplit.web", "web")

from beamsplit.web.app import Settings, make_app  # noqa: E402 (a missing package is told of first)
from beamsplit.web.limits import Limits  # noqa: E402
from beamsplit.web.security import Hosts  # noqa: E402

__all__ = ["Hosts", "Limits", "Settings", "make_app"]
