"""`python -m synthbench` is the command `synthbench`."""

from synthbench.cli.app import main

if __name__ == "__main__":
    main()
