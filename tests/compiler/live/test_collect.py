"""What a collected snapshot leaves out."""

from __future__ import annotations

from trainwright.live.collect import _bare


def test_no_data_of_config_maps_and_secrets_is_kept() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": "secret"}', "kept": "yes"}
    for kind in ("ConfigMap", "Secret"):
        metadata = {"name": "a", "annotations": applied, "managedFields": [{"manager": "b"}]}
        one = _bare(
            {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": metadata,
                "data": {"key": "secret"},
                "stringData": {},
                "binaryData": {},
            }
        )
        assert one == {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "annotations": {"kept": "yes"}}}
