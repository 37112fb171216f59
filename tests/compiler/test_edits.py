"""What an edit of each field does to the name and to the checkpoints, as ``docs/gitops.md`` says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.compiler.example import RUN, Data, compiled
from tests.compiler.findings.page import overlay
from tests.compiler.projects import ROOT

from trainwright.run import Run

PAGE = ROOT / "docs" / "gitops.md"
ELSEWHERE = {"run", "namespace", "cluster", "target", "trainer_version", "state", "grace", "probes", "pre_stop", "ports",
             "exit_codes", "deadline", "ttl", "supervisor", "runtime", "initializer"}  # fmt: skip
"""Fields that make another run, that nothing else can be written in today, that the trainer does not have, or that name what
somebody else has installed.
"""

CLUSTER: Data = {
    "kueue": {"version": "0.19.2"},
    "scheduling": {"gang": "volcano", "version": "1.15.1"},
    "topology": {"rack": {"label": "topology.kubernetes.io/rack"}},
    "namespaces": {"training": {"pod_security": "privileged", "queues": {"gold": {"managed": False}}}},
}
"""On the example's cluster, so that every field has an effect."""

IMAGE = "registry.example.com/tools/relay@sha256:" + "c" * 64
SOURCE = {"source": "s3://example-datasets/digits", "image": "registry.example.com/tools/rclone@sha256:" + "b" * 64}

EDITS: dict[str, Data] = {
    "labels": {"labels": {"example.com/note": "edited"}},
    "annotations": {"annotations": {"example.com/note": "edited"}},
    "node_affinity": {"node_affinity": {"required": [{"key": "example.com/disk", "operator": "Exists"}]}},
    "pod_affinity": {"pod_affinity": {"required": [{"labels": {"app": "cache"}, "topology_key": "example.com/rack"}]}},
    "pod_anti_affinity": {"pod_anti_affinity": {"preferred": [{"labels": {"app": "x"}, "topology_key": "example.com/rack"}]}},
    "scheduling_gates": {"scheduling_gates": ["example.com/hold"]},
    "runtime_class": {"runtime_class": "nvidia"},
    "team": {"team": "another"},
    "waivers": {"waivers": [{"code": "TW305", "reason": "built anew every night", "expires": "2031-01-01"}]},
    "topology": {"topology": {"nodes": 4}},
    "batch": {"batch": {"micro": 4}},
    "learning_rate": {"learning_rate": {"base": 0.5}},
    "checkpoints": {"checkpoints": {"keep": 7}},
    "image": {"image": "registry.example.com/another@sha256:" + "a" * 64},
    "node_pool": {"node_pool": "spot"},
    "mounts": {"mounts": {"/data": {"claim": "dataset", "read_only": True}}},
    "prepare": {"prepare": {"/checkpoints/data": SOURCE}},
    "containers": {"containers": [{"name": "relay", "kind": "sidecar", "image": IMAGE, "cpu": 1, "memory": "1Gi"}]},
    "roles": {"roles": {"node": {"env": {"PLAIN": "edited"}}}},
    "files": {"files": {"/app/settings.json": {"depth": 3}}},
    "file_modes": {"files": {"/app/settings.json": {"depth": 2}}, "file_modes": {"/app/settings.json": "0444"}},
    "file_folders": {"files": {"/app/settings.json": {"depth": 2}}, "file_folders": ["/app"]},
    "host_network": {"host_network": True},
    "placement": {"placement": {"together": "rack"}},
    "queue": {"queue": "gold"},
    "priority": {"priority": "high"},
    "gang": {"gang": False},
    "resources": {"resources": {"cpu": 100}},
    "env": {"env": {"PLAIN": "edited"}},
    "security": {"security": {"user": 2000}},
    "service_account": {"service_account": "trainer"},
    "image_pull_secrets": {"image_pull_secrets": ["registry"]},
    "resource_claims": {"resource_claims": {"adapters": {"template": "rdma"}}},
    "image_pull_policy": {"image_pull_policy": "Always"},
    "env_from": {"env_from": [{"config_map": "settings"}]},
    "pod_labels": {"pod_labels": {"example.com/note": "edited"}},
    "pod_annotations": {"pod_annotations": {"example.com/note": "edited"}},
    "restarts": {"restarts": 7},
    "on_disruption": {"on_disruption": "fail"},
    "peer_wait": {"peer_wait": "2h"},
    "peer_lost": {"peer_lost": "30s"},
    "recovery": {"recovery": "whole-job"},
    "recovery_wait": {"recovery_wait": "20m"},
    "node_lost": {"node_lost": "5m"},
    "watchdog": {"watchdog": {"training": "10m"}},
    "preflight": {"preflight": {"min_tflops": 400}},
    "attempt": {"attempt": 2},
    "overrides": {"overrides": {"pod": {"node": {"runtimeClassName": "nvidia"}}}},
    "topology.engine": {"topology": {"kind": "zero3", "engine": "fsdp2", "nodes": 2, "gpus_per_node": 8}},
    "checkpoints.mount": {"checkpoints": {"mount": "/saved"}, "mounts": {"/saved": {"claim": "checkpoints"}}},
    "checkpoints.store": {"checkpoints": {"store": "s3://example-checkpoints/vision"}},
    "workload.optimizer": {"workload": {"optimizer": {"kind": "adamw", "weight_decay": 0.2}}},
    "workload.optimizer.kind": {"workload": {"optimizer": {"kind": "sgd"}}},
    "workload.clip_norm": {"workload": {"clip_norm": 2.0}},
    "workload.skip_non_finite": {"workload": {"skip_non_finite": 3}},
    "workload.skip_unreadable": {"workload": {"skip_unreadable": 3}},
    "workload.initial_weights": {"workload": {"initial_weights": "/checkpoints/start"}},
    "workload.gradient_reduction": {"workload": {"gradient_reduction": "fp32"}},
    "workload.activation_checkpointing": {"workload": {"activation_checkpointing": True}},
    "workload.compile": {"workload": {"compile": True}},
    "workload.compile_cache": {"workload": {"compile": True, "compile_cache": "/checkpoints/compiled"}},
    "workload.deterministic": {"workload": {"deterministic": True}},
    "workload.cudnn_benchmark": {"workload": {"cudnn_benchmark": True}},
    "workload.expandable_segments": {"workload": {"expandable_segments": True}},
    "workload.precision": {"workload": {"precision": "fp32"}},
    "workload.schedule": {"workload": {"schedule": "linear"}},
    "workload.decay_fraction": {"workload": {"schedule": "wsd", "decay_fraction": 0.3}},
    "workload.epochs": {"workload": {"epochs": 60}},
    "workload.steps": {"workload": {"epochs": None, "steps": 500}},
    "workload.seed": {"workload": {"seed": 9}},
    "workload.evaluation": {"workload": {"evaluation": {"every_steps": 50}}},
    "workload.metrics": {"workload": {"metrics": [{"to": "tensorboard"}]}},
    "workload.model": {"workload": {"model": {"dropout": 0.1}}},
    "workload.data": {"workload": {"data": {"held_out": 0.3}}},
    "workload.task": {
        "workload": {
            "task": "causal-lm",
            "model": {"architecture": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                      "num_hidden_layers": 2, "num_attention_heads": 4},
            "data": {"source": "python-stdlib"},
        },
    },
}


