"""What pods, their controller, the network and the trainer's specification must agree on, or a pod hangs or fails in a cluster.

Each function looks at one kind of disagreement, and says in one sentence what would happen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import permutations
from typing import Any

from trainwright.command.launchers import MPI_LAUNCHERS, Launch, launches
from trainwright.command.model import Simple
from trainwright.command.reading import read
from trainwright.findings import Severity
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import mapping
from trainwright.objects.network import DNS, End, closing
from trainwright.program.slots import HOST_FILES, PROCESSES
from trainwright.reading.document import Document
from trainwright.rehearsal.stated.environment import container_environment
from trainwright.rehearsal.stated.kinds import Container, PodSpec
from trainwright.rehearsal.stated.objects import NETWORK_POLICY, Blocker, Objects, Slot, Specification
from trainwright.rehearsal.stated.pod import create_pod
from trainwright.rehearsal.stated.volumes import Files, rendered_files
from trainwright.rendezvous.mpi import slots_of
from trainwright.validate.manifests import Manifest
from trainwright.validate.programs import program_findings
from trainwright_trainer.contract.layout import BIND_ENV, BROUGHT_FOLDER, SUPERVISE_COMMAND, brought_command

ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - what a manifest states
FATAL = frozenset({"TW406", "TW411", "TW420", "TW423", "TW476", "TW477"})
"""Findings on programs after which ranks do not meet, or do not start."""
INDEX = "JOB_COMPLETION_INDEX"
PROCESSES_TOLD = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE")
"""Variables by which a controller tells a launcher how many ranks it starts in a pod."""
_CONNECT = frozenset({"nc", "ncat", "netcat", "curl", "wget", "telnet"})
_FOREGROUND = re.compile(r"-\w*[Dd]\w*")
"""Of sshd."""
_LOCAL_DASHBOARD = re.compile(r"--dashboard-host[= ](localhost|127\.0\.0\.1|::1)\b")
_HEAD_ADDRESS = re.compile(r"--address[= ]([^\s:]+)")
_RAY_GPUS = re.compile(r"--num-gpus[= ](\d+)")
"""Of `ray start`, as KubeRay writes it."""
_LASTING = frozenset({"infinity", "inf"})
_SERVERS = frozenset({"yes", "redis-server", "etcd", "memcached", "watch"})
"""Programs that stay in the foreground, whatever their options usually are."""
_FOREVER = re.compile(
    r"\bwhile\s+(?:true|:|\[+\s+1\s+\]+|!\s*false)\s*[;\n]|\buntil\s+(?:false|!\s*true)\s*[;\n]|\bfor\s*\(\(\s*;\s*;\s*\)\)"
)
"""Loops that only something in them ends."""
_CONDITIONS = frozenset({"[", "[[", "test", "grep"})
_ENDS = frozenset({"break", "exit", "return", "exec", "kill"})
CLAIM = GroupKind("", "PersistentVolumeClaim")
NAMESPACE = GroupKind("", "Namespace")


def check_agreements(objects: Objects, specification: Specification | None) -> Iterator[Blocker]:
    """Every disagreement that the manifests show."""
    yield from _check_programs(objects)
    yield from _check_policies(objects)
    yield from _check_claims(objects)
    yield from _check_stated_twice(objects)
    yield from _check_ray(objects, specification)
    for slot in objects.first_of_roles:
        yield from _check_names_resolve(slot.spec, objects.place(slot))
        for container in slot.spec.all_containers:
            where = objects.place(slot, container)
            yield from _check_sub_paths(slot, container, objects, where)
            yield from _check_sshd(slot.spec, container, where)
        yield from _check_awaited(slot, objects)
        for container in slot.spec.init_containers:
            if not container.is_sidecar and (why := _never_ends(container)):
                yield Blocker(objects.place(slot, container), f"{why}, so no container of the pod would start",
                              "let it end, or make it a sidecar: restartPolicy: Always")
        if specification is not None and specification.supervises and slot.reads_specification:
            yield from _check_specification(slot, specification, objects)


def _check_programs(objects: Objects) -> Iterator[Blocker]:
    """Rules on the commands of runs, which hold for what somebody has edited since too."""
    bare = [_unsupervised(one) for one in (objects.workload, *objects.around.objects)]
    manifests = [Manifest(one, Document("", one, {}), "") for one in bare]
    for one in program_findings(manifests, judged=lambda _: False):
        if one.code in FATAL and one.severity is Severity.ERROR:
            yield Blocker(f"{objects.where}, {one.where.pointer}", one.message, one.fix)


def _unsupervised(value: Any) -> Any:
    """The same with what our supervisor starts in its place: the words behind ``trainwright-trainer supervise --``."""
    if isinstance(value, Mapping):
        return {key: _unsupervised(part) for key, part in value.items()}
    if isinstance(value, list):
        return started(value) if value[:1] in ([before[0]] for before in _SUPERVISES) else [_unsupervised(part) for part in value]
    return value


_SUPERVISES = (*SUPERVISE_COMMAND, "--"), (*brought_command(BROUGHT_FOLDER), "supervise", "--")


def started(words: Sequence[str]) -> list[str]:
    """What a container's command starts in the end."""
    before = next((one for one in _SUPERVISES if tuple(words[: len(one)]) == one), ())
    return list(words[len(before) :])


