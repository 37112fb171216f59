"""What a command does: its simple commands, what joins them, what is process 1, and which program starts ranks."""

from __future__ import annotations

import pytest

from trainwright.command.launchers import launches
from trainwright.command.model import Assignment, By, Command
from trainwright.command.reading import read, script


def shell(text: str, *arguments: str) -> Command:
    return read(("bash", "-c", text, *arguments))


def programs(command: Command) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(simple.program, simple.then, simple.within) for simple in command.simple if simple.words]


def test_lists_and_pipes_join_simple_commands() -> None:
    command = script("cd /app && A=1 torchrun --x 't y' 2>&1 | tee log || true; sleep 1 &\nexit")
    assert programs(command) == [
        ("cd", "&&", ()), ("torchrun", "|", ("pipeline",)), ("tee", "||", ("pipeline",)), ("true", ";", ()), ("sleep", "&", ()),
        ("exit", "", ()),
    ]  # fmt: skip
    start = command.simple[1]
    assert [word.text for word in start.words] == ["torchrun", "--x", "t y"]
    assert [(name, word.value) for name, word in start.sets] == [("A", "1")]
    assert [(redirect.operator, redirect.word.text) for redirect in start.redirects] == [("2>&", "1")]


def test_what_is_around_a_command_is_told() -> None:
    loops = "for i in $(seq 3); do a; done; while ! b; do c; done"
    command = script(f"{loops}; if d; then e; fi; (f); g() {{ h; }}; case $X in k) l; esac")
    assert {simple.program: simple.within for simple in command.simple if simple.program in {"seq", *"abcdefghl"}} == {
        "seq": ("loop", "substitution"), "a": ("loop",), "b": ("loop",), "c": ("loop",), "d": ("branch",), "e": ("branch",),
        "f": ("subshell",), "h": ("function", "group"), "l": ("branch",),
    }  # fmt: skip


def test_a_here_document_is_text_and_its_line_goes_on() -> None:
    command = script("cat <<E | tee log\ntorchrun $RANK\nE\ndone_with it")
    assert programs(command) == [("cat", "|", ()), ("tee", "", ("pipeline",)), ("done_with", "", ())]
    (document,) = command.simple[0].redirects
    assert (document.operator, document.word.text) == ("<<", "torchrun $RANK\n")
    assert command.names_read() == set()


def test_shells_in_shells_are_read() -> None:
    command = read(("env", "A=1", "bash", "-lc", "--", "timeout 5 sh -c 'exec torchrun $X'"))
    assert programs(command) == [("bash", "", ()), ("sh", "", ("shell",)), ("torchrun", "", ("shell", "shell"))]
    assert (command.shell_text, command.names_read()) == (5, {"X"})
    assert [simple.at for simple in command.simple] == [None, 5, 5]


@pytest.mark.parametrize(("words", "number"), [
    (("bash", "-c", "T"), 2), (("bash", "-ce", "T"), 2), (("sh", "-cx", "T"), 2), (("bash", "-ceu", "T", "-c", "a"), 2),
    (("bash", "-ceo", "pipefail", "T"), 3), (("bash", "-c", "-l", "T"), 3), (("bash", "-ce", "--", "T"), 3),
    (("env", "A=1", "/bin/bash", "--login", "-euo", "pipefail", "-c", "T"), 7), (("zsh", "+x", "-ec", "T"), 3),
    (("bash", "t.sh", "-ce", "a"), None), (("bash", "-ex", "t.sh"), None), (("python", "-c", "T"), None), (("bash", "-c"), None),
    (("bash", "--", "-c", "a"), None), (("bash", "--rcfile", "f"), None),
])  # fmt: skip
def test_the_text_that_a_shell_reads(words: tuple[str, ...], number: int | None) -> None:
    first = read(words).simple[0]
    assert (first.shell_text, number in (None, *first.texts)) == (number, True)
    assert read(("mpirun", "-mca", "pml", "ob1", "a")).simple[0].texts == []


def test_words_behind_a_text_are_its_arguments() -> None:
    command = shell('exec "$0" "$@" $1', "torchrun", "--nnodes", "$N")
    assert [word.text for word in command.simple[1].words] == ["exec", "torchrun", "--nnodes", "$N", "--nnodes"]
    assert command.takes_arguments
    assert not shell("torchrun", "t.py").takes_arguments


