#!/usr/bin/env python3
"""Writes the CSV files beside it with PyTorch's own pipeline schedules.

Made with PyTorch 2.11.0:  python3 make_csv.py

Each schedule of several stages per worker is written by its own _dump_csv, in
both forms: NAME.compute.csv (compute_only) and NAME.comms.csv (compute_comms).
ScheduleGPipe and Schedule1F1B have no _dump_csv; their `pipeline_order` is
written as _dump_csv writes rows. P = 4, M = 8; no process group is needed,
because a schedule reads only sizes of its stages.
"""

import csv
import pathlib
import types

import torch
from torch.distributed.pipelining import schedules

WORKERS = 4
MICROBATCHES = 8
HERE = pathlib.Path(__file__).resolve().parent


def stages(per_worker):
    """Rank 0's stages, with what the schedules read of them."""
    return [
        types.SimpleNamespace(
            stage_index=index * WORKERS,
            num_stages=per_worker * WORKERS,
            group_size=WORKERS,
            group_rank=0,
            is_first=index == 0,
            is_last=False,
            has_backward=True,
            submod=None,
        )
        for index in range(per_worker)
    ]


def loss(output, target):
    return output


def write_single(name, schedule_class):
    schedule = schedule_class(stages(1)[0], MICROBATCHES, loss_fn=loss)
    with open(HERE / f"{name}.compute.csv", "w", newline="") as file:
        writer = csv.writer(file)
        for rank in schedule.pipeline_order:
            writer.writerow(schedule.pipeline_order[rank])


def write_multi(name, schedule_class):
    schedule = schedule_class(stages(2), MICROBATCHES, loss_fn=loss)
    for form, suffix in (("compute_only", "compute"), ("compute_comms", "comms")):
        schedule._dump_csv(str(HERE / f"{name}.{suffix}.csv"), format=form)


def main():
    assert torch.__version__.split("+")[0] == "2.11.0", torch.__version__
    write_single("gpipe", schedules.ScheduleGPipe)
    write_single("1f1b", schedules.Schedule1F1B)
    write_multi("looped_bfs", schedules.ScheduleLoopedBFS)
    write_multi("interleaved_1f1b", schedules.ScheduleInterleaved1F1B)
    write_multi("interleaved_zero_bubble", schedules.ScheduleInterleavedZeroBubble)
    write_multi("zbv_zero_bubble", schedules.ScheduleZBVZeroBubble)
    write_multi("dualpipe_v", schedules.ScheduleDualPipeV)


if __name__ == "__main__":
    main()