def _check_policies(objects: Objects) -> Iterator[Blocker]:
    """NetworkPolicies, for each pair of pods and for DNS."""
    around = [one for one in objects.around.objects if (one.get("metadata") or {}).get("namespace") == objects.namespace]
    policies = [one for one in around if GroupKind.of(one) == NETWORK_POLICY]
    if not policies:
        return
    named = [one for one in objects.around.objects if GroupKind.of(one) == NAMESPACE]
    stated = next((mapping(one, "/metadata/labels") for one in named if one["metadata"]["name"] == objects.namespace), {})
    namespace = {**stated, "kubernetes.io/metadata.name": objects.namespace}
    ends = {slot.name: End(slot.made.labels, namespace) for slot in objects.slots}
    seen = set[str]()
    for (source, one), (target, other) in permutations(ends.items(), 2):
        for names, side, peer in (
            (closing(policies, one, "Egress", other, "all"), f"lets {source} not out to", target),
            (closing(policies, other, "Ingress", one, "all"), f"lets {target} not be reached by", source),
        ):
            if names and not seen & {*names}:
                seen |= {*names}
                message = f"it {side} {peer} at every port, and ranks connect at ports that the kernel chooses: they would wait"
                yield Blocker(f"NetworkPolicy {', '.join(names)}", message, "admit the run's own pods, without ports")
    for name, one in ends.items():
        if names := closing(policies, one, "Egress", DNS, "dns"):
            yield Blocker(f"NetworkPolicy {', '.join(names)}", f"it lets {name} not out to the cluster's DNS, so that no name "
                          "resolves there", "admit egress to port 53, UDP and TCP, of kube-system")
            break


def _check_claims(objects: Objects) -> Iterator[Blocker]:
    """A claim that is not beside the run may be somebody else's; one that is nearly called like another one is misspelt."""
    made = {str(one["metadata"]["name"]) for one in objects.around.objects if GroupKind.of(one) == CLAIM}
    asked = {claim.claim_name for slot in objects.slots for one in slot.spec.all_containers
             for _, claim in slot.spec.mounted_claims(one)}
    for name in sorted(asked - made):
        near = get_close_matches(name, made - asked, 1, 0.85)
        if near and re.sub(r"\d", "", near[0]) != re.sub(r"\d", "", name):
            yield Blocker(objects.where, f'persistentvolumeclaim "{name}" not found: its pods would stay Pending',
                          f"did you mean {near[0]}?")


def _check_names_resolve(spec: PodSpec, where: str) -> Iterator[Blocker]:
    policy = spec.dns_policy
    if spec.host_network and policy == "ClusterFirst":
        yield Blocker(where, "with hostNetwork and dnsPolicy ClusterFirst it asks the node's DNS, which knows no Service",
                      "write dnsPolicy: ClusterFirstWithHostNet")
    elif policy == "Default" or (policy == "None" and not spec.dns_config.nameservers):
        yield Blocker(where, f"with dnsPolicy {policy} it does not ask the cluster's DNS, so names of Services do not resolve",
                      "write dnsPolicy: ClusterFirst, or remove it")


def _check_stated_twice(objects: Objects) -> Iterator[Blocker]:
    """A controller puts its variables behind those of the template, and the last one counts. It may be right of one pod."""
    seen = set[str]()
    for slot in objects.slots:
        for container in slot.spec.all_containers:
            last = {variable.name: variable for variable in container.env}
            for variable in container.env:
                wins, place = last[variable.name], f"{objects.place(slot, container)}, env {variable.name}"
                if place not in seen and variable.value and (wins.value, wins.value_from) != (variable.value, None):
                    seen.add(place)
                    sets = wins.value or "what it knows itself"
                    yield Blocker(place, f"it is {variable.value}, and its controller sets it to {sets}, which counts",
                                  "remove it from the template")
            index, place = last.get(INDEX), f"{objects.place(slot, container)}, env {INDEX}"
            if index is not None and index.value and place not in seen:
                seen.add(place)
                message = f"it is {index.value} in every pod: the Job controller adds none where there is one"
                yield Blocker(place, message, "remove it")


