#!/usr/bin/env python3
"""Writes compile_commands.json from `bazel aquery` (no build; Bazel 4.2 format).

Usage: scripts/compdb.py [bazel flags, such as --config=clang]
Editors and clang-tidy need the generated headers as well: `bazel build //...`
with the same flags makes them.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Of g++, and unknown to clang.
UNWANTED = ("-fno-canonical-system-headers", "-Wno-free-nonheap-object")


def bazel(*args):
    return subprocess.run(["bazel", *args], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()


def absolute(argument, output_base, execution_root):
    """Bazel's own folders by absolute path: the workspace has links to some only."""
    for flag in ("", "-I"):
        if argument.startswith(flag + "external/"):
            return flag + os.path.join(output_base, argument[len(flag):])
        if argument.startswith(flag + "bazel-out/"):
            return flag + os.path.join(execution_root, argument[len(flag):])
    return argument


def main():
    flags = sys.argv[1:]
    if flags and flags[0] in ("-h", "--help"):
        sys.exit(__doc__)
    graph = json.loads(
        bazel("aquery", "--output=jsonproto", "--ui_event_filters=-info", "--noshow_progress", *flags,
              'mnemonic("CppCompile", filter("^//", kind("cc_.* rule", //...)))'))
    output_base = bazel("info", "--noshow_progress", "output_base").strip()
    execution_root = bazel("info", "--noshow_progress", "execution_root").strip()
    entries = {}
    for action in graph.get("actions", []):
        source = next(a for a in action["arguments"] if a.endswith(".cc"))
        if source.startswith(("external/", "bazel-out/")):
            continue
        arguments = [
            absolute(a, output_base, execution_root) for a in action["arguments"]
            if a not in UNWANTED and not a.startswith("-frandom-seed")
        ]
        entries[source] = {"directory": ROOT, "file": source, "arguments": arguments}
    with open(os.path.join(ROOT, "compile_commands.json"), "w", encoding="utf-8") as out:
        json.dump([entries[key] for key in sorted(entries)], out, indent=1)
    print("compile_commands.json: %d files" % len(entries))


if __name__ == "__main__":
    main()
