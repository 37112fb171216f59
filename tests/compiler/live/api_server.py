"""A small API server for a real kubectl: it keeps objects, resource versions and managed fields, and deletes in its own time.

kmock 0.8 keeps objects and finalizers, and knows neither server-side apply nor resource versions; no other package on PyPI
serves a real kubectl. What it does follows kubernetes/apiserver and structured-merge-diff, as far as an apply meets it:

- server-side apply with conflicts, fields that leave with their last owner, and `resourceVersion` as a condition;
- deletion in the foreground: the object stays, with a time of deletion, until its pods and its finalizers are gone. Each request
  that reads it brings that nearer, so that no test waits for a clock;
- a few defaults, and the pod template of a Job and the data of an immutable ConfigMap, which no update may change.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.compiler.live.kubelet import Kubelet

Object = dict[str, Any]

KINDS = {
    ("v1", "namespaces"): ("Namespace", False),
    ("v1", "pods"): ("Pod", True),
    ("v1", "services"): ("Service", True),
    ("v1", "configmaps"): ("ConfigMap", True),
    ("v1", "persistentvolumeclaims"): ("PersistentVolumeClaim", True),
    ("batch/v1", "jobs"): ("Job", True),
    ("networking.k8s.io/v1", "networkpolicies"): ("NetworkPolicy", True),
    ("monitoring.coreos.com/v1", "podmonitors"): ("PodMonitor", True),
    ("monitoring.coreos.com/v1", "prometheusrules"): ("PrometheusRule", True),
    ("trainer.kubeflow.org/v1alpha1", "trainjobs"): ("TrainJob", True),
    ("trainer.kubeflow.org/v1alpha1", "trainingruntimes"): ("TrainingRuntime", True),
    ("kueue.x-k8s.io/v1beta2", "localqueues"): ("LocalQueue", True),
}
"""apiVersion and resource -> kind, and whether it is in a namespace."""
LIST_KEYS = {"containers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists whose items have owners of their own; every other list has one owner."""
READS = 2
"""Requests that read an object that is being deleted before it is gone."""


class Key(NamedTuple):
    version: str
    resource: str
    namespace: str
    name: str


