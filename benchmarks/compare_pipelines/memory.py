"""The rows about bytes and about starting."""

import statistics

import runs

GROWTH = (8, 32)  # microbatches between which growth is measured
MIB = 2 ** 20


def _peaks(arguments, row, folder, microbatches):
    """Peak bytes of tensors by worker and by rank; the job takes two steps, since
    the peer's buffers grow in the second."""
    own = runs.stagecoach(arguments, row, folder, 2, microbatches)
    other = runs.peer(arguments, row, folder, 2, microbatches, memory=True)
    return ([worker["measured_peak_bytes"] for worker in own["workers"]],
            [rank["peak_bytes"] for rank in other["ranks"]])


def _growth(row, arguments, folder):
    boundary = 4 * row.model.microbatch_size * row.model.sequence * row.model.hidden
    few, many = (_peaks(arguments, row, folder, count) for count in GROWTH)
    added = GROWTH[1] - GROWTH[0]
    result = {"lines": []}
    for side, name in enumerate(("stagecoach", "peer")):
        growth = [(most - least) / added for least, most in zip(few[side], many[side])]
        result[name] = {"bytes": [few[side], many[side]], "growth_bytes": growth}
        result["lines"].append(
            f"{name:10} grows by " + ", ".join(f"{each / boundary:.2f}" for each in growth) +
            " boundary tensors a microbatch (workers in order; peak at M="
            f"{GROWTH[1]}: " + ", ".join(f"{each / MIB:.1f} MiB" for each in many[side]) + ")")
    return result


def _peak(row, arguments, folder):
    own, other = _peaks(arguments, row, folder, row.microbatches)
    ratio = max(own) / max(other)
    return {"stagecoach": own, "peer": other, "ratio": ratio, "lines": [
        "stagecoach " + ", ".join(f"{each / MIB:.1f} MiB" for each in own),
        "peer       " + ", ".join(f"{each / MIB:.1f} MiB" for each in other),
        f"ratio of the largest {ratio:.2f}, bar {row.bar:.2f}"]}


def _start(row, arguments, folder):
    own, other = [], []
    for _ in range(arguments.repetitions):
        own.append(runs.seconds_to_end(arguments, row, folder))
        other.append(runs.peer(arguments, row, folder, 1)["seconds_to_first_step"])
    ratio = statistics.median(own) / statistics.median(other)
    return {"stagecoach": own, "peer": other, "ratio": ratio, "lines": [
        f"stagecoach {statistics.median(own):.2f} s ({min(own):.2f} to {max(own):.2f}) from "
        "the command to the end of a job of one step",
        f"peer       {statistics.median(other):.2f} s ({min(other):.2f} to {max(other):.2f}) "
        "from the command to the end of the first step",
        f"ratio {ratio:.2f}, bar {row.bar:.2f}"]}


def _floor(row, arguments, folder):
    """Bytes of the processes in memory, before there is any work and after two steps
    of a model that is next to nothing."""
    before, after = runs.residents(arguments, row, folder)
    ranks = runs.peer(arguments, row, folder, 2)["ranks"]
    ratio = max(before) / max(rank["floor_bytes"] for rank in ranks)
    worked = max(after) / max(rank["resident_bytes"] for rank in ranks)

    def text(values):
        return ", ".join(f"{value / MIB:.0f} MiB" for value in values)
    return {"stagecoach": [before, after], "peer": ranks, "ratio": ratio, "lines": [
        f"stagecoach {text(before)}; after two steps {text(after)}",
        f"peer       {text(rank['floor_bytes'] for rank in ranks)}; after two steps "
        f"{text(rank['resident_bytes'] for rank in ranks)}",
        f"ratio of the largest {ratio:.2f}, bar {row.bar:.2f}; after two steps {worked:.2f}"]}


def compare(row, arguments, folder):
    return {"growth": _growth, "peak": _peak, "start": _start, "floor": _floor}[row.memory](
        row, arguments, folder)
