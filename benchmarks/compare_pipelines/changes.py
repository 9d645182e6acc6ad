#!/usr/bin/env python3
"""What does each thing that was made faster gain?

    bazel build //client:stagecoach //coordinator:stagecoach-coordinator \\
        //stage_worker:stagecoach-worker
    benchmarks/compare_pipelines/changes.py [--models tiny,mid,large]

Each model is trained by two workers of one thread (1f1b, SGD) as it is, and again with
one thing taken away, in turns (A B C A B C ...). Printed are the medians of the steps'
times without each run's first, and by how much a step takes longer without the thing.
"""

import argparse
import dataclasses
import os
import pathlib
import statistics
import tempfile

import environment
import rows as table
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {"tiny": (table.TINY, 32), "mid": (table.MID, 8), "large": (table.LARGE, 8)}


@dataclasses.dataclass(frozen=True)
class Change:
    name: str
    kernels: str = "auto"
    variables: tuple = ()


CHANGES = (
    Change("as it is"),
    Change("without own kernels (training.kernels = \"aten\")", kernels="aten"),
    Change("without kept blocks (--memory-cache 0)",
           variables=(("STAGECOACH_MEMORY_CACHE", "0"),)),
    Change("without outputs in the receiver's memory (--no-in-place)",
           variables=(("STAGECOACH_IN_PLACE", "false"),)),
)


def measure(arguments, model, folder):
    shape, microbatches = MODELS[model]
    seconds = [[] for _ in CHANGES]
    for _ in range(arguments.repetitions):
        for change, taken in zip(CHANGES, seconds):
            row = table.Row(model, shape, "1f1b", microbatches=microbatches,
                            kernels=change.kernels)
            result = runs.stagecoach(arguments, row, folder, arguments.steps,
                                     variables=dict(change.variables))
            taken += result["seconds"][1:]
    as_it_is = statistics.median(seconds[0])
    print(f"{model}: {shape}, M={microbatches}")
    for change, taken in zip(CHANGES, seconds):
        median = statistics.median(taken)
        print(f"  {1e3 * median:8.1f} ms ({1e3 * min(taken):.1f} to {1e3 * max(taken):.1f}), "
              f"x {median / as_it_is:.2f} (of the least {min(taken) / min(seconds[0]):.2f}): "
              f"{change.name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagecoach", default=ROOT / "bazel-bin/client/stagecoach")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="of a run; the first warms up")
    arguments = parser.parse_args()
    print(f"{environment.processor()}, {len(os.sched_getaffinity(0))} cores; load average at "
          f"the start {os.getloadavg()[0]:.1f}; {arguments.repetitions} repetitions of "
          f"{arguments.steps} steps\n")
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models.split(","):
            measure(arguments, model, pathlib.Path(folder))


if __name__ == "__main__":
    main()
