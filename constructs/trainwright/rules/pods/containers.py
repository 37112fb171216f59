"""Rules on the containers next to the one that trains, and on what all pods of a pool bring along.

What a pod may be is said of the finished pods (``PODS``); here is what only the statement shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.command.references import references_in
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.manifest.template.containers import Stated, all_stated, containers_of_role
from trainwright.manifest.template.volumes import volume_mounts
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.plan.packages import CONTAINER, SOURCE, packages_of
from trainwright.run import KubernetesContainer, SharedMount, SharedVolume


def roles_are_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Of a container of the run. One of a pool is for every target, and goes to the roles that there are."""
    known = [role.name for role in resolution.binding.roles]
    for number, container in enumerate(context.run.containers):
        for name in container.roles:
            if name not in known:
                title = resolution.plan.target_title
                message = f"container {container.name} is for role {name}, which {title} does not have in this run"
                where = context.locate.run(f"/containers/{number}/roles")
                yield found("TW327", where, message, f"use one of: {', '.join(known)}")


def names_are_free(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A pod has each name once, and some are the plan's."""
    roles, mounted = resolution.binding.roles, any(pool.pods.mounts for pool in resolution.node_pools)
    taken = {role.container: f"it is the main container of role {role.name}" for role in roles if role.further}
    taken |= {role.container: "it is the container that trains" for role in roles if not role.further}
    taken |= {"pool": "the pool's volumes use it"} if mounted else {}
    taken |= {AWAIT_CONTAINER: "it is the container that waits for data"} if resolution.plan.data else {}
    taken |= {CONTAINER: "it is the container that installs packages"} if packages_of(context.run) else {}
    for container, source in all_stated(resolution):
        if container.name in taken and source != SOURCE:
            below = "/container/name" if isinstance(container, KubernetesContainer) else "/name"
            message = f"the container name {container.name} is taken: {taken[container.name]}"
            yield found("TW601", context.locate.at(source + below), message, "use another name")


def shares_what_is_there(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A volume is shared by the path at which the container that trains has it."""
    said = set[str]()
    for role in resolution.binding.roles:
        paths = [mount["mountPath"].value for mount in volume_mounts(resolution, role)]
        for stated in containers_of_role(resolution, role):
            for path, source in _shared(stated):
                if path not in paths and source not in said:
                    said.add(source)
                    message = f"container {stated.container.name} shares {path}, and nothing is mounted there in role {role.name}"
                    fix = f"use one of: {', '.join(paths)}; or add it to mounts"
                    yield found("TW233", context.locate.at(source), message, fix)


def _shared(stated: Stated) -> Iterator[tuple[str, str]]:
    """Each path of a mount that a container shares, and where that is stated."""
    container, source = stated
    if isinstance(container, KubernetesContainer):
        volumes = enumerate(container.volumes)
        yield from ((one.same_as, f"{source}/volumes/{number}") for number, one in volumes if isinstance(one, SharedVolume))
        return
    mounts = container.mounts.items()
    yield from ((one.same_as, f"{source}/mounts/{escape(path)}") for path, one in mounts if isinstance(one, SharedMount))


def variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Variables of a pool that are not its own to set."""
    for pool in dict.fromkeys(resolution.pools.values()):
        fix = f"remove it; `trainwright plan {context.run.run} --json` shows what is set, and why"
        for name, owner in owners_of(context.cluster.node_pools[pool].pods.env, resolution).items():
            yield found("TW403", context.locate.cluster(f"/node_pools/{escape(pool)}/pods/env/{name}"), owner, fix)


def references(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A container has variables of its own alone: a reference to any other stays as it is. What a shell reads, `$(date)`, is the
    shell's.
    """
    for stated in all_stated(resolution):
        name, before = stated.container.name, set[str]()
        variables, words, elsewhere = _texts_of(stated)
        for variable, value, place in variables:
            for other in (one for one in references_in(value) if one not in before and not elsewhere):
                message = f"{variable} of container {name} holds $({other}), which stays as it is: it has no {other} before it"
                fix = f"write the value out, or set {other} above it; where the text is meant, write $$({other})"
                yield found("TW419", context.locate.at(place), message, fix)
            before.add(variable)
        for word, place in words:
            for other in (one for one in references_in(word) if one.isupper() and one not in before and not elsewhere):
                message = f"the command of container {name} holds $({other}), and it has no variable {other}: this stays as it is"
                fix = f"set {other} under env of the container; where the text is meant, write $$({other})"
                yield found("TW419", context.locate.at(place), message, fix)


Texts = tuple[list[tuple[str, str, str]], list[tuple[str, str]], bool]
"""Variables with their values, the words of the command, each with its place; whether more variables come from elsewhere."""


def _texts_of(stated: Stated) -> Texts:
    container, source = stated
    if not isinstance(container, KubernetesContainer):
        own = [(name, value if isinstance(value, str) else "", f"{source}/env/{name}") for name, value in container.env.items()]
        return own, _words({"command": container.command or (), "args": container.args}, source), False
    from trainwright.objects.fields import items, text, texts  # its package takes its time to load, and few runs have these

    written, at = container.container, f"{source}/container"
    entries = [(text(entry, "/name"), text(entry, "/value"), f"{at}/env/{number}") for number, entry in items(written, "/env")]
    words = _words({field: texts(written, f"/{field}") for field in ("command", "args")}, at)
    return entries, words, bool(written.get("envFrom"))


def _words(lists: Mapping[str, Sequence[str]], source: str) -> list[tuple[str, str]]:
    return [(word, f"{source}/{field}/{number}") for field, words in lists.items() for number, word in enumerate(words)]


PLAN = (roles_are_there, names_are_free, shares_what_is_there, variables, references)
