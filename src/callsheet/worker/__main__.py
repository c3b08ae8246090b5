"""`python -m callsheet.worker` is `callsheet worker`."""

import sys

from callsheet.cli.start import main

if __name__ == "__main__":
    sys.argv[1:1] = ["worker"]
    main()
