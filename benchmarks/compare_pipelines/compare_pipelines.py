#!/usr/bin/env python3
"""Stagecoach against torch.distributed.pipelining, side by side.

    bazel build //client:stagecoach //coordinator:stagecoach-coordinator \\
        //stage_worker:stagecoach-worker
    benchmarks/compare_pipelines/compare_pipelines.py [--rows 'large-*'] [--json FILE]

Both train the same GPT-2 from the same weights on the same tokens with the same
schedule, microbatches, optimizer and threads, one after the other, again and
again (A B A B ...), so that a machine that slows down slows both. A time is
printed only if all losses agree within rounding.

Without --python a virtual environment with PyTorch is made first (in
--environment; some hundred MiB to download where no CUDA toolkit is installed).
Rows that do not run are printed with the reason, never dropped.

Columns: medians over all steps but each run's first, and their range; `ratio`
is Stagecoach's median by the peer's. `F+B` is the forward and backward of a
step (Stagecoach's compute_seconds, the peer's schedule.step), `step` the whole
step with clipping and optimizer. `limit` is the compute limit: the shortest
measured time of every stage's actions by itself, put through the schedule
simulator (stagecoach plan), in brackets how far F+B is above it.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import statistics
import sys
import tempfile

import environment
import memory
import rows as table
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of losses: the peer adds in another order and with other kernels.
LOSS_TOLERANCE = 2e-5


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagecoach", default=ROOT / "bazel-bin/client/stagecoach",
                        help="the command; it finds the daemons beside itself")
    parser.add_argument("--python", help="a Python with PyTorch; default: make one")
    parser.add_argument("--environment", default=pathlib.Path.home() / ".cache/stagecoach-peer",
                        help="where it is made")
    parser.add_argument("--rows", default="*", help="names of rows, with * and ?")
    parser.add_argument("--list", action="store_true", help="print the rows and end")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="of a run; the first warms up")
    parser.add_argument("--json", help="also write everything here")
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error("--steps must be 2 or more: the first one warms up")
    return arguments


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def losses_differ(ours, peers):
    for step, (own, other) in enumerate(zip(ours, peers)):
        if abs(own - other) > LOSS_TOLERANCE * abs(other):
            return f"losses differ in step {step}: {own} and the peer's {other}"
    return None


def compare_times(row, arguments, folder):
    """What a row says: `error`, or the figures of both and the limit."""
    ours = {"compute_seconds": [], "seconds": []}
    peers = {"compute_seconds": [], "seconds": []}
    for _ in range(arguments.repetitions):
        own = runs.stagecoach(arguments, row, folder, arguments.steps)
        other = runs.peer(arguments, row, folder, arguments.steps)
        different = losses_differ(own["losses"], other["losses"])
        if different:
            return {"error": different}
        for key in ours:
            ours[key] += own[key][1:]
            peers[key] += other[key][1:]
    plan = runs.plan(arguments, row, folder)
    result = {"kernels": own["kernels"], "limit_seconds": plan["predicted_step_seconds"]}
    for key in ours:
        result[key] = {"stagecoach": spread(ours[key]), "peer": spread(peers[key]),
                       "ratio": statistics.median(ours[key]) / statistics.median(peers[key]),
                       "ratio_of_least": min(ours[key]) / min(peers[key])}
    result["above_limit"] = (result["compute_seconds"]["stagecoach"]["median"] /
                             result["limit_seconds"])
    return result


def milliseconds(figures):
    return (f"{1e3 * figures['median']:.1f} ({1e3 * figures['least']:.1f} to "
            f"{1e3 * figures['most']:.1f})")


def print_times(row, result):
    print(f"{row.name}: {row.describe()}")
    if "error" in result:
        print(f"  not measured: {result['error']}\n", flush=True)
        return
    for title, key in (("F+B", "compute_seconds"), ("step", "seconds")):
        both = result[key]
        line = (f"  {title:4}  stagecoach {milliseconds(both['stagecoach'])} ms, peer "
                f"{milliseconds(both['peer'])} ms, ratio {both['ratio']:.3f} (of the least "
                f"{both['ratio_of_least']:.3f})")
        if key == row.bar_on and row.bar:
            line += f", bar {row.bar:.2f}"
        print(line)
    print(f"  limit {1e3 * result['limit_seconds']:.1f} ms (x {result['above_limit']:.2f}), "
          f"kernels {result['kernels']}\n", flush=True)


def print_memory(row, result):
    print(f"{row.name}: {row.describe()}")
    if "error" in result:
        print(f"  not measured: {result['error']}\n", flush=True)
        return
    for line in result["lines"]:
        print("  " + line)
    print(flush=True)


def main():
    arguments = parse_arguments()
    chosen = [row for row in table.ROWS if fnmatch.fnmatch(row.name, arguments.rows)]
    if arguments.list:
        for row in chosen:
            print(f"{row.name:32}{row.describe()}")
        return
    if not chosen:
        sys.exit(f"no row is called {arguments.rows}; --list prints them")
    environment.prepare(arguments)
    cores = len(os.sched_getaffinity(0))
    print(f"{environment.processor()}, {cores} cores; load average at the start "
          f"{os.getloadavg()[0]:.1f}; {arguments.repetitions} repetitions of "
          f"{arguments.steps} steps\n")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen:
            measure, show = ((memory.compare, print_memory) if row.memory else
                             (compare_times, print_times))
            try:
                result = measure(row, arguments, pathlib.Path(folder))
            except runs.Failed as failure:
                result = {"error": str(failure)}
            results[row.name] = result
            show(row, result)
            if arguments.json:
                document = {"cores": cores, "processor": environment.processor(),
                            "repetitions": arguments.repetitions, "rows": results}
                pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    if any("error" in result for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