def _check_sub_paths(slot: Slot, container: Container, objects: Objects, where: str) -> Iterator[Blocker]:
    volumes, pod = slot.spec.volumes_by_name, create_pod(slot, "")
    for mount in container.volume_mounts:
        volume = volumes.get(mount.name)
        if volume is None or volume.config_map is None or not mount.sub_path:
            continue
        files, problems = rendered_files(volume, pod, objects, where)
        if not problems and mount.sub_path not in files and not _is_folder(mount.sub_path, files):
            message = f"subPath {mount.sub_path} is no file of ConfigMap {volume.config_map.name}: an empty folder would be there"
            yield Blocker(f"{where}, mount {mount.mount_path}", message, f"its files are {', '.join(files) or 'none'}")


def _is_folder(path: str, files: Files) -> bool:
    return any(name.startswith(f"{path.rstrip('/')}/") for name in files)


def _check_sshd(spec: PodSpec, container: Container, where: str) -> Iterator[Blocker]:
    """sshd(8): root's needs capabilities to become the user who comes; another user's needs keys that he may read."""
    simple = read(tuple(started((*container.command, *container.args)))).simple
    found = next((one for one in simple if one.program == "sshd"), None)
    if found is None:
        return
    if container in spec.containers and found is simple[-1] and not any(_FOREGROUND.fullmatch(one.text) for one in found.words):
        yield Blocker(where, "sshd goes into the background without -D, and its container ends", "add -D")
    security = {**spec.security_context, **container.security_context}
    user = security.get("runAsUser")
    dropped = {str(one).upper() for one in mapping(container.security_context, "/capabilities").get("drop", ())}
    added = {str(one).upper() for one in mapping(container.security_context, "/capabilities").get("add", ())}
    if user == 0 or (user is None and not security.get("runAsNonRoot")):
        missing = sorted({"SETUID", "SETGID", "SYS_CHROOT"} - added) if "ALL" in dropped and "ALL" not in added else []
        if missing:
            yield Blocker(where, f"sshd of root cannot become another user without the capabilities {', '.join(missing)}",
                          f"add {', '.join(missing)}, or run it as another user than root")
        return
    if not any(word.text.startswith("-f") for word in found.words):
        yield Blocker(where, f"sshd reads root's /etc/ssh/sshd_config and host keys, and user {user or 'of the image'} may not "
                      "read those", "name a file of that user's with -f, as /home/mpiuser/.sshd_config of mpi-operator's images")
    config = found.words[texts.index("-f") + 1].text if "-f" in (texts := [word.text for word in found.words])[:-1] else ""
    for mount in container.volume_mounts:
        home = mount.mount_path.partition("/.ssh")[0] if "/.ssh" in mount.mount_path else ""
        if home and config.startswith("/home/") and posixpath.dirname(config) != home != "/root":
            yield Blocker(f"{where}, mount {mount.mount_path}", f"sshd with {config} looks for keys below "
                          f"{posixpath.dirname(config)}, and they are in {home}", "write the same home in both")
        if home == "/root":
            yield Blocker(f"{where}, mount {mount.mount_path}", f"user {user or 'of the image'} looks for keys in his own home, "
                          "and may not read root's", "write the sshAuthMountPath of that user, such as /home/mpiuser/.ssh")


def _check_ray(objects: Objects, specification: Specification | None) -> Iterator[Blocker]:
    """Whether the submitter and KubeRay reach the dashboard of a Ray cluster, workers their head, and each rank has a GPU."""
    nodes = [slot for slot in objects.slots if slot.spec.starts_ray]
    for slot in objects.first_of_roles:
        words = _ray_start(slot) if slot in nodes else ""
        if found := _LOCAL_DASHBOARD.search(words):
            message = f"Ray's dashboard listens on {found[1]}, where neither the submitter nor KubeRay reaches it"
            yield Blocker(objects.place(slot), message, "write dashboard-host: 0.0.0.0")
        if (found := _HEAD_ADDRESS.search(words)) and found[1].partition(".")[0] not in objects.made_services:
            message = f"it goes to {found[1]}, which is not the head of this cluster"
            yield Blocker(f"{objects.place(slot)}, rayStartParams", message, "remove address: KubeRay writes the head's Service")
    if not nodes or specification is None or specification.spec.world.device != "cuda":
        return
    has, ranks = sum(int(found) for slot in nodes for found in _RAY_GPUS.findall(_ray_start(slot))), specification.spec.world.size
    if has < ranks:
        message = f"Ray has {has} GPUs, and the world of {specification.where} has {ranks} ranks: it waits for the others"
        yield Blocker(objects.where, message, "write the replicas and num-gpus of its groups so that they are as many")


