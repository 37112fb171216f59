"""Where a rehearsal differs from a cluster: what is left out, what is scaled down, and what this machine does in another way.

Each difference is printed, none is silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.template.awaiting import AWAIT_CONTAINER
from trainwright.manifest.template.bringing import BRING_CONTAINER
from trainwright.operators import operator
from trainwright.plan.packages import CONTAINER, FOLDER
from trainwright.rehearsal.checks.programs import has_program
from trainwright.rehearsal.networks.network import INTERFACE_VARIABLES
from trainwright.rehearsal.processes.ray import DRAIN_SECONDS, OBJECT_STORE_BYTES
from trainwright.rehearsal.setting import Options, Setting
from trainwright.rehearsal.stated.environment import container_environment
from trainwright.rehearsal.stated.kinds import Container, PodSpec
from trainwright.rehearsal.stated.objects import NETWORK_POLICY, Objects, Slot, with_containers
from trainwright.rehearsal.stated.pod import create_pod
from trainwright.rehearsal.stated.volumes import SHARED_MEMORY
from trainwright_trainer.contract.layout import BROUGHT_FOLDER, TERMINATION_PATH_ENV


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which this rehearsal is not what the cluster would do."""

    subject: str
    """One or two words: ``addresses``, ``image``."""
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


_LEFT_OUT = {
    AWAIT_CONTAINER: Difference(
        "data", "is not fetched here, and no pod waits for it: name a folder for the path with --mount PATH=FOLDER"
    ),
    CONTAINER: Difference("packages", f"are not installed here: this machine's Python has them, or --mount {FOLDER}=DIRECTORY"),
}
"""Init containers of the plan -> what is in their place."""
_BROUGHT = Difference("supervisor", "is not brought along: the pods start that of this environment")


def leave_out_containers(objects: Objects, options: Options) -> tuple[Objects, tuple[Difference, ...]]:
    """The objects without the containers that cannot be played, and that the run can do without.

    These are containers beside the one that trains whose program is only in their image, such as a log collector, the one that
    waits for data to be fetched, the one that installs packages, and the one that brings the supervisor: what stands for it is
    in its place (:mod:`processes.brought`).
    """
    kept, differences = {}, dict[Difference, None]()
    for slot in objects.slots:
        spec = slot.spec
        if any(mount.mount_path == BROUGHT_FOLDER for mount in spec.main.volume_mounts) and BROUGHT_FOLDER not in options.mounts:
            differences[_BROUGHT] = None
        waiting = [one for one in spec.init_containers if one.name in (*_LEFT_OUT, BRING_CONTAINER)]
        absent = [
            one for one in (*(one for one in spec.init_containers if one.is_sidecar), *spec.containers)
            if one is not spec.main and not _is_here(one, slot, objects, options)
        ]
        differences |= {_LEFT_OUT[one.name]: None for one in waiting if one.name in _LEFT_OUT}
        for one in absent:
            image = one.image.partition("@")[0]
            differences[Difference("left out", f"container {one.name}: its program is only in image {image}")] = None
        kept[slot.number] = spec.model_copy(update={
            "init_containers": [one for one in spec.init_containers if one not in waiting and one not in absent],
            "containers": [one for one in spec.containers if one not in absent],
        }) if waiting or absent else spec  # fmt: skip
    return with_containers(objects, kept), tuple(differences)


def _is_here(container: Container, slot: Slot, objects: Objects, options: Options) -> bool:
    """Its program is on this machine, or another container of the pod brings it."""
    own = {volume.name for volume in slot.spec.volumes if volume.empty_dir is not None}
    filled = [mount.mount_path for mount in container.volume_mounts if mount.name in own]
    found = container_environment(container, create_pod(slot, ""), objects, options.environment, container.name)
    return has_program(container, found.values, filled, options)


