#!/usr/bin/env python3
"""Tables about memory, each of runs on this machine.

  benchmarks/memory/memory_tables.py intervals STAGECOACH
      predicted interval and measured peak of each worker and category, for several
      schedules at two sizes, with and without running forwards again
  benchmarks/memory/memory_tables.py release STAGECOACH
      release never, sent and ack side by side: outputs held, peak, step time
  benchmarks/memory/memory_tables.py less STAGECOACH
      what each way to take less memory does to the largest peak and the step time
  benchmarks/memory/memory_tables.py growth STAGECOACH [--python PYTHON]
      peak against the number of microbatches, and torch.distributed.pipelining's
  benchmarks/memory/memory_tables.py steps STAGECOACH [--steps N]
      allocated, reserved and resident bytes of each worker along one long job
  benchmarks/memory/memory_tables.py queries STAGECOACH
      what a question about memory takes of a worker's time while a job runs

STAGECOACH is the built command (bazel-bin/client/stagecoach). What is timed runs
interleaved: A B C A B C ... Peaks are of tensors' bytes, from the job's own
document.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare_pipelines"))

import environment  # pylint: disable=wrong-import-position
import rows  # pylint: disable=wrong-import-position
import runs  # pylint: disable=wrong-import-position

MIB = 2 ** 20
WORKERS = 4  # of every table's jobs

SPEC = """name = "tables"
[model]
layers = 8
hidden = {hidden}
heads = 4
[data]
path = "text.txt"
sequence_length = {sequence}
[training]
steps = {steps}
microbatches = 8
microbatch_size = 2
[pipeline]
workers = 4
split = {split}
[recovery]
max_failures = 0
"""


def write_spec(folder, hidden, sequence, stages, steps):
    (folder / "text.txt").write_text("The coach leaves the stage at noon. " * 4000)
    spec = folder / "spec.toml"
    spec.write_text(SPEC.format(hidden=hidden, sequence=sequence, steps=steps,
                                split=[8 // (4 * stages)] * (4 * stages)))
    return str(spec)


def run(arguments, folder, hidden=64, sequence=64, stages=1, steps=3, **settings):
    """The finished job's document."""
    spec = write_spec(folder, hidden, sequence, stages, steps)
    command = [arguments.stagecoach, "run", spec, "--local", "-o", "json"]
    settings["pipeline.stages_per_worker"] = stages
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def step_seconds(document):
    """Of all steps but the first, which warms up."""
    return [step["seconds"] for step in document["steps"][1:]]


def peak(document):
    return max(worker["measured_peak_bytes"] for worker in document["workers"])


def mib(value):
    return f"{value / MIB:.2f}"


def header(*columns):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))


def row(*columns):
    print("| " + " | ".join(str(column) for column in columns) + " |", flush=True)


def intervals(arguments, folder):
    header("job", "worker", "category", "predicted MiB", "measured MiB", "inside")
    outside = 0
    for hidden, sequence in ((64, 64), (128, 128)):
        for schedule, stages in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1),
                                 ("zbv", 2)):
            for recompute in ("none", "full"):
                document = run(arguments, folder, hidden, sequence, stages, **{
                    "pipeline.schedule": schedule, "memory.recompute": recompute})
                job = f"{schedule}, hidden {hidden}, recompute {recompute}"
                for worker in document["workers"]:
                    outside += worker_rows(job, worker)
    print(f"\n{outside} measured peaks outside their interval by more than 1 %")
    return outside == 0


def worker_rows(job, worker):
    """Prints a worker's rows; how many totals lie outside."""
    outside = 0
    figures = [("all", worker["predicted_low_bytes"], worker["predicted_peak_bytes"],
                worker["measured_peak_bytes"])]
    for name, bytes_of in worker["categories"].items():
        category = (name, bytes_of["predicted_low_bytes"], bytes_of["predicted_peak_bytes"],
                    bytes_of.get("measured_peak_bytes", 0))
        if any(category[1:]):
            figures.append(category)
    for name, least, most, was in figures:
        inside = 0.99 * least <= was <= 1.01 * most
        outside += name == "all" and not inside
        row(job, worker["worker"], name, f"{mib(least)} .. {mib(most)}", mib(was),
            "yes" if inside else "NO")
    return outside


def release(arguments, folder):
    policies = ("never", "sent", "ack")
    held = {policy: [] for policy in policies}
    peaks = {policy: [] for policy in policies}
    seconds = {policy: [] for policy in policies}
    for _ in range(arguments.repetitions):
        for policy in policies:
            document = run(arguments, folder, 128, 128, steps=6, **{
                "pipeline.schedule": arguments.schedule, "pipeline.release": policy,
                "pipeline.transport": arguments.transport})
            held[policy].append(max(worker["outputs_held_peak_bytes"]
                                    for worker in document["workers"]))
            peaks[policy].append(sum(worker["measured_peak_bytes"]
                                     for worker in document["workers"]))
            seconds[policy] += step_seconds(document)
    print(f"{arguments.schedule} over {arguments.transport}, P=4, M=8, {arguments.repetitions} "
          "repetitions, interleaved")
    header("release", "outputs held, most of a worker (KiB)", "peaks, all workers (MiB)",
           "median step (ms)", "step / never")
    base = statistics.median(seconds["never"])
    for policy in policies:
        median = statistics.median(seconds[policy])
        row(policy, max(held[policy]) // 1024, mib(max(peaks[policy])), f"{1e3 * median:.1f}",
            f"{median / base:.3f}")
    return max(held["ack"]) <= max(held["never"])


LESS = {
    "as it is": {},
    "recompute every-2": {"memory.recompute": "every-2"},
    "recompute every-1": {"memory.recompute": "every-1"},
    "recompute full": {"memory.recompute": "full"},
    "loss_chunk 64": {"training.loss_chunk": 64},
    "optimizer mapped": {"memory.optimizer": "mapped"},
}