def _ray_start(slot: Slot) -> str:
    return " ".join(word for container in slot.spec.containers for word in (*container.command, *container.args))


def _check_awaited(slot: Slot, objects: Objects) -> Iterator[Blocker]:
    """An init container that waits for a pod of its own kind, which is not ready before its own init container has ended."""
    own = [one for one in slot.spec.init_containers if not one.is_sidecar]
    for name, service in objects.services.items():
        selected = service.spec.selector.items() <= slot.made.labels.items() and bool(service.spec.selector)
        named = re.compile(rf"(?<![\w.-])(?:{re.escape(slot.host_name)[:-1]}\w*\.)?{re.escape(name)}(?![\w-])")
        for container in own if selected else ():
            texts = [*container.command, *container.args, *(one.value for one in container.env)]
            if not any(map(named.search, texts)):
                continue
            simple = read((*container.command, *container.args)).simple
            if any(one.program in _CONNECT and "loop" in one.within for one in simple):
                message = "it waits for a port of a pod of its own kind, which opens when its own init containers have ended"
                yield Blocker(objects.place(slot, container), message, "wait in the container that trains")
            elif not service.spec.publish_not_ready_addresses:
                message = f"it waits for a name of Service {name}, which publishes ready pods, and none is before this has ended"
                yield Blocker(objects.place(slot, container), message, "write publishNotReadyAddresses: true")


def _never_ends(container: Container) -> str | None:
    """Why an init container stays, where its command shows it."""
    words = (*container.command, *container.args)
    simple = read(words).simple
    if any(map(_FOREVER.search, words)) and not any("loop" in one.within and one.program in _ENDS for one in simple):
        return "its loop never ends"
    before, waited = Simple(()), any(one.program == "wait" for one in simple)
    for one in simple:
        asked = before.then == "||" or (before.then == "&&" and before.program in _CONDITIONS)
        certain = not asked and "branch" not in one.within and one.then != "|"
        before = one
        limited = any(word.base == "timeout" for word in one.words[: one.start])
        if certain and not limited and (one.then != "&" or waited) and _stays(one):
            return f"{' '.join(word.text for word in one.words[one.start :])} never ends"
    return None


def _stays(one: Simple) -> bool:
    words = [word.text for word in one.words[one.start :]]
    match one.program:
        case "sleep":
            return bool(set(words) & _LASTING)
        case "tail":
            return any(word.startswith("-") and word.lower().endswith("f") for word in words)
        case "sshd":
            return any(map(_FOREGROUND.fullmatch, words))
        case "nc" | "ncat":
            return any(re.fullmatch(r"-\w*(?:lk|kl)\w*", word) for word in words) or {"-l", "-k"} <= {*words}
        case "python" | "python3":
            return "http.server" in words
    return one.program in _SERVERS


def _check_specification(slot: Slot, specification: Specification, objects: Objects) -> Iterator[Blocker]:
    spec, main, where = specification.spec, slot.spec.main, objects.place(slot, slot.spec.main)
    environment = container_environment(main, create_pod(slot, ""), objects, {}, where).values
    sources = {variable.name: variable.value_from for variable in main.env}
    for name in PROCESSES_TOLD:
        if environment.get(name, "").isdecimal() and int(environment[name]) != spec.world.processes_per_node:
            yield Blocker(f"{where}, env {name}", f"it is {environment[name]}, and world.processes_per_node in "
                          f"{specification.where} is {spec.world.processes_per_node}", "make the two equal")
    index = getattr(spec.world, "node_index_env", None)
    if index and index not in environment and spec.world.nodes > 1:
        yield Blocker(where, f"no variable {index}, by which world.node_index_env of {specification.where} tells pods apart",
                      "let the controller number the pods, as completionMode: Indexed does")
    elif index and sources.get(index, True) is None and spec.world.nodes > 1 and _alike(index, objects):
        yield Blocker(f"{where}, env {index}", f"it is {environment[index]} in every pod, so that none knows which it is",
                      "remove it: the controller numbers the pods")
    role = getattr(spec.world.rendezvous, "role_env", None)
    if role and role not in environment:
        yield Blocker(where, f"no variable {role}, by which {specification.where} tells launcher and workers apart",
                      f"set {role} to launcher or worker")
    bound = environment.get(BIND_ENV)
    if bound and sources.get(BIND_ENV) is None and bound not in ANY_ADDRESS and spec.world.nodes > 1:
        yield Blocker(f"{where}, env {BIND_ENV}", f"it listens on {bound}, where no other pod reaches it: they would wait "
                      f"{spec.lifecycle.peer_wait_seconds:g} s", "take the pod's own address, fieldPath: status.podIP")
    grace = slot.spec.termination_grace_period_seconds
    if grace < spec.lifecycle.grace_seconds:
        yield Blocker(f"{where}, terminationGracePeriodSeconds", f"it is {grace}, and lifecycle.grace_seconds in "
                      f"{specification.where} is {spec.lifecycle.grace_seconds:g}: the kubelet would kill it while it saves",
                      "make the two equal")
    for launch in _launches(main):
        ranks = next(iter(launch.values(PROCESSES)), "") if launch.name in MPI_LAUNCHERS else ""
        if ranks.isdecimal() and int(ranks) != spec.world.size:
            yield Blocker(where, f"{launch.program} starts {ranks} ranks, and the world of {specification.where} has "
                          f"{spec.world.size}", "make the two equal")
    yield from _check_host_file(slot, main, getattr(spec.world.rendezvous, "hostfile", None), spec.world.size, objects, where)
    yield from _check_state(slot.spec, main, spec.state_directory, where)


