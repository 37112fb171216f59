"""The commands of ``trainwright-trainer``: a folder for each that does work of its own, which only that command imports."""
