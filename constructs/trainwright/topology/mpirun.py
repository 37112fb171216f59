"""The command line of mpirun: one token an argument, and every variable that ranks need by its name, never by its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.handshake import Binding, MPIName, Needs, Ports, Variable

SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")
"""A login through ssh has the search paths of the system, not those of the image; the launcher's own are the image's."""

INTEL_PATHS = ("I_MPI_ROOT", "FI_PROVIDER_PATH")
"""Where Intel MPI and its libfabric are, as its ``vars.sh`` sets them."""


def launcher_command(
    needs: Needs, binding: Binding, program: Sequence[str], forwarded: Sequence[str], interface: str | None, ports: Ports
) -> tuple[str, ...]:
    """One process a slot, ranks filled in host by host, as the trainer numbers them.

    Tried with Open MPI 4.1.8 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18: each takes these options, reads the values of the
    named variables from its own environment, blanks and quotes included, and passes over one that is not set (Open MPI with a
    warning).
    """
    implementation = needs.launched_by.implementation
    if implementation == "openmpi":
        return ("mpirun", *_open_mpi(needs, binding, forwarded, interface, ports), *program)
    names = [*forwarded, *(INTEL_PATHS if implementation == "intel" else ())]
    options = ["-n", str(needs.world_size), "-ppn", str(needs.processes_per_node)]
    if implementation == "intel":
        options += ["-bootstrap-exec-args", _ssh_options(ports)]
    options += ["-f", str(binding.hostfile)] if binding.brings_hostfile else []
    options += ["-iface", interface.partition(",")[0]] if interface else []  # Hydra knows one
    # Without a list Hydra hands on the launcher's whole environment, with its address and role among it.
    options += ["-genvlist", ",".join(_with_search_paths(names))]
    return ("mpirun", *options, *program)


def _open_mpi(
    needs: Needs, binding: Binding, forwarded: Sequence[str], interface: str | None, ports: Ports
) -> list[str]:
    """Open MPI 5 reads none of the variables by which the operator names host file and ssh options to Open MPI 4 (its ORTE)."""
    options = ["-np", str(needs.world_size), "--hostfile", str(binding.hostfile)]
    options += ["--allow-run-as-root"] if binding.as_root else []
    # Several threads a rank: bound to one core each, they would share it (Horovod, docs/mpi.rst).
    options += ["--bind-to", "none", "--map-by", "slot"]
    options += ["--mca", "plm_rsh_args", _ssh_options(ports)]
    if interface:
        options += ["--mca", "btl_tcp_if_include", interface]
    return options + [word for name in _with_search_paths(forwarded) for word in ("-x", name)]


def host_lines(needs: Needs, binding: Binding, name: str) -> str:
    """The list of hosts and their slots, as each MPI reads it: a launcher that holds ranks first. ``name`` is that of the run's
    objects.
    """
    line = "{host} slots={slots}\n" if needs.launched_by.implementation == "openmpi" else "{host}:{slots}\n"
    roles = [role for role in binding.roles if role.holds_ranks]
    hosts = [role.host.format(name=name, index=index) for role in roles for index in range(role.pods)]
    return "".join(line.format(host=host, slots=needs.processes_per_node) for host in hosts)


HOSTFILE_VARIABLES: Mapping[MPIName, str] = {
    "openmpi": "OMPI_MCA_orte_default_hostfile",
    "intel": "I_MPI_HYDRA_HOST_FILE",
    "mpich": "HYDRA_HOST_FILE",
}
"""By these mpirun finds the host file itself, as it does where an operator sets them (Open MPI up to 4). No rank reads them."""


def hostfile_variable(needs: Needs, binding: Binding) -> Variable:
    """For a command of the run's own whose line of mpirun names no file."""
    name = HOSTFILE_VARIABLES[needs.launched_by.implementation]
    return Variable(name, str(binding.hostfile), "the hosts of mpirun, where its command names no file")


def launcher_variables(needs: Needs, ports: Ports) -> tuple[Variable, ...]:
    """What mpirun is told by its environment, where it has no option for it."""
    if needs.launched_by.implementation != "mpich":
        return ()
    # The operator sets HYDRA_LAUNCH_EXTRA_ARGS, a name that no MPICH reads.
    reason = "options of ssh for MPICH's mpirun: the port of sshd, and more than one try"
    return (Variable("HYDRA_LAUNCHER_EXTRA_ARGS", _ssh_options(ports), reason),)


def _ssh_options(ports: Ports) -> str:
    """One argument: mpirun splits it itself."""
    return f"-o ConnectionAttempts=10 -p {ports.ssh}"


def _with_search_paths(names: Sequence[str]) -> list[str]:
    """Each name once, also where the run sets one of the search paths itself."""
    return list(dict.fromkeys((*names, *SEARCH_PATHS)))
