"""What shows how a run goes: log, metrics and their sinks, pace and goodput, and what a run that hangs leaves behind."""
