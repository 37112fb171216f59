"""Programs that are known by their names: shells with their words, Python, what prepares, and what makes files."""

from __future__ import annotations

import re

PYTHON = re.compile(r"python[0-9.]*")
PREPARE = frozenset({"pip", "pip3", "venv", "ensurepip", "compileall", "site", "json.tool"})
"""Programs, and modules of Python, that prepare and do no work."""
ONLY_NAME = PREPARE | {
    "echo", "printf", "which", "type", "hash", "test", "[", "ls", "cat", "grep", "pgrep", "pkill", "killall", "for", "case", "[[",
}  # fmt: skip
"""Programs, and modules of Python, that are given the name of another one and do not start it."""
INSTALL = frozenset({"install", "add"})
"""Words behind which packages are named."""
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
MAKERS = frozenset({
    "git", "wget", "curl", "cp", "mv", "ln", "tar", "unzip", "gunzip", "rsync", "tee", "aws", "gsutil", "gcloud", "rclone",
    "s3cmd", "hf", "huggingface-cli", "make", "cmake", "gcc", "g++", "cc", "go", "cargo", "install", "patch", "pip", "pip3", "uv",
    "poetry", "conda", "mamba", "micromamba", "apt", "apt-get", "yum", "dnf", "apk", "npm", "source", ".", "eval", "alias",
    "trap", "module",
})  # fmt: skip
"""Programs after which files and programs may be there that were not before."""
BUILTINS = frozenset({
    ":", "[", "[[", "break", "cd", "command", "continue", "declare", "echo", "exec", "exit", "export", "false", "for", "getopts",
    "hash", "help", "if", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "set",
    "shift", "shopt", "test", "time", "times", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait",
    "while", "case", "function", "select", "mapfile", "readarray", "bg", "fg", "disown", "builtin", "enable", "caller", "dirs",
})  # fmt: skip
"""Of bash 5.2: ``compgen -bk``."""
