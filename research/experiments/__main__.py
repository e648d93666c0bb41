"""`python -m experiments`; what it does is a module, since processes of its own have to find it."""

import sys

from beamsplit.errors import BeamsplitError
from experiments.runner import main

try:
    main(prog_name="python -m experiments")
except BeamsplitError as error:
    sys.exit(f"experiments: {error}")
