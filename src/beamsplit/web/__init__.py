"""The web demo: beam search and late branching side by side, as a page and as a JSON API.

beamsplit demo                                  starts it; needs `pip install '.[web]'`
make_server(make_app(DemoSettings(...))).run()  does the same in Python, on port 8000
uvicorn.run(make_app(DemoSettings(...)))        runs it in a server of your own
"""

from beamsplit.extras import need

for package in ("fastapi", "uvicorn"):
    need(package, "beamsplit.web", "web")

from beamsplit.web.app import DemoSettings, make_app  # noqa: E402 (a missing package is reported first)
from beamsplit.web.limits import DemoLimits  # noqa: E402
from beamsplit.web.security import Hosts  # noqa: E402
from beamsplit.web.server import make_server  # noqa: E402

__all__ = ["DemoLimits", "DemoSettings", "Hosts", "make_app", "make_server"]