def less(arguments, folder):
    peaks = {way: [] for way in LESS}
    seconds = {way: [] for way in LESS}
    for _ in range(arguments.repetitions):
        for way, settings in LESS.items():
            document = run(arguments, folder, 128, 128, steps=6, **{
                "pipeline.schedule": arguments.schedule, **settings})
            peaks[way].append([worker["measured_peak_bytes"] for worker in document["workers"]])
            seconds[way] += step_seconds(document)
    print(f"{arguments.schedule}, P=4, M=8, {arguments.repetitions} repetitions, interleaved")
    header("", "w0 (MiB)", "w3 (MiB)", "median step (ms)", "step / as it is")
    base = statistics.median(seconds["as it is"])
    for way in LESS:
        median = statistics.median(seconds[way])
        worst = [max(worker) for worker in zip(*peaks[way])]
        row(way, mib(worst[0]), mib(worst[3]), f"{1e3 * median:.1f}", f"{median / base:.2f}")
    return True


def growth(arguments, folder):
    environment.prepare(arguments)
    model = rows.Model(layers=8, hidden=128, heads=4, sequence=128, microbatch_size=2)
    counts = (8, 16, 32, 64)
    boundary = 4 * model.microbatch_size * model.sequence * model.hidden
    header("schedule", "", *[f"M={count} (MiB)" for count in counts],
           "growth a microbatch, in boundary tensors")
    flat = True
    for schedule, stages in (("1f1b", 1), ("interleaved", 2)):
        compared = rows.Row("growth", model, schedule, stages=stages)
        own, other = [], []
        for count in counts:
            ours = runs.stagecoach(arguments, compared, folder, 2, count)
            own.append(peak(ours))
            theirs = runs.peer(arguments, compared, folder, 2, count, memory=True)
            other.append(max(rank["peak_bytes"] for rank in theirs["ranks"]))
        for name, figures in (("stagecoach", own), ("torch.distributed.pipelining", other)):
            grows = (figures[-1] - figures[0]) / (counts[-1] - counts[0]) / boundary
            row(schedule, name, *[mib(figure) for figure in figures], f"{grows:.3f}")
            # Acknowledgements come earlier or later: an output or two.
            flat = flat and (name != "stagecoach" or abs(grows) < 0.1)
    return flat


def figures_in_step(cluster, job):
    """`memory stats` by worker, once all of them are in a step."""
    while True:
        workers = cluster.ask("memory", "stats", job)["workers"]
        if len(workers) == WORKERS and all(worker["step"] is not None for worker in workers):
            return {worker["worker"]: worker for worker in workers}
        if cluster.ask("job", "show", job)["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
            return None
        time.sleep(0.005)


def steps(arguments, folder):
    cluster = runs.KeptCluster(arguments.stagecoach, folder, WORKERS)
    spec = write_spec(folder, 64, 64, 1, arguments.steps)
    # Not the very last one: between two looks the job may be over.
    marks = [arguments.steps // 20, arguments.steps // 2, arguments.steps * 99 // 100]
    first, flat = {}, True
    header("step", "worker", "allocated peak", "reserved peak", "resident")
    with cluster.up() as processes:
        job = cluster.ask("job", "submit", spec)["job_id"]
        while marks:
            seen = figures_in_step(cluster, job)
            if seen is None:
                sys.exit("the job was over before its last step was seen")
            if min(worker["step"] for worker in seen.values()) < marks[0]:
                time.sleep(0.02)
                continue
            marks.pop(0)
            for name, worker in sorted(seen.items()):
                now = (worker["allocated_bytes"]["peak"], worker["reserved_bytes"]["peak"],
                       runs.resident_bytes(processes[name]))
                row(worker["step"], name, *now)
                first.setdefault(name, now)
                # An acknowledgement that comes later than any before: an output or two.
                flat = flat and all(b <= 1.05 * a for a, b in zip(first[name], now))
        cluster.ask("job", "wait", job)
    return flat


def queries(arguments, folder):
    cluster = runs.KeptCluster(arguments.stagecoach, folder, WORKERS)
    spec = write_spec(folder, 128, 128, 1, 1000000)
    kinds = {"stats": "memory stats", "held": "memory held"}
    took = {kind: [] for kind in kinds}
    with cluster.up():
        job = cluster.ask("job", "submit", spec)["job_id"]
        figures_in_step(cluster, job)
        for _ in range(50):
            for kind in kinds:
                for worker in cluster.ask("memory", kind, job)["workers"]:
                    took[kind].append(worker["answer_microseconds"])
        cluster.ask("job", "cancel", job)
    header("question", "answers", "median µs", "99 of 100 below µs")
    for kind, text in kinds.items():
        percentile = statistics.quantiles(took[kind], n=100)[98]
        row(text, len(took[kind]), f"{statistics.median(took[kind]):.0f}", f"{percentile:.0f}")
    return all(statistics.median(values) < 1000 for values in took.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {"intervals": intervals, "release": release, "less": less, "growth": growth,
              "steps": steps, "queries": queries}
    parser.add_argument("table", choices=tables)
    parser.add_argument("stagecoach")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000, help="of steps")
    parser.add_argument("--schedule", default="gpipe")
    parser.add_argument("--transport", default="tcp", help="of release")
    parser.add_argument("--python", help="a Python with PyTorch; default: make one")
    parser.add_argument("--environment", default=pathlib.Path.home() / ".cache/stagecoach-peer",
                        help="where it is made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            sys.exit(0 if tables[arguments.table](arguments, pathlib.Path(folder)) else 1)
        except runs.Failed as failure:
            sys.exit(str(failure))


if __name__ == "__main__":
    main()