@pytest.mark.parametrize(("text", "reads"), [
    ("start $A ${B} ${C:-1} \"$D\" '$E' \\$F $((G * 2)) # $H", {"A", "B", "D", "G"}),
    ("start $(A) '$(B)' $(date) $$C", {"C"}),
    ("if [[ $A == 1 ]]; then start > $B; fi", {"A"}),
    ("A=$B; export C=$D", {"B", "D"}),
    ("case $A in x) start ${B%.*};; esac", {"A", "B"}),
    ("X=$(start $A)", {"A"}),
])  # fmt: skip
def test_variables_that_a_shell_reads(text: str, reads: set[str]) -> None:
    assert shell(text).names_read() == reads


def test_kubernetes_comes_before_the_shell() -> None:
    words = shell("start '$(RANK)' --n=$(NNODES) $(hostname) $$(NO)").simple[-1].words
    assert [(word.text, [read.name for read in word.reads if read.by is By.KUBERNETES]) for word in words[1:3]] == [
        ("$(RANK)", ["RANK"]), ("--n=$(NNODES)", ["NNODES"]),
    ]  # fmt: skip
    (first,) = read(("start", "--to=$HOST:$(PORT)", "$$(X)")).simple
    assert [(read.name, read.by) for read in first.words[1].reads] == [("PORT", By.KUBERNETES), ("HOST", By.NOBODY)]
    assert first.words[2].reads == ()


def test_what_a_text_sets() -> None:
    command = script("A=1\nexport B=2 C\nread D E\nfor F in 1; do :; done\n: ${G:=3}\nenv H=4 start I=5\ndeclare -x J=6")
    assert {name: word.value for name, word in command.sets()} == {
        "A": "1", "B": "2", "D": None, "E": None, "F": None, "G": None, "H": "4", "I": "5", "J": "6",
    }  # fmt: skip
    assert Assignment("D") in list(command.sets())


@pytest.mark.parametrize(("text", "own"), [
    ("A=1; start $A", {"A"}), ("export A=$B B=2; start $A", {"A"}), ("env A=1 start", {"A"}), ("A=1 bash -c 'start $A'", {"A"}),
    ("for A in 1 2; do start $A; done", {"A"}), ("A=1; A=$((A + 1))", {"A"}), ("start $A; A=1", set()), ("A=1 start $A", set()),
    ("export A=${A:-0}; start $A", set()), (": ${A:=0}; start $A", set()), ("A=$(A); start $A", set()),
    ("A=$(start $A)", set()), ('if [ -z "$A" ]; then A=0; fi; start $A', set()), ("[[ $A==0 ]] || start", set()),
    ("python -c 'A=1; start(A)'", set()),
])  # fmt: skip
def test_what_a_text_sets_before_it_reads_it(text: str, own: set[str]) -> None:
    assert shell(text).sets_unread() == own


@pytest.mark.parametrize(("words", "program"), [
    (("torchrun", "t.py"), "torchrun"),
    (("env", "A=1", "nice", "-n", "5", "torchrun", "t.py"), "torchrun"),
    (("tini", "--", "torchrun", "t.py"), "torchrun"),
    (("bash", "-c", "torchrun t.py"), "torchrun"),
    (("bash", "-c", "cd /app && exec torchrun t.py"), "torchrun"),
    (("bash", "-c", "cd /app && torchrun t.py"), "torchrun"),
    (("sh", "-c", "cd /app && torchrun t.py"), "sh"),
    (("bash", "-c", "torchrun t.py | tee log"), "bash"),
    (("bash", "-c", "exec torchrun t.py | tee log"), "bash"),
    (("bash", "-c", "torchrun t.py; cleanup"), "cleanup"),
    (("timeout", "5", "bash", "-c", "exec torchrun t.py"), "bash"),
])  # fmt: skip
def test_which_command_is_process_1_in_the_end(words: tuple[str, ...], program: str) -> None:
    assert read(words).process_1.program == program


