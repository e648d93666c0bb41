"""`python -m beamsplit.cli` is the command `beamsplit`."""

import sys

from beamsplit.cli import main

if __name__ == "__main__":
    sys.exit(main())
