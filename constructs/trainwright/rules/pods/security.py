"""Rules on who the processes of the pods are, and on what they may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import Locator, escape
from trainwright.manifest.template.containers import containers_of_role
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.plan.security import RESTRICTED, USER_ID
from trainwright.rules.pods.pod_security import violations
from trainwright.run import Container
from trainwright.security import Security


def level_allows(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """What the namespace's pod security standard refuses: the run's object would be there, and never have a pod."""
    level, locate = resolution.plan.security.level, context.locate
    for pod in pods:
        refused = list(violations(pod.found.spec, level, context.cluster.kubernetes))
        locks = [one for one in refused if pod.source(one[0]).endswith("/fabric/ipc_lock")]
        if locks:
            yield _locks_memory(context, resolution)
        problems = [(_stated(locate, pod, *one), one[1]) for one in refused if one not in locks]
        causes = {where for where, problem in problems if where and " without " not in problem}
        follows = any(where for where, _ in problems)
        for where, problem in problems:
            missing = problem.partition(" without ")[2].replace("a seccomp profile", "seccompProfile: {type: RuntimeDefault}")
            if (where is None and follows) or (missing and where in causes):
                continue  # the plan would have written it, but for what is stated
            where = where or _root_of(context, resolution, pod)
            in_words = "/security/" in (where.pointer or "")
            fix = f"add `{missing}` to its securityContext" if missing and not in_words else "remove it"
            whole_run = where.pointer.startswith("/security")  # a default says it of the containers of many runs
            message = f"pod security {level} refuses {problem.partition(' in container ')[0] if whole_run else problem}"
            yield found("TW604", where, message, f"{fix}, or use a namespace of a lower level than {level}")


def _stated(locate: Locator, pod: RunPod, pointer: str, problem: str) -> Where | None:
    """Where a problem is stated, of the container or of its pod; what is missing in a container that is written in the words of a
    run, the plan would have written.
    """
    if " without " in problem and _IN_WORDS.fullmatch(pod.source(pointer)):
        return None
    return pod.stated(locate, pointer) or pod.stated(locate, f"/securityContext/{pointer.rpartition('/')[2]}")


_IN_WORDS = re.compile(r".*/containers/[0-9]+")


def _locks_memory(context: Context, resolution: Resolution) -> Finding:
    """What the profile says that RDMA needs."""
    needs = f"RDMA on pool {resolution.plan.world.pool} needs IPC_LOCK"
    fix = (
        "let the nodes' container runtime allow unlimited locked memory and write fabric.ipc_lock: false in the profile; "
        "or use a namespace of level privileged"
    )
    message = f"{needs}, which pod security {resolution.plan.security.level} refuses"
    return found("TW310", context.locate.run("/namespace"), message, fix)


def _root_of(context: Context, resolution: Resolution, pod: RunPod) -> Where:
    """Where it is stated that the processes of a pod may be root's: of that a manifest says nothing."""
    role = next((one for one in resolution.binding.roles if one.name == pod.role), None)
    return context.locate.at(resolution.security_of(role).sources.get("root", "run:/overrides") if role else "run:/overrides")


def containers_may_be_whose_they_say(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A container has the pod's user unless it states one, whatever it says of root."""
    for role in resolution.binding.roles:
        user = resolution.security_of(role).user
        for container, source in containers_of_role(resolution, role):
            asked = container.security if isinstance(container, Container) else Security()
            if asked.root is None or asked.user is not None or user is None or asked.root == (user == 0):
                continue
            effect = "it is not root" if asked.root else "the kubelet would refuse to start it"
            stated = f"with root: {str(asked.root).lower()}"
            message = f"container {container.name} has user {user}, that of its pod: {stated} {effect}"
            fix = f"write user: 0; or remove root, and it stays user {user}" if asked.root else "write a user that is not 0"
            yield found("TW601", context.locate.at(f"{source}/security/root"), message, fix)


def user_is_stated(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """``restricted`` takes a pod with ``runAsNonRoot`` alone, and the kubelet refuses it for most images: those whose user is
    root, or a name (kubernetes, pkg/kubelet/kuberuntime/security_context.go, ``verifyRunAsNonRoot``).
    """
    if resolution.plan.security.level != RESTRICTED:
        return
    for pod in pods:
        main = pod.found.spec["containers"][0]
        users = [(owner.get("securityContext") or {}).get("runAsUser") for owner in (pod.found.spec, main)]
        if pod.role and users == [None, None]:
            message = f"namespace {context.run.namespace} is restricted, and nothing states the user as which the image runs"
            fix = f"add `security: {{user: {USER_ID}}}`, with a user ID that may read the image's files; or use another namespace"
            yield found("TW317", context.locate.run(_user_at(context, resolution, pod.role)), message, fix)
            return


def _user_at(context: Context, resolution: Resolution, role: str) -> str:
    """Where the user belongs; where nothing is said of security, the namespace that asks for one."""
    if any(one.name == role and one.further for one in resolution.binding.roles):
        return f"/roles/{escape(role)}/security"
    return "/security" if "security" in context.run.model_fields_set else "/namespace"


PLAN = (containers_may_be_whose_they_say,)
PODS = (level_allows, user_is_stated)