@pytest.mark.parametrize(("text", "name"), [
    ("torchrun t.py", "torchrun"), ("/opt/bin/torchrun t.py", "torchrun"), ("python3 -m torch.distributed.run a", "torchrun"),
    ("exec numactl --cpunodebind=0 -m 0 torchrun t.py", "torchrun"), ("nsys profile -o out -t nvtx torchrun t.py", "torchrun"),
    ("runner --flag=1 torchrun t.py", "torchrun"), ("runner --with torchrun t.py", None),
    ("LAUNCH='torchrun --nnodes 2'; $LAUNCH t.py", "torchrun"), ("source a; accelerate launch t.py", "accelerate"),
    ("nohup deepspeed t.py > log &", "deepspeed"), ("composer -n 8 t.py", "composer"), ("mpiexec -n 2 a", "mpirun"),
    ("horovodrun -np 2 python t.py", "horovodrun"), ("srun a", "srun"), ("ray job submit -- python t.py", "ray"),
    ("for i in 1 2; do torchrun t.py && break; done", "torchrun"), ("CMD=(torchrun t.py); \"${CMD[@]}\"", "torchrun"),
    ("echo torchrun", None), ("which mpirun", None), ("pip install deepspeed", None), ("python t.py --launcher torchrun", None),
    ("cat <<E > run.sh\ntorchrun t.py\nE", None), ("accelerate config default", None), ("# torchrun t.py", None),
    ("python3 -m pip install -U deepspeed", None), ("uv pip install --system ray", None), ("uv add deepspeed", None),
    ("python -m pip show composer", None), ("pip install deepspeed && deepspeed t.py", "deepspeed"),
    ("command -v torchrun", None), ("for p in torchrun; do type $p; done", None), ("echo 'run torchrun t.py'", None),
])  # fmt: skip
def test_a_launcher_is_found_where_a_person_sees_one(text: str, name: str | None) -> None:
    assert next((launch.name for launch in launches(shell(text))), None) == name


@pytest.mark.parametrize("before", [
    "uv run", "uv run --frozen", "uv run --with deepspeed --no-sync", "uv --directory /app run --extra gpu --", "poetry run",
    "conda run --no-capture-output", "conda run -n env --live-stream", "nsys profile --trace=cuda,nvtx",
    "nsys profile -t cuda -o out --force-overwrite true", "timeout --kill-after 30 5h", "timeout -k 30 --signal=INT 5h",
    "sudo --user bob -E", "numactl --interleave all", "numactl --cpunodebind=0 --membind 0", "stdbuf --output L",
    "nice --adjustment 5", "ionice --class 2 --classdata 7", "taskset --cpu-list 0-3", "chrt --rr 5", "env --unset X A=1",
])  # fmt: skip
def test_a_program_behind_another_with_its_options(before: str) -> None:
    command = shell(f"{before} mpirun -np 4 python t.py")
    assert command.simple[1].program == "mpirun"
    assert [(launch.name, launch.values(["-np"])) for launch in launches(command)] == [("mpirun", ["4"])]
    assert shell(f"{before} python t.py").simple[1].program == "python"


def test_options_of_a_launcher_are_its_own() -> None:
    (launch,) = launches(shell('torchrun --nnodes=2 --rdzv_id "$JOB" --standalone --new-flag --nproc-per-node 8 t.py --nnodes 9'))
    assert [(option.name, *(word.text for word in option.values)) for option in launch.options] == [
        ("--nnodes", "2"), ("--rdzv-id", "$JOB"), ("--standalone",), ("--new-flag",), ("--nproc-per-node", "8"),
    ]  # fmt: skip
    given = launch.given("--rdzv-id")
    assert given is not None
    assert given.variable == "JOB"
    (launch,) = launches(shell("mpirun -np 4 -x A -x B=1 --mca btl tcp,self $MORE -genvlist C,D python t.py"))
    assert launch.is_open
    assert {name: word and word.value for name, word in launch.hands_on()} == {
        "A": None, "B": "1", "OMPI_MCA_btl": "tcp,self", "C": None, "D": None,
    }  # fmt: skip


@pytest.mark.parametrize(("text", "before", "after"), [
    ("horovodrun --gloo", ("--gloo",), ""), ("horovodrun --autotune", ("--autotune",), ""), ("horovodrun --new", ("--new",), ""),
    ("horovodrun --blacklist-cooldown-range 60 300", ("--blacklist-cooldown-range", "60", "300"), ""),
    ("mpirun -allow-run-as-root", ("-allow-run-as-root",), "-x A "), ("mpirun -tag-output", ("-tag-output",), "-x A "),
    ("mpirun --mca plm_rsh_args '-p 22'", ("--mca", "plm_rsh_args", "-p 22"), "-x A "), ("mpirun --low -1", ("--low", "-1"), ""),
])  # fmt: skip
def test_an_option_is_no_value_of_the_one_before_it(text: str, before: tuple[str, ...], after: str) -> None:
    (launch,) = launches(shell(f"{text} -np 4 --hostfile H {after}python t.py"))
    assert [(option.name, *(word.text for word in option.values)) for option in launch.options] == [
        before, ("-np", "4"), ("--hostfile", "H"), *([("-x", "A")] if after else []),
    ]  # fmt: skip
    assert [word.text for word in launch.behind] == ["python", "t.py"]
