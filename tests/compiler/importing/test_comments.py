"""Which comments of an original stay in its run, and where."""

from __future__ import annotations

from tests.compiler.importing.test_bring import only

RAY = """
# Classifies images.
# Apply: kubectl apply -f rayjob.yaml
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: classify}
spec:
  # Suspend specifies whether the controller makes a RayCluster.
  # suspend: false
  entrypoint: python a.py
  # rayClusterSpec is what the controller makes.
  rayClusterSpec:
    # Ray head pod template
    headGroupSpec:
      #pod template
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray:2.52.0
            env:
            #- name: LEVEL
            #  value: "debug"
            #              As long as the registry is slow.
            - {name: PULL, value: "1"}
            resources:
              limits: {cpu: 1, memory: 4Gi}  #the smallest that works
    workerGroupSpecs:
    # the pod replicas in this group
    - groupName: w
      replicas: 2
      template: {spec: {containers: [{name: ray-worker, image: 'rayproject/ray:2.52.0'}]}}
"""


def test_comments_of_fields_that_no_run_has_stay_behind_and_others_stand_at_their_value() -> None:
    lines = [line for line in only(RAY).text.splitlines() if "#" in line]
    assert [line.strip() for line in lines] == [
        "# Classifies images.", "# As long as the registry is slow.", "# the smallest that works",
    ]  # fmt: skip
