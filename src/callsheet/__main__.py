"""`python -m callsheet` is `callsheet`."""

from callsheet.cli.start import main

if __name__ == "__main__":
    main()
