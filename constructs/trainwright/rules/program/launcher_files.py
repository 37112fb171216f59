"""Rules on files of the run that launchers read beside their options: host files and configurations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from trainwright.command.launchers import Fact, Launch
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.plan import Resolution
from trainwright.rendezvous import torch
from trainwright.rules.program.launchers import launched_for_torch, world_of
from trainwright.units import counted


def files_against_plan(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a file says wins over the plan as an option does."""
    for _, _, launched in launched_for_torch(context, resolution):
        yield from _configuration(context, resolution, launched)
        yield from _hosts(context, resolution, launched)


_HOST = re.compile(r"^[ \t]*([^\s#]+)[ \t]+slots=(\d+)", re.MULTILINE)


def _hosts(context: Context, resolution: Resolution, launched: Launch) -> Iterator[Finding]:
    """A host file among the run's files: how many pods there are, and ranks in each where no option says that."""
    path = next(iter(launched.values(launched.launcher.hosts)), None)
    content = context.run.files.get(path) if path else None
    wanted = {fact: values[0] for fact, values in world_of(resolution).wanted.items()}
    chosen = launched.launcher.chooses_hosts & launched.names
    if not isinstance(content, str) or Fact.NODES not in wanted or chosen:
        return
    where, hosts = context.locate.run(f"/files/{escape(str(path))}"), _HOST.findall(content)
    if str(len(hosts)) != wanted[Fact.NODES]:
        message = f"the host file {path} names {counted(len(hosts), 'host')}, and the plan has {wanted[Fact.NODES]} pods"
        line = f"node-0 slots={wanted[Fact.EACH]}"
        yield found("TW411", where, message, f"write a line as `{line}` for each pod; {Fact.NODES.value}")
    counts = launched.launcher.options(Fact.EACH)
    slots = next((slots for _, slots in hosts if slots != wanted[Fact.EACH]), None)
    if slots and launched.names.isdisjoint(counts):
        message = f"the host file {path} gives a pod {slots} slots, and the plan has {wanted[Fact.EACH]} ranks in each"
        yield found("TW411", where, message, f"write slots={wanted[Fact.EACH]}; {Fact.EACH.value}")


def _configuration(context: Context, resolution: Resolution, launched: Launch) -> Iterator[Finding]:
    """A configuration among the run's files says what the options leave out. Nobody expands variables in it."""
    launcher, path = launched.launcher, next(iter(launched.values(["--config-file"])), None)
    content = context.run.files.get(path) if path and launcher.configured else None
    if content is None:
        return
    where, world = context.locate.run(f"/files/{escape(str(path))}"), world_of(resolution).told(launched)
    for key, value in {**launcher.configured, **_entries(content, launcher.configured)}.items():
        option = f"--{key.replace('_', '-')}"
        fact = launcher.says[option]
        if option in launched.names or value in ("", "null", "-1"):
            continue
        if fact is Fact.INDEX and resolution.plan.world.nodes > 1:
            message = f"{key} of {path} is {value} in every pod"
            yield found("TW411", where, message, f"write --{key} $({torch.INDEX}) in the command")
        elif wanted := world.contradicts(fact, value):
            message = f"{key} {value[:80]} of {path} contradicts the plan, which has {wanted}"
            address = f"write --{key} $(PET_MASTER_ADDR) in the command"
            yield found("TW411", where, message, address if fact is Fact.ADDRESS else f"write {wanted}; {fact.value}")


def _entries(content: object, keys: Iterable[str]) -> dict[str, str]:
    """What a file of keys and values says of these: one that the run states as such, or the text of YAML or JSON."""
    if isinstance(content, Mapping):
        return {key: str(content[key]) for key in keys if content.get(key) is not None}
    line = re.compile(rf"""(?:^|[{{,])[ \t]*["']?({"|".join(keys)})["']?[ \t]*:[ \t]*["']?([^\s"',}}#]+)""", re.MULTILINE)
    return dict(line.findall(str(content)))


PLAN = (files_against_plan,)
