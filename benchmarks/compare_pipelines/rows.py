"""What is compared: the rows of the table."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    layers: int
    hidden: int
    heads: int
    sequence: int
    microbatch_size: int
    vocabulary: int = 256


LARGE = Model(layers=8, hidden=512, heads=8, sequence=256, microbatch_size=2)
MID = Model(layers=8, hidden=256, heads=8, sequence=128, microbatch_size=2)
TINY = Model(layers=4, hidden=64, heads=4, sequence=32, microbatch_size=1)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    model: Model
    schedule: str
    stages: int = 1           # of a worker
    peer_schedule: str = ""   # where it is called otherwise there
    peer_stages: int = 0      # where another number is compared
    workers: int = 2
    microbatches: int = 8
    optimizer: str = "sgd"
    peer_optimizer: str = ""  # where it has a faster kind
    clip: float = 0
    kernels: str = "auto"
    threads: int = 1
    bar: float = 0            # what the ratio should not exceed
    bar_on: str = "compute_seconds"
    memory: str = ""          # "growth", "peak", "floor" or "start" instead of times
    keep_outputs: bool = False  # the peer's default

    def describe(self):
        model = self.model
        peer = self.peer_schedule or self.schedule
        text = (f"{self.schedule} V={self.stages} P={self.workers} M={self.microbatches}, "
                f"{model.layers} layers, hidden {model.hidden}, sequence {model.sequence}, "
                f"{model.microbatch_size} rows, vocabulary {model.vocabulary}, "
                f"{self.optimizer}{', clipped' if self.clip else ''}, {self.threads} thread"
                f"{'' if self.threads == 1 else 's'}")
        if (peer, self.of_peer()) != (self.schedule, self.stages):
            text += f"; peer {peer} V={self.of_peer()}"
        if self.peer_optimizer:
            text += f"; peer {self.peer_optimizer}"
        return text

    def of_peer(self):
        return self.peer_stages or self.stages


def _schedules(prefix, model, bars, **common):
    """The schedules that both have; zb-h1 against the peer's nearest."""
    kinds = [
        ("gpipe", {}),
        ("1f1b", {}),
        ("interleaved", {"stages": 2}),
        ("zbv", {"stages": 2}),
        ("zb-h1", {"peer_schedule": "interleaved-zero-bubble"}),
        ("auto", {"stages": 2, "peer_schedule": "interleaved-zero-bubble"}),
    ]
    return [Row(name=f"{prefix}-{kind}", model=model, schedule=kind, bar=bars.get(kind, 0),
                **settings, **common) for kind, settings in kinds if kind in bars]


ROWS = (
    _schedules("large", LARGE, dict.fromkeys(
        ["gpipe", "1f1b", "interleaved", "zbv", "zb-h1", "auto"], 0.60))
    + [
        Row("large-adamw", LARGE, "1f1b", optimizer="adamw", clip=1.0, bar=0.60,
            bar_on="seconds"),
        Row("large-adamw-fused", LARGE, "1f1b", optimizer="adamw",
            peer_optimizer="adamw-fused", clip=1.0, bar=0.62, bar_on="seconds"),
        Row("large-rows-4", dataclasses.replace(LARGE, microbatch_size=4), "1f1b"),
        Row("large-four-workers", LARGE, "1f1b", workers=4),
        Row("large-aten", LARGE, "1f1b", kernels="aten", bar=0.98),
    ]
    + _schedules("mid", MID, dict.fromkeys(["gpipe", "1f1b", "interleaved", "zbv", "zb-h1"],
                                           0.60), bar_on="seconds")
    + [Row("mid-aten", MID, "1f1b", kernels="aten", bar=0.95, bar_on="seconds")]
    + _schedules("tiny", TINY, {"gpipe": 0, "1f1b": 0.40, "interleaved": 0.20, "zbv": 0.25,
                                "zb-h1": 0}, bar_on="seconds", microbatches=32)
    + [
        Row("growth-1f1b", dataclasses.replace(LARGE, hidden=128), "1f1b", memory="growth"),
        Row("growth-interleaved", dataclasses.replace(LARGE, hidden=128), "interleaved",
            stages=2, memory="growth"),
        Row("growth-zbv", dataclasses.replace(LARGE, hidden=128), "zbv", stages=2,
            memory="growth"),
        Row("growth-zb-h1", dataclasses.replace(LARGE, hidden=128), "zb-h1",
            peer_schedule="interleaved-zero-bubble", memory="growth"),
        Row("peak-interleaved", dataclasses.replace(LARGE, hidden=128, vocabulary=512),
            "interleaved", stages=2, microbatches=32, memory="peak", bar=0.65),
        Row("peak-four-workers", dataclasses.replace(LARGE, hidden=128, vocabulary=512), "1f1b",
            workers=4, microbatches=32, memory="peak", bar=0.80),
        Row("peak-vocabulary", dataclasses.replace(LARGE, hidden=128, vocabulary=50257), "1f1b",
            microbatches=32, memory="peak", keep_outputs=True, bar=0.25),
        Row("floor", TINY, "1f1b", memory="floor", bar=0.35),
        Row("start-four-workers", TINY, "1f1b", workers=4, memory="start", bar=0.30),
    ]
)
