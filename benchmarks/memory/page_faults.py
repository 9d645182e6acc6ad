#!/usr/bin/env python3
"""Does the cache of freed blocks spare page faults, and what is that worth?

  benchmarks/memory/page_faults.py STAGECOACH [SPEC] [--steps N] [--rounds R]

Runs a job by `run --local` with the cache and without it, interleaved, and prints
page faults per step (of all processes; start and end cancel out, for each setting
runs with N and with 2 N steps) and the ratio of the median step times.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

# Activations of 32 MiB and more, which glibc maps afresh every time.
SPEC = """name = "faults"
[model]
layers = 4
hidden = 512
heads = 8
[data]
path = "text.txt"
sequence_length = 512
[training]
microbatches = 4
microbatch_size = 16
[pipeline]
workers = 2
"""


def run(stagecoach, spec, steps, cache):
    """Page faults of the run, and its steps' seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    done = subprocess.run(
        [stagecoach, "run", spec, "--local", "-o", "json", "--set",
         f"training.steps={steps}"],
        env={**os.environ, "STAGECOACH_MEMORY_CACHE": cache},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
    return faults, [s["seconds"] for s in json.loads(done.stdout)["steps"][1:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stagecoach")
    parser.add_argument("spec", nargs="?")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spec = arguments.spec
        if spec is None:
            with open(f"{folder}/text.txt", "w", encoding="ascii") as text:
                text.write("The coach leaves the stage at noon. " * 4000)
            spec = f"{folder}/spec.toml"
            with open(spec, "w", encoding="ascii") as file:
                file.write(SPEC)
        faults = {"0": [], "4GiB": []}
        seconds = {"0": [], "4GiB": []}
        for _ in range(arguments.rounds):
            for cache in faults:
                few, _ = run(arguments.stagecoach, spec, arguments.steps, cache)
                many, steps = run(arguments.stagecoach, spec,
                                  2 * arguments.steps, cache)
                faults[cache].append((many - few) / arguments.steps)
                seconds[cache] += steps
    for cache, name in (("0", "without"), ("4GiB", "with")):
        print(f"{name} the cache: {statistics.median(faults[cache]):.0f} page "
              f"faults a step, {statistics.median(seconds[cache]):.3f} s a step")
    ratio = statistics.median(seconds["0"]) / statistics.median(seconds["4GiB"])
    print(f"step time without / with: {ratio:.2f}")


if __name__ == "__main__":
    main()
