"""The table of conformance in docs/engines.md, from what the sessions of the engines' suites have recorded."""

from __future__ import annotations

from tests.conformance_record import recorded
from tests.tables import table

TITLES = {"ddp": "DDP", "fsdp2": "FSDP2", "zero-1": "ZeRO-1", "zero-2": "ZeRO-2", "zero-3": "ZeRO-3", "horovod": "Horovod"}
"""Engines, as the suites and as people call them."""
PROPERTIES = {
    "test_equals_plain_training_in_one_process": "two ranks train like one process that sees the whole batch",
    "test_loss_falls_and_the_run_is_complete": "the loss falls, held-out digits are recognised, the run is marked complete",
    "test_what_was_evaluated_is_what_was_saved": "the last checkpoint holds the weights that were evaluated",
    "test_language_model_learns": "a Llama learns to predict the next byte",
    "test_accumulation_equals_a_larger_micro_batch": "k micro batches of b equal one of k x b",
    "test_clips_the_norm_over_all_ranks": "gradients are clipped by the norm over all ranks, as in one process",
    "test_all_ranks_hold_the_same_weights": "ranks that each hold all weights end with the same bits",
    "test_a_rank_that_reads_other_data_is_refused": "if one rank reads other data, all end with 12",
    "test_resume_equals_uninterrupted": "a resume equals the uninterrupted run bit for bit",
    "test_resume_of_three_ranks_sums_gradients_in_the_same_order": "the same if the order of summation matters (three ranks)",
    "test_batch_statistics_resume_too": "batch norm statistics resume too, also at another number of ranks",
    "test_resume_at_another_world_size_sees_the_same_samples[2 to 1 to 2]": "resumes from 2 ranks to 1 to 2 see the same samples",
    "test_resume_at_another_world_size_sees_the_same_samples[2 to 4]": "the same from 2 ranks to 4",
    "test_three_kills_lose_nothing_that_was_committed": "three SIGKILLs cost no committed step and no bit of the result",
    "test_flipped_bit_falls_back_to_the_commit_before": "a flipped bit costs one checkpoint, which is quarantined",
    "test_a_slow_rank_is_told_from_those_that_wait": "the time that ranks wait for a slow one does not count as their own work",
    "test_non_finite_ends_with_diverged_on_every_rank": "if the loss is not finite, every rank ends with 14 and nothing is saved",
    "test_what_one_rank_finds_not_finite_ends_all": "the same if only one rank sees the cause",
    "test_what_one_rank_finds_not_finite_is_skipped_by_all": "all ranks skip that step, as often in a row as is allowed",
}
"""Test, with its case where it has several -> what it shows."""


def conformance_table() -> str:
    """Property by engine, in Markdown. Raises ``KeyError`` for a test or an engine that has no words here."""
    passed = recorded()
    for test in set().union(*passed.values()):
        PROPERTIES[test]
    held = {title: passed.pop(engine) for engine, title in TITLES.items()}
    for engine in passed:
        TITLES[engine]
    rows = [[text, *("yes" if test in tests else "" for tests in held.values())] for test, text in PROPERTIES.items()]
    return table(["property, in runs of real processes", *held], rows)