class RefusedError(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass
class ApiServer:
    """The cluster. ``with`` it, it is served."""

    objects: dict[Key, Object] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    """``make``, ``change``, ``delete`` and ``gone``, each with the object, in order."""
    stuck: set[str] = field(default_factory=set)
    """Names of objects whose finalizer nobody removes."""
    absent: set[str] = field(default_factory=set)
    """apiVersions that it does not serve."""
    silent: set[str] = field(default_factory=set)
    """apiVersions of which a server behind it should know, which does not answer."""
    refuses: dict[str, RefusedError] = field(default_factory=dict)
    """Name of an object -> what is answered to whoever applies it."""
    unread: dict[str, RefusedError] = field(default_factory=dict)
    """Resource -> what is answered to whoever lists it."""
    writes: int = 0
    """Requests that write, so far."""
    kill_at: int = 0
    """Which of them ends ``victim`` at once, before its answer."""
    victim: int = 0
    """Process group."""
    kubelet: Kubelet = field(default_factory=Kubelet)
    _version: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __enter__(self) -> ApiServer:
        self.put("v1", "namespaces", "", {"metadata": {"name": "kube-system"}})
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, path: Path, context: str = "lab") -> Path:
        where = f"http://127.0.0.1:{self._server.server_address[1]}"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": context,
            "clusters": [{"name": "c", "cluster": {"server": where}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        return path

    @property
    def uid(self) -> str:
        return str(self.objects[Key("v1", "namespaces", "", "kube-system")]["metadata"]["uid"])

    # What tests do in the cluster.

    def named(self, resource: str, name: str) -> Object | None:
        return next((one for key, one in self.objects.items() if (key.resource, key.name) == (resource, name)), None)

    def names(self, resource: str) -> list[str]:
        return sorted(key.name for key in self.objects if key.resource == resource)

    def put(self, version: str, resource: str, namespace: str, manifest: Object, manager: str = "somebody") -> Object:
        """Make an object as another client would, by a create."""
        with self._lock:
            key = Key(version, resource, namespace, manifest["metadata"]["name"])
            stored = self._new(key, copy.deepcopy(manifest))
            stored["metadata"]["managedFields"] = [_managed(manager, "Update", version, _fields(manifest))]
            self.objects[key] = stored
            return stored

    def update(self, resource: str, name: str, manager: str, edit: Callable[[Object], None]) -> None:
        """Change an object as a controller does, whose update takes the fields that it changes from all others."""
        with self._lock:
            stored = self.named(resource, name)
            assert stored is not None
            before = copy.deepcopy(stored)
            edit(stored)
            changed = _changed(before, stored)
            for entry in stored["metadata"]["managedFields"]:
                entry["fieldsV1"] = _minus(entry["fieldsV1"], changed)
            stored["metadata"]["managedFields"].append(_managed(manager, "Update", stored["apiVersion"], changed))
            self._touch(stored)

    def admit(self, job: str) -> None:
        """As Kueue does: node labels and tolerations of a flavor, into the pod template."""
        def edit(stored: Object) -> None:
            stored["metadata"]["annotations"]["kueue.x-k8s.io/admitted"] = "yes"
            pod = stored["spec"]["template"]["spec"]
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), "flavor": "h100"}
            pod["tolerations"] = [*pod.get("tolerations", []), {"key": "flavor", "operator": "Exists"}]

        self.update("jobs", job, "kueue-admission", edit)

    # Requests.

    def answer(self, verb: str, path: str, query: Mapping[str, str], body: bytes) -> Any:
        with self._lock:
            parts = [unquote(part) for part in path.strip("/").split("/")]
            if verb == "GET" and (found := self._discovery(path, parts)) is not None:
                return found
            key = self._key(parts)
            if verb == "GET":
                return self._read(key)
            self.writes += 1
            try:
                given = json.loads(body or b"{}")
                return self._apply(key, query, given) if verb == "PATCH" else self._delete(key, given)
            finally:
                if self.writes == self.kill_at:
                    os.killpg(self.victim, signal.SIGKILL)

    def _key(self, parts: list[str]) -> Key:
        version, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if not rest or (version, rest[0]) not in KINDS or version in self.absent:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return Key(version, rest[0], namespace, rest[1] if len(rest) > 1 else "")

    def _read(self, key: Key) -> Object:
        kind, _ = KINDS[key[:2]]
        if key.name:
            self._proceed(key)
            return self._stored(key)
        if key.resource in self.unread:
            raise self.unread[key.resource]
        found = [one for other, one in self.objects.items() if other[:2] == key[:2] and key.namespace in ("", other.namespace)]
        metadata = {"resourceVersion": str(self._version)}
        return {"apiVersion": key.version, "kind": f"{kind}List", "metadata": metadata, "items": found}

    def _stored(self, key: Key) -> Object:
        if key not in self.objects:
            raise RefusedError(404, "NotFound", f'{key.resource} "{key.name}" not found')
        return self.objects[key]

    def _proceed(self, key: Key) -> None:
        """Bring an object that is being deleted nearer to its end: first its pods go, then the object."""
        stored = self.objects.get(key)
        if stored is None or "deletionTimestamp" not in stored["metadata"] or key.name in self.stuck:
            return
        stored["left"] -= 1
        pods = [other for other in self.objects if other.resource == "pods" and other.name.startswith(f"{key.name}-")]
        if pods:
            for pod in pods:
                self._gone(pod)
        elif stored["left"] <= 0:
            self._gone(key)

    def _gone(self, key: Key) -> None:
        del self.objects[key]
        self.events.append(f"gone {KINDS[key[:2]][0]} {key.name}")

    def _delete(self, key: Key, options: Object) -> Object:
        stored = self._stored(key)
        metadata, wanted = stored["metadata"], (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != metadata["uid"]:
            message = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}"
            raise RefusedError(409, "Conflict", message)
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = "2026-11-26T08:00:00Z"
            finalizers = ["foregroundDeletion"] if options.get("propagationPolicy") == "Foreground" else []
            metadata["finalizers"] = [*finalizers, *(["example.com/hold"] if key.name in self.stuck else [])]
            stored["left"] = READS
            self._touch(stored)
            self.events.append(f"delete {stored['kind']} {key.name}")
        return stored

    # Server-side apply.

    def _apply(self, key: Key, query: Mapping[str, str], config: Object) -> Object:
        assert query.get("force") != "true", "fields are never taken from others"
        if key.name in self.refuses:
            raise self.refuses[key.name]
        if key.namespace and Key("v1", "namespaces", "", key.namespace) not in self.objects:
            raise RefusedError(404, "NotFound", f'namespaces "{key.namespace}" not found')
        manager, version = query["fieldManager"], config["metadata"].pop("resourceVersion", None)
        stored, fields = self.objects.get(key), _fields(config)
        if version and (stored is None or stored["metadata"]["resourceVersion"] != version):
            message = f'Operation cannot be fulfilled on {key.resource} "{key.name}": the object has been modified'
            raise RefusedError(409, "Conflict", message)
        if stored is None:
            stored = self._new(key, copy.deepcopy(config))
            stored["metadata"]["managedFields"] = [_managed(manager, "Apply", key.version, fields)]
            self.objects[key] = stored
            self.events.append(f"make {stored['kind']} {key.name}")
            self._make_pods(key, stored)
            return stored
        assert "deletionTimestamp" not in stored["metadata"], f"{key.name} is being deleted, and applied onto"
        merged = self._merged(stored, config, manager, fields)
        self._demand_mutable(stored, merged)
        if merged != stored:
            self._touch(merged)
            self.objects[key] = merged
            self.events.append(f"change {stored['kind']} {key.name}")
        return merged

    def _merged(self, stored: Object, config: Object, manager: str, fields: Object) -> Object:
        managed = stored["metadata"]["managedFields"]
        others = [one for one in managed if (one["manager"], one["operation"]) != (manager, "Apply")]
        last: Object = next((one["fieldsV1"] for one in managed if one not in others), {})
        found = [f'conflict with "{one["manager"]}": {path}'
                 for one in others for path in _conflicts(stored, config, one["fieldsV1"])]
        if found:
            message = f"Apply failed with {len(found)} conflict{'s' * (len(found) > 1)}: {'; '.join(found)}"
            raise RefusedError(409, "Conflict", message)
        merged = copy.deepcopy(stored)
        left = _minus(last, fields)
        for one in others:
            left = _minus(left, one["fieldsV1"])
        _remove(merged, left)
        _set(merged, config)
        merged["metadata"]["managedFields"] = [*others, _managed(manager, "Apply", stored["apiVersion"], fields)]
        return merged

    def _demand_mutable(self, before: Object, after: Object) -> None:
        fixed = {"Job": ("spec", "template"), "ConfigMap": ("data",) if before.get("immutable") else ()}.get(before["kind"], ())
        old, new = (_at(one, fixed) for one in (before, after))
        if fixed and old != new:
            message = f'{before["kind"]} "{before["metadata"]["name"]}" is invalid: {".".join(fixed)}: field is immutable'
            raise RefusedError(422, "Invalid", message)

    def _new(self, key: Key, stored: Object) -> Object:
        stored["apiVersion"], stored["kind"] = key.version, KINDS[key[:2]][0]
        stored["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-11-26T07:00:00Z"}
        if key.namespace:
            stored["metadata"]["namespace"] = key.namespace
        if stored["kind"] == "Job" and "spec" in stored:
            stored["spec"].setdefault("suspend", False)
            stored["spec"].get("template", {}).setdefault("spec", {}).setdefault("dnsPolicy", "ClusterFirst")
        if stored["kind"] == "PersistentVolumeClaim" and "spec" in stored:
            stored["spec"].setdefault("volumeMode", "Filesystem")
        self._touch(stored)
        return stored

    def _make_pods(self, key: Key, job: Object) -> None:
        for index in range(job["spec"].get("parallelism", 1) if key.resource == "jobs" else 0):
            self.put("v1", "pods", key.namespace, {"metadata": {"name": f"{key.name}-{index}"}}, "job-controller")

    def _touch(self, stored: Object) -> None:
        self._version += 1
        stored["metadata"]["resourceVersion"] = str(self._version)

    # Discovery, and what kubectl asks of OpenAPI before it lets the server check fields.

    def _discovery(self, path: str, parts: list[str]) -> Any:
        versions = sorted({version for version, _ in KINDS} - self.absent | self.silent)
        if path == "/version":
            return {"major": "1", "minor": "35", "gitVersion": "v1.35.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = [{"name": one.split("/")[0], "versions": [{"groupVersion": one, "version": one.split("/")[1]}],
                       "preferredVersion": {"groupVersion": one, "version": one.split("/")[1]}} for one in versions if "/" in one]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if path == "/openapi/v3":
            return {"paths": {_root(one)[1:]: {"serverRelativeURL": f"/openapi/v3{_root(one)}"} for one in versions}}
        if path.startswith("/openapi/v3/"):
            return _openapi(path.removeprefix("/openapi/v3"))
        version = "/".join(parts[1:])
        if version in self.silent:
            raise RefusedError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        if version in versions and path.strip("/") == _root(version)[1:]:
            resources = [{"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
                          "verbs": ["get", "list", "patch", "delete", "create", "update"]}
                         for (one, name), (kind, namespaced) in KINDS.items() if one == version]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
        return None


