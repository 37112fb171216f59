"""A neighbour who uses the Kubeflow SDK in a namespace of ours: the real SDK lists what is in ``dist/``.

The API that it asks is a small HTTP server on this machine that holds those objects, as an API server would return them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
from kubernetes import client

ROOT = Path(__file__).resolve().parents[3]
GROUP = "trainer.kubeflow.org"
PLURALS = {"trainjobs": "TrainJob", "trainingruntimes": "TrainingRuntime", "clustertrainingruntimes": "ClusterTrainingRuntime"}
Data = dict[str, Any]


def objects_of(namespace: str) -> list[Data]:
    """Every object of the Trainer in ``dist/`` of one namespace, with what the API server adds."""
    files = (ROOT / "dist").glob(f"*/{namespace}/*/*.k8s.yaml")
    found = [one for file in sorted(files) for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return [
        one | {"metadata": {**one["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}
        for one in found
        if one["apiVersion"].startswith(f"{GROUP}/")
    ]


def namespaces() -> list[str]:
    runs = (ROOT / "dist").glob("*/*/runs/*.k8s.yaml")
    return sorted({file.parts[-3] for file in runs if "kind: TrainJob" in file.read_text(encoding="utf-8")})


def answer(path: str, objects: list[Data]) -> tuple[int, Data]:
    """What the API server says to a GET: a list of a kind, one object, or that there is none."""
    parts = path.partition("?")[0].strip("/").split("/")
    plural = next((part for part in parts if part in PLURALS), None)
    if plural is None:
        return (200, {"kind": "PodList", "apiVersion": "v1", "items": []}) if parts[-1] == "pods" else (404, {"code": 404})
    kind, name = PLURALS[plural], parts[-1] if parts[-1] != plural else None
    items = [one for one in objects if one["kind"] == kind]
    if name is None:
        return 200, {"apiVersion": f"{GROUP}/v1alpha1", "kind": f"{kind}List", "metadata": {}, "items": items}
    named = [one for one in items if one["metadata"]["name"] == name]
    return (200, named[0]) if named else (404, {"kind": "Status", "code": 404})


@pytest.fixture(params=namespaces())
def namespace(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def sdk(namespace: str) -> Iterator[TrainerClient]:
    objects = objects_of(namespace)

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path, objects)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        configuration = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        yield TrainerClient(KubernetesBackendConfig(namespace=namespace, client_configuration=configuration))
        server.shutdown()


def test_there_is_a_namespace_with_train_jobs() -> None:
    assert namespaces()


def test_the_sdk_lists_our_runtimes(sdk: TrainerClient, namespace: str) -> None:
    ours = {one["metadata"]["name"] for one in objects_of(namespace) if one["kind"] == "TrainingRuntime"}
    listed = sdk.list_runtimes()
    assert {runtime.name for runtime in listed} == ours
    assert all(runtime.name.startswith(f"{runtime.trainer.framework}-") for runtime in listed)


def test_the_sdk_lists_our_train_jobs(sdk: TrainerClient, namespace: str) -> None:
    ours = {one["metadata"]["name"]: one for one in objects_of(namespace) if one["kind"] == "TrainJob"}
    listed = {job.name: job for job in sdk.list_jobs()}
    assert listed.keys() == ours.keys()
    for name, job in listed.items():
        trainer = ours[name]["spec"]["trainer"]
        assert job.num_nodes == trainer["numNodes"]
        assert job.runtime.trainer.image == trainer.get("image", job.runtime.trainer.image)
