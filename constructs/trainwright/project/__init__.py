"""A project on disk: its sources, what they compile to, the records, and ``dist/``."""

from trainwright.project.build import Build, BuiltRun, Output, build_project, build_run
from trainwright.project.load import Project, RunFile, Sources, find_project, load_cluster_file, load_run_file, load_sources
from trainwright.project.record import Records, RunRecord
from trainwright.project.status import compare, last_records, moved_runs
from trainwright.project.synth import Written, guard, synth, write_outputs

__all__ = [
    "Build",
    "BuiltRun",
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
    "find_project",
    "guard",
    "last_records",
    "load_cluster_file",
    "load_run_file",
    "load_sources",
    "moved_runs",
    "synth",
    "write_outputs",
]