def _root(version: str) -> str:
    return f"/{'apis' if '/' in version else 'api'}/{version}"


def _openapi(root: str) -> Object:
    version = root.removeprefix("/apis/").removeprefix("/api/")
    group, _, short = version.rpartition("/")
    paths = {}
    for (one, name), (kind, namespaced) in KINDS.items():
        if one == version:
            parameters = [{"name": known, "in": "query"} for known in ("dryRun", "fieldManager", "fieldValidation", "force")]
            paths[f"{root}{'/namespaces/{namespace}' if namespaced else ''}/{name}/{{name}}"] = {"patch": {
                "parameters": parameters, "responses": {},
                "x-kubernetes-group-version-kind": {"group": group, "version": short, "kind": kind},
            }}  # fmt: skip
    return {"openapi": "3.0.0", "info": {"title": "stand-in", "version": "1"}, "paths": paths}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that was killed reads no answer."""


class _Handler(BaseHTTPRequestHandler):
    cluster: ApiServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        url = urlsplit(self.path)
        if self.command == "GET" and self.cluster.kubelet.serves(self, url.path.strip("/").split("/"), url.query):
            return
        body = self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else b""
        body += self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        try:
            code, content = 200, self.cluster.answer(self.command, url.path, query, body)
        except RefusedError as error:
            code = error.code
            content = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(error),
                       "reason": error.reason, "code": code}
        text = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _chunks(self) -> bytes:
        """The body of a request whose length nobody knew, such as what kubectl reads from its standard input."""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_PATCH = do_DELETE = do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


# Fields and who has them: https://github.com/kubernetes-sigs/structured-merge-diff, FieldsV1.


def _managed(manager: str, operation: str, version: str, fields: Object) -> Object:
    return {"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields}


def _fields(config: Any, parts: tuple[str, ...] = ()) -> Object:
    found: Object = {}
    for key, value in config.items():
        if parts == () and key in ("apiVersion", "kind"):
            continue
        if parts == ("metadata",) and key not in ("labels", "annotations", "finalizers", "ownerReferences"):
            continue
        if isinstance(value, dict) and value:
            if below := _fields(value, (*parts, key)):
                found[f"f:{key}"] = below
        elif key in LIST_KEYS and isinstance(value, list):
            found[f"f:{key}"] = {_item(key, one): _fields(one, (*parts, key)) for one in value}
        else:
            found[f"f:{key}"] = {}
    return found


def _item(key: str, item: Object) -> str:
    return "k:" + json.dumps({LIST_KEYS[key]: item[LIST_KEYS[key]]}, separators=(",", ":"))


def _minus(fields: Object, other: Object) -> Object:
    """Fields that are in one set and not in another."""
    left = {}
    for key, below in fields.items():
        if key not in other:
            left[key] = below
        elif below and (rest := _minus(below, other[key])):
            left[key] = rest
    return left


def _child(value: Any, key: str) -> Any:
    """What a key of FieldsV1 leads to; None where there is nothing."""
    if value is None:
        return None
    if key.startswith("f:"):
        return value.get(key[2:])
    wanted = json.loads(key[2:])
    return next((one for one in value if wanted.items() <= one.items()), None)


def _conflicts(stored: Any, config: Any, theirs: Object, path: str = "") -> Iterator[str]:
    """Paths of fields that another manager has, and that are applied with another value."""
    for key, below in theirs.items():
        old, new = _child(stored, key), _child(config, key)
        if new is None:
            continue
        if below:
            yield from _conflicts(old, new, below, f"{path}.{key[2:]}")
        elif old != new:
            yield f"{path}.{key[2:]}"


def _changed(before: Any, after: Any) -> Object:
    found: Object = {}
    for key in after:
        if before.get(key) != after[key]:
            both = isinstance(before.get(key), dict) and isinstance(after[key], dict)
            found[f"f:{key}"] = _changed(before[key], after[key]) if both else _fields({key: after[key]}, ("x",))[f"f:{key}"]
    return found


def _remove(value: Any, fields: Object) -> None:
    for key, below in fields.items():
        child = _child(value, key)
        if child is None:
            continue
        if below:
            _remove(child, below)
        elif key.startswith("f:"):
            del value[key[2:]]
        else:
            value.remove(child)


def _set(value: Object, config: Object) -> None:
    for key, new in config.items():
        if isinstance(new, dict) and isinstance(value.get(key), dict):
            _set(value[key], new)
        elif key in LIST_KEYS and isinstance(new, list) and isinstance(value.get(key), list):
            for one in new:
                there = _child(value[key], _item(key, one))
                if there is None:
                    value[key].append(copy.deepcopy(one))
                else:
                    _set(there, one)
        else:
            value[key] = copy.deepcopy(new)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part, {})
    return value
