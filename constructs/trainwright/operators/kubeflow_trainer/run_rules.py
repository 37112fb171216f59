"""What a TrainJob can carry: rules on the plan of a run, by the release of Kubeflow Trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Process, Rendezvous
from trainwright.operators.base import Rule
from trainwright.operators.kubeflow_trainer.installed import dropped, installed_of, lacks, stated_fields, workers_image
from trainwright.operators.kubeflow_trainer.releases import (
    ADMITTED,
    DEADLINE,
    LIMITS,
    LONGEST_ARGUMENT,
    LONGEST_IMAGE,
    MOST_ITEMS,
    POLICIES,
    TRAINER,
    VOLCANO,
    trainer_has,
)
from trainwright.operators.kueue.releases import ASKS_TRAINER
from trainwright.plan import Resolution
from trainwright.rendezvous.mpi import MPI
from trainwright.run import CommandWorkload, Run, ScriptWorkload

if TYPE_CHECKING:
    from trainwright.findings.context import Context


def kueue_admits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A newer Kueue reads what an older Trainer does not write."""
    kueue, trainer = context.cluster.kueue, context.cluster.operators.get(TRAINER.name)
    if context.run.queue is None or kueue is None or trainer is None:
        return
    if ASKS_TRAINER.of(kueue.version) and not ADMITTED.of(trainer.version):
        message = f"Kueue {kueue.version} does not admit TrainJobs of Trainer {trainer.version}"
        yield found("TW433", context.locate.cluster("/operators/trainer/version"), message, "upgrade Trainer to 2.2 or newer")


def policy_is_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Policies came one after the other."""
    late = _SINCE_2_2.get(resolution.needs.rendezvous)
    if late and not trainer_has(POLICIES, resolution):
        version, (policy, told, others) = context.cluster.operators[TRAINER.name].version, late
        message = f"Kubeflow Trainer {version} has no policy for {policy} (2.2 has): nobody tells the pods of {told}"
        where = context.locate.cluster("/operators/trainer/version")
        yield found("TW425", where, message, f"upgrade Trainer, or write target: {others}")


_SINCE_2_2 = {
    Rendezvous.DMLC_TRACKER: ("XGBoost", "the tracker", "xgboost-job or indexed-job"),
    Rendezvous.JAX_COORDINATOR: ("JAX", "the coordinator", "job-set or indexed-job"),
}
"""Rendezvous -> policy, what its pods are told of, and targets that need none."""


def group_is_made(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The first release makes groups for coscheduling alone. Of a pod without one, Volcano makes a group of its own
    (volcano-sh/volcano, pkg/controllers/podgroup).
    """
    gang = resolution.plan.gang
    if gang and gang.scheduler == "volcano" and not trainer_has(VOLCANO, resolution):
        version = context.cluster.operators[TRAINER.name].version
        message = (
            f"Kubeflow Trainer {version} makes no PodGroup for Volcano (2.1 does): Volcano would make one of its own, with "
            "minMember 1, which is no gang"
        )
        fix = "upgrade Trainer to 2.1 or newer, choose another target, such as job-set, or write `gang: false`"
        yield found("TW425", context.locate.cluster("/operators/trainer/version"), message, fix)


def deadline_is_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Older releases have no such field, and below the TrainJob it would be that of one attempt."""
    if context.run.deadline and not trainer_has(DEADLINE, resolution):
        message = "TrainJobs have a deadline from release 2.2 of Kubeflow Trainer on"
        yield found("TW425", context.locate.run("/deadline"), message, "remove deadline, or upgrade Trainer")


def fields_hold_the_run(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Lists and texts that the kind's own schema bounds; the API server would refuse the object."""
    if not trainer_has(LIMITS, resolution):
        return
    run, locate = context.run, context.locate
    first = resolution.binding.roles[0]
    yield from _command_fits(context, resolution.processes[first.name])
    variables = len(resolution.environment(first))
    if variables > MOST_ITEMS:
        message = f"the pods have {variables} variables, a TrainJob takes {MOST_ITEMS}"
        yield found("TW425", locate.run("/env"), message, "put some of them into a file of the run (files)")
    if len(run.image) > LONGEST_IMAGE:
        message = f"the image's name has {len(run.image)} characters, a TrainJob takes {LONGEST_IMAGE}"
        yield found("TW425", locate.run("/image"), message, "give it a shorter one")


