"""Programs that are known by their names: shells with their words, and what makes files."""

from __future__ import annotations

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
MAKERS = frozenset({
    "git", "wget", "curl", "cp", "mv", "ln", "tar", "unzip", "gunzip", "rsync", "tee", "aws", "gsutil", "gcloud", "rclone",
    "s3cmd", "hf", "huggingface-cli", "make", "cmake", "gcc", "g++", "cc", "go", "cargo", "install", "patch", "pip", "pip3", "uv",
    "conda", "mamba", "apt", "apt-get", "yum", "dnf", "apk", "npm", "source", ".", "eval", "alias", "trap", "module",
})  # fmt: skip
"""Programs after which files and programs may be there that were not before."""
BUILTINS = frozenset({
    ":", "[", "[[", "break", "cd", "command", "continue", "declare", "echo", "exec", "exit", "export", "false", "for", "getopts",
    "hash", "help", "if", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "set",
    "shift", "shopt", "test", "time", "times", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait",
    "while", "case", "function", "select", "mapfile", "readarray", "bg", "fg", "disown", "builtin", "enable", "caller", "dirs",
})  # fmt: skip
"""Of bash 5.2: ``compgen -bk``."""