def _check_host_file(
    slot: Slot, container: Container, path: str | None, ranks: int, objects: Objects, where: str
) -> Iterator[Blocker]:
    """Of mpirun, in the pod that starts it."""
    if path is None or not any(one.name in MPI_LAUNCHERS for one in _launches(container)):
        return
    brought, pod = Files(), create_pod(slot, "")
    for mount in container.volume_mounts:
        volume = slot.spec.volumes_by_name.get(mount.name)
        files = rendered_files(volume, pod, objects, where)[0] if volume else Files()
        place, part = mount.mount_path.rstrip("/"), mount.sub_path.strip("/")
        if part in files:
            brought[place] = files[part]
        below = f"{part}/" if part else ""
        brought |= {f"{place}/{name.removeprefix(below)}": file for name, file in files.items() if name.startswith(below)}
    for wanted in dict.fromkeys([path, *(value for one in _launches(container) for value in one.values(HOST_FILES))]):
        if wanted not in brought:
            there = ", ".join(sorted(one for one in brought if "host" in one)) or "none"
            yield Blocker(where, f"mpirun's hosts are to be in {wanted}, and no volume brings that file", f"there is {there}")
            continue
        hydra = re.search(r"^\S+:\d+\s*$", brought[wanted].text, re.MULTILINE)
        if hydra and any(one.values(("--mca", "-mca")) for one in _launches(container)):
            yield Blocker(where, f"{wanted} is written for MPICH (host:slots), and the command has --mca, which is Open MPI's",
                          "write mpiImplementation: OpenMPI")
        slots = sum(slots_of(brought[wanted].text).values())
        if slots and slots < ranks:
            yield Blocker(where, f"{wanted} has {slots} slots, and the world has {ranks} ranks: mpirun would not start them",
                          "make workers x slotsPerWorker equal to the ranks")


def _launches(container: Container) -> tuple[Launch, ...]:
    return launches(read(tuple(started((*container.command, *container.args)))))


def _alike(name: str, objects: Objects) -> bool:
    values = [variable.value for slot in objects.slots if slot.reads_specification for variable in slot.spec.main.env
              if variable.name == name]
    return len(values) > 1 and len(set(values)) == 1


def _check_state(spec: PodSpec, container: Container, directory: str | None, where: str) -> Iterator[Blocker]:
    """Where checkpoints go must be a volume that outlives the pod and that it may write to."""
    if directory is None or "://" in directory:
        return
    above = [one for one in container.volume_mounts if f"{directory}/".startswith(f"{one.mount_path.rstrip('/')}/")]
    mount = max(above, key=lambda one: len(one.mount_path), default=None)
    volume = spec.volumes_by_name.get(mount.name) if mount else None
    claim = volume.persistent_volume_claim if volume else None
    if mount is None:
        yield Blocker(where, f"no volume is mounted above {directory}, where checkpoints go: they would go with the pod",
                      "mount the claim of the checkpoints there")
    elif mount.read_only or (claim is not None and claim.read_only):
        yield Blocker(f"{where}, mount {mount.mount_path}", f"it is read-only, and checkpoints go to {directory}",
                      "remove readOnly")
    elif volume is not None and volume.empty_dir is not None:
        yield Blocker(f"{where}, mount {mount.mount_path}", f"it is an emptyDir, and checkpoints go to {directory}: they would "
                      "go with the pod, and no other pod sees them", "mount a claim there")
