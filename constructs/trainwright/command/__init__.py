"""One model of a command, of a run or of a foreign manifest: its words, what its shells do, and which program starts ranks."""