def _command_fits(context: Context, process: Process) -> Iterator[Finding]:
    """The run's own words end the command, after those of a launcher."""
    workload, locate = context.run.workload, context.locate
    if len(process.command) > MOST_ITEMS and process.supervised:
        message = f"mpirun is told {len(process.command)} words, two a variable of its ranks, and a TrainJob takes {MOST_ITEMS}"
        yield found("TW425", locate.run("/env"), message, "put some of the variables into a file of the run (files)")
    elif len(process.command) > MOST_ITEMS:
        message = f"the command has {len(process.command)} words, a TrainJob takes {MOST_ITEMS}"
        yield found("TW425", locate.run("/workload/command"), message, "put them into a file of the run (files), and start that")
    if len(process.args) > MOST_ITEMS:
        message = f"there are {len(process.args)} arguments, a TrainJob takes {MOST_ITEMS}"
        yield found("TW425", locate.run("/workload/args"), message, "put them into a file of the run (files)")
    own = len(workload.command or ()) if isinstance(workload, CommandWorkload | ScriptWorkload) else 0
    for number, word in enumerate(process.command, own - len(process.command)):
        if len(word) > LONGEST_ARGUMENT:
            message = f"an argument has {len(word)} characters, a TrainJob takes {LONGEST_ARGUMENT}"
            yield found("TW425", locate.run(f"/workload/command/{number}"), message, "put it into a file of the run (files)")


def runtime_decides(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a run states, and a TrainJob on a runtime of somebody else may not say."""
    run, locate, name = context.run, context.locate, resolution.binding.runtime
    if name is None:
        return
    fix = f"remove it, or have it in runtime {name}, or remove runtime: then the run brings its own"
    stated = {(field, answer.source) for field, answer in dropped(resolution)}
    stated |= {(field, f"run:/{field}") for field in ("restarts", "on_disruption", "exit_codes") if field in run.model_fields_set}
    stated |= {(field, f"run:/overrides/pod/{role}/{field}") for role, field in _overridden(run, resolution)}
    for field, source in sorted(stated):
        message = f"runtime {name} decides {field} of the pods, which a TrainJob may not state"
        yield found("TW335", locate.at(source), message, fix)
    if resolution.needs.part(MPI) and resolution.supervised:
        message = f"the workers of runtime {name} run its own sshd, and workload {run.workload.kind} needs our supervisor there"
        yield found("TW335", locate.run("/workload/kind"), message, "write kind: command, with its own mpirun, or remove runtime")
    if (image := workers_image(resolution)) not in (None, run.image):
        message = f"the workers have the image of runtime {name}, and a TrainJob states the launcher's alone (trainer #4030)"
        yield found("TW335", locate.run("/image"), message, f"write image: {image}, or remove runtime")
    for part, message in lacks(resolution):
        fix = "name a runtime with it, add it to the runtime, or fetch with prepare"
        yield found("TW335", locate.run(f"/initializer/{part}"), message, fix)
    late = [job["name"] for job in installed_of(resolution)[1].jobs if job.get("dependsOn")]
    if "podGroupPolicy" in installed_of(resolution)[1].spec and late:
        message = f"runtime {name} makes a group of all pods, and those of {', '.join(late)} are made only after others"
        yield found("TW441", locate.run("/runtime"), message, "name a runtime without podGroupPolicy, or fetch with prepare")
    if resolution.plan.gang and "podGroupPolicy" not in installed_of(resolution)[1].spec:
        message = f"runtime {name} has no podGroupPolicy, so nobody starts the pods together"
        yield found("TW335", locate.run("/runtime"), message, "write gang: false, or name a runtime that has one")


def _overridden(run: Run, resolution: Resolution) -> Iterator[tuple[str, str]]:
    """Role and field of each override that has no place in a TrainJob."""
    for role, patch in run.overrides.pod.items():
        yield from ((role, field) for field in patch if field not in stated_fields(resolution) and field != "containers")


RULES: tuple[Rule, ...] = (
    kueue_admits, policy_is_there, group_is_made, deadline_is_there, fields_hold_the_run, runtime_decides,
)  # fmt: skip