def local_differences(setting: Setting) -> Iterator[Difference]:
    """Differences that follow from the manifests and from this machine, whatever the size of the run."""
    objects, dns = setting.objects, setting.dns
    first, *_, last = (*objects.slots, *objects.slots)
    addresses = dns.address(first) + (f" to {dns.address(last)}" if last is not first else "")
    specs, containers = [slot.spec for slot in objects.first_of_roles], objects.containers
    images = ", ".join(dict.fromkeys(container.image.partition("@")[0] for container in containers))
    yield Difference("image", f"{images} -> this machine, with the programs of {setting.options.programs}")
    if setting.network.has_names:
        yield Difference("pods", "local processes of your own user on one machine, with the users' numbers and the read-only "
                         "root that they state; fsGroup, capabilities, resources and node selection are not enforced")
        yield Difference("addresses", f"{addresses}, by the names of Services in /etc/hosts; no pod reaches the world outside: "
                         "--network loopback leads there")
    else:
        yield Difference("pods", "local processes of your own user that share one machine; users, groups, "
                         "capabilities and the rest of the security context, resources and node selection are not enforced")
        yield Difference("addresses", f"{addresses}, one for each pod, in place of the names of Services")
    if setting.network.replaced:
        yield Difference("ports", f"{setting.network.replaced}: a program may listen on all addresses of this machine")
    if any(GroupKind.of(one) == NETWORK_POLICY for one in objects.around.objects):
        yield Difference("network", "NetworkPolicies were evaluated for each pair of pods and for DNS, and none closes a way "
                         "that ranks need; nothing enforces them here")
    yield from _variables(setting)
    yield from _paths(setting)
    pace = setting.options.pace
    yield Difference("controllers", f"wait {pace:g} of what they wait in the cluster: {10 * pace:g} s in place of 10 s")
    if any(spec.starts_ray for spec in specs):
        drain, memory = DRAIN_SECONDS, OBJECT_STORE_BYTES / 1e6
        yield Difference("Ray", f"a node that is told to end waits {drain * pace:g} s for what still runs on it, in place of "
                         f"{drain:g} s, unless its pod states how long; its objects have {memory:g} MB of this machine's memory")
    if operator.defaults(objects.workload)["spec"].get("podReplacementPolicy") == "TerminatingOrFailed":
        yield Difference("replacement", "an evicted pod gets a successor when it has ended; podReplacementPolicy "
                         "TerminatingOrFailed makes it at once")
    yield Difference("signals", "a program is not process 1 here: "
                     "SIGTERM ends one that has no handler, and in a container it would not")
    if any(probe.grpc for container in containers for _, probe in container.probes):
        yield Difference("probes", "gRPC probes are not polled, and count as passed")
    if any(container.lifecycle for container in containers):
        yield Difference("hooks", "what a container does after its start and before SIGTERM (lifecycle) is not played")
    if any(spec.scheduling_gates for spec in specs):
        yield Difference("gates", "no pod waits for its scheduling gates to be lifted")
    if assumed := ", ".join(dict.fromkeys(name for spec in specs for name in _assumed(spec, objects))):
        yield Difference("taken as there", f"{assumed}: no file here says so, and a cluster that lacks one starts no pod")
    for name in dict.fromkeys(spec.runtime_class_name for spec in specs if spec.runtime_class_name):
        yield Difference("runtime", f"RuntimeClass {name} is not used")
    if any(spec.resource_claims for spec in specs):
        yield Difference("devices", "no driver gives the pods what they claim")
    if any(spec.host_network for spec in specs):
        yield Difference("host network", "each pod has an address of its own, as if each were on a node of its own")
    for left_out in objects.left_out:
        yield Difference("left out", left_out)


def _assumed(spec: PodSpec, objects: Objects) -> Iterator[str]:
    """Objects that the platform brings, by the names that a pod has for them."""
    here = {(one["kind"], one["metadata"]["name"]) for one in objects.around.objects if "name" in (one.get("metadata") or {})}
    named = [
        ("ServiceAccount", spec.service_account_name), ("PriorityClass", spec.priority_class_name),
        *(("Secret", str(one.get("name"))) for one in spec.image_pull_secrets),
    ]  # fmt: skip
    always = {"", "default", "system-cluster-critical", "system-node-critical"}
    yield from (f"{kind} {name}" for kind, name in named if name not in always and (kind, name) not in here)


