"""Rules on who the processes of the pods are, and on what they may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.plan import Resolution
from trainwright.plan.model import SecurityPlan
from trainwright.plan.security import RESTRICTED, USER_ID
from trainwright.rules.pods.pod_security import BASELINE_CAPABILITIES, RESTRICTED_CAPABILITIES
from trainwright.target.base import RunPod


def level_allows(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the run, a further role or the profile asks for, against the level of the namespace."""
    further = [resolution.security_of(role) for role in resolution.binding.roles if role.further]
    yield from dict.fromkeys(one for security in (resolution.plan.security, *further) for one in _refused(context, security))


def _refused(context: Context, security: SecurityPlan) -> Iterator[Finding]:
    asked = [("privileged", "privileged")] if security.privileged and security.level != "privileged" else []
    allowed = {RESTRICTED: RESTRICTED_CAPABILITIES, "baseline": BASELINE_CAPABILITIES}.get(security.level)
    if allowed is not None:
        asked += [("capabilities", f"capability {name}") for name in security.capabilities if name not in allowed]
    if security.level == RESTRICTED and security.user == 0:
        asked.append(("user", "user 0"))
    elif security.level == RESTRICTED and not security.non_root:
        asked.append(("root", "processes that may be root's"))
    for field, problem in asked:
        message = f"pod security {security.level} refuses {problem}"
        fix = f"remove it, or use a namespace of a lower level than {security.level}"
        yield found("TW604", context.locate.at(security.sources[field]), message, fix)


def ssh_has_keys(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Where mpirun starts ranks through ssh, the keys are mounted in the home of one user (target/mpi.py)."""
    security = resolution.plan.security
    where = context.locate.at(security.sources.get("user", security.sources.get("root", "run:/security")))
    if not resolution.binding.sshd or security.user in (0, USER_ID):
        return
    home = f"user: {USER_ID}, with the home /home/mpiuser in the image"
    if security.user:
        message = f"ssh looks for its keys in its user's home, and nobody knows where the home of user {security.user} is"
        yield found("TW428", where, message, f"write {home}; or user: 0, where the namespace's pod security allows it")
    elif security.non_root and security.level != RESTRICTED:
        message = "where the run states no user, the ssh keys are in root's home, and `root: false` refuses root"
        yield found("TW428", where, message, f"add {home}")


def keys_are_roots_own(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A file system group lets its members read the keys, and ssh refuses a key of its own user that others can read (openssh,
    authfile.c, ``sshkey_perm_ok``; mpi-operator#429).
    """
    security, mpi = resolution.plan.security, resolution.needs.mpi
    if mpi is None or not mpi.as_root or not resolution.binding.sshd or security.fs_group is None:
        return
    message = f"fs_group {security.fs_group} lets a group read the keys in root's home, and ssh of root then refuses them"
    fix = f"remove fs_group; or write user: {USER_ID}, with the home /home/mpiuser in the image"
    yield found("TW428", context.locate.at(security.sources["fs_group"]), message, fix)


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


PLAN = (level_allows, ssh_has_keys, keys_are_roots_own)
PODS = (user_is_stated,)
