"""Legal values: what the libraries read, and what they would misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.variables.entry import Choice, File, Form, Listed, PerFunction, Positive, Values, Whole
from trainwright.variables.rows import VARIABLES

CHOICES = [name for name, entry in VARIABLES.items() if isinstance(entry.values, Choice)]
RANGES = [name for name, entry in VARIABLES.items() if isinstance(entry.values, Whole)]
LISTS = [name for name, entry in VARIABLES.items() if isinstance(entry.values, Listed | PerFunction)]


@given(st.data())
def test_every_word_of_a_choice_is_legal(data: st.DataObject) -> None:
    values = VARIABLES[data.draw(st.sampled_from(CHOICES))].values
    assert isinstance(values, Choice)
    word = data.draw(st.sampled_from(values.words))
    assert values.accepts(word)
    assert values.exact or (values.accepts(word.lower()) and values.accepts(word.upper()))
    assert not values.accepts(f"{word} ")
    assert word in str(values)


@given(st.data())
def test_every_number_of_a_range_is_legal_and_no_other(data: st.DataObject) -> None:
    values = VARIABLES[data.draw(st.sampled_from(RANGES))].values
    assert isinstance(values, Whole)
    number = data.draw(st.integers(-(2**63), 2**63 - 1))
    inside = (values.low is None or number >= values.low) and (values.high is None or number <= values.high)
    sign = "-" if number < 0 else ""
    assert [values.accepts(text) for text in (str(number), f"{sign}{abs(number):#x}")] == [inside, inside]
    assert not values.accepts(f"{number}M")


@given(st.data())
def test_every_list_of_its_words_is_legal(data: st.DataObject) -> None:
    values = VARIABLES[data.draw(st.sampled_from(LISTS))].values
    assert isinstance(values, Listed | PerFunction)
    words = data.draw(st.lists(st.sampled_from(values.words), min_size=1, max_size=5))
    text = data.draw(st.sampled_from(("", "^"))) + ",".join(words)
    assert values.accepts(text)
    assert not values.accepts(f"{text},no-such-word")


@pytest.mark.parametrize(
    ("values", "text", "legal"),
    [
        (Whole(0, 31), "0x1f", True),
        (Whole(0, 31), "0x20", False),
        (Whole(0, 31), "037", True),
        (Whole(0, 31), "08", False),
        (Whole(0, 31), "-1", False),
        (Whole(0, 31), "1.0", False),
        (Whole(0, 31), "١", False),
        (Positive(), "0.5", True),
        (Positive(), "0", False),
        (Positive(), "inf", False),
        (File(), "/tmp/log.%h", True),
        (File(), "~/log", False),
        (Form("a+", "letters a"), "aa\n", False),
        (PerFunction(("ring", "tree")), "ring;allreduce:tree;broadcast:^ring", True),
        (PerFunction(("ring", "tree")), "allreduce:^tree", True),
        (PerFunction(("ring", "tree")), "ring;tree", False),
        (PerFunction(("ring", "tree")), "allreduce:", False),
    ],
)
def test_forms(values: Values, text: str, legal: bool) -> None:
    assert values.accepts(text) is legal


@pytest.mark.parametrize(
    ("name", "legal", "illegal"),
    [
        ("NCCL_SOCKET_IFNAME", ["eth", "=eth0,eth1", "^docker", "^=docker0,lo", "en"], ["eth0 eth1", "", "!eth0"]),
        ("NCCL_IB_HCA", ["mlx5", "=mlx5_0:1,mlx5_1:1", "^=mlx5_1,mlx5_4", "=mlx5_0::0:1"], ["mlx5_0:one", "=", "mlx5_0 mlx5_1"]),
        (
            "NCCL_ALGO",
            ["Ring", "ring,tree", "^NVLS", "ring,collnetdirect;allreduce:tree;broadcast:ring"],
            ["fastest", "ring tree"],
        ),
        ("NCCL_CTA_POLICY", ["0", "ZERO", "efficiency|ZERO"], ["3", "0|1", "FAST"]),
        ("NCCL_NETDEVS_POLICY", ["AUTO", "MAX:2", "ALL"], ["MAX", "MAX:0"]),
        ("NCCL_RAS_ADDR", ["localhost:28028", "[::1]:28028"], ["localhost", ":28028"]),
        ("NCCL_IB_ADDR_RANGE", ["10.0.0.0/8", "fe80::/10"], ["10.0.0.0"]),
        ("GLOO_SOCKET_IFNAME", ["eth0", "eth0,eth1"], ["=eth0", "^lo,docker0"]),
        ("OMPI_MCA_btl", ["tcp,self", "^openib"], ["tcp self"]),
        ("I_MPI_DEBUG", ["5", "4,pid,host"], ["all", "5 pid"]),
        ("FI_PROVIDER", ["efa", "^tcp,sockets", "tcp;ofi_rxm"], ["efa tcp"]),
    ],
)
def test_examples_of_the_documentation(name: str, legal: list[str], illegal: list[str]) -> None:
    accepts = VARIABLES[name].values.accepts
    assert [accepts(text) for text in legal] == [True] * len(legal)
    assert [accepts(text) for text in illegal] == [False] * len(illegal)
