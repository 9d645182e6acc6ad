#!/usr/bin/env python3
"""How much quicker is shared memory than gloo, which torch.distributed uses?

    bazel build //benchmarks/channel_ping_pong
    benchmarks/channel_ping_pong/against_gloo.py [--rounds N] [--python PYTHON]

Both move the same bytes between two processes of this machine, in turns. Printed is
half a round trip, the median of the rounds' medians, and gloo's divided by that of
shared memory with one copy and a waiter that spins. Without --python a virtual
environment with PyTorch is made first.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/compare_pipelines"))

import environment  # pylint: disable=wrong-import-position

SIZES = {"64 KiB": 2 ** 16, "1 MiB": 2 ** 20, "16 MiB": 2 ** 24}
BARS = {"64 KiB": 20, "1 MiB": 6, "16 MiB": 5}


def own(arguments):
    """Microseconds by row and size."""
    text = subprocess.run([str(arguments.ping_pong), "1"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout
    rows = {}
    for line in text.splitlines():
        times = re.findall(r"([\d.]+) us", line)
        if len(times) == len(SIZES):
            rows[line.split("  ")[0].strip()] = [float(time) for time in times]
    return rows


def gloo(arguments):
    command = [arguments.python, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node", "2", str(environment.PEERS / "torch_p2p.py"), "--sizes",
               ",".join(map(str, SIZES.values()))]
    variables = {**environment.variables(), "OMP_NUM_THREADS": "1"}
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=variables, check=True).stdout
    return [figures["median"] for figures in json.loads(text.strip().splitlines()[-1]).values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ping-pong", default=ROOT /
                        "bazel-bin/benchmarks/channel_ping_pong/channel_ping_pong")
    parser.add_argument("--python", help="a Python with PyTorch; default: make one")
    parser.add_argument("--environment", default=pathlib.Path.home() / ".cache/stagecoach-peer",
                        help="where it is made")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    environment.prepare(arguments)
    ours, peers = [], []
    for _ in range(arguments.rounds):
        ours.append(own(arguments))
        peers.append(gloo(arguments))
    print(f"{environment.processor()}, {len(os.sched_getaffinity(0))} cores, load average "
          f"{os.getloadavg()[0]:.1f}; microseconds of half a round trip, {arguments.rounds} rounds")
    print(f"{'':10}{'memcpy':>10}{'shm':>10}{'gloo':>10}{'gloo/shm':>10}{'bar':>6}")
    for place, (name, bar) in enumerate(BARS.items()):
        copy, shm = (statistics.median(each[row][place] for each in ours)
                     for row in ("memcpy", "shm, spinning"))
        other = statistics.median(each[place] for each in peers)
        print(f"{name:10}{copy:10.1f}{shm:10.1f}{other:10.1f}{other / shm:10.1f}{bar:6}")


if __name__ == "__main__":
    main()
