"""The one place that runs the user's ``kubectl``, whose configuration, plugins and rights are the user's own.

No shell is started, and nothing is read from a terminal. Whatever kubectl says of a failure becomes one ``KubectlError``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

Object = dict[str, Any]

FIELD_MANAGER = "trainwright"
"""Whose fields server-side apply says ours are: https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers."""
REQUEST_TIMEOUT = 30
"""Seconds that one answer of the API server may take; kubectl itself waits for ever."""
PATIENCE = 300.0
"""Seconds that one kubectl may take, with all its requests."""


class Reason(StrEnum):
    """What kind of failure it was, for those who go on after one."""

    MISSING = "kubectl is not installed"
    CONTEXT = "no such context"
    UNREACHABLE = "no answer from the cluster"
    UNAUTHORIZED = "not logged in"
    FORBIDDEN = "not allowed"
    NOT_FOUND = "not there"
    UNSERVED = "a kind that the cluster does not have"
    CHANGED = "another version of the object than was read"
    CONFLICT = "another manager's field, or an object of another uid"
    REFUSED = "refused by the API server or a webhook"
    UNASKED = "a webhook that has to admit or convert the object, and does not answer"
    STUCK = "not deleted in time"
    OTHER = "something else"


class KubectlError(Exception):
    """kubectl could not do what it was asked. The message says so to a user; show it without a traceback."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_NOT_WHOLE = "unable to retrieve the complete list of server APIs"
_SILENT = re.compile(r"(?<=[ ,])([a-z0-9.-]+\.[a-z0-9-]+)/v\w+: ")
"""A group of the API in what follows, as ``metrics.k8s.io/v1beta1: stale GroupVersion discovery``."""


