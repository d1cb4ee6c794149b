"""``python -m ddpmi``: the command line without its script."""

from __future__ import annotations

import sys

from ddpmi.cli import main

if __name__ == "__main__":
    sys.exit(main())
