"""Half a round trip of gloo's send and recv between two processes.

    python -m torch.distributed.run --standalone --nproc-per-node 2 torch_p2p.py

Prints one line of JSON: for each size in bytes, the median and the least in
microseconds.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist

WARM_UP = 5


def half_round_trips(size, count):
    tensor = torch.zeros(size // 4)
    first = dist.get_rank() == 0
    peer = 1 - dist.get_rank()
    taken = []
    dist.barrier()
    for _ in range(count + WARM_UP):
        begin = time.perf_counter()
        if first:
            dist.send(tensor, peer)
            dist.recv(tensor, peer)
        else:
            dist.recv(tensor, peer)
            dist.send(tensor, peer)
        taken.append(1e6 * (time.perf_counter() - begin) / 2)
    return taken[WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="65536,1048576,16777216")
    parser.add_argument("--repetitions", type=int, default=200, help="fewer above 1 MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    result = {}
    for size in map(int, arguments.sizes.split(",")):
        count = arguments.repetitions if size <= 2 ** 20 else max(20, arguments.repetitions // 8)
        taken = half_round_trips(size, count)
        result[size] = {"median": statistics.median(taken), "least": min(taken)}
    if dist.get_rank() == 0:
        print(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
