"""Task models: a network, a tokenizer and a configuration, one file a family."""

from __future__ import annotations

import difflib
import importlib

__all__ = [
    "FAMILIES",
    "ClassificationConfig",
    "ClassificationModel",
    "ClozeConfig",
    "ClozeModel",
    "EntailmentConfig",
    "EntailmentModel",
    "HierarchicalConfig",
    "HierarchicalModel",
    "MemoryNetworkConfig",
    "MemoryNetworkModel",
    "Prediction",
    "RelationConfig",
    "RelationModel",
    "TaggingConfig",
    "TaggingModel",
    "TaskModel",
    "TransformerConfig",
    "TransformerTranslationModel",
    "TranslationConfig",
    "TranslationModel",
    "family_class",
]

# family → the module here that holds it, and its class; imported only on use
FAMILIES = {
    "classification": ("classification", "ClassificationModel"),
    "cloze": ("cloze", "ClozeModel"),
    "entailment": ("entailment", "EntailmentModel"),
    "hierarchical_classification": ("hierarchical", "HierarchicalModel"),
    "memory_question_answering": ("memory_network", "MemoryNetworkModel"),
    "tagging": ("tagging", "TaggingModel"),
    "relation": ("relation", "RelationModel"),
    "transformer_translation": ("transformer_translation", "TransformerTranslationModel"),
    "translation": ("translation", "TranslationModel"),
}
_NAMES = {
    "ClassificationConfig": "classification_config",
    "ClassificationModel": "classification",
    "ClozeConfig": "cloze_config",
    "ClozeModel": "cloze",
    "EntailmentConfig": "entailment_config",
    "EntailmentModel": "entailment",
    "HierarchicalConfig": "hierarchical_config",
    "HierarchicalModel": "hierarchical",
    "MemoryNetworkConfig": "memory_network_config",
    "MemoryNetworkModel": "memory_network",
    "Prediction": "prediction",
    "RelationConfig": "relation_config",
    "RelationModel": "relation",
    "TaggingConfig": "tagging_config",
    "TaggingModel": "tagging",
    "TaskModel": "task_model",
    "TransformerConfig": "transformer_config",
    "TransformerTranslationModel": "transformer_translation",
    "TranslationConfig": "translation_config",
    "TranslationModel": "translation",
}


def family_class(family: str):
    """The `TaskModel` class of a family.

    Raises:
        ValueError: there is no such family.
    """
    if family not in FAMILIES:
        near = difflib.get_close_matches(str(family), FAMILIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown model family {family!r}. Expected one of {', '.join(sorted(FAMILIES))}.{hint}")
    module, name = FAMILIES[family]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
