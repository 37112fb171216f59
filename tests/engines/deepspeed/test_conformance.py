"""The conformance suite of the torch engines, for ZeRO by DeepSpeed."""

from __future__ import annotations

from tests.trainer.training.test_agreement import (  # noqa: F401  collected here
    spoilt,
    test_a_rank_that_reads_other_data_is_refused,
    test_all_ranks_hold_the_same_weights,
    test_non_finite_ends_with_diverged_on_every_rank,
    test_what_one_rank_finds_not_finite_ends_all,
)
from tests.trainer.training.test_conformance import (  # noqa: F401
    test_accumulation_equals_a_larger_micro_batch,
    test_batch_statistics_resume_too,
    test_clips_the_norm_over_all_ranks,
    test_equals_plain_training_in_one_process,
    test_flipped_bit_falls_back_to_the_commit_before,
    test_language_model_learns,
    test_loss_falls_and_the_run_is_complete,
    test_resume_equals_uninterrupted,
    test_resume_of_three_ranks_sums_gradients_in_the_same_order,
    test_what_was_evaluated_is_what_was_saved,
)
from tests.trainer.training.test_kills import test_three_kills_lose_nothing_that_was_committed  # noqa: F401
from tests.trainer.training.test_resharding import (  # noqa: F401
    test_resume_at_another_world_size_sees_the_same_samples,
    two_ranks,
)
from tests.trainer.training.test_stragglers import test_a_slow_rank_is_told_from_those_that_wait  # noqa: F401
