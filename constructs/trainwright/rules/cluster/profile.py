"""Rules on the cluster: what it offers and allows, its network, and its profile alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.cluster import Cluster
from trainwright.cluster.runtimes import digest_of
from trainwright.findings import Finding, Where
from trainwright.findings.codes import ADD_IT, found, one_of
from trainwright.findings.context import Context
from trainwright.findings.locate import Locator, dotted, escape, tokens
from trainwright.manifest.limits import IMAGE, image_template
from trainwright.manifest.pods import containers_of, image_volumes
from trainwright.manifest.supporting import fences
from trainwright.operators import TARGETS
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.rules.cluster.scheduling import by_cost, targets
from trainwright.rules.secrets import IN_A_RUNTIME, secrets_in
from trainwright.run import CommandWorkload

KNOWN_KUBERNETES = tuple(range(29, 38))
"""Minor versions of Kubernetes 1 whose API this compiler knows."""


def images(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """The images of all containers, and of volumes. The API server has volumes of images from 1.31 on, and drops them until the
    feature is on, which it is by default from 1.35 on.
    """
    version = context.cluster.kubernetes
    minor = int(version.split(".")[1])
    for pod in pods:
        for pointer, container in containers_of(pod.found.spec):
            where = pod.where(context.locate, f"{pointer}/image")
            yield from image_findings(str(container.get("image", "")), context.cluster, where)
        for pointer, reference in image_volumes(pod.found.spec):
            where = pod.where(context.locate, pointer)
            yield from image_findings(reference, context.cluster, where)
            if minor < 31:
                fix = "remove it, or upgrade to 1.35 or newer"
                yield found("TW307", where, f"Kubernetes {version} has no volumes of images", fix)
            elif minor < 35:
                message = f"Kubernetes {version} mounts images only where the feature gate ImageVolume is on"
                fix = "waive this where it is on, in API server and kubelets; or upgrade to 1.35 or newer"
                yield found("TW462", where, message, fix)


def image_findings(reference: str, cluster: Cluster, where: Where) -> Iterator[Finding]:
    """A digest says which bytes run; a tag says which bytes ran when somebody pushed it."""
    match = IMAGE.fullmatch(reference)
    if said := image_template(reference):
        yield found("TW304", where, *said)
        return
    if match is None:
        yield found("TW304", where, _not_an_image(reference), "write registry/path@sha256:<64 hex digits>")
        return
    if match["digest"] is None:
        yield found("TW305", where, f"{reference} is not pinned by digest", "write registry/path@sha256:<digest>")
    if not cluster.allows(reference):
        yield found(
            "TW306",
            where,
            f"cluster {cluster.cluster} does not allow image {reference.partition('@')[0]}",
            f"use an image from one of: {', '.join(cluster.registries)}; or have its registry added to registries of the profile",
        )


def _not_an_image(reference: str) -> str:
    """What is wrong with the digest, where the rest is a reference."""
    name, _, digest = reference.partition("@")
    if not digest or not IMAGE.fullmatch(name):
        return f"{reference!r} is not an image reference"
    algorithm, _, digits = digest.partition(":")
    if algorithm != "sha256":
        said = f"is of {algorithm!r}, and registries know images by sha256"
    elif wrong := re.sub(r"[0-9a-f]", "", digits):
        said = f"has {wrong[0]!r}, and its digits are 0 to 9 and a to f"
    else:
        said = f"has {len(digits)} digits, and a sha256 has 64"
    return f"the digest of {name} {said}"


def known_namespace(context: Context) -> Iterator[Finding]:
    known = context.cluster.namespaces
    if context.run.namespace not in known:
        yield found(
            "TW303",
            context.locate.run("/namespace"),
            f"cluster {context.cluster.cluster} has no namespace {context.run.namespace}",
            one_of(known, ADD_IT),
        )


def kubernetes_version(context: Context, resolution: Resolution) -> Iterator[Finding]:
    version, target = context.cluster.kubernetes, TARGETS[resolution.plan.target]
    minor = int(version.split(".")[1])
    where = context.locate.cluster("/kubernetes")
    if minor not in KNOWN_KUBERNETES:
        yield found(
            "TW307",
            where,
            f"Kubernetes {version} is not known to this compiler",
            f"correct it, or use a newer Trainwright; known: 1.{KNOWN_KUBERNETES[0]} to 1.{KNOWN_KUBERNETES[-1]}",
        )
    elif (1, minor) < target.minimum_kubernetes:
        needed = ".".join(map(str, target.minimum_kubernetes))
        message = f"{target.title} needs Kubernetes {needed}, the cluster has {version}"
        others = targets(context, resolution, lambda binding: True)
        instead = f"use target {by_cost(resolution, others)}; or " if others else ""
        yield found("TW307", where, message, f"{instead}upgrade the cluster to {needed} or newer")


def ports_of_nodes(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """On the node's network the ports of a pod are the node's. Those that an operator declares in the pods of a Ray cluster keep
    two of them off one node (SetDefaults_PodSpec in pkg/apis/core/v1: a container's port is then the node's too); those of our
    trainer's ranks there nobody declares.
    """
    binding = resolution.binding
    own = binding.replaces_command and isinstance(context.run.workload, CommandWorkload)
    if context.run.host_network and binding.fixed_port and not own:
        message = f"{resolution.plan.target_title} decides ports itself: two runs on one node would want the same ones"
        fix = "remove host_network, or choose a target that leaves ports to the plan"
        yield found("TW605", context.locate.run("/host_network"), message, fix)


def fenced(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A profile that wants runs fenced off, and a run that cannot be."""
    if context.cluster.network_policy and not fences(resolution):
        cause = "it uses the node's network" if context.run.host_network else "the operator's own pods must reach it"
        message = f"the run has no NetworkPolicy, since {cause}"
        where = context.locate.run("/host_network" if context.run.host_network else "/target")
        fix = "remove host_network" if context.run.host_network else "choose another target"
        yield found("TW440", where, message, f"{fix}; or accept it: the cluster's own policies still apply")


