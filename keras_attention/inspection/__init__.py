"""What the attention layers of any Keras model looked at in one call.

This package imports Keras only when it is used; of the library it knows the maps alone. Layers are recognised by how
they are called, so that new ones need no entry here.
"""

from __future__ import annotations

from keras_attention.inspection.one_call import attention_maps

__all__ = ["attention_maps"]
