"""A chart author's own app: a training run beside whatever else the team deploys."""

from pathlib import Path

from trainwright.cdk8s import DDPJob  # before cdk8s: it brings the Node that cdk8s needs

# isort: split
import cdk8s_plus_33 as kplus
from cdk8s import App, Chart, Size
from constructs import Construct

from trainwright import Cluster, load_cluster
from trainwright.run import Batch, Checkpoints, ClaimMount, LearningRate, TrainerWorkload
from trainwright_trainer.contract.data import Digits
from trainwright_trainer.contract.model import ViT

HERE = Path(__file__).parent


class DigitsChart(Chart):
    """A run on two CPU pods, and a small web server that shows what it has saved so far."""

    def __init__(self, scope: Construct, id: str, cluster: Cluster) -> None:
        super().__init__(scope, id, namespace="training", labels={"example.com/cost-center": "research"})
        job = DDPJob(
            self, "digits",
            cluster=cluster, nodes=2, gpus_per_node=0,
            team="vision",
            image="registry.example.com/trainwright/trainer@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8",
            batch=Batch(micro=32),
            learning_rate=LearningRate(base=2e-3, warmup_steps=20),
            workload=TrainerWorkload(
                task="image-classification", precision="fp32", epochs=30, data=Digits(),
                model=ViT(
                    image_size=8, patch_size=2, num_channels=1, num_labels=10,
                    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                ),
            ),
            checkpoints=Checkpoints(every_steps=100),
            mounts={"/checkpoints": ClaimMount(claim="training-checkpoints")},
        )
        settings = kplus.ConfigMap(self, "settings", metadata={"name": "digits-files"}, data={
            "run": job.name,
            "checkpoints": job.plan.checkpoint.directory if job.plan.checkpoint else "",
        })
        claim = kplus.PersistentVolumeClaim.from_claim_name(self, "checkpoints", "training-checkpoints")
        files = kplus.Deployment(self, "files", metadata={"name": "digits-files"}, replicas=1, containers=[kplus.ContainerProps(
            image="registry.example.com/web/static@sha256:5d1f0a7f0bd2ac52a8b2d4ad9d2e1c0f7d0e5a4f1a0c5a0d2b7f3f6b0a9e8c71",
            port_number=8080,
            env_variables={"RUN": kplus.EnvValue.from_config_map(settings, "run")},
            resources=kplus.ContainerResources(cpu=kplus.CpuResources(request=kplus.Cpu.millis(100)),
                                               memory=kplus.MemoryResources(limit=Size.mebibytes(64))),
        )])
        files.containers[0].mount("/srv", kplus.Volume.from_persistent_volume_claim(self, "volume", claim), read_only=True)
        # The run's first object holds its specification; labels of objects restart nothing.
        job.api_objects[0].metadata.add_label("example.com/shown-by", "digits-files")


def main() -> None:
    """Write the app to $CDK8S_OUTDIR, or to dist/."""
    app = App()
    DigitsChart(app, "digits", load_cluster(HERE / "laptop.yaml"))
    app.synth()


if __name__ == "__main__":
    main()
