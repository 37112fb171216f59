"""torch.distributed and Gloo.

The names are those of torch 2.13: torch/csrc/distributed/c10d, ProcessGroupNCCL.hpp, FlightRecorder.hpp and ProcessGroupGloo.hpp.
A switch that torch cannot read ends the program, empty text among them, and so does a number without a digit at its front
(torch/csrc/distributed/c10d/Utils.hpp, getCvarBool and getCvarInt; NCCLUtils.cpp, nccl_nonblocking_timeout). What
c10::utils::check_env reads is ignored with a warning (c10/util/env.h).
"""

from __future__ import annotations

from trainwright.variables.entry import COUNT, PATH, SIZE, SWITCH, TEXT, Choice, Entry, Form, Library, Risk, Values

_DOCS = "https://docs.pytorch.org/docs/stable"
_GUIDE = f"{_DOCS}/torch_nccl_environment_variables.html"
_CODE = "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d"
_NCCL, _UTILS, _RECORDER = f"{_CODE}/ProcessGroupNCCL.hpp", f"{_CODE}/NCCLUtils.cpp", f"{_CODE}/FlightRecorder.hpp"
_GLOO = f"{_CODE}/GlooDeviceFactory.cpp"
_RENDEZVOUS = "https://github.com/pytorch/pytorch/blob/main/torch/distributed"

WORDS = Choice(("1", "0", "y", "n", "yes", "no", "t", "f", "true", "false"))


HANDLING = Choice(("0", "1", "2", "3"))
NUMBER = Form(r"\s*[+-]?[0-9].*", "a number")
"""What ``std::stoi`` reads: it stops at the first letter."""
INTERFACES = Form(r"[A-Za-z0-9_.\-]{1,15}(,[A-Za-z0-9_.\-]{1,15})*", "exact names separated by commas, without NCCL's = and ^")
INTEGER = Form(r"\s*[+-]?[0-9]+(_[0-9]+)*\s*", "a whole number")
DEBUG = Choice(("OFF", "INFO", "DETAIL"))
TRANSPORTS = Choice(("TCP", "TCP_TLS", "LINUX", "APPLE", "WIN32", "UV", "IBVERBS"), exact=True)


def _torch(
    name: str, what: str, values: Values, source: str = _GUIDE, risk: Risk | None = None, must: Values | None = None
) -> Entry:
    return Entry(name, Library.TORCH, what, values, source, risk=risk, must=must or _read(values))


def _read(values: Values) -> Values | None:
    """Without what the program ends."""
    return values if values is WORDS else NUMBER if values in (COUNT, SIZE, HANDLING) else None


def _former(name: str, what: str, values: Values) -> Entry:
    dated = f"is the former name of TORCH_{name}"
    instead = f"write TORCH_{name}"
    return Entry(name, Library.TORCH, what, values, _NCCL, deprecated=dated, instead=instead, must=_read(values))


