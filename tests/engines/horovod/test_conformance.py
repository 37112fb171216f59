"""The conformance suite of the torch engines, for Horovod under mpirun."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.engines.horovod.conftest import Ranks
from tests.trainer.training.conformance import EVERY, STEPS, assert_same_bits, forget_after, hard
from tests.trainer.training.conftest import Spec
from tests.trainer.training.test_agreement import (  # noqa: F401  collected here
    spoilt,
    test_a_rank_that_reads_other_data_is_refused,
    test_all_ranks_hold_the_same_weights,
    test_non_finite_ends_with_diverged_on_every_rank,
    test_what_one_rank_finds_not_finite_ends_all,
    test_what_one_rank_finds_not_finite_is_skipped_by_all,
)
from tests.trainer.training.test_conformance import (  # noqa: F401
    test_accumulation_equals_a_larger_micro_batch,
    test_batch_statistics_resume_too,
    test_clips_the_norm_over_all_ranks,
    test_equals_plain_training_in_one_process,
    test_flipped_bit_falls_back_to_the_commit_before,
    test_language_model_learns,
    test_loss_falls_and_the_run_is_complete,
    test_resume_of_three_ranks_sums_gradients_in_the_same_order,
    test_what_was_evaluated_is_what_was_saved,
)
from tests.trainer.training.test_resharding import (  # noqa: F401
    test_resume_at_another_world_size_sees_the_same_samples,
    two_ranks,
)
from tests.trainer.training.test_stragglers import test_a_slow_rank_is_told_from_those_that_wait  # noqa: F401


def test_resume_equals_uninterrupted(ranks: Ranks, spec: Spec, engine: str, uninterrupted: Path, tmp_path: Path) -> None:
    """From the commit before the last.

    How ranks of mpirun are told to stop stands in ``tests/trainer/supervisor/launchers/test_mpi.py``.
    """
    directory = tmp_path / "lineage"
    shutil.copytree(uninterrupted, directory)
    forget_after(directory, STEPS - EVERY)
    leader, _ = ranks.finish(hard(spec, directory, engine))
    assert leader.events("restored")[0]["step"] == STEPS - EVERY
    assert_same_bits(directory, uninterrupted)
