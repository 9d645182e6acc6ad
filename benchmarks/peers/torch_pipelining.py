"""The peer: GPT-2 with torch.distributed.pipelining over gloo, one process per
rank. benchmarks/compare_pipelines starts it:

    torchrun --standalone --nproc-per-node 2 torch_pipelining.py --schedule 1f1b \\
        --model DIR --tokens FILE --microbatches 8 --microbatch-size 2 --sequence 256

Rank 0 prints one line of JSON, its last.

Its best settings: outputs are not kept (return_outputs=False; the default keeps
all logits to the end of the step), gradients are set to None, one intra-op
thread per rank as asked for, optimizer as asked for (fused is the fastest).
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

import gpt2

# Class, and how stages lie on ranks.
SCHEDULES = {
    "gpipe": ("GPipe", "single"),
    "1f1b": ("1F1B", "single"),
    "interleaved": ("Interleaved1F1B", "loop"),
    "looped-bfs": ("LoopedBFS", "loop"),
    "interleaved-zero-bubble": ("InterleavedZeroBubble", "loop"),
    "zbv": ("ZBVZeroBubble", "v"),
    "dualpipe-v": ("DualPipeV", "v"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--stages-per-rank", type=int, default=1)
    parser.add_argument("--model", required=True, help="a Hugging Face directory")
    parser.add_argument("--tokens", required=True, help="a file of uint16")
    parser.add_argument("--sequence", type=int, required=True)
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--microbatch-size", type=int, required=True)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--optimizer", choices=["sgd", "adamw", "adamw-fused"], default="sgd")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=0, help="0: off")
    parser.add_argument("--memory", action="store_true", help="count bytes; times mean nothing")
    parser.add_argument("--keep-outputs", action="store_true", help="return_outputs=True")
    return parser.parse_args()


def stages_of_rank(style, rank, ranks, per_rank):
    if style == "v":
        return [rank, 2 * ranks - 1 - rank]
    return [rank + ranks * chunk for chunk in range(per_rank)]


def layers_of_stage(layers, stages, stage):
    return range(stage * layers // stages, (stage + 1) * layers // stages)


def make_optimizer(arguments, parameters):
    if arguments.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=arguments.learning_rate)
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]],
                             lr=arguments.learning_rate, betas=(0.9, 0.95), eps=1e-8,
                             fused=arguments.optimizer == "adamw-fused" or None)


@torch.no_grad()
def clip(parameters, limit):
    squares = torch.stack([p.grad.double().pow(2).sum() for p in parameters]).sum()
    dist.all_reduce(squares)
    factor = limit / (squares.sqrt().item() + 1e-6)
    if factor < 1:
        for parameter in parameters:
            parameter.grad.mul_(factor)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    name, style = SCHEDULES[arguments.schedule]
    per_rank = 2 if style == "v" else arguments.stages_per_rank
    count = ranks * per_rank
    mine = stages_of_rank(style, rank, ranks, per_rank)
    floor = gpt2.resident_bytes()

    memory = gpt2.LiveTensors() if arguments.memory else None
    config, weights = gpt2.read_model(arguments.model)
    modules = {}
    for stage in mine:
        layers = layers_of_stage(config["n_layer"], count, stage)
        modules[stage] = gpt2.Stage(config, layers, stage == 0, stage == count - 1)
        modules[stage].load(weights)
    del weights
    parameters = [p for module in modules.values() for p in module.parameters()]
    stages = [PipelineStage(modules[stage], stage, count, torch.device("cpu"))
              for stage in mine]
    if style == "v":
        # The connection warm-up of torch 2.11 sends from a rank to itself where two
        # neighbouring stages share one; gloo has no such pair. It connects all
        # pairs when the group is made, so that nothing is lost.
        for stage in stages:
            stage._get_init_p2p_neighbors_ops = lambda: []
    schedule = get_schedule_class(name)(stages[0] if style == "single" else stages,
                                        arguments.microbatches, loss_fn=gpt2.loss)
    optimizer = make_optimizer(arguments, parameters)
    tokens = gpt2.Tokens(arguments.tokens, arguments.sequence,
                         arguments.microbatches * arguments.microbatch_size)
    holds_last = count - 1 in mine

    times, losses = [], []
    first_step_at = None
    for step in range(arguments.steps):
        inputs, targets = tokens.step(step)
        dist.barrier()
        begin = time.monotonic()
        microbatch_losses = []
        schedule.step(*((inputs,) if 0 in mine else ()),
                      target=targets if holds_last else None,
                      losses=microbatch_losses if holds_last else None,
                      return_outputs=arguments.keep_outputs)
        computed = time.monotonic()
        if arguments.clip:
            clip(parameters, arguments.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append((begin, computed, time.monotonic()))
        if first_step_at is None:
            first_step_at = time.time()
        if microbatch_losses:
            losses.append(torch.stack([each.detach() for each in microbatch_losses])
                          .double().mean().item())
    own = {"times": times, "losses": losses, "floor_bytes": floor, "resident_bytes":
           gpt2.resident_bytes(), "peak_bytes": memory.peak_bytes() if memory else None}
    gathered = [None] * ranks
    dist.gather_object(own, gathered if rank == 0 else None, dst=0)
    if rank == 0:
        # One clock for all: the ranks are on one machine.
        spans = range(arguments.steps)
        start = [min(each["times"][i][0] for each in gathered) for i in spans]
        print(json.dumps({
            "losses": next(each["losses"] for each in gathered if each["losses"]),
            "compute_seconds": [max(each["times"][i][1] for each in gathered) - start[i]
                                for i in spans],
            "seconds": [max(each["times"][i][2] for each in gathered) - start[i]
                        for i in spans],
            "first_step_at": first_step_at,
            "ranks": [{key: each[key] for key in ("floor_bytes", "resident_bytes", "peak_bytes")}
                      for each in gathered],
        }), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
