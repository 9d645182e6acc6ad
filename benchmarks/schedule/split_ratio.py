#!/usr/bin/env python3
"""What does split = "auto" gain over an even split, simulated and measured?

    bazel build -c opt //client:stagecoach //coordinator:stagecoach-coordinator \\
        //stage_worker:stagecoach-worker
    benchmarks/schedule/split_ratio.py [--workers 4] [--layers 24] ...

A GPT whose head (a large vocabulary) costs as much as several layers. One
worker process measures a microbatch, and `plan` simulates both splits with what
it measured; then local jobs train with either split, one after the other, again
and again (A B A B ...), so that a machine that slows down slows both. Prints
both ratios, even to auto: 1.3 means that an even split's step takes 1.3 times
as long. Both splits must give the same parameters, to the bit.

The simulation has a core for every worker. With fewer cores the workers of the
real job wait for cores instead of for each other, and the ratio is near 1:
take --workers no larger than the machine has cores.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

SPEC = """\
name = "split-ratio"
[model]
layers = {layers}
hidden = {hidden}
heads = 4
vocabulary = {vocabulary}
[data]
path = "{text}"
sequence_length = {sequence_length}
[training]
steps = {steps}
microbatches = {microbatches}
microbatch_size = 1
[pipeline]
workers = {workers}
[recovery]
max_failures = 0
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagecoach", default=ROOT / "bazel-bin/client/stagecoach",
                        help="the command; it finds the daemons beside itself")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.layers % arguments.workers != 0:
        parser.error("--layers must be a multiple of --workers")
    if arguments.steps < 2:
        parser.error("--steps must be 2 or more: the first one warms up")
    return arguments


def write_spec(folder, arguments):
    """Trains on the text of this repository's own manuals."""
    manuals = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = pathlib.Path(folder, "text.txt")
    text.write_bytes(b"".join(manual.read_bytes() for manual in manuals))
    spec = pathlib.Path(folder, "job.toml")
    spec.write_text(SPEC.format(text=text.name, **vars(arguments)))
    return spec


def stagecoach(arguments, *words):
    done = subprocess.run([str(arguments.stagecoach), *words, "-o", "json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def layers_of(stages):
    return [stage["layers"] for stage in stages]


def train(arguments, spec, split):
    """The job's result: its summary, and the seconds of every step but the first."""
    result = stagecoach(arguments, "run", str(spec), "--local", "--set",
                        f"pipeline.split={split}")
    return result, [step["compute_seconds"] for step in result["steps"][1:]]


def main():
    arguments = parse_arguments()
    even = [arguments.layers // arguments.workers] * arguments.workers
    cores = len(os.sched_getaffinity(0))
    print(f"{arguments.workers} workers, {cores} cores; {arguments.layers} layers, "
          f"hidden {arguments.hidden}, vocabulary {arguments.vocabulary}, "
          f"{arguments.microbatches} microbatches")
    if cores < arguments.workers:
        print("fewer cores than workers: the measured ratio tends to 1")
    with tempfile.TemporaryDirectory() as folder:
        spec = write_spec(folder, arguments)
        plan = stagecoach(arguments, "plan", str(spec))
        chosen = layers_of(plan["stages"])
        print(f"even {even}, auto {chosen}\n")
        seconds = {"even": [], "auto": []}
        parameters = set()
        for repetition in range(arguments.repetitions):
            # The split that the plan chose, so that all repetitions run one.
            for name, split in (("even", even), ("auto", chosen)):
                result, steps = train(arguments, spec, split)
                seconds[name] += steps
                parameters.add(result["parameters_sha256"])
                print(f"run {repetition + 1} {name}: step "
                      f"{1e3 * statistics.median(steps):.1f} ms "
                      f"({1e3 * min(steps):.1f} to {1e3 * max(steps):.1f})", flush=True)
    medians = {name: statistics.median(steps) for name, steps in seconds.items()}
    simulated = plan["even_split_seconds"] / plan["predicted_step_seconds"]
    print(f"\nsimulated: even {1e3 * plan['even_split_seconds']:.1f} ms, auto "
          f"{1e3 * plan['predicted_step_seconds']:.1f} ms, ratio {simulated:.2f}")
    print(f"measured:  even {1e3 * medians['even']:.1f} ms, auto "
          f"{1e3 * medians['auto']:.1f} ms, ratio {medians['even'] / medians['auto']:.2f}")
    if len(parameters) != 1:
        sys.exit("the splits trained different parameters")
    print("parameters: equal to the bit")


if __name__ == "__main__":
    main()
