"""The harness of the torch engines' conformance suite, with runs that train by DeepSpeed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance_record import watch
from tests.conformance_suite import is_taken, leave_to_the_night
from tests.trainer.training import conftest as harness
from tests.trainer.training.conftest import Spec

rank_server, ranks, session_ranks = harness.rank_server, harness.ranks, harness.session_ranks
finished, uninterrupted = harness.finished, harness.uninterrupted
plain_spec = pytest.fixture(scope="session", name="plain_spec")(harness.build_spec)


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what one stage cannot do otherwise than another."""
    left_out = [item for item in items if not is_taken(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    leave_to_the_night(items)
    watch(config, Path(__file__).parent, items)


@pytest.fixture(
    scope="session", params=[*(pytest.param(stage, marks=pytest.mark.nightly) for stage in ("zero-1", "zero-2")), "zero-3"]
)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def preloaded() -> Iterator[list[str]]:
    """DeepSpeed looks for GPUs when it is imported, if nobody names the device."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DS_ACCELERATOR", "cpu")
        # The last one, which DeepSpeed asks for in each engine, imports all of torch's compiler.
        yield ["trainwright_trainer.training.assembly", "deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer"]


@pytest.fixture(scope="session")
def spec(plain_spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """A run of digits with engine ``zero-<stage>``, and DeepSpeed's configuration beside it."""

    def build(directory: Path, *, world: int = 2, engine: str = "zero-3", **work: Any) -> dict[str, Any]:
        config = tmp_path_factory.mktemp("config") / "ds_config.json"
        built = plain_spec(directory, world=world, engine="deepspeed", deepspeed={"config": str(config)}, **work)
        config.write_text(json.dumps(configuration(built["work"], world, stage=int(engine.removeprefix("zero-")))))
        return built

    return build


def configuration(work: dict[str, Any], world: int, stage: int) -> dict[str, Any]:
    """As the compiler renders it, for a small model."""
    micro, accumulation = work["batch"]["micro"], work["batch"].get("accumulation", 1)
    sharded = {"stage3_param_persistence_threshold": 100} if stage == 3 else {}
    return {
        "train_batch_size": micro * accumulation * world,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": work["clip_norm"] or 0.0,
        "bf16": {"enabled": work["precision"] == "bf16"},
        "fp16": {"enabled": work["precision"] == "fp16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "communication_data_type": work["precision"],
        "prescale_gradients": False,
        "zero_optimization": {"stage": stage, "overlap_comm": False, "contiguous_gradients": True, **sharded},
        "zero_allow_untested_optimizer": True,
        "checkpoint": {"tag_validation": "FAIL"},
    }
