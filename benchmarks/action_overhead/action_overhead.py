#!/usr/bin/env python3
"""What does an action cost beside its computation?

    bazel build //client:stagecoach //coordinator:stagecoach-coordinator \\
        //stage_worker:stagecoach-worker
    benchmarks/action_overhead/action_overhead.py [--schedules 1f1b,gpipe] ...

Two workers with the synthetic engine, whose F and B only mix a few numbers, run
steps of many microbatches. What a step takes from its first F to its last B,
divided by the compute actions of one worker, is an action's whole price: engine
call, ledger, receive, budget, send, and the waits for the other worker. Printed
are the median and the least over all steps, for two numbers of microbatches: the
price must not grow with them.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

SPEC = """\
name = "overhead"
[model]
layers = 8
hidden = 16
heads = 2
vocabulary = 256
[data]
path = "text.txt"
sequence_length = 8
[training]
steps = {steps}
microbatches = {microbatches}
microbatch_size = 1
[pipeline]
workers = 2
stages_per_worker = {stages}
schedule = "{schedule}"
split = "auto"
[recovery]
max_failures = 0
"""
STAGES = {"interleaved": 2, "looped-bfs": 2, "zbv": 2}
COMPUTE_ACTIONS = {"zb-h1": 3, "zbv": 3}  # of a stage and microbatch; others 2


class Cluster:
    """A coordinator and two synthetic workers, ended with the block."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.processes = binaries, folder, []

    def start(self, program, *words):
        log = open(self.folder / f"{len(self.processes)}.log", "w+", encoding="utf-8")
        self.processes.append((subprocess.Popen(
            [str(self.binaries[program]), *words], stdout=log, stderr=log), log))
        return log.name

    def __enter__(self):
        log = self.start("coordinator", "--listen", "127.0.0.1:0")
        self.endpoint = wait_for(log, r"(127\.0\.0\.1:\d+)")
        for worker in ("w0", "w1"):
            self.start("worker", "--engine", "synthetic", "--name", worker,
                       "--coordinator", self.endpoint)
        return self

    def __exit__(self, *_):
        for process, log in reversed(self.processes):
            process.terminate()
            process.wait()
            log.close()

    def run(self, spec):
        done = subprocess.run([str(self.binaries["client"]), "--endpoint", self.endpoint, "run",
                               str(spec), "-o", "json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"stagecoach run: exit code {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)


def wait_for(path, pattern):
    """The first group of the first match in a growing file."""
    with open(path, encoding="utf-8") as log:
        text = ""
        while True:
            text += log.readline()
            found = re.search(pattern, text)
            if found:
                return found.group(1)


def measure(cluster, folder, arguments, schedule, microbatches):
    stages = STAGES.get(schedule, 1)
    spec = folder / "job.toml"
    spec.write_text(SPEC.format(steps=arguments.steps, microbatches=microbatches, stages=stages,
                                schedule=schedule))
    result = cluster.run(spec)
    actions = COMPUTE_ACTIONS.get(schedule, 2) * stages * microbatches
    steps = [1e6 * step["compute_seconds"] / actions for step in result["steps"][1:]]
    return statistics.median(steps), min(steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", default=ROOT / "bazel-bin", help="the build tree")
    parser.add_argument("--schedules", default="gpipe,1f1b,interleaved,zb-h1,zbv")
    parser.add_argument("--microbatches", default="64,512")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", help="also write the figures here")
    arguments = parser.parse_args()
    tree = pathlib.Path(arguments.binaries)
    binaries = {"client": tree / "client/stagecoach",
                "coordinator": tree / "coordinator/stagecoach-coordinator",
                "worker": tree / "stage_worker/stagecoach-worker"}
    figures = {}
    print(f"{len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f}; "
          "microseconds per compute action, median (least)")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_bytes(bytes(range(256)) * 200)
        with Cluster(binaries, folder) as cluster:
            for schedule in arguments.schedules.split(","):
                line = f"{schedule:12}"
                for microbatches in map(int, arguments.microbatches.split(",")):
                    median, least = measure(cluster, folder, arguments, schedule, microbatches)
                    figures[f"{schedule} M={microbatches}"] = {"median": median, "least": least}
                    line += f"  M={microbatches}: {median:.1f} ({least:.1f})"
                print(line, flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
