"""Rules on mounts, claims and checkpoints."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil
from pathlib import PurePosixPath

from trainwright.findings import Finding, Where
from trainwright.findings.codes import ADD_IT, found, one_of
from trainwright.findings.context import Context
from trainwright.findings.locate import at, escape
from trainwright.manifest.limits import hides_the_system, path_problem
from trainwright.manifest.provenance import Tree
from trainwright.manifest.template.volumes import RESERVED_PATHS, SCRATCH, SHARED_MEMORY
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.plan.stated import rank_mount
from trainwright.rules.cluster.profile import class_findings
from trainwright.rules.pods.pod import added_containers
from trainwright.run import ConfigMapMount, ImageMount, KubernetesMount, Mount, ProjectedMount, SecretMount
from trainwright.units import GIB
from trainwright_trainer.contract.exit_codes import TERMINATION_PATH

LARGEST_FILES = 786_432
"""Three quarters of what a ConfigMap can hold (1 MiB); the rest is for the specification."""

FEWEST_KEPT = 2
"""The least that ``checkpoints.keep`` can be: the newest, and the one before it."""

ACCESS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
CREDENTIALS = (
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
)
"""Other variables that lead an AWS client to credentials (boto3 guide, credentials)."""

LONGEST_DRAIN = 600
"""Seconds that the cluster autoscaler waits for a pod to end (default of its ``--max-graceful-termination-sec``)."""


def checkpoint_volume(context: Context) -> Iterator[Finding]:
    run = context.run
    if run.needs_checkpoints and run.checkpoints.store is None and run.checkpoints.mount not in run.rank_mounts:
        yield found(
            "TW230",
            context.locate.run("/mounts"),
            f"nothing is mounted at {run.checkpoints.mount}, where checkpoints go",
            f"add `mounts: {{{run.checkpoints.mount}: {{claim: NAME}}}}`, or `checkpoints: {{store: s3://BUCKET/PREFIX}}`",
        )


def store_credentials(context: Context) -> Iterator[Finding]:
    """Credentials for an object store: what every AWS client looks for, as far as the run can state it."""
    run = context.run
    store, stated = run.checkpoints.store, set(run.env)
    if store is None or run.service_account or stated & set(CREDENTIALS) or stated >= set(ACCESS_KEYS):
        return
    half = [name for name in ACCESS_KEYS if name in stated]
    missing = [name for name in ACCESS_KEYS if name not in stated]
    has = f"env has {half[0]} without {missing[0]}" if half else "nothing gives the pods credentials for it"
    keys = ", ".join(f"{name}: {{secret: NAME, key: KEY}}" for name in missing)
    fix = f"write `env: {{{keys}}}`, or a service_account with a role; waive this if the nodes' own role may write there"
    yield found("TW245", context.locate.run("/checkpoints/store"), f"checkpoints go to {store}, and {has}", fix)


def paths(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Mounts of main containers that hide what the plan mounts, or that are not written in their shortest form; those that an
    override adds may not hide others of the run either.
    """
    for pod in pods:
        mounts = pod.found.spec["containers"][0].get("volumeMounts") or [] if pod.role else []
        places = {f"/containers/0/volumeMounts/{number}": mount for number, mount in enumerate(mounts)}
        sources = {place: pod.source(f"{place}/mountPath") for place in places}
        yield from _folders(context, places, sources)
        stated = {place: str(places[place].get("mountPath")) for place, source in sources.items() if _STATED.match(source)}
        for place, path in stated.items():
            where = pod.where(context.locate, f"{place}/mountPath")
            yield from path_findings(path, where)
            if sources[place].startswith(_OVERRIDES):
                if any(other != path and PurePosixPath(other).is_relative_to(path) for other in stated.values()):
                    yield found("TW233", where, f"{path} would hide what the run mounts below it", "use another path")
            elif problem := path_problem(places[place].get("subPath", "")):
                yield found("TW233", pod.where(context.locate, f"{place}/subPath"), *problem)


def _folders(context: Context, places: Mapping[str, Tree], sources: Mapping[str, str]) -> Iterator[Finding]:
    """Folders of the run's files in which something else is mounted: by the run, the pool, or the plan."""
    paths = {place: str(mount.get("mountPath")) for place, mount in places.items()}
    for folder, source in ((place, source) for place, source in sources.items() if source.startswith("run:/file_folders/")):
        within = (path for place, path in paths.items() if place != folder and PurePosixPath(path).is_relative_to(paths[folder]))
        if inside := next(within, None):
            message = f"{paths[folder]} holds files of the run alone, and nothing can be mounted in it, as {inside} is"
            fix = "mount that elsewhere, or remove the folder: its files are mounted one by one then"
            yield found("TW233", context.locate.at(source), message, fix)


