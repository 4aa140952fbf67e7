"""Fit a line by gradient descent, as a job: it reports its loss, saves, and leaves a model.

Started again after it was stopped, it goes on at its last checkpoint.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path

SAVE_EVERY = 20
RATE = 0.5


def points(count: int) -> list[tuple[float, float]]:
    """Of the line y = 3 x + 2, with a little noise; the same ones in each run."""
    generator = random.Random(1)
    places = [generator.random() for _ in range(count)]
    return [(x, 3 * x + 2 + generator.gauss(0, 0.01)) for x in places]


def load(folder: Path) -> dict[str, float]:
    if not (folder / "saved.json").exists():
        return {"step": 0, "slope": 0.0, "offset": 0.0}
    model: dict[str, float] = json.loads((folder / "model.json").read_text())
    return model


def save(folder: Path, model: dict[str, float]) -> None:
    """`saved.json` comes last, by a rename: the checkpoint is complete."""
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "saved.json.new").write_text(json.dumps({"step": model["step"]}))
    (folder / "saved.json.new").rename(folder / "saved.json")


def descend(model: dict[str, float], data: list[tuple[float, float]]) -> float:
    """Take one step, and return the mean squared error before it."""
    errors = [(x, model["slope"] * x + model["offset"] - y) for x, y in data]
    model["slope"] -= RATE * 2 * sum(error * x for x, error in errors) / len(data)
    model["offset"] -= RATE * 2 * sum(error for _, error in errors) / len(data)
    model["step"] += 1
    return sum(error**2 for _, error in errors) / len(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds after each step")
    arguments = parser.parse_args()
    checkpoint = Path(os.environ["TESSERA_CHECKPOINT_DIR"])
    model, data = load(checkpoint), points(100)
    with Path(os.environ["TESSERA_METRICS_FILE"]).open("a", buffering=1) as metrics:
        while (step := int(model["step"])) < arguments.steps:
            loss = descend(model, data)
            print(json.dumps({"step": step, "loss": loss}), file=metrics)
            if model["step"] % SAVE_EVERY == 0:
                save(checkpoint, model)
            time.sleep(arguments.pause)
    Path(os.environ["TESSERA_OUTPUT_DIR"], "model.json").write_text(json.dumps(model))
    print(f"y = {model['slope']:.2f} x + {model['offset']:.2f}")


if __name__ == "__main__":
    main()
