from __future__ import annotations

from benchmarks.train_spec import BILLION, MINUTE

from trainwright_trainer.commands.bench.run import llama_token_flops
from trainwright_trainer.contract.model import Llama


def test_a_token_costs_what_the_formula_says() -> None:
    model = Llama(
        architecture="llama", vocab_size=10, hidden_size=4, intermediate_size=8, num_hidden_layers=3, num_attention_heads=2,
    )
    # Of each layer: 4 projections of 4 x 4, 3 of 4 x 8, 2 norms of 4; a last norm, and the head; the embedding is looked up.
    weights = 3 * (4 * 4 * 4 + 3 * 4 * 8 + 2 * 4) + 4 + 4 * 10
    assert llama_token_flops(model, 16) == 6 * weights + 12 * 3 * 4 * 16


def test_attention_grows_with_the_sequence_alone() -> None:
    step = llama_token_flops(MINUTE, 2) - llama_token_flops(MINUTE, 1)
    assert llama_token_flops(MINUTE, 101) - llama_token_flops(MINUTE, 1) == 100 * step


def test_the_billion_has_about_a_billion() -> None:
    assert 1.0e9 < BILLION.parameters < 1.2e9