def rows() -> Iterator[tuple[str, str, str]]:
    """Field, name and checkpoints, as the page says."""
    table = PAGE.read_text(encoding="utf-8").partition("## What an edit does")[2].partition("\n\n- ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            fields, name, checkpoints = (cell.strip() for cell in line.strip("|").split("|"))
            for field in re.findall(r"`([^`]+)`", fields):
                for each in _of_the_workload() if field == "workload" else [field]:
                    yield each, name, checkpoints


def _of_the_workload() -> list[str]:
    """Keys that the table has in one word; those that start at step 0 have a row of their own."""
    own = {f"workload.{key}" for key in ("task", "model", "initial_weights", "data", "optimizer.kind")}
    return [field for field in EDITS if field.startswith("workload.") and field not in own]


def test_every_field_of_a_run_is_in_the_table() -> None:
    listed = [field for field, _, _ in rows()]
    assert len(listed) == len(set(listed))
    assert {*Run.model_fields} - {"workload"} - ELSEWHERE <= {*listed} == EDITS.keys()


@pytest.mark.parametrize(("field", "name", "checkpoints"), list(rows()))
def test_an_edit_does_what_the_page_says(field: str, name: str, checkpoints: str) -> None:
    before, after = (compiled(edit, CLUSTER).plan for edit in ({}, EDITS[field]))
    assert before.checkpoint is not None
    assert after.checkpoint is not None
    assert overlay(RUN, EDITS[field]) != RUN
    assert (after.name == before.name) == (name == "stays")
    assert (after.checkpoint.directory == before.checkpoint.directory) == (checkpoints != "starts at step 0")