class Resource(NamedTuple):
    """Where the API server keeps the objects of a kind."""

    plural: str
    namespaced: bool


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a context and a namespace; without one, those of the user's configuration."""

    context: str | None = None
    namespace: str | None = None

    def run(self, *arguments: str, given: str | None = None) -> str:
        """Standard output of ``kubectl ARGUMENTS``, with ``given`` as its input.

        Raises:
            KubectlError: where it fails, is missing, or gives no answer.
        """
        ended = self._ended(arguments, given)
        if ended.returncode:
            raise _failure(arguments, ended.stderr, self.context)
        return ended.stdout

    def _ended(self, arguments: Sequence[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Raises :class:`KubectlError` where there is no kubectl, or no end of it in time."""
        command = self.command(f"--request-timeout={REQUEST_TIMEOUT}s", *arguments)
        try:
            return subprocess.run(
                command, input=given or "", capture_output=True, check=False, text=True, encoding="utf-8", errors="replace",
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(Reason.UNREACHABLE, f"kubectl {arguments[0]} gave no answer within {PATIENCE:g} s") from error

    def served(self) -> tuple[set[str], dict[str, str]]:
        """The resources that the cluster serves, as ``jobs.batch``; and groups of its API of which it cannot say -> why.

        Raises:
            KubectlError: where the cluster does not answer.
        """
        words = ("api-resources", "--output=name")
        ended = self._ended(words)
        if ended.returncode and _NOT_WHOLE not in ended.stderr:
            raise _failure(words, ended.stderr, self.context)
        silent = _SILENT.findall(ended.stderr.partition(_NOT_WHOLE)[2])
        return set(ended.stdout.split()), dict.fromkeys(silent, "the server behind this group does not answer (an APIService)")

    def command(self, *arguments: str) -> list[str]:
        """The words of its command line, for one whose output is read as it comes."""
        program = shutil.which("kubectl")
        if program is None:
            raise KubectlError(
                Reason.MISSING, "kubectl is needed to talk to a cluster, and is not on PATH: install it "
                "(https://kubernetes.io/docs/tasks/tools/), or give a file that it wrote elsewhere with --from",
            )
        where = [f"--context={self.context}"] if self.context else []
        where += [f"--namespace={self.namespace}"] if self.namespace else []
        return [program, *where, *arguments]

    def get(self, *arguments: str, given: str | None = None) -> list[Object]:
        """The objects that ``kubectl get ARGUMENTS`` names: of a list its items, of one name that object alone."""
        text = self.run("get", *arguments, "--output=json", given=given)
        if not text.strip():  # --ignore-not-found
            return []
        found: Object = json.loads(text)
        items: list[Object] = found["items"] if str(found.get("kind", "")).endswith("List") and "items" in found else [found]
        return items

    def raw(self, path: str) -> Any:
        """What the API server answers to a GET of a path, read as JSON."""
        return json.loads(self.run("get", f"--raw={path}"))

    def resources(self, api_versions: Iterable[str]) -> dict[tuple[str, str], Resource]:
        """apiVersion and kind -> its resource, for each that the cluster serves; a group that it lacks is left out."""
        found: dict[tuple[str, str], Resource] = {}
        for version in dict.fromkeys(api_versions):
            try:
                listed = self.raw(f"/{'apis' if '/' in version else 'api'}/{version}")
            except KubectlError as error:
                if error.reason not in (Reason.NOT_FOUND, Reason.UNSERVED):
                    raise
                continue
            for one in listed["resources"]:
                if "/" not in one["name"]:  # not a subresource
                    found[version, one["kind"]] = Resource(one["name"], one["namespaced"])
        return found

    def apply(self, manifest: Mapping[str, Any]) -> Object:
        """The object as the API server stored it after a server-side apply of its manifest.

        Raises:
            KubectlError: CONFLICT where a field is another manager's, which is never taken from it; REFUSED with the words of the
                API server or of its webhook.
        """
        arguments = ("apply", "--server-side", f"--field-manager={FIELD_MANAGER}", "--filename=-", "--output=json")
        stored: Object = json.loads(self.run(*arguments, "--show-managed-fields", given=json.dumps(manifest)))
        return stored

    def delete(self, path: str, uid: str) -> None:
        """Ask for the deletion of the object at a path of the API, with all that it owns first, if it still has that uid.

        Raises:
            KubectlError: CONFLICT where an object of another uid has that name now.
        """
        # `kubectl delete KIND NAME` cannot state a uid: the object of that name may have been made anew since it was read
        options = {
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {"uid": uid},
        }
        try:
            self.run("delete", f"--raw={path}", "--filename=-", given=json.dumps(options))
        except KubectlError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise

    def wait_until_gone(self, path: str, uid: str, seconds: float) -> None:
        """Return once no object of that uid is at a path of the API.

        Raises:
            KubectlError: STUCK where it is still there after so many seconds, with the finalizers that hold it.
        """
        end, pause = time.monotonic() + seconds, 0.1
        while True:
            try:
                metadata = self.raw(path)["metadata"]
            except KubectlError as error:
                if error.reason is Reason.NOT_FOUND:
                    return
                raise
            if metadata["uid"] != uid:
                return
            if time.monotonic() > end:
                held = ", ".join(metadata.get("finalizers") or ()) or "nothing that it names"
                raise KubectlError(Reason.STUCK, f"{path} is still being deleted after {seconds:g} s; it waits for {held}")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


def current_context() -> str:
    """The context that kubectl would use.

    Raises:
        KubectlError: CONTEXT where none is set.
    """
    return Kubectl().run("config", "current-context").strip()


_CAUSES = (
    (Reason.CONTEXT, r"context was not found|context \S+ does not exist|current-context is not set|no context exists"),
    (Reason.UNAUTHORIZED, r"\(Unauthorized\)|must be logged in|getting credentials|executable \S+ (not found|failed)"),
    (Reason.FORBIDDEN, r"\(Forbidden\): [^\n]*cannot \w+ resource"),
    # whatever follows: its own words are those of a cluster that is out of reach (kubernetes, staging/src/k8s.io/apiserver,
    # pkg/admission/plugin/webhook/errors; staging/src/k8s.io/apiextensions-apiserver, pkg/apiserver/conversion)
    (Reason.UNASKED, r"failed calling webhook|conversion webhook for [^\n]+ failed: "),
    (Reason.UNSERVED, r"the server doesn't have a resource type|no matches for kind|could not find the requested resource"),
    (Reason.NOT_FOUND, r"\(NotFound\)"),
    (Reason.CHANGED, r"the object has been modified"),
    (Reason.CONFLICT, r"Apply failed with \d+ conflict|\(Conflict\)"),
    (Reason.REFUSED, r"\((Invalid|BadRequest|Forbidden|AlreadyExists|MethodNotAllowed)\)|denied the request|is invalid: "),
    (
        Reason.UNREACHABLE,
        r"connection to the server \S+ was refused|Unable to connect|no route to host|i/o timeout|no such host|deadline exceeded"
        r"|request canceled|TLS handshake|x509|\((ServiceUnavailable|Timeout|ServerTimeout|TooManyRequests|InternalError)\)|EOF$",
    ),
)
"""Words of kubectl -> what they mean; the first that fits."""

_HINTS = {
    Reason.CONTEXT: "`kubectl config get-contexts` lists those that there are",
    Reason.UNREACHABLE: "`kubectl cluster-info` with the same context shows whether it can be reached",
    Reason.UNAUTHORIZED: "log in to the cluster as you do for kubectl",
    Reason.FORBIDDEN: "ask for that right, or use a context that has it",
    Reason.UNASKED: "start the controller that serves that webhook, and try again",
    Reason.UNSERVED: "its operator or CRD is not installed there",
    Reason.CHANGED: "somebody changes it at the same time; look what has become of it, and try again",
    Reason.CONFLICT: "what another manager has is never taken from it: let both say the same, or take it out of one of them",
}


def _failure(arguments: tuple[str, ...], said: str, context: str | None) -> KubectlError:
    """One message from what kubectl wrote to its standard error."""
    lines = [line for line in said.strip().splitlines() if not re.match(r"[EWI]\d{4} |Warning: ", line)]  # its own log
    text = "\n".join(lines).partition("\nPlease review the fields above")[0] or said.strip() or "it said nothing"
    reason = next((reason for reason, words in _CAUSES if re.search(words, text)), Reason.OTHER)
    text = re.sub(r"^(error: |Error from server( \(\w+\))?: |Error in configuration: )", "", text)
    where = f" (context {context})" if context else ""
    hint = f"; {_HINTS[reason]}" if reason in _HINTS else ""
    return KubectlError(reason, f"kubectl {arguments[0]}{where}: {text}{hint}")
