"""A project on disk: its sources, what they compile to, the records, and ``dist/``."""

from trainwright.project.build import Build, BuiltRun, Output, build_project, build_run
from trainwright.project.load import Project, RunFile, Sources, find_project, load_cluster_file, load_run_file, load_sources
from trainwright.project.record import Records, RunRecord
from trainwright.project.scope import Obstacles, every_run, obstacles
from trainwright.project.status import compare, compare_runs, last_records
from trainwright.project.synth import Written, guard, synth, write_outputs, write_runs

__all__ = [
    "Build",
    "BuiltRun",
    "Obstacles",
    "Output",
    "Project",
    "Records",
    "RunFile",
    "RunRecord",
    "Sources",
    "Written",
    "build_project",
    "build_run",
    "compare",
    "compare_runs",
    "every_run",
    "find_project",
    "guard",
    "last_records",
    "load_cluster_file",
    "load_run_file",
    "load_sources",
    "obstacles",
    "synth",
    "write_outputs",
    "write_runs",
]
