"""One run of either side."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

import environment
import inputs


class Failed(Exception):
    """A run that ended with an error; says which."""


SPEC = """\
name = "compare"
[model]
checkpoint = "{model}"
[data]
kind = "tokens"
path = "{tokens}"
sequence_length = {sequence}
order = "sequential"
[training]
steps = {steps}
microbatches = {microbatches}
microbatch_size = {microbatch_size}
optimizer = "{optimizer}"
learning_rate = {learning_rate}
learning_rate_schedule = "constant"
warmup_steps = 0
gradient_clip = {clip}
kernels = "{kernels}"
threads = {threads}
[pipeline]
workers = {workers}
stages_per_worker = {stages}
schedule = "{schedule}"
{split}
[recovery]
max_failures = 0
"""


def learning_rate(row):
    return 0.1 if row.optimizer == "sgd" else 1e-3


def _split(row):
    """The peer's, so that both do the same work; auto chooses its own."""
    if row.schedule == "auto":
        return ""
    count = row.workers * row.stages
    cuts = [stage * row.model.layers // count for stage in range(count + 1)]
    return f"split = {[end - begin for begin, end in zip(cuts, cuts[1:])]}"


def _spec(row, folder, steps, microbatches):
    model, tokens = inputs.prepare(row.model, folder, steps * microbatches)
    path = pathlib.Path(folder, "job.toml")
    path.write_text(SPEC.format(
        model=model, tokens=tokens, sequence=row.model.sequence, steps=steps,
        microbatches=microbatches, microbatch_size=row.model.microbatch_size,
        optimizer=row.optimizer, learning_rate=learning_rate(row), clip=row.clip,
        kernels=row.kernels, threads=row.threads, workers=row.workers, stages=row.stages,
        schedule=row.schedule, split=_split(row)))
    return path


def _output(command, what, variables=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=variables, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-8:]
        raise Failed(f"{what} ended with {done.returncode}: " + " | ".join(last))
    return done.stdout


def _run(command, what, variables=None):
    text = _output(command, what, variables)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.strip().splitlines()[-1])


def stagecoach(arguments, row, folder, steps, microbatches=None, variables=None):
    """The job's summary, and its steps' figures as lists; `variables` are those of
    the environment that it gets beside all others."""
    spec = _spec(row, folder, steps, microbatches or row.microbatches)
    result = _run([str(arguments.stagecoach), "run", str(spec), "--local", "-o", "json"],
                  "stagecoach run", {**os.environ, **(variables or {})})
    for key in ("loss", "compute_seconds", "seconds"):
        result[key] = [step[key] for step in result["steps"]]
    result["losses"] = result.pop("loss")
    result.setdefault("kernels", row.kernels)
    return result


def resident_bytes(process):
    pages = pathlib.Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class KeptCluster:
    """Workers that stay, and the document of each verb."""

    def __init__(self, stagecoach_command, folder, workers):
        self._command, self._workers = str(stagecoach_command), workers
        self._variables = {**os.environ,
                           "STAGECOACH_DIRECTORY": str(pathlib.Path(folder, "cluster"))}

    def ask(self, *words):
        text = _output([self._command, *words, "-o", "json"], "stagecoach " + " ".join(words),
                       self._variables)
        return json.loads(text) if text.strip() else {}

    @contextlib.contextmanager
    def up(self):
        """By name, the processes."""
        started = self.ask("up", "--workers", str(self._workers))
        try:
            yield {process["name"]: process["process_id"] for process in started["processes"]}
        finally:
            self.ask("down")


def residents(arguments, row, folder):
    """Of each worker that stays: bytes before its first job, and after it."""
    spec = _spec(row, folder, 2, row.microbatches)
    cluster = KeptCluster(arguments.stagecoach, folder, row.workers)
    with cluster.up() as processes:
        workers = [process for name, process in processes.items() if name != "coordinator"]
        before = [resident_bytes(worker) for worker in workers]
        cluster.ask("run", str(spec))
        return before, [resident_bytes(worker) for worker in workers]


def plan(arguments, row, folder):
    spec = _spec(row, folder, 1, row.microbatches)
    return _run([str(arguments.stagecoach), "plan", str(spec), "-o", "json"],
                "stagecoach plan")


def peer(arguments, row, folder, steps, microbatches=None, memory=False):
    microbatches = microbatches or row.microbatches
    model, tokens = inputs.prepare(row.model, folder, steps * microbatches)
    command = [
        arguments.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
        str(row.workers), str(environment.PEERS / "torch_pipelining.py"),
        "--schedule", row.peer_schedule or row.schedule, "--stages-per-rank", str(row.of_peer()),
        "--model", str(model), "--tokens", str(tokens), "--sequence", str(row.model.sequence),
        "--microbatches", str(microbatches),
        "--microbatch-size", str(row.model.microbatch_size), "--steps", str(steps),
        "--threads", str(row.threads), "--optimizer", row.peer_optimizer or row.optimizer,
        "--learning-rate", str(learning_rate(row)), "--clip", str(row.clip),
    ]
    command += ["--memory"] * memory + ["--keep-outputs"] * row.keep_outputs
    variables = environment.variables()
    variables["OMP_NUM_THREADS"] = str(row.threads)
    started = time.time()
    result = _run(command, "the peer", variables)
    result["seconds_to_first_step"] = result["first_step_at"] - started
    return result


def seconds_to_end(arguments, row, folder):
    """Of a whole `run --local` with one step: the first step, and the end too."""
    spec = _spec(row, folder, 1, row.microbatches)
    started = time.monotonic()
    with open(os.devnull, "w", encoding="ascii") as nothing:
        done = subprocess.run([str(arguments.stagecoach), "run", str(spec), "--local"],
                              stdout=nothing, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"stagecoach run ended with {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - started
