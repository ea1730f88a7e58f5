"""`python -m beamfeed` is the command `beamfeed`."""

import sys

from beamfeed.launcher.cli import main

if __name__ == "__main__":
    sys.exit(main())