RUN = (known_namespace,)
PLAN = (kubernetes_version, ports_of_nodes, fenced)
PODS = (images,)


def check_profile(cluster: Cluster, locate: Locator) -> list[Finding]:
    """What can be said of a profile without a run: claims that the foundation could not create."""
    return [*_unmade_claims(cluster, locate), *_changed_runtimes(cluster, locate), *_secrets_of_runtimes(cluster, locate)]


def _changed_runtimes(cluster: Cluster, locate: Locator) -> Iterator[Finding]:
    for name, runtime in cluster.runtimes.items():
        where, digest = locate.cluster(f"/runtimes/{escape(name)}/digest"), digest_of(runtime.manifest)
        if runtime.name != name:
            message = f"{runtime.file or 'the manifest'} is not of a runtime {name}"
            yield found("TW336", where, message, "give the entry the name of its runtime")
        elif runtime.digest != digest:
            held = "has no digest" if runtime.digest is None else "is not what its digest says"
            fix = f"look at what has changed, and write digest: {digest}"
            yield found("TW336", where, f"{runtime.file or 'the manifest'} of runtime {name} {held}", fix)


def _secrets_of_runtimes(cluster: Cluster, locate: Locator) -> Iterator[Finding]:
    """A runtime is a file of the project, as whoever wrote it left it."""
    for name, runtime in cluster.runtimes.items():
        for pointer in secrets_in(runtime.manifest):
            place = f"`{dotted(tokens(pointer))}` of runtime {name}"
            message = f"{place} holds what looks like a secret, which would be committed in plain text"
            yield found("TW409", locate.cluster(f"/runtimes/{escape(name)}"), message, IN_A_RUNTIME)


def _unmade_claims(cluster: Cluster, locate: Locator) -> Iterator[Finding]:
    for space, namespace in cluster.namespaces.items():
        for name, claim in namespace.claims.items():
            where = locate.cluster(f"/namespaces/{escape(space)}/claims/{escape(name)}")
            if claim.managed and claim.size is None:
                fix = "add `size:`, or `managed: false` if the cluster has the claim already"
                yield found("TW311", where, f"claim {name} has no size", fix)
            if claim.storage_class is not None:
                yield from class_findings(cluster, claim.storage_class, [claim.access], where)


def class_findings(cluster: Cluster, name: str, access: Sequence[str], where: Where) -> Iterator[Finding]:
    """What is wrong with a storage class for a claim with these modes of access."""
    offered = cluster.storage_classes.get(name)
    if offered is None:
        fix = one_of(cluster.storage_classes, "add it to storage_classes of the profile")
        yield found("TW312", where, f"storage class {name} is not in the profile", fix)
        return
    for mode in (one for one in access if one not in offered.access):
        fix = f"write access: {' or '.join(offered.access)}; or use another storage class"
        yield found("TW312", where, f"storage class {name} does not offer {mode}", fix)