_OVERRIDES = "run:/overrides/"
_STATED = re.compile(r"run:/((roles/[^/]+/)?mounts|overrides)/|cluster:/node_pools/[^/]+/pods/mounts/")
"""Sources of mounts that the plan does not make of its own accord."""


def scratch_is_writable(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a run mounts at /tmp stands for the scratch of the plan, without which most programs do not start."""
    fix = f"mount it below {SCRATCH}, or at a folder of its own; scratch of a size of yours is `{SCRATCH}: {{scratch: 20Gi}}`"
    message = f"nothing can be written at {SCRATCH}, and the root file system is read-only"
    for role in resolution.binding.roles:
        mount, source = resolution.mounts[role.name].get(SCRATCH, (None, ""))
        fixed = isinstance(mount, _READ_ONLY) or getattr(mount, "read_only", False)
        if mount is not None and fixed and resolution.security_of(role).read_only_root:
            yield found("TW233", context.locate.at(source), message, fix)


_READ_ONLY = (ConfigMapMount, SecretMount, ProjectedMount, ImageMount)


def path_findings(path: str, where: Where) -> Iterator[Finding]:
    """What is wrong with one mount path."""
    if problem := _path_problem(path):
        yield found("TW233", where, *problem)


@lru_cache(maxsize=1024)  # every run mounts at the same few places
def _path_problem(path: str) -> tuple[str, str] | None:
    """Message and fix."""
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        return f"{path} is not a plain absolute path", "write it without '.', '..', double slashes, or a slash at the end"
    for reserved in (*RESERVED_PATHS, TERMINATION_PATH):
        if PurePosixPath(reserved).is_relative_to(path) or PurePosixPath(path).is_relative_to(reserved):
            taken = f"the plan itself mounts {path}" if path == reserved else f"{path} is in the way of the plan's {reserved}"
            sized = "remove it, and write the size of shared memory as resources.shared_memory"
            return taken, sized if path == SHARED_MEMORY else "use another path"
    if hides_the_system(path) or PurePosixPath(path).is_relative_to("/sys"):
        return f"{path} would hide what every program in the image needs", "mount it at a folder of its own, such as /data"
    return path_problem(path)


def claims(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Claims that the cluster profile does not know, that take no files, or that fewer pods can mount than do: pods without
    ranks, such as a launcher, mount them too.
    """
    known = context.cluster.namespaces[context.run.namespace].claims
    pods_of, mounting = most_pods(resolution), dict[str, tuple[Where, set[str]]]()
    for pod in pods:
        for number, volume in enumerate(pod.found.spec.get("volumes") or []):
            stated = volume.get("persistentVolumeClaim")
            if not stated:
                continue
            name, where = stated["claimName"], pod.where(context.locate, f"/volumes/{number}/persistentVolumeClaim/claimName")
            mounting.setdefault(name, (where, set()))[1].add(pod.role or "")
            if name not in known:
                yield found("TW234", where, f"namespace {context.run.namespace} has no claim {name}", one_of(known, ADD_IT))
            elif known[name].access == "ReadOnlyMany" and not stated.get("readOnly"):
                yield _takes_no_files(context, pod, volume["name"], name, where)
    for name, (where, roles) in mounting.items():
        access, count = known[name].access if name in known else "", sum(pods_of.get(role, 1) for role in roles)
        if access in ("ReadWriteOnce", "ReadWriteOncePod") and count > 1:
            holder, most = "node" if access == "ReadWriteOnce" else "pod", "up to " if resolution.needs.elastic else ""
            message = f"claim {name} is {access}: one {holder} can mount it, and the run has {most}{count} pods"
            yield found("TW235", where, message, "use a ReadWriteMany claim")


def _takes_no_files(context: Context, pod: RunPod, volume: str, claim: str, where: Where) -> Finding:
    """A claim that can only be read, on the line of the mount that writes to it, where there is one."""
    run, use, fix = context.run, "mounted for writing", "add `read_only: true`; in an override `readOnly: true`"
    for number, mount in enumerate(pod.found.spec["containers"][0].get("volumeMounts") or []):
        if mount.get("name") == volume and not mount.get("readOnly"):
            where = pod.where(context.locate, f"/containers/0/volumeMounts/{number}/mountPath")
            if run.needs_checkpoints and mount.get("mountPath") == run.checkpoints.root:
                use, fix = "to hold checkpoints", "use a ReadWriteMany claim"
            break
    return found("TW235", where, f"claim {claim} is ReadOnlyMany and is {use}", fix)


def most_pods(resolution: Resolution) -> dict[str, int]:
    """Role -> the most pods that it can have at a time."""
    elastic = resolution.needs.elastic
    return {
        role.name: elastic.maximum if elastic and role.holds_ranks else role.pods for role in resolution.binding.roles
    }


def writes_once(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Init containers that can write to a claim which several pods mount: each pod runs its own, and all at the same time."""
    pods_of = most_pods(resolution)
    writers = [(pod, *writer) for pod in pods if pod.role in pods_of for writer in _writers(pod, resolution)]
    for pod, pointer, name, claim in writers:
        count = sum(pods_of[other] for other in {one.role for one, _, _, its in writers if its == claim} if other)
        if count > 1:
            message = f"init container {name} can write to claim {claim}, and {count} pods run it at the same time"
            fix = (
                "fetch data once, by `prepare`; or mount the claim with readOnly: true, or with a folder for each pod by "
                "subPathExpr; waive this if it does no harm"
            )
            yield found("TW243", pod.where(context.locate, pointer), message, fix)


def _writers(pod: RunPod, resolution: Resolution) -> Iterator[tuple[str, str, str]]:
    """Pointer and name of added init containers that end before the work begins, each with a claim that it mounts for writing as
    the others do.
    """
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod.found.spec.get("volumes") or []
        if volume.get("persistentVolumeClaim") and not volume["persistentVolumeClaim"].get("readOnly")
    }
    for pointer, container in added_containers(pod, resolution):
        if pointer.startswith("/initContainers/") and container.get("restartPolicy") != "Always":
            mounted = [it for it in container.get("volumeMounts") or [] if not it.get("readOnly") and not it.get("subPathExpr")]
            written = dict.fromkeys(claims[it["name"]] for it in mounted if it.get("name") in claims)
            yield from ((pointer, str(container.get("name")), claim) for claim in written)


def storage_classes(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """Of volumes that each pod has for itself, by the rules of the profile's claims; nothing where it lists no classes."""
    for pod in pods if context.cluster.storage_classes else ():
        for number, volume in enumerate(pod.found.spec.get("volumes") or []):
            claim = at(volume, _CLAIM_OF_A_POD) or {}
            if name := claim.get("storageClassName"):
                where = pod.where(context.locate, f"/volumes/{number}{_CLAIM_OF_A_POD}/storageClassName")
                yield from class_findings(context.cluster, name, claim.get("accessModes") or [], where)


_CLAIM_OF_A_POD = "/ephemeral/volumeClaimTemplate/spec"


def checkpoints_fit(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Checked if the sizes of model and claim are known. A checkpoint is complete before an older one is removed."""
    checkpoint, namespace = resolution.plan.checkpoint, context.cluster.namespaces.get(context.run.namespace)
    claim = namespace.claims.get(checkpoint.claim) if namespace and checkpoint and checkpoint.claim else None
    if checkpoint is None or checkpoint.size is None or checkpoint.keep is None or claim is None or claim.size is None:
        return
    size, held = checkpoint.size, claim.size.bytes
    larger = f"use a claim of at least {_rounded(size * (checkpoint.keep + 1))}"
    each = f"one takes about {_rounded(size)}, and claim {checkpoint.claim} has {claim.size}"
    if 2 * size > held:
        message = f"a new checkpoint does not fit beside the last one: {each}"
        yield found("TW238", context.locate.at(rank_mount(context.run, context.run.checkpoints.mount)), message, larger)
    elif size * (checkpoint.keep + 1) > held:
        most = held // size - 1
        fix = f"write keep: {most}, or {larger}" if most >= FEWEST_KEPT else f"{larger}: keep cannot be below {FEWEST_KEPT}"
        message = f"{checkpoint.keep} kept checkpoints and a new one do not fit: {each}"
        yield found("TW239", context.locate.run("/checkpoints/keep"), message, fix)


def _rounded(size: int) -> str:
    """The smallest quantity in whole units that holds this many bytes."""
    unit, suffix = (GIB, "Gi") if size >= GIB else (2**20, "Mi")
    return f"{ceil(size / unit)}{suffix}"


def grace_fits(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The time that a final save needs must fit what nodes give; the notice of a spot node is the shorter limit. How much of it a
    program that is not ours needs, only its author knows.
    """
    spot, grace, ours = resolution.pool.spot, resolution.plan.grace, resolution.plan.saved_by == "trainer"
    where = context.locate.run("/checkpoints" if ours else "/grace")
    needs = f"a final save needs {grace.seconds} s of grace" if ours else f"the program is given {grace.seconds} s to end"
    faster = "use a claim that writes faster" if ours else "write a shorter `grace` if the program ends in that time"
    if spot and grace.seconds > spot.notice.seconds:
        yield found(
            "TW236",
            where,
            f"{needs}, and a node of the spot pool {resolution.plan.world.pool} ends {spot.notice} after its notice",
            f"{faster}, or another pool; or save more often, and waive this",
        )
    elif grace.seconds > LONGEST_DRAIN:
        yield found(
            "TW249",
            where,
            f"{needs}, and the cluster autoscaler waits {LONGEST_DRAIN} s for a pod to end",
            f"{faster}; or waive this if the autoscaler waits longer, or removes no node",
        )


def goes_on(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Work that restarts often, where nobody says whether it saves. Who saves has a place for it (TW230)."""
    run, plan = context.run, resolution.plan
    supervised = any(process.supervised for process in resolution.processes.values())
    if plan.saved_by != "unknown":
        return
    if resolution.needs.elastic:
        cause = "all ranks start again whenever nodes come or go"
    elif resolution.pool.spot:
        cause = f"nodes of pool {plan.world.pool} can be reclaimed"
    elif plan.checkpoint is None and supervised and not resolution.binding.recovery.counts_new_pods:
        cause = "the operator replaces failed pods without counting them, and the supervisor counts attempts beside checkpoints"
    else:
        return
    place, stated = "a claim that is mounted at PATH", "by: own, mount: PATH"
    if plan.checkpoint:
        place, stated = run.checkpoints.root, "by: own"
    fix = f"write `checkpoints: {{{stated}}}` if it saves into {place} by itself; or waive this"
    yield found("TW453", context.locate.run("/checkpoints"), f"nobody says whether the program saves, and {cause}", fix)


def files(context: Context) -> Iterator[Finding]:
    """Files that a ConfigMap can carry, at places of their own."""
    run = context.run
    for number, folder in enumerate(run.file_folders):
        yield from path_findings(folder, context.locate.run(f"/file_folders/{number}"))
    for path in run.files:
        where = context.locate.run(f"/files/{escape(path)}")
        yield from path_findings(path, where)
        above = next((other for other in run.files if path != other and PurePosixPath(path).is_relative_to(other)), None)
        if above is not None:
            message = f"{path} lies below {above}, which is a file of the run too"
            yield found("TW233", where, message, "use another path for one of them")
        if any(path in mounts for mounts in (run.mounts, *(parts.mounts for parts in run.roles.values()))):
            yield found("TW233", where, f"{path} is a mount of the run too", "name a file below it, or use another path")
    texts = [content if isinstance(content, str) else json.dumps(content, indent=2) for content in run.files.values()]
    size = sum(len(text.encode()) for text in texts)
    if size > LARGEST_FILES:
        message = f"the files of the run have {size:,} bytes, and at most {LARGEST_FILES:,} fit beside the specification"
        yield found("TW237", context.locate.run("/files"), message, "put large files into the image, or on a claim")


def compile_cache(context: Context) -> Iterator[Finding]:
    """What is compiled must be writable, and there when the next pod starts."""
    run, path = context.run, context.run.trainer.compile_cache if context.run.trainer else None
    if path is None:
        return
    around = [mount for mount in run.rank_mounts if PurePosixPath(path).is_relative_to(mount)]
    mount = max(around, key=len, default=None)
    if mount is not None and _keeps(run.rank_mounts[mount]):
        return
    what = "is in no mount" if mount is None else f"is in {mount}, which is read-only or is deleted with its pod"
    yield found(
        "TW248", context.locate.run("/workload/compile_cache"), f"compile_cache {path} {what}",
        "name a folder in a mount of a claim without read_only; or remove it, and every pod compiles for itself",
    )


def _keeps(mount: Mount) -> bool:
    """Whether pods can write there, and the next ones find it; of a volume as Kubernetes writes it, as far as its kind says."""
    if isinstance(mount, KubernetesMount) and not mount.volume.keys().isdisjoint(_PASSING):
        return False
    return getattr(mount, "read_only", True) is False


_PASSING = ("emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image")
"""Volumes that are deleted with the pod, or that nobody can write to."""

RUN = (checkpoint_volume, store_credentials, files, compile_cache)
PLAN = (scratch_is_writable, checkpoints_fit, grace_fits, goes_on)
PODS = (paths, claims, writes_once, storage_classes)