def _variables(setting: Setting) -> Iterator[Difference]:
    seen: dict[Difference, None] = {}
    interface = setting.network.interface
    for slot in setting.objects.first_of_roles:
        pod = setting.create_pod(slot)
        for container in slot.spec.all_containers:
            found = container_environment(container, pod, setting.objects, setting.options.environment, container.name)
            values = found.values
            interfaces = [name for name in INTERFACE_VARIABLES if values.get(name, interface) != interface]
            added = [name for name in (INTERFACE_VARIABLES[0], TERMINATION_PATH_ENV) if name not in values]
            replaced = ", ".join(dict.fromkeys([*interfaces, *added, "PATH"]))
            seen[Difference("environment", f"{replaced}: set to what this machine needs")] = None
            for name in found.from_caller:
                seen[Difference("secrets", f"{name} has the value of your own environment")] = None
            for name in found.stand_ins:
                text = "is left out" if name.startswith("every") else "has a stand-in: export it for another value"
                seen[Difference("secrets", f"{name} {text}")] = None
            for name, missing in found.unexpanded.items():
                references = ", ".join(f"$({one})" for one in missing)
                seen[Difference("note", f"env {name} keeps {references} as text: no variable of that name is defined before it; "
                                "a cluster does the same")] = None
    yield from seen


def _paths(setting: Setting) -> Iterator[Difference]:
    claims: dict[str, list[str]] = {}
    read_only: dict[str, bool] = {}
    for mount, claim in setting.mounted_claims:
        if mount.mount_path not in setting.options.mounts:
            claims.setdefault(claim.claim_name, []).append(mount.mount_path)
            read_only[claim.claim_name] = read_only.get(claim.claim_name, True) and (mount.read_only or claim.read_only)
    for name, paths in claims.items():
        folder = setting.workspace.claims / name
        empty = " (empty: put the data there)" if read_only[name] and not (folder.is_dir() and any(folder.iterdir())) else ""
        guarded = "; read-only is not enforced" if read_only[name] and not setting.network.has_names else ""
        yield Difference("claim " + name, f"{', '.join(dict.fromkeys(paths))} -> {folder}{empty}{guarded}")
    yield from _other_volumes(setting)
    for address, folder in setting.store_folders.items():
        yield Difference("object store", f"{address} -> {folder}: the real one is neither read nor written")
    for path, local in setting.options.mounts.items():
        yield Difference("folder", f"{path} -> {local}, as you asked")
    memory = "as large as the pod states, else 64 MiB" if setting.network.has_names else "this machine's"
    yield Difference("paths", f"other mounts and /tmp -> {setting.workspace.pods}/<pod>; {SHARED_MEMORY} is {memory}; "
                     "paths are rewritten in command, environment and mounted files")


def _other_volumes(setting: Setting) -> Iterator[Difference]:
    """Those that are neither claims nor a pod's own nor files: nothing here holds what they hold."""
    paths: dict[tuple[str, str], dict[str, None]] = {}
    for slot in setting.objects.first_of_roles:
        volumes = slot.spec.volumes_by_name
        for mount in (mount for container in slot.spec.all_containers for mount in container.volume_mounts):
            source = volumes[mount.name].other_source
            if source and mount.mount_path not in {SHARED_MEMORY, BROUGHT_FOLDER, *setting.options.mounts}:
                paths.setdefault((mount.name, source), {})[mount.mount_path] = None
    for (name, source), where in paths.items():
        yield Difference(f"volume {name}", f"{', '.join(where)} ({source}) -> an empty folder of each pod's own: "
                         f"name one for all pods with --mount {next(iter(where))}=FOLDER")
