"""Rules on what a TrainJob can carry."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Process, Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import CommandWorkload, ScriptWorkload
from trainwright.target.train_job.job import trainer_release

LIMITED_SINCE = (2, 2)
MOST_ITEMS, LONGEST_ARGUMENT, LONGEST_IMAGE = 128, 65_536, 500
"""Of ``spec.trainer``: arguments and variables, characters of an argument, and of the image (trainjob_types.go)."""


def policy_is_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Policies came one after the other."""
    if resolution.target.operator != "trainer" or resolution.needs.rendezvous is not Rendezvous.DMLC_TRACKER:
        return
    if trainer_release(resolution) < (2, 2):
        version = context.cluster.operators["trainer"].version
        message = f"Kubeflow Trainer {version} has no policy for XGBoost (2.2 has): nobody tells the pods of the tracker"
        where = context.locate.cluster("/operators/trainer/version")
        yield found("TW425", where, message, "upgrade Trainer, or write target: xgboost-job or indexed-job")


def fields_hold_the_run(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Lists and texts that the kind's own schema bounds; the API server would refuse the object."""
    if resolution.target.operator != "trainer" or trainer_release(resolution) < LIMITED_SINCE:
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
    own = len(workload.command) if isinstance(workload, CommandWorkload | ScriptWorkload) else 0
    for number, word in enumerate(process.command, own - len(process.command)):
        if len(word) > LONGEST_ARGUMENT:
            message = f"an argument has {len(word)} characters, a TrainJob takes {LONGEST_ARGUMENT}"
            yield found("TW425", locate.run(f"/workload/command/{number}"), message, "put it into a file of the run (files)")


PLAN = (policy_is_there, fields_hold_the_run)
