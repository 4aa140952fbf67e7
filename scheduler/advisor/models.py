"""Shapes of transformers by name or size; `catalogue` has them, and networks of other kinds."""

from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.transformer import Shape

SHAPES = {name: model.shape for name, model in MODELS.items() if isinstance(model.shape, Shape)}


def shape_by_name(name: str) -> Shape:
    if name not in SHAPES:
        raise AdvisorError(
            "the shape of %(name)s is not known: give layers, hidden, heads, seq and vocab, or "
            "use one of %(known)s",
            "model",
            name=repr(name[:80]),
            known=", ".join(SHAPES),
        )
    return SHAPES[name]


def shape_by_parameters(parameters: float) -> Shape:
    """The GPT of SC21's table whose size is nearest, within 5 %; an error where none is."""
    dense = (shape for name, shape in SHAPES.items() if name.startswith("GPT-"))
    nearest = min(dense, key=lambda shape: abs(shape.parameters - parameters))
    if abs(nearest.parameters - parameters) > 0.05 * parameters:
        raise AdvisorError(
            "no published shape has about %(parameters)s parameters: give layers and hidden",
            "params",
            parameters=f"{parameters:.3g}",
        )
    return nearest
