"""All models of the catalogue, by name."""

from scheduler.advisor.catalogue.decoders import dense_decoders
from scheduler.advisor.catalogue.diffusion import diffusion_models
from scheduler.advisor.catalogue.encoders import encoders
from scheduler.advisor.catalogue.entries import CatalogueModel
from scheduler.advisor.catalogue.mixtures import expert_decoders
from scheduler.advisor.catalogue.residual import residual_networks
from scheduler.advisor.errors import one_of

MODELS: dict[str, CatalogueModel] = {
    model.name: model
    for family in (dense_decoders, expert_decoders, encoders, diffusion_models, residual_networks)
    for model in family()
}


def model_by_name(name: str) -> CatalogueModel:
    """The model; an error with all names where there is none."""
    if name not in MODELS:
        raise one_of("model", name, MODELS)
    return MODELS[name]
