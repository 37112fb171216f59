"""``python -m trainwright``: the command line."""

from trainwright.cli import main

main()
