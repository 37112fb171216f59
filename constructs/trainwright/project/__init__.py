"""A project on disk: its sources, what they compile to, the lock, and ``dist/``."""

from trainwright.project.build import Build, BuiltRun, Output, build_project, build_run
from trainwright.project.load import Project, RunFile, Sources, find_project, load_cluster_file, load_run_file, load_sources
from trainwright.project.lock import Lock, read_lock
from trainwright.project.status import compare, demand_lock, last_lock, moved_runs
from trainwright.project.synth import Written, guard, synth

__all__ = [
    "Build",
    "BuiltRun",
    "Lock",
    "Output",
    "Project",
    "RunFile",
    "Sources",
    "Written",
    "build_project",
    "build_run",
    "compare",
    "demand_lock",
    "find_project",
    "guard",
    "last_lock",
    "load_cluster_file",
    "load_run_file",
    "load_sources",
    "moved_runs",
    "read_lock",
    "synth",
]