TORCH = (
    _torch(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "what the watchdog does on an error: 0 nothing, 1 abort and end, 2 abort only, 3 end only (default)",
        HANDLING,
        risk=Risk("at 0 and 2 lets a process go on after an error, and its peers wait for it", ("1", "3")),
    ),
    _torch("TORCH_NCCL_HIGH_PRIORITY", "whether streams of NCCL have high priority", WORDS),
    _torch(
        "TORCH_NCCL_BLOCKING_WAIT",
        "whether wait() blocks the CPU; then no watchdog runs",
        WORDS,
        risk=Risk("turns the watchdog off and holds the CPU at each wait", ("0", "n", "no", "f", "false")),
    ),
    _torch("TORCH_NCCL_DUMP_ON_TIMEOUT", "whether a time-out writes the flight recorder out", WORDS),
    _torch("TORCH_NCCL_DESYNC_DEBUG", "whether to find the rank that is out of step", WORDS),
    _torch(
        "TORCH_NCCL_ENABLE_TIMING",
        "whether each collective is timed",
        WORDS,
        risk=Risk("adds an event to every collective and can hang the watchdog", ("0", "n", "no", "f", "false")),
    ),
    _torch(
        "TORCH_NCCL_ENABLE_MONITORING",
        "whether a thread ends the process when the watchdog hangs",
        WORDS,
        risk=Risk("lets a process that hangs in CUDA hold its GPUs forever", ("1", "y", "yes", "t", "true")),
    ),
    _torch("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "how long it waits for the watchdog", COUNT),
    _torch("TORCH_NCCL_TRACE_BUFFER_SIZE", "events that the flight recorder keeps; 0 turns it off", SIZE),
    _torch("TORCH_NCCL_TRACE_CPP_STACK", "whether they hold C++ stacks", WORDS),
    _torch("TORCH_NCCL_COORD_CHECK_MILSEC", "how often a rank looks whether others want a dump", COUNT),
    _torch("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "how long it waits for its own", SIZE),
    _torch("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "file of the dump; the rank is added to its name", PATH),
    _torch("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "pipe that asks for a dump", PATH),
    _torch(
        "TORCH_NCCL_NAN_CHECK",
        "whether inputs are searched for NaN",
        WORDS,
        risk=Risk("reads every tensor before each collective", ("0", "n", "no", "f", "false")),
    ),
    _torch("TORCH_NCCL_BCAST_UNIQUEID", "whether rank 0 alone sends NCCL's id", WORDS, _NCCL),
    _torch("TORCH_NCCL_PROPAGATE_ERROR", "whether an error is sent to all ranks through the store", WORDS, _NCCL),
    _torch("TORCH_NCCL_RETHROW_CUDA_ERRORS", "whether the watchdog raises errors of CUDA again", WORDS, _NCCL),
    _torch("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "whether an unclean end logs C++ stacks", WORDS, _NCCL),
    _torch("TORCH_NCCL_CUDA_EVENT_CACHE", "whether CUDA events are reused", WORDS, _NCCL),
    _torch("TORCH_NCCL_RANKS_PER_ROOT", "ranks that one root starts", COUNT, _NCCL),
    _torch(
        "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
        "whether to warn that send and receive wait for each other",
        WORDS,
        _NCCL,
    ),
    _torch("TORCH_NCCL_AVOID_RECORD_STREAMS", "whether tensors are kept alive without recordStream", WORDS, _NCCL),
    _torch("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "whether each tensor is registered with NCCL", WORDS, _NCCL),
    _torch("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", "whether an exception writes the flight recorder out", WORDS, _NCCL),
    _torch("TORCH_NCCL_USE_COMM_NONBLOCKING", "whether communicators do not block", SWITCH, _UTILS),
    _torch("TORCH_NCCL_NONBLOCKING_TIMEOUT", "seconds that one may take to start", COUNT, _UTILS),
    _former("NCCL_ASYNC_ERROR_HANDLING", "what the watchdog does on an error", HANDLING),
    _former("NCCL_BLOCKING_WAIT", "whether wait() blocks the CPU", WORDS),
    _former("NCCL_DESYNC_DEBUG", "whether to find the rank that is out of step", WORDS),
    _former("NCCL_ENABLE_TIMING", "whether each collective is timed", WORDS),
    _former("NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "whether each tensor is registered with NCCL", WORDS),
    _torch("TORCH_FR_BUFFER_SIZE", "events that the flight recorder keeps, for any backend", SIZE, _RECORDER),
    _torch("TORCH_FR_CPP_STACK", "whether they hold C++ stacks", WORDS, _RECORDER),
    _torch("TORCH_FR_DUMP_TEMP_FILE", "file of the dump", PATH, _RECORDER),
    _torch("TORCH_FR_DUMP_DYNAMIC_FILE_NAME", "whether a program may change it", TEXT, _RECORDER),
    _torch(
        "TORCH_DISTRIBUTED_DEBUG",
        "checks and logs of torch.distributed",
        DEBUG,
        f"{_DOCS}/distributed.html",
        Risk("compares each collective between all ranks before it runs, which costs speed", ("OFF", "INFO")),
        must=DEBUG,
    ),
    _torch(
        "TORCH_CPP_LOG_LEVEL",
        "level of torch's C++ log",
        Choice(("INFO", "WARNING", "ERROR", "FATAL", "0", "1", "2", "3")),
        f"{_DOCS}/debugging_environment_variables.html",
    ),
    _torch(
        "TORCH_SHOW_CPP_STACKTRACES", "whether errors show C++ stacks", SWITCH, f"{_DOCS}/debugging_environment_variables.html"
    ),
    _torch(
        "TORCH_DIST_INIT_BARRIER",
        "whether a barrier ends the start",
        SWITCH,
        f"{_RENDEZVOUS}/distributed_c10d.py",
        must=INTEGER,
    ),
    _torch(
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
        "whether ranks have a store of their own beside that of torchrun",
        SWITCH,
        f"{_RENDEZVOUS}/elastic/rendezvous/dynamic_rendezvous.py",
    ),
    _torch("USE_LIBUV", "whether the store is built on libuv", SWITCH, f"{_RENDEZVOUS}/rendezvous.py"),
    _torch("TORCH_GLOO_LAZY_INIT", "whether Gloo connects at first use", WORDS, f"{_CODE}/ProcessGroupGloo.hpp"),
    Entry(
        "GLOO_SOCKET_IFNAME",
        Library.GLOO,
        "interfaces of Gloo, by their exact names",
        INTERFACES,
        f"{_DOCS}/distributed.html",
        must=Form(rf".?|{INTERFACES.pattern}", INTERFACES.words),  # a shorter one is not read (ProcessGroupGloo.cpp)
    ),
    Entry("GLOO_DEVICE_TRANSPORT", Library.GLOO, "transport of Gloo", TRANSPORTS, _GLOO, must=TRANSPORTS),
)
